"""Make the machine steadier while it measures, as far as it allows, and put everything back afterwards."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.machine.devices.base import Refusal, VendorToolError
from torchperf_ci.machine.knobs import host_changes
from torchperf_ci.machine.restore import CannotRestoreError, restoring

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchperf_ci.machine.devices.base import Change, Device
    from torchperf_ci.machine.restore import Restorer


@dataclass(frozen=True)
class TuningReport:
    """What was set, by name (``governor`` → ``performance``), and what was not, with the reason."""

    applied: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def tuned(device: Device, root: Path = Path("/")) -> Iterator[TuningReport]:
    """Tune the host and ``device`` for the length of the block.

    A process of its own restores everything when the block ends, and when this process dies, be it by
    SIGKILL. Take the fingerprint inside the block. Raises
    :class:`torchperf_ci.machine.restore.NotRestoredError` at the end if something stayed changed.
    """
    applied: dict[str, str] = {}
    refused: dict[str, str] = {}
    with restoring() as restorer:
        for step in chain(host_changes(root), device.changes()):
            outcome = step if isinstance(step, Refusal) else _attempt(step, restorer)
            if isinstance(outcome, Refusal):
                refused[outcome.name] = outcome.why
            else:
                applied[outcome.name] = outcome.value
        yield TuningReport(applied, refused)


def _attempt(change: Change, restorer: Restorer) -> Change | Refusal:
    """Make the change, if it can be taken back and is allowed."""
    try:
        for state in change.undo:
            restorer.remember(state)
        change.apply()
    except OSError as error:
        return Refusal(change.name, error.strerror or str(error))
    except (CannotRestoreError, VendorToolError) as error:
        return Refusal(change.name, str(error))
    return change
