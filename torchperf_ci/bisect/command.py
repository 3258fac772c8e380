"""What ``torchperf bisect`` does with its options."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchperf_ci import config
from torchperf_ci.bisect.by_commit import bisect_commits
from torchperf_ci.bisect.by_nightly import bisect_nightlies
from torchperf_ci.bisect.limits import Limits
from torchperf_ci.bisect.setting import builder_of
from torchperf_ci.culprits.telling import tell
from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import UsageError
from torchperf_ci.interruption import interruptible
from torchperf_ci.verdicts import file as verdicts_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.culprits.culprit import Location

DEFAULT_OUT = "culprits.json"
INCONCLUSIVE = 5


def bisect_command(options: Mapping[str, Any]) -> int:
    """Find the culprits, tell people, and say with the exit code whether anything could be concluded."""
    _check(options)
    given = config.find(options["config"])
    judgement = verdicts_file.read(Path(options["verdicts"])) if options["verdicts"] else None
    seconds = options["deadline"]
    limits = Limits(options["max_builds"], options["max_runs"], Deadline.after(seconds) if seconds else None)
    out = Path(options["out"] or DEFAULT_OUT)
    state = Path(options["state"] or out.with_suffix(".state.jsonl"))
    bisect = bisect_nightlies if builder_of(options) == "nightly" else bisect_commits
    with interruptible():
        location = bisect(options, given, judgement, state, limits)
    if location is None:
        return 0
    tell(replace(location, command=_repeat()), out, json_output=bool(options["json"]))
    return 0 if options["on_failure"] == "warn" else _exit_code(location)


def _check(options: Mapping[str, Any]) -> None:
    """What to measure is said in one way; the ends are named by both or by the verdicts."""
    ways = [flag for flag in ("workload", "command", "verdicts") if options[flag]]
    if not ways and not options["suite"]:
        msg = "bisect what? name workloads with --workload, a --command, or a file of --verdicts"
        raise UsageError(msg)
    if options["command"] and len(ways) > 1:
        msg = f"--command is measured instead of --{next(way for way in ways if way != 'command')}: give one of them"
        raise UsageError(msg)
    ends = [flag for flag in ("good", "bad") if options[flag]]
    if len(ends) == 1 or not (ends or options["verdicts"]):
        msg = "between which commits? give both, --good and --bad"
        raise UsageError(msg)


def _exit_code(location: Location) -> int:
    return INCONCLUSIVE if location.status == "inconclusive" else 0


def _repeat() -> str:
    """The call itself, or in a job of GitHub Actions, whose options come by the environment, just its name."""
    given = [
        f"{name}={shlex.quote(value)}" for name, value in os.environ.items() if name.startswith("TORCHPERF_")
    ]
    return " ".join([*given, "torchperf", *(shlex.quote(argument) for argument in sys.argv[1:])])
