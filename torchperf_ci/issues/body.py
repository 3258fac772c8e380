"""The title and body of an issue: the verdict and the next step, one table, a chart, and folded details."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci import document as doc
from torchperf_ci.actions import one_line
from torchperf_ci.culprits import culprit_text
from torchperf_ci.culprits.culprit_document import culprit_links, inside_blocks, repeat_commands
from torchperf_ci.github import GITHUB
from torchperf_ci.issues.memory import (
    MEMORY_MARKER,
    IssueMemory,
    IssueRow,
    hidden_memory,
    memory_line,
    without_memory,
)
from torchperf_ci.issues.table import TABLE_MARKERS, issue_table, largest_first, on_machines, what_got_worse
from torchperf_ci.issues.tracker import EXPECTED_LABEL
from torchperf_ci.markdown import size, to_markdown
from torchperf_ci.metrics import COMPILE_TIMES, LATENCY, bisected_as
from torchperf_ci.verdicts.reproduction import (
    PYTHON_OPTION,
    case_options,
    command_blocks,
    compare_lines,
    in_fresh_clone,
    other_options,
    run_lines,
    words_by_flag,
)
from torchperf_ci.verdicts.verdict import COMMIT_HASH, RepeatOptions
from torchperf_ci.verdicts.verdict_document import clearest_chart, effect_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_ci.culprits.culprit import Bisection, Culprit
    from torchperf_ci.issues.findings import IssueFinding
    from torchperf_ci.series.points import Series


@dataclass(frozen=True)
class ReproductionSteps:
    """Shell commands, empty if unknown, and the version of PyTorch they need, empty if none."""

    lines: list[str]
    torch: str = ""


def reproduction_steps(finding: IssueFinding) -> ReproductionSteps:
    """The commands for a finding.

    They compare a culprit with the commit before it, bisect a range without a culprit, or run a broken benchmark
    once.
    """
    bisection, reproduction = finding.bisection, finding.reproduction
    if finding.culprit and bisection:
        return ReproductionSteps(_culprit_lines(finding, finding.culprit, bisection), bisection.torch)
    if bisection and bisection.command and not bisection.culprits:  # which are of other series
        return ReproductionSteps(repeat_commands(bisection), bisection.torch)
    if reproduction is None or not finding.rows:
        return ReproductionSteps([])
    series = _largest_bisected(finding.rows)
    if finding.kind == "broken":
        lines = run_lines(reproduction, _case_options(finding, series))
    else:
        lines = _range_lines(finding, reproduction, series)
    return ReproductionSteps(lines, reproduction.torch)


def _case_options(finding: IssueFinding, series: Series) -> list[str]:
    """The options that measure a series of the finding as it was measured tonight."""
    tonight = (verdict.evidence for verdict in finding.verdicts if verdict.series == series)
    return case_options(series, next(tonight, None))


def _largest_bisected(rows: Sequence[IssueRow]) -> Series:
    """The series with the largest change, one that pairs of builds can measure if there is any."""
    bisected = [row for row in rows if bisected_as(row.series.metric)]
    return largest_first(bisected or rows)[0].series


def _culprit_lines(finding: IssueFinding, culprit: Culprit, bisection: Bisection) -> list[str]:
    """Compare the culprit with the commit it was measured against; if ``compare`` cannot, repeat the bisection."""
    if not bisection.command:
        return []
    head = culprit.set[-1]
    measured = (
        reading.base for reading in bisection.readings if reading.purpose == "verify" and reading.head == head
    )
    base = next(measured, bisection.good)
    shared = _shared_options(bisection.command)
    proven = largest_first([row for row in finding.rows if row.proven] or finding.rows)
    if (
        shared is None
        or not proven
        or proven[0].series.metric in COMPILE_TIMES
        or not (COMMIT_HASH.fullmatch(base) and COMMIT_HASH.fullmatch(head))
    ):
        return repeat_commands(bisection)
    repeat = RepeatOptions(options=tuple(shared), folder=bisection.folder)
    return compare_lines(repeat, base, head, _case_options(finding, proven[0].series))


def _range_lines(finding: IssueFinding, reproduction: RepeatOptions, series: Series) -> list[str]:
    """Bisect between the two commits, or compare the two sides if the verdicts come from ``compare``.

    Nothing if pairs of builds cannot measure the metric.
    """
    if reproduction.base and reproduction.head:
        return compare_lines(
            reproduction, reproduction.base, reproduction.head, _case_options(finding, series)
        )
    ends = finding.verdicts[0].evidence.commits.in_measuring_repository if finding.verdicts else None
    if ends is None or not bisected_as(series.metric):
        return []
    metric = [] if bisected_as(series.metric) == LATENCY else ["--metric", series.metric]
    case = ["--workload" if word == "--filter" else word for word in _case_options(finding, series)]
    sides, options = ("--good", ends.good, "--bad", ends.bad), other_options(reproduction, case)
    command = shlex.join(["torchperf", "bisect", *sides, *PYTHON_OPTION, *options, *metric, *case])
    return in_fresh_clone(reproduction.folder, ends, command)


SHARED_OPTIONS = ("--repo", "--build", "--config", "--suite", "--device", "--batch-size", "--threads")
"""Options of a bisection that a comparison of the same builds must have, too."""


def _shared_options(command: str) -> list[str] | None:
    """The options of a bisection that a comparison also takes; None if the bisection measured a user's command."""
    try:
        words = [*words_by_flag(shlex.split(command))]
    except ValueError:
        return None
    if any(flag == "--command" for flag, _ in words):
        return None
    return [word for flag, word in words if flag in SHARED_OPTIONS]


