"""What became of the objects that were taken in."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchperf_ci.records.reading import Refused


@dataclass(frozen=True)
class Outcome:
    """Counts, and what needs somebody's attention. Outcomes of several batches add up.

    ``conflicts`` are keys under which other content is kept already; ``refused`` says of each refused element in
    ``file`` which object it was in.
    """

    objects: int = 0
    """Objects that are new in the store, and how many records they have."""
    records: int = 0
    known: int = 0
    """Objects that were there already, with the same content."""
    conflicts: tuple[str, ...] = field(default=())
    refused: tuple[Refused, ...] = field(default=())

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing at all: neither a record nor anything that was meant to be one."""
        return self == Outcome()

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))
