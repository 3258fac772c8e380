"""What ``torchperf bisect`` does with its options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci import config
from torchperf_ci.bisect.by_commit import Call, bisect_commits
from torchperf_ci.bisect.by_nightly import bisect_nightlies
from torchperf_ci.bisect.limits import Limits
from torchperf_ci.bisect.measuring.probes import check_metric
from torchperf_ci.bisect.repeating import repeatable
from torchperf_ci.bisect.setting import builder_of, check_command
from torchperf_ci.culprits.telling import tell
from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import UsageError
from torchperf_ci.metrics import LATENCY
from torchperf_ci.series import policy
from torchperf_ci.verdicts import file as verdicts_file

if TYPE_CHECKING:
    from torchperf_ci.config import Config
    from torchperf_ci.culprits.culprit import Location
    from torchperf_ci.options import BisectOptions

DEFAULT_OUT = "culprits.json"
INCONCLUSIVE = 5


def bisect_command(options: BisectOptions) -> int:
    """Find the culprits, tell people, and say with the exit code whether anything could be concluded."""
    _check(options)
    given = config.find(options.config)
    judgement = verdicts_file.read(Path(options.verdicts)) if options.verdicts else None
    seconds = options.deadline
    limits = Limits(options.max_builds, options.max_runs, Deadline.after(seconds) if seconds else None)
    out = Path(options.out or DEFAULT_OUT)
    state = Path(options.state or out.with_suffix(".state.jsonl"))
    builder = builder_of(options)
    if options.command:
        check_command(options.command, builder)
    asked = options
    options = replace(options, out=str(out), min_effect=options.min_effect or _min_effect(options, given))
    bisect = bisect_nightlies if builder == "nightly" else bisect_commits
    location = bisect(Call(options, given, judgement), state, limits)
    if location is None:
        return 0
    tell(repeatable(location, asked, judgement), out, json_output=options.json)
    return 0 if options.on_failure == "warn" else _exit_code(location)


def _check(options: BisectOptions) -> None:
    """Refuse what is not measured, is said in two ways, or has one end only."""
    given = vars(options)
    ways = [flag for flag in ("workload", "command", "verdicts") if given[flag]]
    if not ways and not options.suite:
        msg = "bisect what? name workloads with --workload, a --command, or a file of --verdicts"
        raise UsageError(msg)
    if options.command and len(ways) > 1:
        msg = f"--command is measured instead of --{next(way for way in ways if way != 'command')}: give one of them"
        raise UsageError(msg)
    told = [flag for flag in ("workload", "metric") if given[flag]]
    if options.verdicts and told:
        msg = f"--verdicts say which workloads and metrics got worse: leave --{told[0]} away, or --verdicts"
        raise UsageError(msg)
    if options.metric and not options.command:
        check_metric(options.metric)
    ends = [flag for flag in ("good", "bad") if given[flag]]
    if len(ends) == 1 or not (ends or options.verdicts):
        msg = "between which commits? give both, --good and --bad"
        raise UsageError(msg)


def _min_effect(options: BisectOptions, given: Config) -> float:
    """The policy's for what is measured."""
    return policy.rule(options.metric or LATENCY, given.policy).min_effect


def _exit_code(location: Location) -> int:
    return INCONCLUSIVE if location.status == "inconclusive" else 0