@dataclass(frozen=True)
class IssueContext:
    """``night`` is an ISO date, ``run_url`` the page of the reporting run, ``server`` the GitHub server it is on.

    ``author_login`` is the login of the culprit's author if the author is to be notified, else None.
    """

    night: str
    run_url: str = ""
    server: str = GITHUB
    author_login: str | None = None


TITLE_LENGTH = 120
_MARKUP = re.compile(r"[^\w\s./+%(),…−→-]")


def issue_title(finding: IssueFinding) -> str:
    """At most 120 characters without markup; the important numbers come first, because long titles are cut."""
    if finding.document:
        return doc.text_of(finding.document.title)
    title = f"{_what_got_worse(finding)} {'' if finding.kind == 'broken' else _since(finding)}"
    return doc.short(" ".join(_MARKUP.sub(" ", title).split()), TITLE_LENGTH)


def _what_got_worse(finding: IssueFinding) -> str:
    return what_got_worse(finding.rows) or "Something got slower"


def _since(finding: IssueFinding) -> str:
    if finding.culprit:
        return f"since {culprit_text.short_sha(finding.culprit.set[-1])}"
    ends = finding.verdicts[0].evidence.commits.range if finding.verdicts else None
    return (
        f"between {culprit_text.short_sha(ends.good)} and {culprit_text.short_sha(ends.bad)}" if ends else ""
    )


def issue_document(finding: IssueFinding, memory: IssueMemory, context: IssueContext) -> doc.Document:
    """The full document of an issue, with its hidden memory."""
    if finding.document:
        return doc.Document(finding.document.title, [hidden_memory(memory), *finding.document.blocks])
    chart, steps = clearest_chart(finding.verdicts), reproduction_steps(finding)
    return doc.Document(
        issue_title(finding),
        [
            hidden_memory(memory),
            *_opening(finding, context),
            issue_table(memory),
            *_left_out(finding, memory),
            *(culprit_text.result_tables(finding.bisection) if finding.bisection else ()),
            *([chart] if chart else ()),
            *(inside_blocks(finding.culprit) if finding.culprit else ()),
            *command_blocks("To reproduce it", steps.lines, steps.torch),
            doc.Folded("Environment", [_environment(finding)]),
            *([_how_bisected(finding.bisection)] if finding.bisection else ()),
            *_link_to_run(context),
        ],
    )


_MAX_SENTENCE_LENGTH, _MAX_DETAIL_LENGTH = 300, 600
"""Maximum lengths of texts from outside."""
_MAX_WARNINGS = 5
_CLOSES = "This issue closes automatically when the numbers recover."
_IF_MEANT = ("If this change is intended, add the label ", doc.Code(EXPECTED_LABEL), ".")


def _opening(finding: IssueFinding, context: IssueContext) -> Iterator[doc.Block]:
    """What happened, which commit caused it, and the next step."""
    if finding.culprit:
        yield from _opening_of_culprit(finding, finding.culprit, context)
    elif finding.kind == "broken":
        yield from _opening_of_broken(finding)
    else:
        yield from _opening_without_culprit(finding)
    yield doc.Note([doc.short(warning, _MAX_SENTENCE_LENGTH) for warning in finding.warnings[:_MAX_WARNINGS]])


