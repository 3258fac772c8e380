from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from hostile import all_at_once, texts
from hypothesis import example, given, settings
from made_night import (
    BEFORE,
    BROKEN,
    CULPRIT,
    GUILTY,
    INCONCLUSIVE,
    JUDGEMENT,
    LOCATION,
    NIGHT,
    REGRESSED,
    RESNET,
    RUN_URL,
    a_large_night,
    hostile_night,
)
from markdown_it import MarkdownIt

from torchperf_ci.issues.body import BODY_LIMIT, IssueContext, issue_body, issue_title
from torchperf_ci.issues.findings import findings_of
from torchperf_ci.issues.lifecycle import remember_finding
from torchperf_ci.issues.memory import memory_line, parse_memory
from torchperf_ci.issues.table import TABLE_MARKERS
from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.verdict import CommitRange, Evidence, RangeEnd, RepeatOptions, evidence_of

if TYPE_CHECKING:
    from torchperf_ci.culprits.culprit import Bisection, BisectionStatus
    from torchperf_ci.issues.findings import IssueFinding
    from torchperf_ci.verdicts.verdict import Judgement

CONTEXT = IssueContext(NIGHT, RUN_URL)
IN_A_FILE = replace(JUDGEMENT, reproduction=RepeatOptions(options=("--config", "ci/perf.yml")))
"""Judged where the configuration names a file of workloads."""
OURS = {
    *("p", "strong", "code", "pre", "a", "sub", "ul", "li", "blockquote"),
    *("table", "thead", "tbody", "tr", "th", "td", "details", "summary"),
}


