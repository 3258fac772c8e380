"""The title and the body of an issue: its verdict and the next step, one table, a chart, and the rest folded."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from torchperf_ci.actions import one_line
from torchperf_ci.culprits import culprit_text
from torchperf_ci.culprits.culprit_document import GITHUB, commit_links, moved_inside
from torchperf_ci.culprits.culprit_document import repeat_commands as search_again
from torchperf_ci.culprits.culprit_text import (
    TextTable,
    build_spread,
    byline,
    cost,
    count,
    culprit_name,
    details,
    question,
    short_sha,
)
from torchperf_ci.document import short
from torchperf_ci.issues.findings import failed_runs
from torchperf_ci.issues.memory import MEMORY_MARKER, embed
from torchperf_ci.issues.table import (
    TABLE_MARKERS,
    clearest_chart,
    largest_first,
    marked_table,
    mermaid,
    on_machines,
    plain_short,
    what_got_worse,
)
from torchperf_ci.markdown import fitted, size
from torchperf_ci.markdown import folded as fold
from torchperf_ci.markdown import table as table_of
from torchperf_ci.metrics import LATENCY, bisected_as
from torchperf_ci.verdicts.reproduction import (
    PYTHON_OPTION,
    code_block,
    compare_lines,
    in_fresh_clone,
    needed_setup,
    run_lines,
    series_options,
)
from torchperf_ci.verdicts.verdict import commit_range_of
from torchperf_ci.verdicts.verdict_document import effect_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torchperf_ci.culprits.culprit import Bisection, Culprit
    from torchperf_ci.issues.findings import IssueFinding
    from torchperf_ci.issues.memory import IssueMemory
    from torchperf_ci.series.points import Series
    from torchperf_ci.verdicts.verdict import RepeatOptions


@dataclass(frozen=True)
class IssueContext:
    """``night`` is an ISO date, ``run_url`` the page of the run that reports, ``server`` the GitHub it is on.

    ``author_login`` is that of the culprit's author where he or she is to be told; else nobody is.
    """

    night: str
    run_url: str = ""
    server: str = GITHUB
    author_login: str | None = None


TITLE_LENGTH = 120
_MARKUP = re.compile(r"[^\w\s./+%(),…−→-]")


def issue_title(finding: IssueFinding) -> str:
    """At most 120 characters without markup: the numbers that matter come first, since what is too long is cut."""
    if finding.title:
        return finding.title
    if finding.kind == "broken":
        said = f"{finding.rows[0].series.model} fails {on_machines(finding.rows)}"
    else:
        said = f"{what_got_worse(finding.rows) or 'Something got slower'} {_since(finding)}"
    return short(" ".join(_MARKUP.sub(" ", said).split()), TITLE_LENGTH)


def _since(finding: IssueFinding) -> str:
    if finding.culprit:
        return f"since {short_sha(finding.culprit.set[-1])}"
    ends = commit_range_of(finding.verdicts[0]).range if finding.verdicts else None
    return f"between {short_sha(ends.good)} and {short_sha(ends.bad)}" if ends else ""


def suspect_tables(finding: IssueFinding) -> dict[str, TextTable]:
    """By title, what everybody must see beside the rows."""
    return culprit_text.open_tables(finding.location) if finding.location else {}


def environment_table(finding: IssueFinding) -> TextTable:
    """What it was measured on, as far as that is known."""
    return TextTable(("fact", "value"), tuple(_environment_facts(finding)))


def bisection_tables(location: Bisection) -> dict[str, TextTable]:
    """By title, how it was found, step by step; nothing is empty."""
    notes = (location.why if location.culprits else "", *location.notes)  # else it is said first
    said = TextTable(("what is to be known beside",), tuple((note,) for note in notes if note))
    return (
        {"Notes": said, **culprit_text.folded_tables(location)}
        if said.rows
        else culprit_text.folded_tables(location)
    )


def _environment_facts(finding: IssueFinding) -> Iterator[tuple[str, str]]:
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
    for turn in dict.fromkeys(map(commit_range_of, finding.verdicts)):
        for what, old, new in (
            ("commit", turn.last_old.commit, turn.first_new.commit),
            ("PyTorch", turn.last_old.torch, turn.first_new.torch),
        ):
            if old or new:
                yield f"{what}, last at the old level → first at the new", f"{old or '–'} → {new or '–'}"


_SHA = re.compile(r"[0-9a-f]{7,64}")
_SHARED_OPTIONS = ("--repo", "--build", "--config", "--suite", "--device", "--batch-size", "--threads")
"""What a comparison needs as the bisection did."""


class Reproduction(NamedTuple):
    """Lines for a shell, none where none are known, and what has to be there for them to run."""

    lines: list[str]
    where: str = ""


def reproduction_of(finding: IssueFinding) -> Reproduction:
    """What shows it on somebody's own machine."""
    if finding.kind == "culprit" and finding.culprit and finding.location:
        return _compare_culprit(finding, finding.culprit, finding.location)
    if finding.location and finding.location.command:
        return Reproduction(search_again(finding.location), needed_setup(finding.location.torch))
    if finding.again is None or not finding.rows:
        return Reproduction([])
    series = largest_first(finding.rows)[0].series
    if finding.kind == "broken":
        return Reproduction(run_lines(finding.again, series), needed_setup(finding.again.torch))
    return _bisect_range(finding, finding.again, series)


