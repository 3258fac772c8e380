"""What those want who ask how it is known: the environment, and the bisection step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.culprits import tables
from torchperf_ci.culprits.tables import Table
from torchperf_ci.verdicts.turn import turn_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_ci.culprits.culprit import Location
    from torchperf_ci.report.issues.causes.finding import Finding


def shown(finding: Finding) -> dict[str, Table]:
    """By title, what everybody must see beside the rows."""
    return tables.shown(finding.location) if finding.location else {}


def environment(finding: Finding) -> Table:
    """What it was measured on, as far as that is known."""
    return Table(("fact", "value"), tuple(_facts(finding)))


def bisection(location: Location) -> dict[str, Table]:
    """By title, how it was found, step by step; nothing is empty."""
    notes = (location.why if location.culprits else "", *location.notes)  # else it is said first
    said = Table(("what is to be known beside",), tuple((note,) for note in notes if note))
    return {"Notes": said, **tables.folded(location)} if said.rows else tables.folded(location)


def _facts(finding: Finding) -> Iterator[tuple[str, str]]:
    location = finding.location
    series = [row.series for row in finding.rows]
    facts = {
        "machine": [location.machine] if location else [],
        "benchmark": [one.benchmark for one in series],
        "repository": [one.repo for one in series],
        "measured on": [" ".join(part for part in (one.device, one.arch) if part) for one in series],
    }
    for fact, values in facts.items():
        yield from ((fact, value) for value in dict.fromkeys(values) if value)
    for turn in dict.fromkeys(map(turn_of, finding.verdicts)):
        for what, old, new in (
            ("commit", turn.last_old.commit, turn.first_new.commit),
            ("PyTorch", turn.last_old.torch, turn.first_new.torch),
        ):
            if old or new:
                yield f"{what}, last at the old level → first at the new", f"{old or '–'} → {new or '–'}"
