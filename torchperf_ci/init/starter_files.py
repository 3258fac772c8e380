"""Create the files that ``torchperf init`` writes: workflows from templates, ``torchperf.yml`` and a suite."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torchperf_ci import __version__
from torchperf_ci.config import CONFIG_FILE, Config
from torchperf_ci.init.repository import WORKFLOWS, ActionsSource, Repository

NIGHTLY, PULL_REQUEST, COMMENT, DASHBOARD = "nightly", "pull-request", "pull-request-comment", "dashboard"
CPU_WHEELS = "https://download.pytorch.org/whl/cpu"
_NIGHTLY_WHEELS = "https://download.pytorch.org/whl/nightly/cpu"
LIBRARIES = "transformers==5.23.0 timm==1.0.31 diffusers==0.42.1"
"""Libraries of the models in ``core``, except torchvision, which comes with PyTorch. Another version of a library
starts new series for its models.
"""
_SUITE = "benchmarks/suite.py"
_ASV_SUITE = "torchperf_suite.py"
"""Path used with asv, which imports every file in its folder, often ``benchmarks``, in environments without torchperf.
"""

# The purpose of each workflow, and the action that identifies an existing workflow with the same purpose.
_WORKFLOWS: Mapping[str, tuple[str, str]] = {
    NIGHTLY: ("measures every night", "/.github/workflows/benchmark.yml@"),
    PULL_REQUEST: ("judges pull requests", "/actions/compare@"),
    COMMENT: ("comments on them", "/actions/report@"),
    DASHBOARD: ("publishes a dashboard", "/actions/site@"),
}


@dataclass(frozen=True)
class StarterFile:
    """A file to write, at ``path`` below the repository's root.

    ``existing`` is the path of a file with the same purpose, which is kept instead; empty if there is none.
    """

    path: str
    what: str
    text: str
    existing: str = ""


def starter_files(repository: Repository, source: ActionsSource, config: Config | None) -> list[StarterFile]:
    """Return all files in the order of writing. ``config`` is the content of ``torchperf.yml``, if it exists."""
    return [*_suite_and_config(repository, source, config), *_workflows(repository, source, config)]


def measured_suites(repository: Repository, config: Config | None) -> tuple[str, ...]:
    """Return the existing suite files: those that ``torchperf.yml`` names, else those found in the repository."""
    return _named_suites(config) or repository.suites


def unmeasured_suites(repository: Repository, config: Config | None) -> tuple[str, ...]:
    """Return the suite files that only pull requests are measured with, because ``torchperf.yml`` names none."""
    if config is None or _named_suites(config) or repository.is_pytorch:
        return ()
    return repository.suites or (_new_suite(repository),)


def _named_suites(config: Config | None) -> tuple[str, ...]:
    named = [path for suite in config.suites.values() for path in suite.files] if config else []
    return tuple(dict.fromkeys(named))


def _suite_and_config(
    repository: Repository, source: ActionsSource, config: Config | None
) -> Iterator[StarterFile]:
    suites = measured_suites(repository, config)
    if not suites and not repository.is_pytorch:
        path = _new_suite(repository)
        suites = (path,)
        yield _file(repository, path, "two workloads that run", _suite(repository, path))
    text = _config(repository, source, suites)
    yield _file(repository, str(CONFIG_FILE), "what to measure, and where", text)


def _workflows(repository: Repository, source: ActionsSource, config: Config | None) -> Iterator[StarterFile]:
    suites = measured_suites(repository, config) or (_new_suite(repository),)
    if repository.is_pytorch:
        yield _workflow(repository, NIGHTLY, _fill(_template(NIGHTLY), _pytorch_nightly()), source)
        yield _workflow(repository, DASHBOARD, _template(DASHBOARD), source)
        return
    install, build = install_lines(repository)
    values = {"install": install + ("" if build else _importable(repository)), "build": build}
    yield _workflow(repository, NIGHTLY, _fill(_template(NIGHTLY), values), source)
    compares = _fill(_template(PULL_REQUEST), {"suite": ", ".join(suites), "build": build})
    if not build:  # commits then run in the environment of this step
        compares = _replace(compares, r"(?<=/bin/pip\" )install torch .*", install.removeprefix("pip "))
    yield _workflow(repository, PULL_REQUEST, compares, source)
    yield _workflow(repository, COMMENT, _template(COMMENT), source)
    yield _workflow(repository, DASHBOARD, _template(DASHBOARD), source)


def install_lines(repository: Repository) -> tuple[str, str]:
    """Return the shell lines that install for the nightly run, and that install a commit for a comparison.

    The second is empty if commits are imported without being installed.
    """
    if repository.project is not None:
        place = "." if repository.project == "." else shlex.quote(f"./{repository.project}")
        if repository.needs_torch_to_build:
            place = f"setuptools wheel ninja --extra-index-url {CPU_WHEELS} && pip install --no-build-isolation {place}"
        # In one command, so that pip chooses a version of torch that the project accepts, and its CPU build.
        line = f"pip install torch {place} --extra-index-url {CPU_WHEELS}"
        return line, line
    packages = f"-r requirements.txt --extra-index-url {CPU_WHEELS}"
    packages = packages if repository.requirements else f"--index-url {CPU_WHEELS}"
    return f"pip install torch {packages}", ""


def _importable(repository: Repository) -> str:
    """Return the shell line that makes a repository without an installable project importable in the nightly run.

    Commits under comparison precede it on the import path.
    """
    place = f"$PWD/{repository.source}".rstrip("/")
    return f""" && echo "{place}" >"$(python -c 'import site; print(site.getsitepackages()[0])')/repository.pth\""""