def _opening_of_culprit(
    finding: IssueFinding, culprit: Culprit, context: IssueContext
) -> Iterator[doc.Block]:
    mention = (" (", doc.Mention(context.author_login), ")") if context.author_login else ()
    before = "the commit before it" if culprit.commit else "the commit before them"
    pairs = f" in {doc.counted(culprit.effect.pairs, 'pair')} of measurements" if culprit.effect.pairs else ""
    yield doc.Paragraph((doc.Bold(_what_got_worse(finding)), "."))
    who = (f" {culprit_text.byline(culprit)}", *culprit_links(culprit, context.server), *mention)
    effect = (f" Measured against {before}: ", doc.Bold(effect_text(culprit.effect)), f"{pairs}.")
    yield doc.Paragraph((doc.Bold(f"Culprit: {culprit_text.culprit_name(culprit)}"), *who, ".", *effect))
    for detail in culprit_text.details(culprit):
        yield doc.Paragraph(doc.short(detail, _MAX_DETAIL_LENGTH))
    which = "" if culprit.commit else "find out which of them it is, and "
    yield doc.Paragraph((doc.Bold("Next step:"), f" {which}fix or revert it. {_CLOSES} ", *_IF_MEANT))


_NO_COMMIT = {"environment": "find out what else has changed", "build": "see whether the next build is slow"}
"""The next step by the status of a bisection that has found the cause in something else."""


def _opening_without_culprit(finding: IssueFinding) -> Iterator[doc.Block]:
    status = finding.bisection.status if finding.bisection else ""
    if finding.bisection and finding.bisection.credible:
        step = "look at the suspects below"
    elif status in _NO_COMMIT:
        step = _NO_COMMIT[status]
    elif lines := reproduction_steps(finding).lines:
        is_bisection = any("torchperf bisect" in line for line in lines)
        step = f"{'bisect it' if is_bisection else 'compare both sides again'} with the command below"
    elif ends := finding.verdicts[0].evidence.commits.range:
        has_pairs = any(bisected_as(row.series.metric) for row in finding.rows)
        tool = "" if has_pairs else " with torchperf bisect --command"
        step = f"bisect it{tool} between {ends.good} and {ends.bad}"
    elif finding.verdicts[0].evidence.commits.is_one_commit:
        step = "find out what else has changed there"
    else:
        step = "find out between which commits it got worse, and bisect it"
    why = f" to have caused it. {doc.short(finding.why, _MAX_SENTENCE_LENGTH)}"
    found_later = "If a culprit is found later, it will be named here."
    yield doc.Paragraph((doc.Bold(_what_got_worse(finding)), ", and ", doc.Bold("no commit is proven"), why))
    yield doc.Paragraph((doc.Bold("Next step:"), f" {step}. {found_later} {_CLOSES} ", *_IF_MEANT))


def _opening_of_broken(finding: IssueFinding) -> Iterator[doc.Block]:
    runs = {verdict.evidence.failing for verdict in finding.verdicts}
    at_least = "at least " if len(runs) > 1 else ""
    since = f", in {at_least}the last {doc.counted(min(runs), 'run')}" if runs else ""
    model, where = finding.rows[0].series.model, f" {on_machines(finding.rows)}".rstrip()
    yield doc.Paragraph(
        (doc.Bold(f"{doc.short(model, _MAX_SENTENCE_LENGTH)} fails"), f"{where}{since}. Its last error:")
    )
    yield doc.Commands([one_line(finding.why)])
    yield doc.Paragraph(
        (doc.Bold("Next step:"), " run it on its own. This issue closes automatically when it passes again.")
    )


def _left_out(finding: IssueFinding, memory: IssueMemory) -> Iterator[doc.Block]:
    """How many series the table does not list, as the issue's memory has no room for them."""
    if count := len({row.series for row in finding.rows} - {row.series for row in memory.rows}):
        yield doc.Paragraph(f"The table leaves out {count:,} series with smaller changes.")


