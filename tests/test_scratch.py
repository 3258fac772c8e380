"""Temporary folders are gone in the end, also if a signal comes before anybody knows their names."""

from __future__ import annotations

import os
import signal
import tempfile

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