def _pytorch_nightly() -> dict[str, str]:
    """Return values for PyTorch itself: nightly wheels, with the newest release as anchor, and no bisection.

    A bisection would have to build PyTorch, which no hosted runner can.
    """
    models = f" && pip install {LIBRARIES}"
    return {
        "install": f"pip install --pre torch torchvision --index-url {_NIGHTLY_WHEELS}{models}",
        "anchor": f"pip install torch==2.13.0 torchvision==0.28.0 --index-url {CPU_WHEELS}{models}",
        "suspects": "pytorch/pytorch",
        "build": "",
        "bisect-budget": "0",
    }


def _workflow(repository: Repository, name: str, text: str, source: ActionsSource) -> StarterFile:
    """Return a workflow from its filled template, marked as existing if another workflow has the same purpose."""
    what, action = _WORKFLOWS[name]
    used = re.compile(rf"uses: *['\"]?[\w.-]+/[\w.-]+{re.escape(action)}")
    same = [path for path, other in repository.workflows.items() if used.search(other)]
    path = f"{WORKFLOWS}/torchperf-{name}.yml"
    return _file(repository, path, what, _with_source(text, source), same[0] if same else "")


def _file(repository: Repository, path: str, what: str, text: str, same: str = "") -> StarterFile:
    exists = (repository.root / path).is_symlink() or (repository.root / path).exists()
    return StarterFile(path, what, text, path if exists else same)


def _template(name: str) -> str:
    """Read a template from the installed package, else from the project's checkout."""
    package = Path(__file__).parents[1]
    folders = (package / "init/workflows-templates", package.parent / "workflows-templates")
    folder = next(filter(Path.is_dir, folders))
    return (folder / f"{name}.yml").read_text("utf-8")


def _with_source(text: str, source: ActionsSource) -> str:
    """Return a template with the source of torchperf's actions, if known, and a note that ``init`` wrote it."""
    text = _replace(text, "Copy this file to .github/workflows/ and go", "Written by `torchperf init`: go")
    text = text.replace("pull-request-comment.yml", f"torchperf-{COMMENT}.yml")
    text = re.sub(r"(?<![\w-])pull-request\.yml", f"torchperf-{PULL_REQUEST}.yml", text)
    if not source.is_known:
        return text
    version = f" # torchperf {__version__}" if source.is_pinned else ""  # a commit alone is not readable
    return _replace(
        text,
        r"OWNER/torchperf-ci((?:/[\w./-]+)?)@\S+( # .*)?$",
        rf"{source.repository}\1@{source.ref}{version}",
    )


