"""Calls that go on with what earlier calls have measured, or refuse to."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.bisect import measurement_setup
from torchperf_ci.environments.wheels import Distribution

if TYPE_CHECKING:
    from pathlib import Path


def test_a_search_is_not_resumed_once_the_configuration_says_that_higher_is_better(
    bisect, history, tmp_path: Path, capsys
) -> None:
    """It gave the same wrong answer from its earlier readings, without measuring anything."""
    config = tmp_path / "torchperf.yml"
    config.write_text('version: 1\npolicy: {"examples/s": {direction: up}}\n')
    good, *_, bad = history.costs(100, 100, 50)
    call = ("--good", good, "--bad", bad, "--metric", "examples/s")
    assert bisect(*call).status == "not-reproduced"
    assert bisect.code(*call, "--config", str(config)) == 2
    assert "directions changed" in capsys.readouterr().err
    anew = bisect(*call, "--config", str(config), "--state", str(tmp_path / "another"))
    assert anew.culprits[0].effect.ratio == pytest.approx(0.5, rel=0.03)


def test_a_limit_leaves_suspects_and_the_next_call_goes_on(bisect, history) -> None:
    shas = history.costs(100, 100, 100, 120, 120, 120)
    ends = ("--good", shas[0], "--bad", shas[-1])
    stopped = bisect(*ends, "--max-runs", "7", "--on-failure", "warn")
    assert stopped.status == "inconclusive"
    assert shas[3] in {one.commit for one in stopped.credible}
    found = bisect(*ends)
    assert found.readings[: stopped.runs] == stopped.readings
    assert [one.commit for one in found.culprits] == [shas[3]]


def test_the_same_call_again_measures_nothing_and_says_the_same(bisect, history, capsys) -> None:
    shas = history.costs(100, 120)
    ends = ("--good", shas[0], "--bad", shas[-1])
    first, kept = bisect(*ends), bisect.state.read_bytes()
    assert "continuing" not in capsys.readouterr().err
    assert (bisect(*ends), bisect.state.read_bytes()) == (first, kept)
    again = f"continuing with {first.runs} pairs of earlier calls, in {bisect.state}; delete it to start anew"
    assert again in capsys.readouterr().err


def test_builds_of_an_earlier_call_are_announced_when_they_are_made_again(
    bisect, history, quick: str, capsys
) -> None:
    """Where a build takes an hour, a log said nothing for two."""
    good, bad = history.costs(100, 120)
    call = ("--good", good, "--bad", bad, "--python", quick, "--build", "true", "--on-failure", "warn")
    bisect(*call, "--max-runs", "1")
    capsys.readouterr()
    bisect(*call, "--max-runs", "3")
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if line.startswith("building")] == [
        f"building {good[:10]} Change 0",
        f"building {bad[:10]} Change 1",
    ]


def test_the_state_of_another_range_is_refused_and_kept(bisect, history, capsys) -> None:
    shas = history.costs(100, 120, 120)
    bisect("--good", shas[0], "--bad", shas[1])
    kept = bisect.state.read_bytes()
    assert bisect.code("--good", shas[0], "--bad", shas[2]) == 2
    said = capsys.readouterr().err
    assert f"{bisect.state} belongs to another run" in said
    assert "name another file with --state" in said
    assert bisect.state.read_bytes() == kept


def test_a_search_is_not_resumed_with_another_torch(bisect, history, tmp_path, capsys) -> None:
    python = tmp_path / "python"
    ends = dict(zip(("--good", "--bad"), history.costs(100, 120), strict=True))
    call = (*(word for end in ends.items() for word in end), "--python", str(python))

    def install(version: str) -> None:
        facts = f'"version": "{version}", "commit": "c0ffee", "requested": true'
        python.write_text(f"#!/bin/sh\necho '{{\"torch\": {{{facts}}}}}'\n")
        python.chmod(0o755)

    install("2.12.0")
    first = bisect(*call)
    assert bisect(*call) == first
    install("2.13.0")
    assert bisect.code(*call) == 2
    changed = 'packages changed (packages: {"torch": "2.12.0 c0ffee"} → {"torch": "2.13.0 c0ffee"})'
    assert changed in capsys.readouterr().err


@pytest.mark.parametrize("builder", ["worktree", "command"])
def test_a_search_is_not_resumed_with_another_python(
    bisect, history, quick: str, capsys, monkeypatch, builder: str
) -> None:
    good, bad = history.costs(100, 120)
    build = ("--build", "true") if builder == "command" else ()
    call = (
        "--good",
        good,
        "--bad",
        bad,
        "--python",
        quick,
        *build,
        "--max-runs",
        "1",
        "--on-failure",
        "warn",
    )
    bisect(*call)
    assert bisect(*call).runs == 1
    now = ".".join(platform.python_version_tuple()[:2])
    older = {"python": Distribution("3.9", "", requested=False)}
    monkeypatch.setattr(measurement_setup, "installed_distributions", lambda *_: older)
    assert bisect.code(*call) == 2
    assert f'"python": "{now}"' in capsys.readouterr().err


def test_a_command_that_was_wrong_can_be_put_right(bisect, history) -> None:
    shas = history.costs(100, 120)
    ends = ("--good", shas[0], "--bad", shas[1])
    assert bisect.code(*ends, command="sh kost.sh") == 3
    assert bisect(*ends).status == "found"


def test_a_state_that_no_bisection_wrote_makes_way_and_that_is_said(bisect, history, capsys) -> None:
    good, bad = history.costs(100, 120)
    bisect.state.write_text('{"plan": {"state": 0}}\n{"reading": {"probe": "command"}}\n')
    found = bisect("--good", good, "--bad", bad)
    assert found.culprits[0].commit == bad
    dropped = f"{bisect.state} belongs to another run: "
    assert any(note.startswith(dropped) and note.endswith("starts anew") for note in found.notes), found.notes
    assert f"warning: {dropped}" in capsys.readouterr().err
