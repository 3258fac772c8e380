"""Ctrl-C and SIGTERM end every command in one way: what it made is taken away, and it says how it goes on."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_CLEANING_SECONDS = 10.0
"""After the first signal, in which no other disturbs the cleaning up. A runner that cancels a job sends two."""


class Stopped(KeyboardInterrupt):
    """A signal has come. No ``except Exception`` takes it for a failure of what it has interrupted.

    ``outcome`` says what is left of what was done, and what the call that is printed then is good for. Whoever knows
    more replaces it, and names the options with which that call goes on (``resume``).
    """

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(f"stopped by {'Ctrl-C' if number == signal.SIGINT else number.name}")
        self.exit_code = 128 + number
        self.outcome = "what was finished stays so; to do the rest"
        self.resume: tuple[str, ...] = ()


@contextmanager
def stoppable() -> Iterator[None]:
    """Inside, signals raise :class:`Stopped`. Only the main thread has signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    undisturbed = 0.0

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal undisturbed
        if time.monotonic() < undisturbed:
            return
        undisturbed = time.monotonic() + _CLEANING_SECONDS
        raise Stopped(signal.Signals(number))

    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
