from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

from terminal import all_of

from torchperf_ci.bench.case import Case
from torchperf_ci.bench.process import ProcessOutcome
from torchperf_ci.bench.summary import PlainRunProgress

FAULTY = Path(__file__).parent / "faulty_suite.py"
CASE = Case("vision/a", "inference", "fp32", "eager", 8)


def test_a_log_gets_a_line_a_process_with_the_time_left() -> None:
    out = io.StringIO()
    shown = PlainRunProgress(3, out)
    shown.starts(CASE)
    shown.ends(CASE, ProcessOutcome("pass", seconds=2.25), 1)
    shown.ends(CASE, ProcessOutcome("oom", "too big"), 3)
    first, second = out.getvalue().splitlines()
    assert first == "[1/3, 0:00 left] vision/a inference fp32 eager batch 8: pass in 2.2 s"
    assert second == "[3/3, 0:00 left] vision/a inference fp32 eager batch 8: oom: too big"


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
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