def _compare_culprit(finding: IssueFinding, culprit: Culprit, location: Bisection) -> Reproduction:
    shared = _shared_options(location.command)
    base, head = _base_of(culprit, location), culprit.set[-1]
    if not location.command:
        return Reproduction([])
    if shared is None or not finding.rows or not (_SHA.fullmatch(base) and _SHA.fullmatch(head)):
        return Reproduction(search_again(location), needed_setup(location.torch))
    proven = [row for row in finding.rows if row.proven] or finding.rows
    options = (*PYTHON_OPTION, *shared, *series_options(largest_first(proven)[0].series))
    command = shlex.join(["torchperf", "compare", "--base", base, "--head", head, *options])
    return Reproduction(in_fresh_clone(location.folder, (base, head), command), needed_setup(location.torch))


def _base_of(culprit: Culprit, location: Bisection) -> str:
    """What the culprit was measured against."""
    measured = (
        one.base for one in location.readings if one.purpose == "verify" and one.head == culprit.set[-1]
    )
    return next(measured, location.good)


def _bisect_range(finding: IssueFinding, again: RepeatOptions, series: Series) -> Reproduction:
    """A bisection between the two commits; a comparison where they are those of one."""
    if again.base and again.head:
        return Reproduction(compare_lines(again, again.base, again.head, series), needed_setup(again.torch))
    ends = commit_range_of(finding.verdicts[0]).own if finding.verdicts else None
    if ends is None:
        return Reproduction([])
    metric = [] if bisected_as(series.metric) == LATENCY else ["--metric", series.metric]
    chosen = ["--workload" if word == "--filter" else word for word in series_options(series)]
    sides = ("--good", ends.good, "--bad", ends.bad)
    command = shlex.join(["torchperf", "bisect", *sides, *PYTHON_OPTION, *again.options, *metric, *chosen])
    return Reproduction(in_fresh_clone(again.folder, ends, command), needed_setup(again.torch))


def _shared_options(line: str) -> list[str] | None:
    """The options of a bisection that a comparison takes, too; None where it measured a command of its own."""
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    flag, found = "", []
    for word in words:
        if word.startswith("--"):
            flag = word.partition("=")[0]
        if flag == "--command":
            return None
        if flag in _SHARED_OPTIONS:
            found.append(word)
    return found


_DETAIL_LENGTH = 600
_WARNINGS = 5
_LOGIN = re.compile(r"[A-Za-z0-9](?:[\w-]{0,38})", re.ASCII)
_MEANT = "If this is meant: add the label `torchperf: expected`."
_CLOSES = "This issue closes itself when the numbers are back."


