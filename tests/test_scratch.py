"""Temporary folders are gone in the end, also if a signal comes before anybody knows their names."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time

import pytest

from torchperf_ci.interruption import Stopped
from torchperf_ci.scratch import scratch_folder


def test_a_signal_while_it_is_created_leaves_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    create = os.mkdir

    def stopped(*arguments: object) -> None:
        create(*arguments)
        raise Stopped(signal.SIGTERM)

    with monkeypatch.context() as created:
        created.setattr(os, "mkdir", stopped)
        with pytest.raises(Stopped), scratch_folder():
            pass
    assert list(tmp_path.iterdir()) == []
    with scratch_folder() as folder:
        assert list(tmp_path.iterdir()) == [folder]
    assert list(tmp_path.iterdir()) == []


def test_what_a_kill_left_of_asking_the_environment_under_test_is_removed(tmp_path, monkeypatch) -> None:
    python, temporary = tmp_path / "python", tmp_path / "temporary"
    temporary.mkdir()
    python.write_text("#!/bin/sh\necho started\nexec sleep 600\n")
    python.chmod(0o755)
    command = [sys.executable, "-m", "torchperf_ci", "list", "--python", str(python)]
    with subprocess.Popen(command, env={**os.environ, "TMPDIR": str(temporary)}) as asking:
        while not any(log.read_text() for log in temporary.glob("*/worker.log")):
            time.sleep(0.01)
        asking.kill()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with scratch_folder() as folder:
        assert list(temporary.iterdir()) == [folder]


def test_a_file_system_without_locks_has_temporary_folders_that_nobody_removes(tmp_path, monkeypatch) -> None:
    """Such as Lustre, unless it is mounted with locks."""

    def refused(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(fcntl, "flock", refused)
    with scratch_folder() as folder, scratch_folder() as other:
        assert {*tmp_path.iterdir()} == {folder, other}
    assert list(tmp_path.iterdir()) == []
