"""``check --sensitivity`` and ``--calibrate``: what the gate sees, and how often it errs, in this very past."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from torchperf_ci import actions
from torchperf_ci.check.calibrating import calibrate, sentences
from torchperf_ci.check.comparable import newest_machine
from torchperf_ci.check.rules import rule_of
from torchperf_ci.check.sensitivity import sensitivity
from torchperf_ci.check.sensitivity_table import show
from torchperf_ci.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci import config
    from torchperf_ci.check.past import Past
    from torchperf_ci.series.policy import MetricRule
    from torchperf_ci.series.series import Points, Series


def show_sensitivity(past: Past, policy: Mapping[str, config.Rule], *, json_output: bool) -> None:
    """Print how small a change the next run would show. Raises :class:`UsageError` where the past has no ratios."""
    found = sensitivity(*_ratios(past, policy))
    if json_output:
        _print_json(found.as_json())
    else:
        show(found, sys.stdout)


def show_calibration(past: Past, policy: Mapping[str, config.Rule], *, json_output: bool) -> None:
    """Print how often the gate would have raised an alarm. Raises :class:`UsageError` where the past is too short."""
    points, rules = _ratios(past, policy)
    sys.stderr.write(f"judging {len(points)} series of {past.name} again and again: this takes a while\n")
    replayed, shuffled = calibrate(points, rules)
    if json_output:
        _print_json({"replayed": asdict(replayed), "shuffled": asdict(shuffled)})
    else:
        sys.stdout.writelines(f"{line}\n" for line in sentences(replayed, shuffled))


def _ratios(past: Past, policy: Mapping[str, config.Rule]) -> tuple[Points, dict[Series, MetricRule]]:
    """The series that are judged by ratios, as far as they are comparable with their newest point, and their rules."""
    points = newest_machine(past.points)
    rules = {series: rule_of(series, row, row[-1], policy) for series, row in points.items()}
    ratios = {series: row for series, row in points.items() if rules[series].kind == "ratio"}
    if not ratios:
        msg = f"{past.name}: holds no series of numbers above zero; take records in first, or name another --against"
        raise UsageError(msg)
    return ratios, rules


def _print_json(data: Any) -> None:
    sys.stdout.write(f"{actions.inert_json(json.dumps(data, indent=1, allow_nan=False))}\n")