class Page(HTMLParser):
    """The tags of a page, its links, its comments, and its text outside of code."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.comments: list[str] = []
        self.text = ""
        self._code = 0
        parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
        self.feed(parser.render(markdown))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]
        self._code += tag == "code"

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag == "code"

    def handle_comment(self, data: str) -> None:
        self.comments.append(data.strip())
        self.text += "\0"  # what GitHub's search for mentions and references cannot see through

    def handle_data(self, data: str) -> None:
        self.text += "" if self._code else data


def found(location: Bisection | None = LOCATION, judgement: Judgement = JUDGEMENT) -> list[IssueFinding]:
    return findings_of([judgement], [location] if location else [], NIGHT, 3)


def written(finding: IssueFinding, context: IssueContext = CONTEXT) -> str:
    return issue_body(finding, remember_finding(None, finding, NIGHT), context)


def test_the_verdict_is_first_then_who_then_the_next_step_then_one_table() -> None:
    page = Page(written(found()[0]))
    said = (
        "vision/resnet18 and 1 more, up to 7.1% slower on H100 and Instinct MI300X",
        "Culprit: 1a2b3c4d5e [inductor] Check the shapes",
        "by Ada Lovelace, 2026-11-18, pull request 123456, 99.7% sure",
        "Measured against the commit before it: +7.1% (+6.7…+7.5) in 10 pairs",
        "Next step:",
        "known from",
        "What changed inside",
        "To reproduce it",
        "Environment",
        "How it was bisected: 57 runs, 7 builds",
    )
    text = page.text.replace("\0", "")
    places = [text.index(part) for part in said]
    assert places == sorted(places)
    assert page.links == [str(CULPRIT.url), "https://github.com/octo/perf/pull/123456", RUN_URL]


def test_nobody_is_pinged_but_who_is_meant() -> None:
    finding = found()[0]
    assert "@" not in written(finding)
    assert " (@ada). " in written(finding, replace(CONTEXT, author_login="ada"))
    for hostile in ("ada @everyone", "a/b", "", "-x", "x" * 60, "octo-team/all"):
        page = Page(written(finding, replace(CONTEXT, author_login=hostile)))
        assert not re.search(r"@\w", page.text)


def test_what_reproduces_it_is_the_clearest_row_built_as_the_bisection_did() -> None:
    (line,) = re.findall(r"^    (torchperf compare .*)$", written(found()[0]), re.MULTILINE)
    assert line == (
        f"torchperf compare --base {BEFORE} --head {GUILTY} --python python --build 'pip install -e .' "
        "--filter vision/resnet18 --mode inference --dtype bf16 --backend inductor"
    )


@pytest.mark.parametrize(
    ("commit", "step"), [(GUILTY, "fix"), (None, "find out which of them it is, and fix")]
)
def test_who_is_told_several_commits_finds_out_which_it_is(commit: str | None, step: str) -> None:
    several = replace(LOCATION.culprits[0], commit=commit, set=(BEFORE, GUILTY))
    text = written(found(replace(LOCATION, culprits=(several,)))[0])
    assert f"**Next step:** {step} or revert it. " in text


def test_a_culprit_that_compiles_slower_is_bisected_again() -> None:
    compiling = replace(RESNET, metric="compile_time(s)")
    judgement = replace(JUDGEMENT, verdicts=[replace(REGRESSED[0], series=compiling)])
    (culprit, *_) = LOCATION.culprits
    named = replace(culprit, series=tuple(replace(row, name=str(compiling)) for row in culprit.series[:1]))
    text = written(found(replace(LOCATION, culprits=(named,)), judgement)[0])
    assert "torchperf compare" not in text
    assert f"    {LOCATION.command}\n" in text


@pytest.mark.parametrize(
    "command", ["torchperf bisect --command './measure all'", "torchperf bisect --build 'never closed", ""]
)
def test_what_cannot_be_compared_is_bisected_again(command: str) -> None:
    text = written(found(replace(LOCATION, command=command))[0])
    assert "torchperf compare" not in text
    assert f"    {command}\n" in text or not command


def test_where_no_commit_is_proven_it_is_said_with_what_it_takes() -> None:
    text = written(found(INCONCLUSIVE)[0])
    assert "**no commit is proven**" in text
    assert INCONCLUSIVE.why in text
    assert "61.0%" in Page(text).text, "the suspects are shown"
    (alone, *_) = found(None)
    assert "has not been bisected yet" in written(alone)
    assert f"bisect it between {'900d' * 10} and {'bad0' * 10}" in written(alone)
    assert "To reproduce it" not in written(alone), "nobody says which files the workloads are in"


@pytest.mark.parametrize(
    ("status", "step"), [("environment", "find out what else has changed"), ("build", "see whether the next")]
)
def test_where_a_bisection_says_that_it_is_no_commit_nobody_is_sent_to_repeat_it(
    status: BisectionStatus, step: str
) -> None:
    bisection = replace(INCONCLUSIVE, status=status, why="the code is innocent (x is 2)", credible=())
    text = written(found(bisection)[0])
    assert "to have caused it. The code is innocent (x is 2).\n" in text
    assert f"**Next step:** {step}" in text


@pytest.mark.parametrize("said", [{}, {"batch_size": 512, "threads": 4}])
def test_where_the_workloads_are_known_it_is_bisected_by_a_command_as_they_were_measured(said) -> None:
    measured = replace(REGRESSED[0], evidence=replace(REGRESSED[0].evidence, **said))
    verdicts = [measured if verdict == REGRESSED[0] else verdict for verdict in IN_A_FILE.verdicts]
    (alone, *_) = found(None, replace(IN_A_FILE, verdicts=verdicts))
    how = " --batch-size 512 --threads 4" if said else ""
    assert "bisect it with the command below" in written(alone)
    assert (
        f"    git fetch origin {'900d' * 10} {'bad0' * 10}\n"
        f"    torchperf bisect --good {'900d' * 10} --bad {'bad0' * 10} --python python --config ci/perf.yml "
        f"--workload vision/resnet18 --mode inference --dtype bf16 --backend inductor{how}\n"
    ) in written(alone)


def test_what_two_builds_showed_is_compared_again() -> None:
    sides = RepeatOptions(BEFORE, GUILTY, options=("--config", "ci/perf.yml"))
    (alone, *_) = found(None, replace(IN_A_FILE, reproduction=sides))
    assert "**Next step:** compare both sides again with the command below." in written(alone)
    assert f"torchperf compare --base {BEFORE} --head {GUILTY}" in written(alone)


def test_a_busy_machine_is_said_before_the_table_and_other_notes_are_folded() -> None:
    judgement = replace(
        JUDGEMENT, notes=["⚠ load 9 on 2 CPUs while this was measured", "2 records were refused"]
    )
    location = replace(LOCATION, notes=("⚠ load 7 on 2 CPUs while this was measured", "an aside"))
    for text in (written(found(location, judgement)[0]), written(found(None, judgement)[0])):
        assert "\n> ⚠ load 9 on 2 CPUs while this was measured\n" in text[: text.index("| benchmark")]
        assert "records were refused" not in text
    text = written(found(location, judgement)[0])
    assert text.index("> ⚠ load 7 on 2 CPUs") < text.index("| benchmark") < text.index("an aside")


def test_where_the_range_is_not_known_nobody_is_sent_to_a_command_that_is_not_there() -> None:
    judgement = replace(JUDGEMENT, verdicts=[replace(REGRESSED[0], evidence=Evidence())])
    text = written(found(None, judgement)[0])
    assert "does not say between which commits" in text
    assert "**Next step:** find out between which commits" in text
    assert "To reproduce it" not in text


def test_where_the_commit_is_the_same_nobody_is_sent_to_bisect() -> None:
    commits = CommitRange(RangeEnd("c" * 40), RangeEnd("c" * 40))
    judgement = replace(JUDGEMENT, verdicts=[replace(REGRESSED[0], evidence=Evidence(commits))])
    text = written(found(None, judgement)[0])
    assert "**Next step:** find out what else has changed there." in text
    assert "bisect" not in text


def test_a_commit_that_did_not_change_is_no_range() -> None:
    """A project's own commits changed, and PyTorch stayed the same."""
    ends = {
        "last_old": {"commit": "1" * 40, "torch": "9" * 40},
        "first_new": {"commit": "2" * 40, "torch": "9" * 40},
    }
    verdicts = [
        replace(verdict, evidence=evidence_of(ends)) if verdict.verdict == "regressed" else verdict
        for verdict in JUDGEMENT.verdicts
    ]
    body = written(found(None, replace(JUDGEMENT, verdicts=verdicts))[0])
    assert f"| commit, last at the old level → first at the new | {'1' * 40} → {'2' * 40} |" in body
    assert f"| PyTorch, at both levels | {'9' * 40} |" in body


