"""Bisections that a signal interrupts, and the calls that resume them; the user's checkout is not touched."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from checkout import Checkout
from hangups import HEEDING_HANGUPS

from torchperf_ci.culprits.culprit import read_culprits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


STOPS = (
    ("] building", signal.SIGTERM),
    ("[1 pair", signal.SIGHUP),
    ("[3 pairs", signal.SIGINT),
    ("is it this one?", signal.SIGTERM),
)
"""A line that is said, and the signal that comes then."""


class Job:
    """Runs the command on a user's repository in a process of its own."""

    def __init__(self, folder: Path, checkout: Checkout, git) -> None:
        self.checkout, self.folder = checkout, folder
        self.state, self.out = folder / "state.jsonl", folder / "culprits.json"
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        good, culprit = checkout.first, checkout.second
        self.culprit = culprit
        # A blue commit costs a fifth more.
        cost = "read -r line < colour.py; case $line in *blue*) cost=120;; *) cost=100;; esac"
        noisy = "echo $(( ${cost}000 + $$ * 7919 % 1000 ))"
        measured = ("--command", f"{cost}; {noisy}", "--state", str(self.state), "--out", str(self.out))
        ends = ("--repo", str(checkout.folder), "--good", good, "--bad", culprit)
        self._argv = [sys.executable, "-m", "torchperf_ci", "bisect", *ends, *measured]

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        """Its standard error can be read as it goes."""
        environ = {**os.environ, "TMPDIR": str(self.temporary)}
        process = subprocess.Popen(
            [*HEEDING_HANGUPS, *self._argv],
            env=environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            yield process

    def stopped(self, when: str, by: signal.Signals) -> tuple[int, str]:
        """Send a signal once a line says ``when``; the exit code, and what was said from then on."""
        with self.running() as process:
            assert any(when in line for line in process.stderr), when
            process.send_signal(by)
            _, said = process.communicate(timeout=60)
        return process.returncode, said

    def completed(self) -> str:
        """To the end; what was said."""
        with self.running() as process:
            _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        return said

    @property
    def line(self) -> str:
        """The call, for a shell."""
        return shlex.join(self._argv)

    def kept(self) -> list[dict]:
        return [json.loads(line) for line in self.state.read_text().splitlines()]


@pytest.fixture
def job(tmp_path: Path, git) -> Job:
    folder = tmp_path / "repo with a space"
    folder.mkdir()
    return Job(tmp_path, Checkout(folder, git), git)


def test_what_stops_a_search_leaves_what_is_known_and_the_next_call_goes_on(job: Job) -> None:
    """One bisection, which is stopped again and again, and goes on each time with what it knew."""
    before, kept = job.checkout.state(), list[dict]()
    for when, by in STOPS:
        code, said = job.stopped(when, by)
        assert code == 128 + by, said
        how = "Ctrl-C" if by == signal.SIGINT else by.name
        assert (
            f"stopped by {how}; everything measured so far is in {job.state}; to continue: {job.line}\n"
            in said
        )
        assert list(job.temporary.iterdir()) == []
        assert job.checkout.state() == before
        assert job.kept()[: len(kept)] == kept
        kept = job.kept()
    code, _ = job.stopped("is it this one?", signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert job.kept()[: len(kept)] == kept
    kept = job.kept()[:-1]
    assert job.checkout.state() != before  # it had no chance
    job.completed()
    assert job.kept()[: len(kept)] == kept
    [named] = read_culprits(job.out).culprits
    assert named.commit == job.culprit
    assert list(job.temporary.iterdir()) == []
    assert job.checkout.state() == before


def test_two_at_once_do_not_share_a_state(job: Job) -> None:
    with job.running() as first:
        assert any("[1 pair" in line for line in first.stderr)
        with job.running() as second:
            _, said = second.communicate(timeout=60)
        assert second.returncode == 2
        assert "is in use by another bisection" in said
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=60)
    assert list(job.temporary.iterdir()) == []
