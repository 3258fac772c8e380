from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from simulated_range import Simulated, SimulatedRange, bisected

from torchperf_ci.bisect.bisect_progress import estimated_cost, show_plan
from torchperf_ci.bisect.commits import BuildSequence
from torchperf_ci.bisect.measurement_setup import BisectLimits
from torchperf_ci.deadline import Deadline
from torchperf_ci.environments.revisions import Revision
from torchperf_ci.options.comparison_commands import BisectOptions


def line(suspects: int, subject: str = "Faster") -> BuildSequence:
    states = [Revision(Path(), f"{position:010d}{0:030d}", subject) for position in range(suspects + 1)]
    return BuildSequence(states, np.full(suspects, 1 / suspects))


@pytest.mark.parametrize("suspects", [1, 7, 70, 500])
def test_about_as_much_is_expected_as_one_culprit_takes(suspects) -> None:
    """At a noise of a third of the effect."""
    culprit = 1 + suspects // 3
    worlds = [
        SimulatedRange(suspects, {"s": Simulated({culprit: 1.07}, noise=0.02)}, seed=seed)
        for seed in range(5)
    ]
    took = [bisected(world).facts for world in worlds]
    builds, pairs, seconds = estimated_cost(suspects, 1, 60.0, 10.0)
    assert pairs == pytest.approx(np.mean([len(facts.readings) for facts in took]), rel=0.35)
    assert builds == pytest.approx(np.mean([len(facts.builds) for facts in took]), abs=2)
    assert seconds == builds * 60 + pairs * 10


def test_more_probes_take_more_pairs_but_no_more_builds() -> None:
    one, two = (estimated_cost(70, probes, 60.0, 10.0) for probes in (1, 2))
    assert two[0] == one[0]
    assert one[1] < two[1] < 2 * one[1]


def test_the_plan_is_said_before_anything_is_done(capsys) -> None:
    options = BisectOptions(command="HF_TOKEN=s3cret python bench.py", build="make")
    show_plan(line(70), options, BisectLimits(builds=12, pairs=100, deadline=Deadline.after(3600)))
    builds, pairs, seconds = estimated_cost(70, 1, 600.0, 10.0)
    took = f"{builds} builds and {pairs} pairs of processes, {seconds / 60:.0f}"
    machine, *told = capsys.readouterr().err.splitlines()
    assert machine.startswith("this machine: ")
    assert told == [
        "good: 0000000000 Faster",
        "bad:  0000000070 Faster",
        "70 suspects; measured: HF_TOKEN=*** python bench.py",
        f"expected: {took} min if a build takes 10 min and a pair 10 s; these are guesses until both are timed",
        "at most 12 builds",
        "at most 100 pairs",
        "at most 3,600 seconds",
    ]


def test_without_limits_none_is_told_and_workloads_are_named(capsys) -> None:
    show_plan(line(3), BisectOptions(workload=["core/mlp", "core/cnn"]), BisectLimits())
    told = capsys.readouterr().err
    assert "measured: core/mlp, core/cnn" in told
    assert "at most" not in told
    show_plan(line(3), BisectOptions(), BisectLimits(builds=0))
    told = capsys.readouterr().err
    assert "measured: what got worse by the verdicts" in told
    assert "at most 0 builds" in told


def test_what_a_commit_or_a_command_says_is_text(capsys, monkeypatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    hostile = "::error::pwned\n::add-mask::a\r\x1b[31m"
    show_plan(line(3, hostile), BisectOptions(command=hostile), BisectLimits())
    stop, *told, resume = capsys.readouterr().err.splitlines()
    assert stop.startswith("::stop-commands::")
    assert resume.startswith("::")
    assert len(told) == 5
    assert not any(each.startswith("::") or "\x1b" in each for each in told)
