"""Environments that are made when they are first asked for, and kept while there is room for them."""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

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


@dataclass(frozen=True)
class _Held:
    environment: Environment
    closing: ExitStack
    size: int


class Environments(Generic[Build]):
    """The environments of many builds (commits, nightlies) until the block ends, however it ends.

    ``opened`` makes one, for instance ``partial(environment.opened, builder=…)`` or ``Wheels(…).opened``. When all take
    more than ``limit`` bytes, those that were not asked for longest are given back; it is half of what is free on the
    disk by default. ``seconds`` has how long the last attempt at each build took.
    """

    def __init__(
        self, opened: Callable[[Build], AbstractContextManager[Environment]], limit: int | None = None
    ) -> None:
        self._opened = opened
        self._limit = shutil.disk_usage(tempfile.gettempdir()).free // 2 if limit is None else limit
        self._held: dict[Build, _Held] = {}  # longest unused first
        self._failed: dict[Build, str] = {}
        self.seconds: dict[Build, float] = {}

    def __enter__(self) -> Environments[Build]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ExitStack() as all_of_them:
            for held in self._held.values():
                all_of_them.enter_context(held.closing)
            self._held.clear()

    def get(self, build: Build) -> Environment:
        """The environment of a build, which stays at least until three others were asked for.

        Raises :class:`EnvironmentUnderTestError` where it cannot be made, which is not tried twice.
        """
        if build in self._failed:
            raise EnvironmentUnderTestError(self._failed[build])
        if build in self._held:
            self._held[build] = self._held.pop(build)
        else:
            self._held[build] = self._make(build)
            self._make_room()
        return self._held[build].environment

    def _make(self, build: Build) -> _Held:
        start = time.monotonic()
        with ExitStack() as closing:
            try:
                environment = closing.enter_context(self._opened(build))
            except EnvironmentUnderTestError as error:
                self._failed[build] = str(error)
                raise
            finally:
                self.seconds[build] = time.monotonic() - start
            taken = size(environment.folder) if environment.folder else 0
            return _Held(environment, closing.pop_all(), taken)

    def _make_room(self) -> None:
        for build in list(self._held)[:-IN_USE]:
            if sum(held.size for held in self._held.values()) <= self._limit:
                return
            self._held.pop(build).closing.close()
