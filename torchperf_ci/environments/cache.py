"""Environments that are made when they are first asked for, and kept while there is room for them."""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from torchperf_ci.environments.contents import same_contents
from torchperf_ci.environments.scratch import size
from torchperf_ci.errors import EnvironmentUnderTestError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from contextlib import AbstractContextManager
    from types import TracebackType

    from torchperf_ci.environments.environment import Environment

Build = TypeVar("Build", bound="Hashable")

IN_USE = 3
"""Of the environments, those asked for last, which are never given back: the two that are measured, and one more, most
often the good one, which is needed again and again."""


TRIES = 2
"""Of a build that fails: some fail by chance, of a network or a full machine."""


@dataclass(frozen=True)
class _Held:
    environment: Environment
    closing: ExitStack
    size: int


class Environments(Generic[Build]):
    """The environments of many builds (commits, nightlies) until the block ends, however it ends.

    ``opened`` makes one, for instance ``partial(environment.opened, builder=…)`` or ``Wheels(…).opened``; it is told
    the number of the ``draw`` where that is not the first one. When all take more than ``limit`` bytes, those that were
    not asked for longest are given back; it is half of what is free on the disk by default.
    """

    def __init__(
        self, opened: Callable[..., AbstractContextManager[Environment]], limit: int | None = None
    ) -> None:
        self._opened = opened
        self._limit = shutil.disk_usage(tempfile.gettempdir()).free // 2 if limit is None else limit
        self._held: dict[tuple[Build, int], _Held] = {}  # longest unused first
        self._failures: dict[tuple[Build, int], list[str]] = defaultdict(list)

    def __enter__(self) -> Environments[Build]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ExitStack() as all_of_them:
            for held in self._held.values():
                all_of_them.enter_context(held.closing)
            self._held.clear()

    def get(self, build: Build, draw: int = 0) -> Environment:
        """The environment of a build, which stays at least until three others were asked for.

        ``draw`` is 0 for the first one that is made of it, and k for the k-th that is made anew. Raises
        :class:`EnvironmentUnderTestError` where it cannot be made, which is tried by two calls and no third.
        """
        key = (build, draw)
        failures = self._failures[key]
        if len(failures) >= TRIES:
            raise EnvironmentUnderTestError(failures[-1])
        if key in self._held:
            self._held[key] = self._held.pop(key)
        else:
            try:
                self._held[key] = self._make(build, draw)
            except EnvironmentUnderTestError as error:
                failures.append(str(error))
                raise
            failures.clear()
            self._make_room()
        return self._held[key].environment

    def is_repeated(self, build: Build, draw: int) -> bool:
        """Whether a draw that was just made installed nothing else than another one of the same build that is there."""
        mine = self._held[build, draw].environment
        others = [held for (one, number), held in self._held.items() if one == build and number != draw]
        return any(same_contents(mine, held.environment) for held in others)

    def _make(self, build: Build, draw: int) -> _Held:
        with ExitStack() as closing:
            environment = closing.enter_context(
                self._opened(build, draw=draw) if draw else self._opened(build)
            )
            taken = size(environment.folder) if environment.folder else 0
            return _Held(environment, closing.pop_all(), taken)

    def _make_room(self) -> None:
        for key in list(self._held)[:-IN_USE]:
            if sum(held.size for held in self._held.values()) <= self._limit:
                return
            self._held.pop(key).closing.close()