def test_the_commits_of_pytorchs_own_repository_are_told_once() -> None:
    ends = {
        name: {"commit": sha * 40, "torch": sha * 40} for name, sha in (("last_old", "1"), ("first_new", "2"))
    }
    verdicts = [replace(verdict, evidence=evidence_of(ends)) for verdict in JUDGEMENT.verdicts]
    body = written(found(None, replace(JUDGEMENT, verdicts=verdicts))[0])
    assert body.count(f"| {'1' * 40} → {'2' * 40} |") == 1


def test_another_metric_is_bisected_as_such() -> None:
    memory = replace(RESNET, metric="peak_memory(MiB)")
    (finding, *_) = found(None, replace(IN_A_FILE, verdicts=[replace(REGRESSED[0], series=memory)]))
    assert " --metric 'peak_memory(MiB)' --workload " in written(finding)


def test_a_metric_that_pairs_cannot_measure_has_no_command_that_would_be_refused() -> None:
    compiling = replace(
        REGRESSED[0], series=replace(RESNET, metric="warm_compile_time(s)"), effect=Effect(9, 8, 10, 0)
    )
    (alone, *_) = found(None, replace(IN_A_FILE, verdicts=[compiling]))
    assert f"bisect it with torchperf bisect --command between {'900d' * 10} and" in written(alone)
    assert "To reproduce it" not in written(alone)
    (both, *_) = found(None, replace(IN_A_FILE, verdicts=[compiling, REGRESSED[0]]))
    assert "bisect it with the command below" in written(both)
    assert "--metric" not in written(both), "the latency can be bisected, though it changed less"


@pytest.mark.parametrize(("other", "runs"), [(3, "the last 3 runs"), (7, "at least the last 3 runs")])
def test_what_is_broken_on_two_machines_says_what_is_true_of_both(other: int, runs: str) -> None:
    elsewhere = replace(BROKEN, series=replace(BROKEN.series, arch="A100"), evidence=Evidence(failing=other))
    (broken,) = found(None, replace(IN_A_FILE, verdicts=[BROKEN, elsewhere]))
    assert f" fails** on H100 and A100, in {runs}. Its last error:" in written(broken)
    nowhere = replace(BROKEN, series=replace(BROKEN.series, arch="", device=""))
    (broken,) = found(None, replace(IN_A_FILE, verdicts=[nowhere]))
    assert " fails**, in the last " in written(broken)


def test_what_is_broken_says_since_when_and_its_error_to_the_letter() -> None:
    error = "oom: <b>tried</b> to allocate `2 GiB`\n```\n@octocat"
    judgement = replace(IN_A_FILE, verdicts=[replace(BROKEN, why=f"still failing since 2026-11-19: {error}")])
    (broken,) = found(None, judgement)
    text = written(broken)
    assert "in the last 3 runs" in text
    assert (
        "    still failing since 2026-11-19: oom: <b>tried</b> to allocate `2 GiB`\\n```\\n@octocat\n" in text
    )
    assert (
        "    torchperf run --python python --config ci/perf.yml --filter speech/conformer --mode inference"
        in text
    )
    assert "b" not in Page(text).tags


