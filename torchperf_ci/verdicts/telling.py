"""What a command that judges says at its end: the file, a table, and the page of the job."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from torchperf_ci import actions
from torchperf_ci.console import say
from torchperf_ci.verdicts import file
from torchperf_ci.verdicts.coverage import coverage
from torchperf_ci.verdicts.groups import Group, grouped
from torchperf_ci.verdicts.headline import headline
from torchperf_ci.verdicts.markdown import markdown
from torchperf_ci.verdicts.showing import table, to_annotate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torchperf_ci.verdicts.verdict import Judgement

_OUTPUTS: Mapping[str, Group] = {
    "regressed": "regressed",
    "broken": "broken",
    "candidates": "candidate",
    "improved": "improved",
    "fixed": "fixed",
}
"""Outputs of a job's step that count a group."""
_SUMMARY_ROOM = actions.SUMMARY_LIMIT // 2
"""The same step may have said something before."""


def tell(judgement: Judgement, out: Path, *, json_output: bool) -> None:
    """Write ``verdicts.json`` to ``out``; print the table, or the file itself; fill summary, annotations and outputs.

    Raises :class:`VerdictsError` or :class:`OutputDirectoryError` where ``out`` cannot be written.
    """
    file.write(out, judgement)
    if json_output:
        sys.stdout.write(actions.inert_json(file.text_of(judgement)))
    else:
        with actions.literal(sys.stdout):
            table(judgement, sys.stdout)
    sys.stdout.flush()
    say(f"{headline([judgement])}; verdicts in {out}")
    if not actions.in_actions():
        return
    actions.append_summary(markdown([judgement], _SUMMARY_ROOM))
    actions.annotate(to_annotate(judgement))
    actions.set_output("verdicts", str(out.absolute()))
    found, covered = grouped(judgement.verdicts), coverage(judgement)
    counts = {name: len(found[group]) for name, group in _OUTPUTS.items()}
    for name, count in {**counts, "judged": covered.judged, "unjudged": covered.unjudged}.items():
        actions.set_output(name, str(count))
