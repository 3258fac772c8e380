"""Handle Ctrl-C, SIGTERM and a lost terminal alike in every command: clean up, and print the call that continues.

A reader that ends early, such as ``head``, ends the command silently.
"""

from __future__ import annotations

import os
import select
import shlex
import shutil
import signal
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.masking import without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import FrameType

    from torchperf_ci.options.option import Option


COMMAND_NAME = "torchperf"


def command_line(
    options: Iterable[Option],
    program: Sequence[str] = (COMMAND_NAME,),
    more: Iterable[tuple[str, ...]] = (),
) -> str:
    """Return this process's command line, with the environment variables of ``options``.

    ``more`` are flags to add, each with its value if it takes one, unless they are already there. Credentials are left
    out and have to be given again.
    """
    variables = [name for option in options for name in option.variables]
    given = [
        f"{name}={shlex.quote(os.environ[name])}" for name in variables if os.environ.get(name, "").strip()
    ]
    argv = sys.argv[1:]
    flags = [word for option in more if option[0] not in argv for word in option]
    return without_secrets(" ".join([*given, shlex.join([*program, *argv, *flags])]))


def program() -> Sequence[str]:
    """Return how this process was started: by the command's name if the PATH has it, else by its path."""
    file = Path(sys.argv[0])
    if file.name == "__main__.py":
        return (sys.executable, "-m", "torchperf_ci")
    named = shutil.which(COMMAND_NAME)
    return (COMMAND_NAME,) if named and file.exists() and file.samefile(named) else (str(file),)


def open_closed_streams() -> None:
    """Discard what is printed by a process that was started with a closed stdout or stderr."""
    while (spare := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(spare)
    sys.stdout, sys.stderr = sys.stdout or os.fdopen(1, "w"), sys.stderr or os.fdopen(2, "w")


def output_is_closed() -> bool:
    """Whether the reader of our output has ended, as ``head`` does early."""
    outputs = select.poll()
    for stream in (sys.stdout, sys.stderr):
        outputs.register(stream, select.POLLOUT)  # of what it is asked nothing, macOS tells nothing
    return any(event != select.POLLOUT for _, event in outputs.poll(0))


def print_nothing_more() -> None:
    """Discard buffered output, which the interpreter would otherwise print at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(nowhere, stream.fileno())


_IGNORES_HANGUP = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
"""Whether it was started with nohup, and goes on when its terminal is closed."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT, *(() if _IGNORES_HANGUP else (signal.SIGHUP,)))
_CLEANING_SECONDS = 10.0
"""Seconds after the first signal during which others are ignored: a runner that cancels a job sends two."""


_AGAIN_SECONDS = 0.05
"""Seconds until the exception is raised again if Python ignored it, as it does in finalizers and callbacks."""
STUCK_SECONDS = 3.0
"""Most seconds from a signal to its exception, which Python raises between two bytecode instructions."""
_LOOKS = 10


class Stopped(KeyboardInterrupt):
    """The process received a signal. ``except Exception`` does not catch it.

    ``outcome`` says what was kept, and what the call that is printed after it does. Code that knows better replaces it,
    and sets the options with which that call continues (``resume``).
    """

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(f"stopped by {'Ctrl-C' if number == signal.SIGINT else number.name}")
        self.exit_code = 128 + number
        self.outcome = "what was finished stays so; to do the rest"
        self.resume: tuple[tuple[str, ...], ...] = ()


class _SignalHandler:
    """Raises :class:`Stopped` at the first signal, and ignores others while the command cleans up."""

    def __init__(self) -> None:
        self._undisturbed = 0.0
        self._thread, self._raised = threading.get_ident(), threading.Event()

    def stop(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal."""
        self._raised.set()
        if time.monotonic() < self._undisturbed:
            return
        self._undisturbed = time.monotonic() + _CLEANING_SECONDS
        raise Stopped(signal.Signals(number))

    def handles(self, number: int) -> bool:
        """Whether the signal is handled here; a server has handlers of its own."""
        return signal.getsignal(number) == self.stop

    def is_stuck(self, number: int) -> bool:
        """Wait for the signal's exception, and say whether it is late; for another thread than the main one.

        It waits briefly several times, because a single wait would be over where the machine stood still.
        """
        for _ in range(_LOOKS):
            if self._raised.wait(STUCK_SECONDS / _LOOKS):
                return False
            # If the system gave it to another thread, nothing has interrupted what the main thread waits for.
            signal.pthread_kill(self._thread, number)
        return True

    def raise_again(self, number: int) -> None:
        """Send the signal again, whose exception Python has ignored."""
        self._undisturbed = 0.0
        self._raised.clear()
        if self.handles(number):
            os.kill(os.getpid(), number)


@contextmanager
def stoppable(report_stop: Callable[[Stopped], object]) -> Iterator[None]:
    """Make signals raise :class:`Stopped` inside the block, if this is the main thread.

    If native code such as a query of the embedded engine keeps the exception from being raised in time, ``report_stop``
    is called from another thread and the process exits at once. That is safe, since everything that is kept is written
    so that it survives a kill.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = _SignalHandler()

    def unraisable(ignored: sys.UnraisableHookArgs) -> None:
        if isinstance(ignored.exc_value, Stopped):
            number = ignored.exc_value.exit_code - 128
            threading.Timer(_AGAIN_SECONDS, handler.raise_again, [number]).start()
        else:
            report_unraisable(ignored)

    def watch() -> None:
        for number in iter(lambda: os.read(arrived, 1), b""):
            if handler.handles(number[0]) and handler.is_stuck(number[0]):
                stopped = Stopped(signal.Signals(number[0]))
                report_stop(stopped)
                os._exit(stopped.exit_code)

    arrived, arriving = os.pipe()
    os.set_blocking(arriving, False)
    before = {number: signal.signal(number, handler.stop) for number in _SIGNALS}
    woken = signal.set_wakeup_fd(arriving, warn_on_full_buffer=False)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    report_unraisable, sys.unraisablehook = sys.unraisablehook, unraisable
    try:
        yield
    finally:
        sys.unraisablehook = report_unraisable
        signal.set_wakeup_fd(woken)
        for number, earlier in before.items():
            signal.signal(number, earlier)
        os.close(arriving)
        watcher.join()
        os.close(arrived)
