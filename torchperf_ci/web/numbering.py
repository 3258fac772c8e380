"""Numbers that stand for series and runs in documents, with a checksum by which pages notice that they have changed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True)
class Numbering:
    """IDs of ten hexadecimal digits, each of which is referred to by its place, from 0."""

    ids: Sequence[str]

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The numbers of the IDs."""
        return {one: number for number, one in enumerate(self.ids)}

    def checksum(self, numbers: Iterable[int]) -> int:
        """Return a checksum of the IDs up to the highest of ``numbers``; ``data.js`` computes the same.

        IDs that come after it do not change it, so that a new run changes only the documents that refer to it.
        """
        return self._sums[max(numbers, default=-1) + 1]

    @cached_property
    def _sums(self) -> Sequence[int]:
        """The checksums of the first 0, 1, 2, … IDs."""
        return [*accumulate(self.ids, lambda total, one: (31 * total + int(one, 16)) % 2**32, initial=0)]