def _environment(finding: IssueFinding) -> doc.Table:
    """The machines, repositories and commits of the measurements, as far as they are known."""
    rows = finding.rows
    facts = [
        *([("machine", finding.bisection.machine)] if finding.bisection else ()),
        *(("benchmark", row.series.benchmark) for row in rows),
        *(("repository", row.series.repo) for row in rows),
        *(("measured on", f"{row.series.device} {row.series.arch}".strip()) for row in rows),
    ]
    for commits in dict.fromkeys(verdict.evidence.commits for verdict in finding.verdicts):
        old, new = commits.last_old, commits.first_new
        # The same ones in PyTorch's own repository
        ends = {(old.torch, new.torch): "PyTorch", (old.commit, new.commit): "commit"}
        for (before, after), what in reversed(ends.items()):
            if before == after:
                facts.append((f"{what}, at both levels", before))
            else:
                change = f"{before or '–'} → {after or '–'}"
                facts.append((f"{what}, last at the old level → first at the new", change))
    known = [(fact, doc.short(value, _MAX_SENTENCE_LENGTH)) for fact, value in dict.fromkeys(facts) if value]
    return doc.Table([doc.Column("fact"), doc.Column("value", "prose")], known)


def _how_bisected(bisection: Bisection) -> doc.Folded:
    """All details of a bisection that the opening omits."""
    why = bisection.why if bisection.culprits else ""
    sentences = (culprit_text.question(bisection), culprit_text.build_variance(bisection))
    return doc.Folded(
        f"How it was bisected: {culprit_text.cost(bisection)}",
        [
            *(doc.Paragraph(f"{doc.short(it, _MAX_SENTENCE_LENGTH)}.") for it in sentences if it),
            doc.Commands(repeat_commands(bisection)),
            doc.Note([doc.short(note, _MAX_SENTENCE_LENGTH) for note in (why, *bisection.notes) if note]),
            *culprit_text.evidence_tables(bisection),
        ],
    )


def _link_to_run(context: IssueContext) -> Sequence[doc.Block]:
    """A link to the run, whose files are complete; the issue may omit parts."""
    run = doc.Link("the run that reported this", context.run_url)
    words = ("Full details are in the files of ", run, ".")
    return (doc.Paragraph(words, small=True),) if context.run_url else ()


BODY_LIMIT = 65_536
"""GitHub's limit in characters, applied here to bytes, of which there are never fewer."""


_END = "<!-- /torchperf -->"
"""The end of what is ours in a body; people write below it."""
_END_MARKER = re.compile(rf"^(?! {{4}}|\t|>).*?{_END}", re.MULTILINE)  # not in code, such as an error


def issue_body(finding: IssueFinding, memory: IssueMemory, context: IssueContext, text: str = "") -> str:
    """The body of an issue in Markdown, with what people wrote above and below ours in its present ``text``.

    If that is more than half of what GitHub takes, it stays in the edit history only.
    """
    marker, end = MEMORY_MARKER.search(text), _END_MARKER.search(text)
    above = text[: marker.end(1)] if marker else ""
    below = text[end.end() :] if end else ""
    if size(above + below) > BODY_LIMIT // 2:
        above = below = ""
    room = BODY_LIMIT - size(above + _END + below)
    document = doc.Document("", issue_document(finding, memory, context).blocks)
    return f"{above}{to_markdown(document, room)}{_END}{below}"


_TABLE_ROOM = 1000
"""The bytes a table may always take, even if the body is full."""
_CUT_NOTE = "\n\n…the rest was cut off, because the text is too long for GitHub.\n"


def renewed_body(text: str, memory: IssueMemory) -> str:
    """``text``, which people may have edited, with its memory and its table updated.

    If a marker was removed, the memory is put first, and the table, if it has rows, last.
    """
    text = _with_memory(text, memory)
    if memory.rows:
        before, after = _around_table(text)
        room = max(BODY_LIMIT - size(before) - size(after), _TABLE_ROOM)
        table = to_markdown(doc.Document("", [issue_table(memory)]), room).strip()
        text = f"{before}{table}{after}"
    return text if size(text) <= BODY_LIMIT else _cut_to_fit(_with_memory(without_memory(text), memory))


def _with_memory(text: str, memory: IssueMemory) -> str:
    marker = MEMORY_MARKER.search(text)
    above, below = (text[: marker.end(1)], text[marker.end() :]) if marker else ("", f"\n\n{text}")
    return f"{above}{memory_line(memory)}{without_memory(below)}"


def _around_table(text: str) -> tuple[str, str]:
    """The text before the table, and the text after it."""
    if table := TABLE_MARKERS.search(text):
        return text[: table.start()], text[table.end() :]
    return f"{text.rstrip()}\n\n", "\n"


def _cut_to_fit(text: str) -> str:
    """The beginning of the text, which contains the memory, up to the limit."""
    room = BODY_LIMIT - size(_CUT_NOTE)
    return text.encode("utf-8", "replace")[:room].decode("utf-8", "ignore") + _CUT_NOTE
