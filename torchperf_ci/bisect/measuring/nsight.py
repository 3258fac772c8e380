"""How to look at both sides of a culprit with NVIDIA's Nsight tools, by hand: the bisection's own builds are gone.

The lines are for a clone of the repository, with the Python active that the bisection was given.
"""

from __future__ import annotations

import re
import shlex
import shutil
from typing import TYPE_CHECKING

from torchperf_ci.environments.repository import Revision
from torchperf_ci.git import without_secrets
from torchperf_ci.verdicts.portable import portable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.bench.case import Case, Settings
    from torchperf_ci.environments.nightlies import Nightly
    from torchperf_ci.options import BisectOptions

SYSTEMS, COMPUTE = "nsys", "ncu"
LAUNCHES = 10
"""Of the kernel that are looked at: each is run some forty times, to read all counters."""
PYTHON = "python"
SHORT = 10
"""Digits of a commit in the names of folders and reports."""


def nsight_commands(
    builds: Sequence[Revision | Nightly],
    case: Case,
    kernel: str,
    settings: Settings,
    options: BisectOptions,
) -> tuple[str, ...]:
    """Lines for a shell that make the builds again and profile the case on each, with the tools that are here.

    Nsight Compute looks at the ``kernel`` that moved most, where one did. Nothing where the device is not theirs.
    """
    wanted = (SYSTEMS, COMPUTE) if kernel else (SYSTEMS,)
    tools = [tool for tool in wanted if shutil.which(tool)]
    if settings.device != "cuda" or not tools:
        return ()
    run = _run(case, settings, options)
    profiled = [
        f"{_path(build, options)}{_profiler(tool, kernel, _short(build))} {run} "
        f"--python {_python(build, options)} --out {_place(build)}-records"
        for tool in tools
        for build in builds
    ]
    return (*(_rebuild(build, options) for build in builds), *profiled)


def _profiler(tool: str, kernel: str, report: str) -> str:
    """The options are those of ``nsys profile`` and of ``ncu``, which both follow the processes of a command."""
    if tool == SYSTEMS:
        return f"nsys profile --trace=cuda,nvtx,osrt --force-overwrite=true --output={report}"
    return (
        f"ncu --target-processes=all --kernel-name=regex:{_function(kernel)} --launch-count={LAUNCHES} --set=full "
        f"--force-overwrite --export={report}"
    )


def _run(case: Case, settings: Settings, options: BisectOptions) -> str:
    """The case as ``torchperf run`` measures it, in one process and briefly."""
    words = portable({**vars(options), "suite": options.suite or ["all"]}, ("suite",)).words
    chosen = [
        *words[words.index("--suite") :],
        "--filter",
        case.workload,
        "--mode",
        case.mode,
        "--dtype",
        case.dtype,
    ]
    how = ["--backend", case.backend, "--batch-size", str(case.batch_size), "--device", settings.device]
    brief = ["--threads", str(settings.threads), "--processes", "1", "--budget", "1"]
    return shlex.join(["torchperf", "run", *chosen, *how, *brief])


def _rebuild(build: Revision | Nightly, options: BisectOptions) -> str:
    place = _place(build)
    environment = f"{PYTHON} -m venv {place}-env"
    if options.wheels:
        return (
            f"{environment} && {place}-env/bin/pip install {_wheel(build, without_secrets(options.wheels))}"
        )
    assert isinstance(build, Revision)
    worktree = f"git worktree add --detach {place} {build.sha}"
    if not options.build:
        return worktree
    command = re.sub(r"\{(sha|worktree|env)\}", lambda found: f'"${found[1].upper()}"', options.build)
    variables = f"export SHA={build.sha} WORKTREE={place} ENV={place}-env"
    build_it = f'cd "$WORKTREE" && . "$ENV"/bin/activate && sh -c {shlex.quote(without_secrets(command))}'
    return f"{worktree} && {environment} && ({variables}; {build_it})"


def _wheel(build: Revision | Nightly, wheels: str) -> str:
    """What pip is asked for: a nightly, what a pattern names, or what bears the commit in its name."""
    if not isinstance(build, Revision):
        option = "--index-url" if "://" in wheels else "--find-links"
        return f"{option} {shlex.quote(wheels)} {shlex.quote(str(build))}"
    digits = build.sha[:7]
    named = wheels.replace("{sha}", build.sha).replace("{short_sha}", digits)
    return shlex.quote(named) if named != wheels else f"{shlex.quote(wheels)}/*{digits}*.whl"


def _python(build: Revision | Nightly, options: BisectOptions) -> str:
    if options.wheels or options.build:
        return f"{_place(build)}-env/bin/python"
    return PYTHON


def _path(build: Revision | Nightly, options: BisectOptions) -> str:
    """Where the files of a commit that is not built are imported from."""
    place = _place(build)
    return "" if options.wheels or options.build else f"PYTHONPATH={place}/src:{place} "


def _place(build: Revision | Nightly) -> str:
    """Below the folder that the lines are pasted in, for a shell."""
    return f'"$PWD"/torchperf-{_short(build)}'


def _short(build: Revision | Nightly) -> str:
    return build.sha[:SHORT] if isinstance(build, Revision) else re.sub(r"[^\w.+-]", "-", build.version)


def _function(kernel: str) -> str:
    """The name by which Nsight Compute knows a kernel: without its type, namespaces, template's and other arguments."""
    name = re.split(r"[<(]", kernel.removeprefix("void "))[0].strip()
    return re.sub(r"\W", ".", name.rpartition("::")[2])
