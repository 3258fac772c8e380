"""What became of an upload, in one place: its counts, its sentence, and the error that it ends with."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.errors import ConflictError, NotDeliveredError, RecordsRefusedError, TorchperfError
from torchperf_ci.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from torchperf_ci.places.base import Outcome
    from torchperf_ci.records.problems import Problem
    from torchperf_ci.upload.metadata import Metadata
    from torchperf_ci.upload.payload import Payload


@dataclass(frozen=True)
class Delivery:
    """What became of one object; ``outcome`` is None in a dry run, where it is not sent."""

    payload: Payload
    outcome: Outcome | None = None

    @property
    def problem(self) -> str:
        """Why it is not kept; empty where it is."""
        return str(self.outcome) if isinstance(self.outcome, Exception) else ""

    @property
    def word(self) -> str:
        """The outcome in a word or two."""
        if isinstance(self.outcome, ConflictError):
            return "conflict"
        if isinstance(self.outcome, Exception):
            return "not delivered"
        return self.outcome or "would be sent"


@dataclass(frozen=True)
class Report:
    """All that there is to tell.

    ``target`` is where it goes, without any credential, and ``reaching`` the flags that it takes to get there.
    ``refused`` says why elements are no records, ``refused_count`` how many they are, ``quarantine`` where they are
    set aside (None in a dry run, which sets nothing aside), ``changed`` what the database will not keep as it is
    written, and ``missing`` why there was nothing to upload at all.
    """

    target: str
    spool: Path
    quarantine: Path | None
    deliveries: tuple[Delivery, ...] = ()
    metadata: Metadata | None = None
    refused: tuple[Problem, ...] = ()
    refused_count: int = 0
    changed: tuple[Problem, ...] = ()
    missing: str = ""
    reaching: tuple[str, ...] = ()

    @property
    def kept(self) -> list[Delivery]:
        """Objects that are safe."""
        return [delivery for delivery in self.deliveries if isinstance(delivery.outcome, str)]

    @property
    def undelivered(self) -> list[Delivery]:
        """Objects that are to be sent again."""
        return [delivery for delivery in self.deliveries if isinstance(delivery.outcome, NotDeliveredError)]

    @property
    def conflicts(self) -> list[Delivery]:
        """Objects whose key holds something else."""
        return [delivery for delivery in self.deliveries if isinstance(delivery.outcome, ConflictError)]

    @property
    def planned(self) -> list[Delivery]:
        """Objects of a dry run."""
        return [delivery for delivery in self.deliveries if delivery.outcome is None]

    @property
    def resume(self) -> str:
        """The command that sends what is in the spool."""
        return shlex.join(
            [
                "torchperf",
                "upload",
                "--to",
                self.target,
                *self.reaching,
                "--spool",
                str(self.spool),
                "--resume",
            ]
        )

    @property
    def set_aside(self) -> str:
        """Where to find what was refused."""
        return f"what was refused is in {self.quarantine}" if self.quarantine else ""

    def headline(self) -> str:
        """One sentence."""
        already = [delivery for delivery in self.kept if delivery.outcome == "already there"]
        parts = [
            (self.planned, f"{_amount(self.planned)} would be sent to {self.target}"),
            (self.kept, f"{_amount(self.kept)} kept at {self.target}"),
            (already, f"{counted(len(already), 'object')} of them there already"),
            (self.undelivered, f"{_amount(self.undelivered)} not delivered to {self.target}"),
            (self.conflicts, f"{_amount(self.conflicts)} in conflict with what is there"),
            (self.refused_count, f"{self.refused_count} refused"),
            (self.missing, self.missing),
        ]
        return (
            ", ".join(text for there, text in parts if there) or f"nothing is left to send to {self.target}"
        )

    def failure(self, *, invalid: bool = True) -> TorchperfError | None:
        """The worst of it, as an error; None where all is well. Whether ``invalid`` records are one, is a choice."""
        kinds: list[tuple[object, type[TorchperfError], str]] = [
            (self.refused_count if invalid else 0, RecordsRefusedError, self.set_aside),
            (self.conflicts, ConflictError, f"what is in conflict stays in {self.spool}"),
            (self.undelivered, NotDeliveredError, f"send it later with: {self.resume}"),
        ]
        found = [(kind, advice) for there, kind, advice in kinds if there]
        told = [self.headline(), *(advice for _, advice in found if advice)]
        return found[-1][0]("; ".join(told)) if found else None


def records(deliveries: Iterable[Delivery]) -> int:
    """The number of records in objects."""
    return sum(delivery.payload.records for delivery in deliveries)


def _amount(deliveries: list[Delivery]) -> str:
    return f"{counted(records(deliveries), 'record')} in {counted(len(deliveries), 'object')}"
