"""SIGTERM and Ctrl-C end a command as an error does: workers, worktrees and environments are taken away."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torchperf_ci.errors import InterruptedRunError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def interruptible() -> Iterator[None]:
    """The first signal raises :class:`InterruptedRunError`; others do not disturb the cleaning up that follows."""

    def stop(number: int, _frame: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        msg = f"stopped by {signal.Signals(number).name} before anything was measured"
        raise InterruptedRunError(msg)

    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
