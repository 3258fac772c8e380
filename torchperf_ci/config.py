"""The configuration file ``torchperf.yml``: its keys, defaults and errors.

The dataclasses here are the only declaration of the keys: the parser, ``config.schema.json`` and the table in
``docs/configuration.md`` are derived from them.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.config_kinds import (
    Choice,
    ConfigPosition,
    Constant,
    Integer,
    ListOf,
    MappingOf,
    Section,
    Share,
    Steps,
    Switch,
    Text,
    key,
    nearest,
    resembling,
)
from torchperf_ci.console import say
from torchperf_ci.errors import ConfigError, UsageError, failing_as
from torchperf_ci.metrics import DOWN, METRICS, MIN_EFFECT, UP
from torchperf_ci.options.option import BACKENDS, DEVICES, DTYPES, MODES
from torchperf_ci.places.branch_name import BRANCH_FORM, BRANCH_NAME
from torchperf_ci.records.files import is_device

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from yaml import Node

CONFIG_FILE = Path("torchperf.yml")
MISNAMED = CONFIG_FILE.with_suffix(".yaml")

_URL = Text(r"^https?://[^\s/]", "a URL such as https://…")
_ROLE = Text(r"^arn:[^\s:]+:iam::", "the ARN of a role, arn:aws:iam::…")
_REPOSITORY = Text(r"^[\w.-]+/[\w.-]+$", "a repository such as org/name")
_BRANCH = Text(rf"^{BRANCH_NAME}(@.+)?$", f"the name of a branch {BRANCH_FORM}")
_TARGET = Text(
    r"^(s3://|branch:|https?://|chdb://|clickhouse://|(?![^/]*:))\s*\S",
    "s3://BUCKET, branch:NAME, https://…, chdb://PATH, clickhouse://USER@HOST/DATABASE or a directory, "
    "as ./NAME if it has a colon",
)
_STORE = Text(r"^(chdb|clickhouse)://", "chdb://PATH or clickhouse://USER@HOST/DATABASE")


@dataclass(frozen=True)
class Runner:
    """A kind of machine."""

    labels: tuple[str, ...] = key(ListOf(Text()), (), "Labels for `runs-on`; if omitted, the runner's name.")
    device: str = key(Choice(DEVICES), "auto", "The device to measure on; `cuda` for ROCm, too.")
    tune: bool = key(
        Switch(), False, "Reduce noise on the machine as far as permitted, and restore it afterward."
    )


@dataclass(frozen=True)
class Suite:
    """What to measure, how and where: every workload in every mode, dtype and backend on every runner."""

    workloads: tuple[str, ...] = key(
        ListOf(Text()),
        ("*",),
        "Names, patterns (`vision/*`), built-in suites (`quick`) and suite files (`*.py`).",
    )
    modes: tuple[str, ...] = key(ListOf(Choice(MODES)), ("inference",), "`inference`, `training` or both.")
    dtypes: tuple[str, ...] = key(ListOf(Choice(DTYPES)), ("fp32",), "The dtypes to run in.")
    backends: tuple[str, ...] = key(
        ListOf(Choice(BACKENDS)), ("eager",), "The backends that execute the model."
    )
    runners: tuple[str, ...] = key(ListOf(Text()), (), "Names from `runners`; if omitted, all of them.")
    shards: int = key(Integer(1), 1, "The number of jobs that the work of a runner is split into.")

    @property
    def files(self) -> list[str]:
        """The suite files among the workloads."""
        return [name for name in self.workloads if name.endswith(".py")]


@dataclass(frozen=True)
class Rule:
    """When a change of a metric matters."""

    direction: str = key(
        Choice((UP, DOWN)),
        "",
        "Which direction is better; required for a metric that torchperf does not measure itself.",
    )
    min_effect: float = key(Share(), MIN_EFFECT, "Smallest relative change that matters, such as `3%`.")


@dataclass(frozen=True)
class Upload:
    """Where the records go: at most one of ``to``, ``lambda`` and ``branch``."""

    to: str | None = key(_TARGET, None, "The target, as for `torchperf upload --to`.")
    lambda_: str | None = key(_URL, None, "The URL of an upload API, instead of `to`.")
    branch: str | None = key(_BRANCH, None, "A branch of this repository, instead of `to`.")
    role: str | None = key(_ROLE, None, "The role to assume through OIDC for `s3://`.")

    @property
    def destination(self) -> str | None:
        """The target in the form of ``torchperf upload --to``; None if records are not uploaded."""
        return self.to or self.lambda_ or (f"branch:{self.branch}" if self.branch else None)


@dataclass(frozen=True)
class Issues:
    """How issues are opened for confirmed regressions."""

    repo: str | None = key(_REPOSITORY, None, "The repository to open them in; if omitted, the job's own.")
    labels: tuple[str, ...] = key(ListOf(Text()), (), "Labels for the issues, in addition to `torchperf`.")
    max_per_night: int = key(Integer(0), 5, "The maximum to open in one night; the summary lists the rest.")
    recovered_nights: int = key(
        Integer(1),
        3,
        "The number of consecutive nights with everything recovered after which an issue is closed.",
    )
    broken_nights: int = key(
        Integer(1), 3, "The number of consecutive runs that a benchmark must fail before an issue is opened."
    )
    mention_authors: bool = key(
        Switch(),
        False,
        "Mention the author of a culprit, which notifies them; otherwise only the name is shown.",
    )


def misnamed_rules(policy: Mapping[str, Rule], measured: Collection[str]) -> Iterator[str]:
    """Yield a note on each metric of the policy that nothing measures, if it looks like one that is ``measured``."""
    for name in sorted({*policy} - {*METRICS, *measured}):
        if near := resembling(name, measured, 0.7):
            yield f"the policy has a rule for {name!r}, which nothing measures, so it has no effect{near}"


def default_policy() -> dict[str, Rule]:
    """Return the default rule of each metric that torchperf measures."""
    return {name: Rule(metric.direction) for name, metric in METRICS.items()}


@dataclass(frozen=True)
class Config:
    """The whole file. ``Config()`` applies if there is no file."""

    version: int = key(Constant(1), 1, "The version of this format.")
    name: str = key(Text(), "torchperf", "The benchmark's name: `benchmark.name` of the records.")
    runners: Mapping[str, Runner] = key(
        MappingOf(Section(Runner)), dict, "Where to measure: one entry per kind of machine."
    )
    suites: Mapping[str, Suite] = key(
        MappingOf(Section(Suite)), dict, "What to measure: which workloads, how and on which runners."
    )
    policy: Mapping[str, Rule] = key(
        MappingOf(Section(Rule)),
        default_policy,
        "When a change matters, by metric; other metrics keep their defaults.",
    )
    upload: Upload = key(  # noqa: RUF009 - a dataclasses.field
        Section(Upload), Upload, "Where the records go: one of `to`, `lambda` and `branch`."
    )
    store: str = key(
        _STORE, "chdb://.torchperf/store", "Where history is kept: a directory, or a ClickHouse server."
    )
    issues: Issues = key(  # noqa: RUF009 - a dataclasses.field
        Section(Issues), Issues, "Issues that are opened for confirmed regressions."
    )


def find_config(path: str | None) -> Config:
    """Load the file ``path``, else ``torchperf.yml`` if it exists, else the defaults. Raises as :func:`load_config`.

    Nobody expects the defaults below a folder that has the file, or beside ``torchperf.yaml``, so a warning names it.
    """
    if not path and not os.path.lexists(CONFIG_FILE):  # a link that leads nowhere is a mistake
        _warn_of_unread_file(Path.cwd())
        return Config()
    return load_config(Path(path) if path else CONFIG_FILE)


@cache
def _warn_of_unread_file(folder: Path) -> None:
    """Warn if the file is in a folder above, up to the root of the checkout, or has the other suffix of YAML."""
    remedies = {CONFIG_FILE: "run the command in its folder", MISNAMED: f"rename it to {CONFIG_FILE}"}
    for above in (folder, *folder.parents):
        for name, remedy in remedies.items():
            if (above / name).exists():
                path = os.path.relpath(above / name, folder)
                moved = "" if above == folder else " (files that it names are then looked for here)"
                say(f"warning: {path} is not read: {remedy}, or give --config {path}{moved}")
                return
        if (above / ".git").exists():
            return


def load_config(path: Path) -> Config:
    """Read ``torchperf.yml``.

    Raises :class:`ConfigError` with the line of the mistake, or :class:`UsageError` for an unreadable file.
    """
    with failing_as(UsageError, f"{path}: cannot be read: ", "; give the configuration's path with --config"):
        if path.is_fifo() and not is_device(path):  # a shell's <(…) is a pipe below /dev
            raise OSError(errno.EINVAL, "it is a pipe, which may never end")
        content = path.read_bytes()
    position = ConfigPosition(str(path))
    config: Config = Section(Config).read(_document(content, str(path)), position)
    for steps, problem in _contradictions(config):
        raise ConfigError(str(path), position.lines[steps], f"{'.'.join(map(str, steps))}: {problem}")
    runners = {name: replace(one, labels=one.labels or (name,)) for name, one in config.runners.items()}
    return replace(config, policy=_with_defaults(config.policy), runners=runners)


def _document(content: bytes, file: str) -> Node:
    """Return the root node of the YAML document."""
    import yaml

    try:
        node: Node | None = yaml.compose(content, Loader=yaml.SafeLoader)
    except yaml.reader.ReaderError as error:
        line = content.count(b"\n", 0, error.position) + 1
        raise ConfigError(file, line, f"is not valid YAML: {error.reason}") from error
    except RecursionError:
        raise ConfigError(file, 1, "is nested too deeply") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        reason += "; quote a text that begins with *" if "alias" in reason else ""
        reason += ": indent with spaces" if repr("\t") in reason else ""
        raise ConfigError(file, line, f"is not valid YAML: {reason}") from error
    if node is None:
        raise ConfigError(file, 1, "is empty; the least that it can hold is `version: 1`")
    return node


def _contradictions(config: Config) -> Iterator[tuple[Steps, str]]:
    """Yield contradictions between values that are each valid, with the keys that lead to them."""
    for name, suite in config.suites.items():
        for index, runner in enumerate(suite.runners):
            if runner not in config.runners:
                yield (
                    ("suites", name, "runners", index),
                    f"unknown runner {runner!r}{nearest(runner, config.runners)}",
                )
    for metric, rule in config.policy.items():
        if not rule.direction and metric not in METRICS:
            reason = "it is no metric of torchperf itself; say which way is better: `direction: up` or `down`"
            yield ("policy", metric), f"{reason}{resembling(metric, METRICS, 0.5)}"
    yield from _contradictions_about_places(config.upload, config.store)


def _contradictions_about_places(upload: Upload, store: str) -> Iterator[tuple[Steps, str]]:
    places = {"to": upload.to, "lambda": upload.lambda_, "branch": upload.branch}
    destinations = [name for name, value in places.items() if value]
    if len(destinations) > 1:
        yield ("upload", destinations[1]), f"records go to one place; remove this or `{destinations[0]}`"
    if upload.role and not (upload.to or "").startswith("s3://"):
        yield ("upload", "role"), "a role is for an upload to s3:// only; set `to: s3://BUCKET`, or remove it"
    urls: dict[Steps, str | None] = {("upload", name): place for name, place in places.items()}
    for steps, url in {("store",): store, **urls}.items():
        if re.search(r"://[^/@]*:[^/]*@|https?://[^/]*@", url or ""):
            yield steps, "holds a password, and others read this file; give the password in the environment"


def _with_defaults(policy: Mapping[str, Rule]) -> dict[str, Rule]:
    configured = {
        metric: replace(rule, direction=rule.direction or METRICS[metric].direction)
        for metric, rule in policy.items()
    }
    return default_policy() | configured
