"""One total deadline over several tries."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 10.0


@dataclass(frozen=True)
class Deadline:
    """A moment of the monotonic clock, in seconds, after which nothing more is begun."""

    moment: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(time.monotonic() + seconds)

    @property
    def left(self) -> float:
        """Seconds until then; 0 when it has passed."""
        return max(self.moment - time.monotonic(), 0.0)

    def tries(self, most: int | None = None) -> Iterator[int]:
        """Numbers of the tries from 1, with a pause before each but the first, while there is time.

        The pauses double and are drawn at random up to there ("full jitter"), so that those who collided once spread
        out: https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
        """
        number = 1
        yield number
        while most is None or number < most:
            pause = random.uniform(0, min(FIRST_PAUSE * 2**number, LONGEST_PAUSE))
            if pause >= self.left:
                return
            time.sleep(pause)
            number += 1
            yield number
