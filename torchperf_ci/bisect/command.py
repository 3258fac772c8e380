"""Run ``torchperf bisect`` with its options, and write the command line that repeats a bisection."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.actions import in_actions
from torchperf_ci.bisect.measurement_setup import BisectLimits, builder_kind, check_command
from torchperf_ci.bisect.probes import asks_for_clearest, bisected, check_metric, threads_of
from torchperf_ci.bisect.range_bisection import BisectRequest, bisect_commits, bisect_nightlies
from torchperf_ci.config import Config, find_config
from torchperf_ci.console import say
from torchperf_ci.culprits.culprit import Bisection, Culprit, read_culprits, write_culprits
from torchperf_ci.culprits.culprit_document import publish_bisection
from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import JsonFileError, UsageError
from torchperf_ci.masking import without_secrets
from torchperf_ci.metrics import LATENCY, bisected_as
from torchperf_ci.options import is_given
from torchperf_ci.records.files import check_writable, is_device
from torchperf_ci.series import policy
from torchperf_ci.verdicts.reproduction import PYTHON_OPTION, portable_options
from torchperf_ci.verdicts.verdict import Judgement, read_verdicts, write_verdicts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_ci.options.comparison_commands import BisectOptions


_REPEATED_OPTIONS = (
    *("workload", "command", "metric", "suite", "builder", "build", "wheels", "config", "device"),
    *("mode", "dtype", "backend", "batch_size", "threads", "min_effect", "paths", "full_history"),
)


def with_repeat_command(
    bisection: Bisection, options: BisectOptions, judgement: Judgement | None
) -> Bisection:
    """Return ``bisection`` with the command line that repeats it.

    The line names commits by their hashes and spells out what came from verdicts; it contains no paths and no
    credentials.
    """
    values = {**vars(options), **(_options_from_verdicts(judgement) if judgement else {})}
    texts = {name: without_secrets(values[name]) for name in ("command", "build", "wheels") if values[name]}
    words, folder = portable_options({**values, **texts}, _REPEATED_OPTIONS)
    is_dated = options.builder == "nightly"
    ends = (options.good or "", options.bad or "") if is_dated else (bisection.good, bisection.bad)
    line = ["torchperf", "bisect", "--good", ends[0], "--bad", ends[1], *PYTHON_OPTION, *words]
    return replace(bisection, command=shlex.join(line), folder=folder)


def _options_from_verdicts(judgement: Judgement) -> dict[str, object]:
    """Options that select the series which the verdicts report as worse and pairs of builds can measure."""
    verdicts = bisected(judgement)
    worse = [verdict.series for verdict in verdicts]
    sizes = {verdict.evidence.batch_size for verdict in verdicts}
    metrics = _distinct(bisected_as(series.metric) for series in worse)
    return {
        "workload": _distinct(series.model for series in worse),
        "metric": metrics[0] if metrics and LATENCY not in metrics else None,
        "mode": _distinct(series.mode for series in worse),
        "dtype": _distinct(series.dtype for series in worse),
        "backend": _distinct(series.backend for series in worse),
        "batch_size": sizes.pop() if len(sizes) == 1 else None,
        **({"threads": threads} if (threads := threads_of(judgement)) else {}),
    }


def _distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


INCONCLUSIVE = 5


def bisect_command(options: BisectOptions) -> int:
    """Search for the culprits and report them; the exit code says whether the search was conclusive."""
    _check_options(options)
    config = find_config(options.config)
    seconds = options.deadline
    limits = BisectLimits(options.max_builds, options.max_runs, Deadline.after(seconds) if seconds else None)
    out = Path(options.out)
    state = Path(options.state or out.parent / f"{out.stem}.state.jsonl")
    if not options.dry_run:
        _check_files(out, state)
    is_nightly = bool(options.verdicts) and in_actions() and not options.dry_run
    judgement = _verdicts_to_bisect(options, state, is_nightly) if options.verdicts else None
    builder = builder_kind(options)
    if options.command:
        check_command(options.command, builder)
    asked = options
    options = replace(
        options,
        out=str(out),
        min_effect=options.min_effect or _min_effect(options, config, judgement),
        threads=_threads(options, judgement),
    )
    bisect = bisect_nightlies if builder == "nightly" else bisect_commits
    bisection = _earlier_answer(state, asked, judgement) if is_nightly else None
    bisection = bisection or bisect(BisectRequest(options, config, judgement), state, limits)
    if bisection is None:
        return 0
    bisection = with_repeat_command(bisection, asked, judgement)
    # After the deadline, the search inside a culprit, or its profile, may be left.
    if is_nightly and not (limits.is_late and bisection.culprits):
        write_culprits(_beside(state, "culprits"), bisection)
    publish_bisection(bisection, out, json_output=options.json)
    is_answered = bisection.status != "inconclusive" or options.on_failure == "warn"
    return 0 if is_answered else INCONCLUSIVE


def _check_files(out: Path, state: Path) -> None:
    """Raise :class:`OutputDirectoryError` for a file that cannot be written, and :class:`UsageError` for a device.

    Also for one file twice: the answer would replace what the next call continues from.
    """
    if out.resolve() == state.resolve():
        raise UsageError(f"--out and --state are the same file, {out}: name two")
    for path in (out, state):
        if is_device(path):
            msg = f"{path} is a device, and further files are kept beside it: name a file (--json prints the result)"
            raise UsageError(msg)
        check_writable(path)


def _threads(options: BisectOptions, judgement: Judgement | None) -> int | None:
    """The threads that the verdicts name, else those of the options; raises :class:`UsageError` if they differ."""
    said = threads_of(judgement) if judgement else None
    if said and options.threads not in (None, said):
        msg = f"the verdicts were measured with --threads {said}: remove --threads {options.threads}"
        raise UsageError(msg)
    return said or options.threads


def _min_effect(options: BisectOptions, config: Config, judgement: Judgement | None) -> float:
    """The smallest change that matters to any of the metrics that are bisected."""
    worse = [verdict.series.metric for verdict in bisected(judgement)] if judgement else []
    metrics = worse or [options.metric or LATENCY]
    return min(policy.rule_of_metric(metric, config.policy).min_effect for metric in metrics)


def _verdicts_to_bisect(options: BisectOptions, state: Path, is_nightly: bool) -> Judgement:
    """The verdicts; in a job, those by which an earlier one began the search, if they have the clearest of these.

    They are kept next to the state file. From night to night, some series get worse by history or no longer do, and the
    search would begin anew with each of them.
    """
    judgement = read_verdicts(Path(options.verdicts or ""))
    if not is_nightly:
        return judgement
    path = _beside(state, "verdicts")
    with suppress(JsonFileError):
        earlier = read_verdicts(path)
        if asks_for_clearest(earlier, judgement):
            say(f"continuing with the series that this search began with, in {path}")
            return earlier
    write_verdicts(path, judgement)
    _beside(state, "culprits").unlink(missing_ok=True)  # the answer to another question
    return judgement


def _earlier_answer(state: Path, options: BisectOptions, judgement: Judgement | None) -> Bisection | None:
    """The answer that an earlier night's job found to this search, so that nothing is built again; None without one.

    Nor if a limit ended that search before it had found all there is, or if that job's machine was none of those that
    got slower: this job's may be. The files of its profiles are among that job's artifacts.
    """
    path = _beside(state, "culprits")
    with suppress(JsonFileError):
        answer = read_culprits(path)
        ends = (options.good or answer.good, options.bad or answer.bad)
        again = with_repeat_command(replace(answer, good=ends[0], bad=ends[1]), options, judgement)
        is_here = judgement and any(
            answer.ran_on(one.series.device, one.series.arch) for one in bisected(judgement)
        )
        is_whole = answer.status != "inconclusive" and not (answer.culprits and answer.why)
        if is_whole and answer.command == again.command and is_here:
            say(f"an earlier job has answered this: {path}")
            return replace(answer, culprits=tuple(map(_without_files, answer.culprits)))
    return None


def _without_files(culprit: Culprit) -> Culprit:
    return replace(culprit, inside=replace(culprit.inside, files=())) if culprit.inside else culprit


def _beside(state: Path, name: str) -> Path:
    return state.with_name(f"{state.name}.{name}.json")


_SAID_BY_VERDICTS = ("workload", "metric", "mode", "dtype", "backend", "batch_size")


def _check_options(options: BisectOptions) -> None:
    """Raise :class:`UsageError` if nothing is to be measured, options contradict each other, or one end is missing."""
    values = vars(options)
    ways = [flag for flag in ("workload", "command", "verdicts") if values[flag]]
    if not ways and not options.suite:
        raise UsageError("nothing to bisect: give a --suite, a --workload, a --command or a --verdicts file")
    if options.command and len(ways) > 1:
        other = next(way for way in ways if way != "command")
        raise UsageError(f"--command and --{other} exclude each other: give only one")
    flags = [name.replace("_", "-") for name in _SAID_BY_VERDICTS if is_given(options, name)]
    if options.verdicts and flags:
        msg = f"--verdicts already says what got worse, and how it was measured: remove --{flags[0]} or --verdicts"
        raise UsageError(msg)
    if options.metric and not options.command:
        check_metric(options.metric)
    ends = [flag for flag in ("good", "bad") if values[flag]]
    if len(ends) == 1 or not (ends or options.verdicts):
        raise UsageError("the range is incomplete: give both --good and --bad")
