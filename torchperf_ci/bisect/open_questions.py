"""Say what the culprits of a search leave unexplained, and what could not be measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.document import first_and_last

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_ci.bisect.reasoning.evidence import SuspectRange
    from torchperf_ci.bisect.reasoning.investigation import Investigation
    from torchperf_ci.bisect.reasoning.series_evidence import SeriesEvidence


def open_questions(investigation: Investigation, ended_by: str, names: Sequence[str]) -> Iterator[str]:
    """Yield what the culprits leave unexplained, and what could not be measured on the good or the bad commit.

    ``ended_by`` is the option whose limit ended the search, or empty; ``names`` are those of the builds.
    """
    limit = f"the limit of {ended_by} ended the search" if ended_by else ""
    if is_found(investigation) and investigation.searches:
        yield f"the culprits do not explain all of the change: {limit or 'the rest could not be located'}"
    if investigation.facts.repeated:
        yield (
            "rebuilding commits gave the same builds, byte for byte, so nothing else was rebuilt, and the result holds "
            "only for these builds (--build receives a $SEED with which it can shuffle the link order; plain Python "
            "files need no --build)"
        )
    ends = {0: "good", investigation.question.bad: "bad"}
    for failure in investigation.facts.failures:
        if end := ends.get(failure.position):
            why = first_and_last(failure.why) or "it does not say why"
            yield f"{failure.probe} does not run on the {end} commit: {why}"
    for step in investigation.culprits:
        for series, own in series_showing(investigation, step):
            if own != step:
                before, after, culprit = (names[place] for place in (own.before, own.after, step.after))
                yield (
                    f"{series.name} got slower between {before} and {after}, and could be measured no closer: that it "
                    f"is because of {culprit}, too, is likely but not proven"
                )
    yield from _without_answer(investigation, limit)
    quiet = [series.name for series in investigation.series if series.confirmation.word == "not slower"]
    if quiet and investigation.regressed:
        yield f"not slower on this machine: {', '.join(quiet)}"


def _without_answer(investigation: Investigation, limit: str) -> Iterator[str]:
    """Yield which series may have got slower as well, beside those of which it is known."""
    if missing := investigation.missing:
        yield f"not known whether slower, because no pair of bad and good yields it: {', '.join(missing)}"
    open_ones = [one for one in investigation.series if one.confirmation.word in ("open", "unknown")]
    unclear = [one.name for one in open_ones if not one.culprits]
    if unclear and len(unclear) < len(investigation.series):
        because = limit or "its pairs are too few or vary too much"
        yield f"not known whether slower, because {because}: {', '.join(unclear)}"


def is_found(investigation: Investigation) -> bool:
    """Whether a culprit of any series is proven."""
    return any(series.culprits for series in investigation.regressed)


def series_showing(
    investigation: Investigation, step: SuspectRange
) -> list[tuple[SeriesEvidence, SuspectRange]]:
    """The series that show the culprit ``step``, each with its own step; those proven on ``step`` itself come first."""
    shown = [
        (series, own)
        for series in investigation.regressed
        for own in series.culprits
        if investigation.narrowest(own) == step
    ]
    return sorted(shown, key=lambda item: item[1] != step)