def _fill(text: str, values: Mapping[str, str]) -> str:
    """Set keys of the template to these values, keeping the comments after them."""
    for key, value in values.items():
        shown = (value if value.isdecimal() else _scalar(value)).replace("\\", r"\\")
        text = _replace(text, rf"^( +{key}: ).*?((?: # edit: .*)?)$", rf"\g<1>{shown}\g<2>")
    return text


def _replace(text: str, pattern: str, by: str) -> str:
    changed, count = re.subn(pattern, by, text, flags=re.MULTILINE)
    assert count, f"the template has nothing like {pattern} any more"
    return changed


def _scalar(text: str) -> str:
    """Return ``text`` as a YAML value on one line."""
    import yaml

    return yaml.safe_dump(text, allow_unicode=True, width=10_000).removesuffix("\n...\n").rstrip("\n")


def _new_suite(repository: Repository) -> str:
    is_unfit = "asv" in repository.other_tools or (repository.root / _SUITE).exists()
    return _ASV_SUITE if is_unfit else _SUITE


def _config(repository: Repository, source: ActionsSource, workloads: Sequence[str]) -> str:
    schema = (
        f"https://raw.githubusercontent.com/{source.repository}/{source.ref}/torchperf_ci/config.schema.json"
    )
    modes = "modes: [inference, training]"
    suites = [f"  main: {{workloads: [{', '.join(map(_scalar, workloads))}], {modes}}}"] if workloads else []
    if repository.is_pytorch:
        suites.append(f"  compiled: {{workloads: [quick], {modes}, backends: [inductor]}}")
        suites.append(f"  core: {{workloads: [core], {modes}, shards: 2}} # 58 models")
    branch = "torchperf-records" if repository.benchmarks_is_taken else "benchmarks"
    lines = [
        "# What torchperf measures, where, and where it stores the records; docs/configuration.md lists all keys.",
        *([f"# yaml-language-server: $schema={schema}"] if source.is_known else []),
        "version: 1",
        f"name: {_scalar(repository.name)}",
        "runners: # kinds of machines, such as h100: {labels: [linux.aws.h100], device: cuda}",
        "  cpu: {labels: [ubuntu-24.04], device: cpu}",
        "suites:",
        *suites,
        f"upload: {{branch: {branch}}} # a branch of this repository, which the first upload creates",
    ]
    return "".join(f"{line}\n" for line in lines)


def _suite(repository: Repository, path: str) -> str:
    above = path.count("/")
    place = f"Path(__file__).parents[{above}]" + (f' / "{repository.source}"' if repository.source else "")
    return _SUITE_TEXT.format(name=repository.name, package=repository.package or "my_package", place=place)


_SUITE_TEXT = '''\
"""What torchperf measures of {name}: two examples that run, to be replaced.

A workload is a name, a task, and a function that builds one step of it; there is more
in docs/workloads.md of torchperf-ci.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torchperf_ci.suite import Task, workload

# If your code is not installed, it is imported from here.
sys.path.append(str({place}))
# edit: import what you want to measure, and call it below in place of torch's layers
# from {package} import ...


@workload("{name}/mlp", "image classification", batch=64)
def mlp(batch: int) -> Task:
    """A model with a loss: inference and training."""
    model = torch.nn.Sequential(
        torch.nn.Linear(784, 512), torch.nn.GELU(), torch.nn.Linear(512, 10)
    )
    images = torch.randn(batch, 784)
    return Task(model, (images,), loss=lambda logits: logits.float().square().mean())


@workload("{name}/attention", "transformer layer", batch=8, modes=("inference",))
def attention(batch: int) -> Task:
    """A part of a model: inference alone."""
    layer = torch.nn.TransformerEncoderLayer(
        128, nhead=4, dim_feedforward=512, dropout=0.0, batch_first=True
    )
    return Task(layer, (torch.randn(batch, 64, 128),))
'''
