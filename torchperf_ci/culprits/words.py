"""What a bisection came to, in words: plain text, not yet made safe for Markdown or a terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torchperf_ci.document import short
from torchperf_ci.verdicts.rows import change

if TYPE_CHECKING:
    from torchperf_ci.culprits.culprit import Culprit, Location, Moved

NAME_LENGTH = 120
TEXT_LENGTH = 300
"""Characters of a name, and of a sentence, from outside."""
_LIST_LENGTH = 2000
_SHA_LENGTH = 10
_SHA = re.compile(r"[0-9a-f]{40,64}")
_DAY_LENGTH = len("2026-11-01")


def name(culprit: Culprit) -> str:
    """The commit and its subject, or how many commits it is one of."""
    if culprit.commit is None:
        ends = f"{sha(culprit.set[0])} to {sha(culprit.set[-1])}"
        return f"one of {count(len(culprit.set), 'commit')}, {ends}"
    return f"{sha(culprit.commit)} {short(culprit.subject, NAME_LENGTH)}".rstrip()


def byline(culprit: Culprit) -> str:
    """Who, when, and how sure it is."""
    pull_request = f"pull request {culprit.pull_request}" if culprit.pull_request else ""
    author = f"by {short(culprit.author, NAME_LENGTH)}" if culprit.author else ""
    who = (author, culprit.date[:_DAY_LENGTH], pull_request)
    return ", ".join(part for part in (*who, f"{likely(culprit.posterior)} sure") if part)


def details(culprit: Culprit) -> list[str]:
    """Which commits it is one of, how many builds of it were seen, and what changed with it, as far as is known."""
    one_of = ", ".join(map(sha, culprit.set)) if culprit.commit is None else ""
    moves = ", ".join(f"{moved.name} {versions(moved)}" for moved in culprit.moved)
    return [
        *(
            [short(f"They could not be told apart by measuring, so it is one of {one_of}", _LIST_LENGTH)]
            if one_of
            else []
        ),
        *([_proven_on(*culprit.builds)] if culprit.builds else []),
        *([short(f"Changed with it: {moves}", _LIST_LENGTH)] if moves else []),
    ]


def most(culprit: Culprit) -> str:
    """The effect, and the series that shows it, where one is named."""
    names = [one.name for one in culprit.series if one.effect == culprit.effect][:1]
    return " ".join([change(culprit.effect), *(short(one, NAME_LENGTH) for one in names)])


def asked(location: Location) -> str:
    """Between which commits, of what, and on which machine."""
    of = f" of {short(location.repo, TEXT_LENGTH)}" if location.repo else ""
    on = f" on {short(location.machine, TEXT_LENGTH)}" if location.machine else ""
    return f"Between {sha(location.good)} and {sha(location.bad)}{of}{on}"


def spent(location: Location) -> str:
    """What it cost."""
    cost = f"{count(location.runs, 'run')}, {count(location.builds, 'build')}"
    measuring, building = location.seconds.measuring, location.seconds.building
    if not (measuring or building):
        return cost
    return f"{cost}; {_took(measuring)} of measuring, {_took(building)} of building"


def luck(location: Location) -> str:
    """What builds differ by although nothing has changed, and how that is known; empty where nothing is built."""
    if location.luck is None:
        return ""
    known = {
        "rebuilds": "measured here",
        "history": "known from the past",
        "expected": "expected, not measured",
    }
    source = known.get(location.luck.source, short(location.luck.source, NAME_LENGTH))
    return (
        f"Builds of one and the same code differ by {location.luck.spread:.2%} (standard deviation, {source})"
    )


def _proven_on(before: int, own: int) -> str:
    if before == own == 1:
        return "Proven for these two builds: none was made anew, so a part of it may be the luck of a build"
    return f"Proven on {count(own, 'build')} of it and {before} of what was before"


def versions(moved: Moved) -> str:
    """``3.5.0 → 3.6.0``, with a dash where it was not there."""
    return f"{moved.old or '–'} → {moved.new or '–'}"


def likely(posterior: float) -> str:
    """``99.7%``, and never that something is certain or impossible."""
    if posterior > 0.999:
        return ">99.9%"
    return f"{posterior:.1%}" if posterior >= 0.001 else "<0.1%"


def sha(commit: str) -> str:
    """As much of a commit's name as people need; what is bisected may be versions, which differ at their ends."""
    return commit[:_SHA_LENGTH] if _SHA.fullmatch(commit) else short(commit, NAME_LENGTH)


def count(number: int, what: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _took(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"