def opening(finding: IssueFinding, context: IssueContext) -> list[str]:
    """Paragraphs of Markdown."""
    if finding.culprit:
        said = _opening_of_culprit(finding, finding.culprit, context)
    else:
        said = _opening_of_broken(finding) if finding.kind == "broken" else _opening_without_culprit(finding)
    warnings = "\n>\n".join(f"> {plain_short(warning)}" for warning in finding.warnings[:_WARNINGS])
    return [*said, warnings] if warnings else said


def _opening_of_culprit(finding: IssueFinding, culprit: Culprit, context: IssueContext) -> list[str]:
    mention = f" (@{context.author_login})" if _LOGIN.fullmatch(context.author_login or "") else ""
    pairs = f" in {count(culprit.effect.pairs, 'pair')} of measurements" if culprit.effect.pairs else ""
    against = "the commit before it" if culprit.commit else "the commit before them"
    measured = f"Measured against {against}: **{plain_short(effect_text(culprit.effect))}**{pairs}"
    who = f"{plain_short(byline(culprit))}{commit_links(culprit, context.server)}{mention}"
    return [
        f"{_what_got_worse(finding)}.",
        f"**Culprit: {plain_short(culprit_name(culprit))}** {who}. {measured}.",
        *(plain_short(detail, _DETAIL_LENGTH) for detail in details(culprit)),
        f"**Next step:** fix or revert it. {_CLOSES} {_MEANT}",
    ]


def _opening_without_culprit(finding: IssueFinding) -> list[str]:
    location = finding.location
    credible = location.credible if location else ()
    if credible:
        step = "look at the suspects below"
    elif reproduction_of(finding).lines:
        step = "bisect it by the command below"
    elif ends := commit_range_of(finding.verdicts[0]).range:
        step = f"bisect it between {ends.good} and {ends.bad}"
    else:
        step = "find out between which commits it got worse, and bisect it"
    return [
        f"{_what_got_worse(finding)}, and **no commit is proven** to have done it. {plain_short(finding.why)}",
        f"**Next step:** {step}. A culprit that is found later is named here. {_CLOSES} {_MEANT}",
    ]


def _what_got_worse(finding: IssueFinding) -> str:
    return f"**{plain_short(what_got_worse(finding.rows) or 'Something got slower')}**"


def _opening_of_broken(finding: IssueFinding) -> list[str]:
    runs = int(max(map(failed_runs, finding.verdicts), default=0))
    since = f", in the last {count(runs, 'run')}" if runs else ""
    model, where = finding.rows[0].series.model, on_machines(finding.rows)
    return [
        f"**{plain_short(model)} fails** {plain_short(where)}{since}. Its last error:",
        code_block([one_line(finding.why)]),
        "**Next step:** run it by itself. This issue closes itself when it passes again.",
    ]


BODY_LIMIT = 65_536
"""Characters that GitHub takes; as many bytes are always fewer."""
_ROWS_OF_EACH = 10
"""Rows that every table has before any has more."""
_NO_ROOM = "There is no room here for the details: they are in the files."
_CUT_NOTE = "\n\n…and what else stood here had no room any more.\n"


