"""A comparison that ends before it is done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from process_table import runs, wait_until

from torchperf_ci.scratch import scratch_folder
from torchperf_ci.verdicts.verdict import read_verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator


SHORT_BLOCKS = """
import sys
from torchperf_ci import cli
from torchperf_ci.bench import pairs

pairs.BLOCK_SECONDS = 0.01
sys.exit(cli.main())
"""
"""The command; a pair takes no longer than its workers need to start."""


@pytest.fixture
def before(checkout) -> object:
    """The state of the checkout before anything is called."""
    return checkout.state()


@pytest.fixture
def comparing(
    before, checkout, suite, tmp_path, torch_environment, temporary
) -> Iterator[subprocess.Popen[str]]:
    """A comparison that is about to measure its first pair."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", SHORT_BLOCKS, "compare"),
            *("--base", checkout.first, "--head", checkout.second),
            *("--repo", str(checkout.folder), "--python", str(torch_environment / "bin/python")),
            *("--suite", suite, "--filter", "made/runs", "--out", str(tmp_path / "verdicts.json")),
        ],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        _read_until("1 case in pairs of processes on ", process)
        yield process


def _read_until(words: str, process: subprocess.Popen[str]) -> None:
    said: list[str] = []
    while words not in (line := process.stderr.readline()):
        assert line, said
        said.append(line)


def test_sigterm_leaves_what_is_known_and_nothing_else(
    comparing, before, checkout, tmp_path, temporary
) -> None:
    _read_until("pair 1", comparing)
    workers = _workers_of(comparing.pid)
    comparing.send_signal(signal.SIGTERM)
    _, said = comparing.communicate(timeout=60)
    assert comparing.returncode == 143, said
    assert "stopped by SIGTERM; what was measured by then is in" in said
    judgement = read_verdicts(tmp_path / "verdicts.json")
    assert any(note.startswith("interrupted from outside") for note in judgement.notes)
    assert {verdict.verdict for verdict in judgement.verdicts} == {"noisy"}
    [latency] = [verdict for verdict in judgement.verdicts if verdict.series.metric == "latency(ms)"]
    assert latency.why.startswith("interrupted ")
    wait_until(lambda: not any(map(runs, workers)))
    assert list(temporary.iterdir()) == []
    assert checkout.state() == before


def test_what_a_kill_leaves_is_removed_later(comparing, temporary) -> None:
    wait_until(lambda: len(_workers_of(comparing.pid)) == 2)
    workers = _workers_of(comparing.pid)
    comparing.kill()
    # A worker that had only just been started ends by itself when it finds nobody at the other end.
    wait_until(lambda: not any(map(runs, [comparing.pid, *workers])))
    assert list(temporary.iterdir()) != []
    deadline, left = time.monotonic() + 60, None
    while left != []:  # a worker that had only just been started holds its folder until it ends
        assert time.monotonic() < deadline, left
        with scratch_folder() as folder:
            left = [path for path in temporary.iterdir() if path != folder]


def _workers_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
