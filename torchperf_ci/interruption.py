"""Ctrl-C and SIGTERM end every command in one way: what it made is taken away, and it says which call goes on.

A reader that ends, as ``head`` does, ends it without a word.
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
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import FrameType

    from torchperf_ci.options.option import Option


COMMAND_NAME = "torchperf"


def command_line(
    options: Iterable[Option], program: Sequence[str] = (COMMAND_NAME,), more: Sequence[str] = ()
) -> str:
    """The call with ``more`` flags, and with those of ``options`` that came by the environment, as they do in a job.

    It is without credentials, which have to be given again.
    """
    from torchperf_ci.git import without_secrets  # every command starts with this module, and few need git

    variables = [option.env for option in options if os.environ.get(option.env, "").strip()]
    given = [f"{name}={shlex.quote(os.environ[name])}" for name in variables]
    argv = sys.argv[1:]
    flags = [flag for flag in more if flag not in argv]
    return without_secrets(" ".join([*given, shlex.join([*program, *argv, *flags])]))


def program() -> Sequence[str]:
    """What this process was started as: by the name, if that finds the same, else by its path."""
    file = Path(sys.argv[0])
    if file.name == "__main__.py":
        return (sys.executable, "-m", "torchperf_ci")
    named = shutil.which(COMMAND_NAME)
    return (COMMAND_NAME,) if named and file.exists() and file.samefile(named) else (str(file),)


def nobody_reads() -> bool:
    """Whether what read our output has ended, as ``head`` does when it has seen enough."""
    outputs = select.poll()
    for stream in _outputs():
        outputs.register(stream, 0)  # asks for errors alone
    return bool(outputs.poll(0))


def print_nothing_more() -> None:
    """Have what is left to print, which the interpreter does at its end, go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in _outputs():
        os.dup2(nowhere, stream.fileno())


def _outputs() -> Iterator[TextIO]:
    """Those that the process was not started without."""
    return filter(None, (sys.stdout, sys.stderr))


_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_CLEANING_SECONDS = 10.0
"""After the first signal, in which no other disturbs the cleaning up. A runner that cancels a job sends two."""


STUCK_SECONDS = 3.0
"""From a signal to its exception, at most; the interpreter raises it between two of its own instructions."""


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
def stoppable(tell: Callable[[Stopped], object]) -> Iterator[None]:
    """Inside, signals raise :class:`Stopped`. Only the main thread has signals.

    Where that is in the middle of something that is no Python and takes long, as a query of the embedded engine may, it
    is told by ``tell``, and the process ends as if it was killed: what is kept is kept so that it outlives that.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    undisturbed, raised = 0.0, threading.Event()

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal undisturbed
        raised.set()
        if time.monotonic() < undisturbed:
            return
        undisturbed = time.monotonic() + _CLEANING_SECONDS
        raise Stopped(signal.Signals(number))

    def watch() -> None:
        for number in iter(lambda: os.read(arrived, 1), b""):
            is_ours = signal.getsignal(number[0]) is stop  # a server ends in its own way
            if is_ours and not raised.wait(STUCK_SECONDS):
                stopped = Stopped(signal.Signals(number[0]))
                tell(stopped)
                os._exit(stopped.exit_code)

    arrived, arriving = os.pipe()
    os.set_blocking(arriving, False)
    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    woken = signal.set_wakeup_fd(arriving, warn_on_full_buffer=False)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(woken)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(arriving)
        watcher.join()
        os.close(arrived)
