from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

from terminal import all_of

FAULTY = Path(__file__).parent / "faulty_suite.py"


def test_a_terminal_gets_a_bar_and_its_cursor_back(tmp_path: Path) -> None:
    terminal, theirs = pty.openpty()
    environ = {k: v for k, v in os.environ.items() if not k.startswith("GITHUB_")} | {"TERM": "xterm"}
    argv = ["run", "--suite", str(FAULTY), "--filter", "faulty/fine", "--processes", "1", "--budget", "0.1"]
    with subprocess.Popen(
        [sys.executable, "-m", "torchperf_ci", *argv], cwd=tmp_path, env=environ, stdout=theirs, stderr=theirs
    ) as running:
        os.close(theirs)
        shown = all_of(terminal)
    assert running.returncode == 0, shown
    assert "━" in shown
    assert "1/1" in shown
    said = [
        "this machine: ",
        "which imports torch",
        "1 case, 1 process each",
        ": starting",
        "warming up",
        "1 of 1",
    ]
    places = [shown.index(words) for words in said]
    assert places == sorted(places)
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
