"""A total deadline for several attempts."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

_Result = TypeVar("_Result")

FIRST_PAUSE = 0.1
MAX_PAUSE = 10.0
MAX_SECONDS = 2e6
"""The furthest deadline, 23 days: poll(2), which waits for a program's output, takes 31 bits of milliseconds."""


@dataclass(eq=False)
class Deadline:
    """A moment of the monotonic clock (seconds) after which no new attempt is started."""

    moment: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(time.monotonic() + min(seconds, MAX_SECONDS))

    @property
    def left(self) -> float:
        """Seconds that are left; 0 once it has passed."""
        return max(self.moment - time.monotonic(), 0.0)

    def end(self) -> None:
        """Let it pass now, so that other threads stop trying."""
        self.moment = 0.0

    def wait_for(self, call: Callable[[], _Result]) -> _Result:
        """Return the result of ``call``, or raise its exception. Raises :class:`TimeoutError` if it takes longer.

        It is then left to itself. Libraries limit the time of each network operation, but not of all operations of a
        request: a server that sends a byte at a time would be waited for without end.
        """
        import threading
        from concurrent.futures import Future, wait
        from contextvars import copy_context

        future: Future[_Result] = Future()

        def run() -> None:
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001  # raised below
                future.set_exception(error)

        threading.Thread(target=copy_context().run, args=[run], daemon=True).start()
        if not wait([future], self.left).done:
            raise TimeoutError("timed out")
        return future.result()

    def tries(self, most: int | None = None) -> Iterator[int]:
        """Yield the numbers of attempts from 1 while there is time, pausing before each except the first.

        The pauses are random up to a limit that doubles each time ("full jitter"), so that competing clients spread
        out: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
        """
        number, longest = 1, FIRST_PAUSE
        yield number
        while most is None or number < most:
            longest = min(2 * longest, MAX_PAUSE)
            pause = random.uniform(0, longest)
            if pause >= self.left:
                return
            time.sleep(pause)
            number += 1
            yield number
