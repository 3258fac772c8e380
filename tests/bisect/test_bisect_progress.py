from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from simulated_range import Simulated, SimulatedRange, bisected, facts_of
from terminal import all_of

from torchperf_ci.bisect.bisect_progress import BisectProgress
from torchperf_ci.bisect.reasoning.evidence import (
    BisectFacts,
    BisectReading,
    BuildAttempt,
    PlannedPair,
    ProbeFailure,
)

if TYPE_CHECKING:
    import pytest

N = 20
HOSTILE = "::error::pwned\n::stop-commands::x\r\x1b[31m\x1b]0;title\x07 [red]markup[/red]"
NAMES = [f"{position:010d} {HOSTILE}" for position in range(N + 1)]
WORLD = SimulatedRange(N, {"s": Simulated({13: 1.07})})
TIME = re.compile(r", \d+\.\d min\]")


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [TIME.sub("]", line) for line in capsys.readouterr().err.splitlines()]


def test_a_log_gets_a_line_an_event(capsys) -> None:
    shown = BisectProgress(WORLD.question(), [str(position) for position in range(N + 1)])
    built = BuildAttempt(0, ok=True, seconds=12.4)
    shown.begin_build(0)
    shown.end(built, BisectFacts(builds=(built,)))
    shown.begin_pair(PlannedPair("p", 0, N, "confirm"))
    read = BisectReading("p", 0, N, {"s": 0.0677, "t": -0.01}, "confirm", 40.0)
    shown.end(read, BisectFacts((read,), (built,)))
    assert lines(capsys) == [
        "building 0",
        "[0 pairs, 1 build] building 0: done in 12 s",
        "[1 pair, 1 build] is it slower? 20 against 0: +7.0%, −1.0%",
        "expected: 7 builds and 24 pairs of processes, 17 min if a build takes 12 s and a pair 40 s, as timed here",
    ]
    shown.end(read, BisectFacts((read, read), (built,)))
    assert len(lines(capsys)) == 1
    shown.begin_build(N, draw=1)
    assert lines(capsys) == ["rebuilding 20"]


def test_profiles_are_told_when_they_begin(capsys) -> None:
    shown = BisectProgress(WORLD.question(), [str(position) for position in range(N + 1)])
    shown.begin_profile(12, 13)
    assert lines(capsys) == ["what moved inside? 13 against 12"]


def test_what_went_wrong_is_told_in_a_line(capsys) -> None:
    shown = BisectProgress(WORLD.question(), [str(position) for position in range(N + 1)])
    shown.begin_build(3)
    shown.end(BuildAttempt(3, ok=False, why="ended with 1:\nand more\nno such file\n"), BisectFacts())
    shown.begin_pair(PlannedPair("p", 0, 4, "locate"))
    shown.end(ProbeFailure("p", 4, ""), BisectFacts())
    assert lines(capsys)[1:] == [
        "[0 pairs, 0 builds] building 3: cannot be built: ended with 1: … no such file",
        "[0 pairs, 0 builds] where? 4 against 0: does not run: ",
    ]


def test_the_likeliest_suspect_is_named_as_long_as_one_is_looked_for(capsys) -> None:
    ended = bisected(WORLD)
    shown = BisectProgress(WORLD.question(), [f"commit {position}" for position in range(N + 1)])
    for count, event in enumerate(ended.events, start=1):
        shown.end(event, facts_of(ended.events[:count]))
    told = lines(capsys)
    assert "suspects left, likeliest commit " in told[12]
    before_last = [line for line in told if "suspect" in line][-1]
    assert re.search(r"1 suspect left, likeliest commit 13 \((100|9\d)%\)$", before_last)
    assert "suspect" not in told[-1], "it has been proven"


def test_on_a_narrow_terminal_only_the_names_are_cut() -> None:
    shown = BisectProgress(WORLD.question(), NAMES)
    shown._facts = facts_of(bisected(WORLD).events[:12])
    with (console := Console(width=40)).capture() as captured:
        console.print(shown._view())
    (first, *_) = captured.get().splitlines()
    assert re.fullmatch(r" *\d+\.\d% █+ +00000000\d+ …", first)


def test_in_a_log_names_are_text(monkeypatch, capsys) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    shown = BisectProgress(WORLD.question(), NAMES)
    shown.begin_build(1)
    shown.end(BuildAttempt(1, ok=False, why=HOSTILE), BisectFacts())
    shown.close()
    told = capsys.readouterr().err.splitlines()
    stopped = [line for line in told if line.startswith("::")]
    assert all(re.fullmatch(r"::(stop-commands::[0-9a-f]{32}|[0-9a-f]{32}::)", line) for line in stopped)
    assert len(told) == 2 * 3
    assert not any(control in "".join(told) for control in "\x1b\x07\r")


IMPORTS = f"""
import sys
sys.path[:0] = sys.argv[1:]
from test_bisect_progress import NAMES, WORLD
from simulated_range import bisected, facts_of
from {BisectProgress.__module__} import {BisectProgress.__name__}
from {PlannedPair.__module__} import {PlannedPair.__name__}
"""
ON_A_TERMINAL = """
shown = BisectProgress(WORLD.question(), NAMES)
assert shown._live
events = bisected(WORLD).events
shown.begin_build(0)
shown.begin_pair(PlannedPair("p", 0, 20, "confirm"))
for count in (6, 9, len(events)):
    shown.end(events[count - 1], facts_of(events[:count]))
    shown._live.refresh()
shown.close()
"""


def test_a_terminal_gets_bars_and_its_cursor_back_and_nothing_that_a_name_says() -> None:
    terminal, theirs = pty.openpty()
    environ = {k: v for k, v in os.environ.items() if not k.startswith("GITHUB_")}
    environ |= {"TERM": "xterm", "COLUMNS": "200"}
    here = Path(__file__).parent
    command = [sys.executable, "-c", IMPORTS + ON_A_TERMINAL, str(here), str(here.parent / "support")]
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=theirs) as running:
        os.close(theirs)
        shown = all_of(terminal)
    assert running.returncode == 0, shown
    assert "█" in shown
    assert "and " in shown, "there is not room for all suspects"
    assert "[red]markup" in shown
    assert "\x1b[31m" not in shown
    assert "\x1b]0;" not in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
