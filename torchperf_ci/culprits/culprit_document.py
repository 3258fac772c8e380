"""Present a bisection: as a document, and as annotations, summary and outputs of a job."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from torchperf_ci import document as doc
from torchperf_ci.actions import Annotation
from torchperf_ci.command_output import publish_result
from torchperf_ci.culprits import culprit_text
from torchperf_ci.culprits.culprit import culprits_json, write_culprits
from torchperf_ci.github import GITHUB, github_server
from torchperf_ci.verdicts.reproduction import command_blocks, in_fresh_clone
from torchperf_ci.verdicts.verdict_document import effect_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from torchperf_ci.culprits.culprit import Bisection, BisectionStatus, Culprit, ProfileChange


_MAX_CULPRITS = 20
"""Maximum number of culprits in a document; the file has all of them."""
_MAX_ATTACHED = 20
"""Maximum number of profile files, and of commands that open them."""
_MARKS_AND_TEXTS: Mapping[BisectionStatus, tuple[str, str]] = {
    "found": ("🎯", ""),
    "not-reproduced": ("⚪", "not reproduced"),
    "environment": ("⚠️", "the environment changed, not the code"),
    "build": ("⚠️", "build luck, not a commit"),
    "inconclusive": ("⚠️", "inconclusive"),
}


def bisection_headline(bisection: Bisection) -> str:
    """The result in one sentence of plain text; subjects and names in it come from outside and are not escaped."""
    if bisection.status == "found":
        return _found_text(bisection.culprits)
    headline = ": ".join(part for part in (_MARKS_AND_TEXTS[bisection.status][1], bisection.why) if part)
    return doc.short(headline, culprit_text.TEXT_LENGTH)


def bisection_document(bisection: Bisection, server: str = GITHUB) -> doc.Document:
    """The full document about a bisection.

    Commits are linked only if they are on ``server``, which shows the document: a file may come from a stranger, and
    must not send people elsewhere.
    """
    why = bisection.why if bisection.culprits else ""  # without culprits, the headline has it
    tables = culprit_text.evidence_tables(bisection)
    spent = [culprit_text.cost(bisection), *filter(None, [culprit_text.build_variance(bisection)])]
    return doc.Document(
        f"{_MARKS_AND_TEXTS[bisection.status][0]} Bisection: {bisection_headline(bisection)}",
        [
            doc.Paragraph(culprit_text.question(bisection)),
            doc.Note([doc.short(note, culprit_text.TEXT_LENGTH) for note in (why, *bisection.notes) if note]),
            *_culprits(bisection.culprits, server),
            *culprit_text.result_tables(bisection),
            doc.OnlyOn(
                "page",
                [
                    *(doc.Folded(table.title, [replace(table, title="")]) for table in tables),
                    doc.Paragraph(". ".join(spent), small=True),
                ],
            ),
            doc.OnlyOn(
                "terminal",
                [
                    doc.Heading("Details"),
                    doc.Note([*(f"{table.title} (in the file)" for table in tables), *spent]),
                ],
            ),
            *command_blocks("To repeat it", repeat_commands(bisection), bisection.torch),
        ],
    )


def bisection_annotations(bisection: Bisection) -> list[Annotation]:
    """A warning for each culprit, or a notice if there is none, and a notice for the reason and each note."""
    reason = bisection.why if bisection.culprits else bisection_headline(bisection)
    notices = [*filter(None, [reason]), *bisection.notes]
    return [
        *(
            Annotation(
                "warning",
                f"{culprit_text.largest_effect(culprit)}. {culprit_text.byline(culprit)}",
                title=f"culprit: {culprit_text.culprit_name(culprit)}",
            )
            for culprit in bisection.culprits
        ),
        *(Annotation("notice", notice, title="torchperf bisect") for notice in notices),
    ]


def publish_bisection(bisection: Bisection, out: Path, *, json_output: bool) -> None:
    """Write ``culprits.json`` to ``out``, print the document or the file, and set summary, annotations and outputs.

    Raises :class:`OutputDirectoryError` if ``out`` cannot be written.
    """
    write_culprits(out, bisection)
    document = bisection_document(bisection, github_server(os.environ))
    first = bisection.culprits[0].commit if bisection.culprits else None
    publish_result(
        document,
        f"{bisection_headline(bisection)}; culprits in {out}",
        as_json=culprits_json(bisection) if json_output else None,
        annotations=bisection_annotations(bisection),
        outputs={
            "culprits": out.absolute(),
            "status": bisection.status,
            "commit": first or "",
            "found": len(bisection.culprits),
        },
    )


def inside_blocks(culprit: Culprit) -> list[doc.Block]:
    """What profiles of both sides showed, and how to look further."""
    if culprit.inside is None:
        return []
    table, breaks = culprit_text.profile_table(culprit), culprit.inside.graph_breaks
    heading = "What changed inside" if table.rows or breaks else "Nothing stands out inside"
    return [
        doc.Paragraph((doc.Bold(heading), f" {doc.short(culprit.inside.probe, culprit_text.NAME_LENGTH)}")),
        table,
        doc.Bullets([f"new graph break: {doc.short(reason, culprit_text.TEXT_LENGTH)}" for reason in breaks]),
        doc.Folded("To investigate further", _look_further(culprit.inside)),
    ]


def culprit_links(culprit: Culprit, server: str) -> tuple[doc.Piece, ...]:
    """Links to the commit and its pull request, in parentheses; empty unless the URL can be trusted."""
    repository = culprit.repository_on(server)
    if not (repository and culprit.url):
        return ()
    pull_request = f"{server}/{repository}/pull/{culprit.pull_request}"
    second = (", ", doc.Link("pull request", pull_request)) if culprit.pull_request else ()
    return (" (", doc.Link("commit", culprit.url), *second, ")")


def repeat_commands(bisection: Bisection) -> list[str]:
    """The shell commands that repeat a bisection; empty if they are unknown."""
    if not bisection.command:
        return []
    return in_fresh_clone(bisection.folder, (bisection.good, bisection.bad), bisection.command)


def _found_text(culprits: Sequence[Culprit]) -> str:
    count = f"{doc.counted(len(culprits), 'culprit')} found"
    if len(culprits) == 1:
        return (
            f"{count}: {culprit_text.culprit_name(culprits[0])}: {culprit_text.largest_effect(culprits[0])}"
        )
    effects = (
        f"{culprit_text.short_sha(culprit.commit or culprit.set[-1])} {effect_text(culprit.effect)}"
        for culprit in culprits
    )
    return doc.short(f"{count}: {', '.join(effects)}", culprit_text.TEXT_LENGTH)


def _culprits(culprits: Sequence[Culprit], server: str) -> Iterator[doc.Block]:
    for culprit in culprits[:_MAX_CULPRITS]:
        yield doc.Heading(culprit_text.culprit_name(culprit))
        yield doc.OnlyOn("terminal", [doc.Paragraph(culprit_text.byline(culprit))])
        yield doc.OnlyOn(
            "page", [doc.Paragraph((culprit_text.byline(culprit), *culprit_links(culprit, server)))]
        )
        yield from map(doc.Paragraph, culprit_text.details(culprit))
        yield culprit_text.effects_table(culprit)
        yield from inside_blocks(culprit)
    if (hidden := len(culprits) - _MAX_CULPRITS) > 0:
        yield doc.Paragraph(f"and {doc.counted(hidden, 'more culprit')}; the file lists all of them")


def _look_further(inside: ProfileChange) -> list[doc.Block]:
    """The attached profiles, and the commands that open them."""
    files = ", ".join(inside.files[:_MAX_ATTACHED])
    return [
        doc.Paragraph(f"Saved with the culprits: {files}" if files else ""),
        doc.Commands(inside.commands[:_MAX_ATTACHED]),
    ]
