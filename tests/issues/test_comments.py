from __future__ import annotations

import re
from dataclasses import replace

from hostile import all_at_once
from made_night import JUDGEMENT, LOCATION, NIGHT, ON_MI300, RESNET, RUN_URL

from torchperf_ci.issues import publishing
from torchperf_ci.issues.body import IssueContext
from torchperf_ci.issues.findings import findings_of
from torchperf_ci.issues.lifecycle import IssueAction, remember_finding
from torchperf_ci.issues.memory import MEMORY_MARKER, IssueMemory, IssueRow
from torchperf_ci.issues.tracker import TrackedIssue
from torchperf_ci.series.points import Series
from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.verdict import Verdict

CONTEXT = IssueContext(NIGHT, RUN_URL)
FINDING = findings_of([JUDGEMENT], [LOCATION], NIGHT, 3)[0]
MEMORY = remember_finding(None, FINDING, NIGHT)
MOVED = Verdict(RESNET, "not-comparable", "earlier runs differ in x")


def plain(text: str) -> str:
    """As people read it."""
    text = re.sub(r"&#(\d+);", lambda found: chr(int(found[1])), text).replace("<!-- -->", "")
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{WORD JOINER}", "")


def test_new_evidence_is_a_sentence_and_its_rows() -> None:
    rows = [IssueRow(ON_MI300, 1.402, 1.479, Effect(1.055, 1.049, 1.061, 0), NIGHT)]
    text = plain(publishing.new_evidence_comment(rows, CONTEXT))
    assert text.startswith(
        "Also seen on the night of 2026-11-21: **vision/resnet18 5.5% slower on Instinct MI300X**\n"
    )
    assert (
        "| vision/resnet18 | latency | Instinct MI300X | 1.402 → 1.479 ms | +5.5% (+4.9…+6.1) | history |"
        in text
    )
    failing = IssueRow(replace(ON_MI300, metric="status"), 1.0, 0.0, night=NIGHT)
    text = plain(publishing.new_evidence_comment([failing], CONTEXT))
    assert "**vision/resnet18 fails on Instinct MI300X**\n" in text
    assert "| vision/resnet18 | Instinct MI300X | passed, and now fails |" in text


def test_recovery_is_told_with_its_evidence() -> None:
    memory = replace(MEMORY, recovered=("2026-11-23", "2026-11-24", "2026-11-25"))
    text = plain(publishing.recovered_comment(memory, {RESNET: 1.2154}))
    assert text.startswith(
        "Recovered on the last 3 nights that measured it, up to 2026-11-25, so this issue is closed."
    )
    assert "before → regressed | change (95%) | now |" in text
    assert "| vision/resnet18 | latency | H100 | 1.213 → 1.299 ms | +7.1% (+6.7…+7.5) | 1.215 ms |" in text
    assert "| language/bert | latency | H100 | 8.72 → 9.086 ms | +4.2% (+3.8…+4.6) |  |" in text, (
        "not measured"
    )


def test_a_relapse_names_the_culprit_that_is_proven() -> None:
    assert "It is back, as seen on the night of 2026-11-21.\n" in plain(
        publishing.relapsed_comment(MEMORY, {}, None, CONTEXT)
    )
    assert "because of **1a2b3c4d5e [inductor] Check" in plain(
        publishing.relapsed_comment(MEMORY, {}, FINDING, CONTEXT)
    )


def test_what_was_broken_passes_or_fails() -> None:
    (*_, finding) = findings_of([JUDGEMENT], [], NIGHT, 3)
    memory = replace(remember_finding(None, finding, NIGHT), recovered=(NIGHT,))
    assert publishing.recovered_comment(memory, {}).startswith(
        "It passed again on the night of 2026-11-21, so"
    )
    text = publishing.relapsed_comment(memory, {}, finding, CONTEXT)
    assert text.startswith("It fails again, as seen on the night of 2026-11-21.\n\n    still failing since")
    assert "|" not in text


def test_a_culprit_that_is_found_later_is_named() -> None:
    assert "Commit found: **1a2b3c4d5e [inductor] Check" in plain(
        publishing.located_comment(FINDING, CONTEXT)
    )


def test_commits_that_are_found_later_of_which_one_is_the_cause_are_no_commit_found() -> None:
    culprit = replace(LOCATION.culprits[0], commit=None, set=("a" * 40, "b" * 40))
    text = plain(publishing.located_comment(replace(FINDING, culprit=culprit), CONTEXT))
    assert text.startswith("Narrowed down to **one of 2 commits, aaaaaaaaaa to bbbbbbbbbb** by ")