def issue_body(finding: IssueFinding, memory: IssueMemory, context: IssueContext) -> str:
    """The whole text, at most 65,536 bytes of UTF-8.

    Where that is too little, tables lose their last rows, and say how many: what is read last, first.
    """
    if finding.text:
        return f"{embed(memory)}\n\n{finding.text}"
    location = finding.location
    steps = bisection_tables(location) if location else {}
    lengths = [len(memory.rows), _rows_inside(finding), *(len(table.rows) for table in steps.values())]
    drawn, again = clearest_chart(finding.verdicts), reproduction_of(finding)
    top = [embed(memory), *opening(finding, context)]
    suspects = [
        f"**{name}**\n\n{_fact_table(one, _ROWS_OF_EACH)}" for name, one in suspect_tables(finding).items()
    ]
    below = [
        *([f"**To reproduce it**, {again.where}:\n\n{code_block(again.lines)}"] if again.lines else []),
        fold("Environment", _fact_table(environment_table(finding), _ROWS_OF_EACH)),
    ]

    def document(rows: int) -> str:
        of_table, of_inside, *of_steps = _shares(lengths, rows)
        parts = [
            *top,
            marked_table(memory, of_table),
            *suspects,
            *([mermaid(drawn)] if drawn else []),
            *(moved_inside(finding.culprit, of_inside) if finding.culprit else []),
            *below,
            *([_folded_bisection(location, steps, of_steps)] if location else []),
            *link_to_run(context),
        ]
        return "\n\n".join(parts) + "\n"

    return (
        fitted(document, BODY_LIMIT, sum(lengths))
        or f"{top[0]}\n\n**{issue_title(finding)}**\n\n{_NO_ROOM}\n"
    )


def renewed_body(text: str, memory: IssueMemory) -> str:
    """``text``, which people may have edited, with the memory and the table of now.

    Where a marker is gone, the memory is put first and the table, if there are rows, appended.
    """
    text = MEMORY_MARKER.sub("", text) if len(MEMORY_MARKER.findall(text)) != 1 else text
    text = (
        MEMORY_MARKER.sub(lambda _: embed(memory), text)
        if MEMORY_MARKER.search(text)
        else f"{embed(memory)}\n\n{text}"
    )
    rows = len(memory.rows)
    return fitted(partial(_with_table, text, memory), BODY_LIMIT, rows) or _cut_to_fit(
        _with_table(text, memory, 0)
    )


def _with_table(text: str, memory: IssueMemory, rows: int) -> str:
    table = marked_table(memory, rows)
    if TABLE_MARKERS.search(text):
        return TABLE_MARKERS.sub(lambda _: table, text, count=1)
    return f"{text.rstrip()}\n\n{table}\n" if memory.rows else text


def _cut_to_fit(text: str) -> str:
    """As much of the beginning, where the memory is, as there is room for."""
    room = BODY_LIMIT - size(_CUT_NOTE)
    return text.encode("utf-8", "replace")[:room].decode("utf-8", "ignore") + _CUT_NOTE


def _rows_inside(finding: IssueFinding) -> int:
    """Rows of the longest list of what moved inside."""
    found = finding.culprit.inside if finding.culprit else None
    return max(map(len, (found.moved, found.graph_breaks, found.files, found.commands))) if found else 0


def _folded_bisection(location: Bisection, steps: Mapping[str, TextTable], most: Sequence[int]) -> str:
    """Everything about it, folded as one."""
    parts = [
        *(f"{plain_short(said)}." for said in (question(location), build_spread(location)) if said),
        *([code_block(search_again(location))] if location.command else []),
        *(
            f"**{name}**\n\n{_fact_table(one, rows)}"
            for (name, one), rows in zip(steps.items(), most, strict=True)
        ),
    ]
    return fold(f"How it was bisected: {cost(location)}", "\n\n".join(parts))


def link_to_run(context: IssueContext) -> list[str]:
    """Where the whole of it is, of which parts may be left out here."""
    if not context.run_url:
        return []
    return [f"<sub>All of it is in the files of [the run that reports this]({context.run_url}).</sub>"]


def _fact_table(content: TextTable, most: int) -> str:
    return table_of(content.columns, [map(plain_short, cells) for cells in content.rows], most)


def _shares(lengths: Sequence[int], rows: int) -> list[int]:
    """How many of all ``rows`` each part gets: some for every part, then the first ones as many as they have."""
    shares = [0] * len(lengths)
    for most in (_ROWS_OF_EACH, max(lengths, default=0)):
        for index, length in enumerate(lengths):
            taken = min(min(length, most) - shares[index], rows)
            shares[index] += taken
            rows -= taken
    return shares