def test_a_title_is_short_and_holds_no_markup() -> None:
    titles = [issue_title(one) for location in (LOCATION, INCONCLUSIVE, None) for one in found(location)]
    assert titles[:4] == [
        "vision/resnet18 and 1 more, up to 7.1% slower on H100 and Instinct MI300X since 1a2b3c4d5e",
        "vision/vit 3.3% slower on H100 between 900d900d90 and bad0bad0ba",
        "speech/conformer fails on H100",
        "vision/resnet18 and 2 more, up to 7.1% slower on H100 between 900d900d90 and bad0bad0ba",
    ]


def outside_of_code(text: str) -> str:
    """The Markdown less its memory, its blocks of code, and the one link that is ours."""
    lines = [line for line in text.splitlines() if not line.startswith(("    ", "<!-- torchperf:memory "))]
    return "\n".join(lines).replace(RUN_URL, "")


@settings(deadline=None, max_examples=60)
@example(all_at_once)
@given(texts)
def test_text_from_outside_is_text(text: str) -> None:
    judgement, location = hostile_night(text)
    for place in (location, replace(location, culprits=(), status="inconclusive"), None):
        for finding in found(place, judgement):
            whole = written(finding)
            memory = parse_memory(whole)
            assert memory is not None
            assert memory.rows[0].series == finding.rows[0].series
            assert len(TABLE_MARKERS.findall(whole)) == 1
            page = Page(whole)
            assert {*page.tags} <= OURS
            assert page.links == [RUN_URL]
            assert page.tags.count("details") == whole.count("\n\n</details>\n")
            assert not re.search(r"@\w|(?<![&\w])#\d|\bGH-\d", page.text)
            assert "\u202e" not in outside_of_code(whole), "which turns the line around"
            assert not re.search(r"://|www\.", outside_of_code(whole)), "GitHub makes links of them"
            assert not re.search(r"^(::|[ ]{0,3}#)", whole, re.MULTILINE)
            assert len(issue_title(finding)) <= 120
            assert not re.search(r"[@#`*_<>\[\]\\|:]", issue_title(finding).replace("_", ""))


def test_a_hostile_table_has_as_many_cells_as_columns() -> None:
    judgement, location = hostile_night(all_at_once)
    (table,) = TABLE_MARKERS.findall(written(found(location, judgement)[0]))
    assert {line.count(" | ") for line in table.splitlines() if line.startswith("|")} == {5}


@pytest.mark.parametrize("rows", [1, 300])
def test_it_always_fits(rows: int) -> None:
    judgement, location = a_large_night(rows)
    culprit, *others = found(location, judgement)
    text = written(culprit)
    assert BODY_LIMIT - 8000 < len(text.encode()) <= BODY_LIMIT
    assert "more, left out here" in text
    assert RUN_URL in text, "it says where the rest is"
    for one in others[:3]:
        assert len(written(one).encode()) <= BODY_LIMIT


def test_what_is_read_last_goes_first() -> None:
    finding = found(replace(LOCATION, readings=LOCATION.readings * 500))[0]
    rows = tuple(
        replace(row, series=replace(row.series, model=f"m{n}")) for n in range(20) for row in finding.rows
    )
    text = written(replace(finding, rows=rows))
    (table,) = TABLE_MARKERS.findall(text)
    assert table.count("\n| ") == 2 + 15 + 2 + 45, "all rows of the table are there"
    assert "left out" not in text.partition("Measurements: 2,000")[0]
    assert "left out here" in text.partition("Measurements: 2,000")[2]


def test_what_the_memory_has_no_room_for_is_counted() -> None:
    finding = found()[0]
    assert "leaves out" not in written(finding)
    rows = tuple(replace(finding.rows[0], series=replace(RESNET, model=f"m{n}")) for n in range(1500))
    many = replace(finding, rows=rows)
    memory = parse_memory(memory_line(remember_finding(None, many, NIGHT)))
    assert memory is not None
    left = f"The table leaves out {len(rows) - len(memory.rows):,} series with smaller changes."
    assert left in issue_body(many, memory, CONTEXT)


def test_no_list_is_empty_because_the_table_is_long() -> None:
    finding = found()[0]
    rows = tuple(
        replace(row, series=replace(row.series, model=f"m{n}")) for n in range(200) for row in finding.rows
    )
    text = written(replace(finding, rows=rows))
    assert "left out here" in TABLE_MARKERS.findall(text)[0]
    assert "Measurements: 4" in text
    assert "left out here" not in text.partition("Measurements: 4")[2]


def test_a_culprit_of_which_nothing_else_is_known_is_told() -> None:
    alone = replace(LOCATION, culprits=(replace(CULPRIT, series=(), inside=None),))
    (finding,) = found(alone, replace(JUDGEMENT, verdicts=[]))
    assert issue_title(finding) == "Something got slower since 1a2b3c4d5e"
    assert parse_memory(written(finding)) is not None