def test_another_machine_is_told_with_what_differs_and_what_to_do() -> None:
    text = plain(publishing.stranded_comment(MEMORY, [MOVED], CONTEXT))
    assert text.startswith(
        "Measured under other conditions on the night of 2026-11-21 (earlier runs differ in x)."
    )
    assert "`torchperf compare` of a commit before" in text


LATE = "2026-12-26"


def test_what_nothing_measures_any_more_is_told_with_its_repository() -> None:
    text = plain(publishing.stranded_comment(MEMORY, [], replace(CONTEXT, night=LATE)))
    assert text.startswith("Not measured since the night of 2026-11-21: `vision/resnet18 latency(ms) (")
    assert " of octo/perf` and 2 more. No night shows" in text
    began_to_recover = replace(MEMORY, rows=tuple(replace(row, night="") for row in MEMORY.rows))
    later = replace(began_to_recover, recovered=("2026-11-22",))
    text = plain(publishing.stranded_comment(later, [], replace(CONTEXT, night="2026-12-27")))
    assert text.startswith("Not measured since the night of 2026-11-22: ")


def test_another_machine_is_told_also_in_a_night_with_other_news() -> None:
    issue = TrackedIssue(1, "", "", "", MEMORY)
    memory = replace(MEMORY, stranded=NIGHT)
    for what in ("extend", "locate", "strand"):
        action = IssueAction(what, memory, issue, (FINDING,), MEMORY.rows[:1], (MOVED,))
        comment = publishing.text_of_action(action, CONTEXT).comment
        assert plain(comment).count("Measured under other conditions") == 1
    again = replace(action, what="extend", issue=replace(issue, memory=memory))
    assert "other conditions" not in publishing.text_of_action(again, CONTEXT).comment


def test_acceptance_says_how_a_baseline_follows() -> None:
    text = publishing.accepted_comment(MEMORY, CONTEXT)
    assert "Accepted as intended on the night of 2026-11-21" in plain(text)
    (line,) = re.findall("^    (torchperf baseline update .*)$", text, re.MULTILINE)
    assert line.endswith(" RECORDS")
    assert "@" not in text


def test_what_has_no_level_is_accepted_without_one() -> None:
    (*_, finding) = findings_of([JUDGEMENT], [], NIGHT, 3)
    text = publishing.accepted_comment(remember_finding(None, finding, NIGHT), CONTEXT)
    assert text == (
        "Accepted on the night of 2026-11-21, so this issue is closed; it will not be reported again, unless you "
        "remove the label and reopen this issue.\n"
    )


def test_they_are_short() -> None:
    rows = tuple(
        replace(row, series=replace(row.series, model=f"m{n}")) for n in range(300) for row in MEMORY.rows
    )
    many = replace(MEMORY, rows=rows, recovered=(NIGHT,))
    for text in (
        publishing.new_evidence_comment(rows, CONTEXT),
        publishing.recovered_comment(many, {}),
        publishing.relapsed_comment(many, {}, FINDING, CONTEXT),
    ):
        assert "…and 1,180 more, left out here" in text
        assert len(text) < 6000


def test_text_from_outside_is_text() -> None:
    series = Series(*[all_at_once] * 9)
    memory = IssueMemory("culprit", (), (replace(MEMORY.rows[0], series=series),), NIGHT, NIGHT)
    culprit = replace(LOCATION.culprits[0], subject=all_at_once, author=all_at_once)
    finding = replace(FINDING, culprit=culprit)
    for text in (
        publishing.new_evidence_comment(memory.rows, CONTEXT),
        publishing.located_comment(finding, CONTEXT),
        publishing.recovered_comment(replace(memory, recovered=(NIGHT,)), {series: 1.0}),
        publishing.relapsed_comment(memory, {}, finding, CONTEXT),
        publishing.accepted_comment(memory, CONTEXT),
        publishing.stranded_comment(MEMORY, [replace(MOVED, why=all_at_once)], CONTEXT),
        publishing.stranded_comment(MEMORY, [], replace(CONTEXT, night=LATE)),
    ):
        shown = "\n".join(line for line in text.splitlines() if not line.startswith("    "))
        assert not re.search(r"@(?!<!-- -->)|<(?!!-- -->)|GH-\d|www\.", shown)
        assert not MEMORY_MARKER.search(text)
        assert not re.search(r"^(::|#)", text, re.MULTILINE)
