"""The workers of the next pair, which import torch on other CPUs while this pair is measured.

On a GPU the start of two processes takes as long as their measurement.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchperf_ci.bench.pairs import start_pair

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from torchperf_ci.bench.case import Case, Settings
    from torchperf_ci.bench.pairs import Arm

FEWEST_SPARE = 4
"""CPUs beside those of the pair: two processes that import, and their reading of files."""

Key = tuple["Case", "Settings", "Settings", "Path"]


def spare_cpus(settings: Settings) -> tuple[int, ...]:
    """Where others may work while a pair is measured: nowhere if CPUs are what is measured, or there are too few."""
    if settings.device == "cpu" or sys.platform != "linux":
        return ()
    spare = sorted(os.sched_getaffinity(0) - set(settings.cpus))
    return tuple(spare) if settings.cpus and len(spare) >= FEWEST_SPARE else ()


@dataclass
class PrestartedWorkers:
    """One pair that was started before its turn. Whoever measures another one instead ends it."""

    _key: Key | None = None
    _stack: ExitStack = field(default_factory=ExitStack)
    _started: tuple[Arm, Arm] | None = None

    def start(self, case: Case, base: Settings, head: Settings, scratch: Path) -> None:
        """Start a pair on the spare CPUs, if there are any.

        A compiled one starts in its turn: what its cache holds until then is not yet to be forgotten.
        """
        cpus = spare_cpus(base)
        if not cpus or case.compiled or not case.batch_size:
            return
        self.close()
        self._key = (case, base, head, scratch)
        self._started = self._stack.enter_context(start_pair(*self._key, cpus))

    def taken(
        self, case: Case, base: Settings, head: Settings, scratch: Path
    ) -> AbstractContextManager[tuple[Arm, Arm]]:
        """The pair, to be started by whoever enters it if it was not before."""
        key, started, stack = (case, base, head, scratch), self._started, self._stack.pop_all()
        self._started = None
        if started is None or self._key != key:
            stack.close()
            return start_pair(*key)
        return _held(stack, started)

    def close(self) -> None:
        """End what nobody has taken."""
        self._started = None
        self._stack.close()


@contextmanager
def _held(stack: ExitStack, started: tuple[Arm, Arm]) -> Iterator[tuple[Arm, Arm]]:
    with stack:
        yield started
