from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING

import pytest
from markdown_it import MarkdownIt

from torchperf_ci.console import print_document
from torchperf_ci.markdown import to_markdown
from torchperf_ci.verdicts.headline import headline
from torchperf_ci.verdicts.verdict import Evidence, Judgement, RepeatOptions, evidence_of
from torchperf_ci.verdicts.verdict_document import verdicts_document

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchperf_ci.verdicts.verdict import Verdict

ROOM = 65_536
SHOWN = (
    "--python python --suite 'bench/a suite.py' --filter vision/resnet18 --mode inference "
    "--dtype bf16 --backend eager"
)


def verdicts_markdown(judgements: Sequence[Judgement], room: int) -> str:
    return to_markdown(verdicts_document(judgements), room)


def rendered(text: str) -> str:
    """As GitHub reads it: HTML passes, tables and bare links are on."""
    parser = MarkdownIt("commonmark", {"html": True, "linkify": True}).enable(["table", "strikethrough"])
    return parser.render(text)


def test_the_verdict_is_first_then_the_next_step_then_one_table_and_the_rest_is_folded(
    judgement: Judgement,
) -> None:
    text = verdicts_markdown([judgement], ROOM)
    title, _, step, *_ = text.splitlines()
    assert title.startswith("### ❌ Performance: 2 regressed, 1 broken, ")
    assert step == (
        "**Next step:** reproduce the worst one on your machine, in a clone of the repository, with PyTorch 2.13.0 in "
        "the active Python (`pip install torch==2.13.0`). If the change is intended, say why."
    )
    old, new = "a" * 40, "b" * 40
    assert text.splitlines()[4:7] == [
        "    cd sub",
        f"    git fetch origin {old} {new}",
        f"    torchperf compare --base {old} --head {new} {SHOWN}",
    ]
    shown, *folded = text.split("<details>")
    assert re.findall(r"^\| (\S+ )?(regressed|broken|candidate|improved|fixed) ", shown, re.MULTILINE)
    assert not re.findall(r"^\| (noisy|missing|new) ", shown, re.MULTILINE)
    assert [part.partition("</summary>")[0] for part in folded] == [
        "<summary>2 could not be judged, 1 missing, 1 new",
        "<summary>Measured on",
    ]


def test_a_row_says_what_changed_from_what_to_what_and_how_sure(judgement: Judgement) -> None:
    (row,) = re.findall(
        r"^\| ❌ regressed \| vision/resnet18 .*$", verdicts_markdown([judgement], ROOM), re.MULTILINE
    )
    cells = [
        cell.strip() for cell in re.sub("<[^>]*>", "", rendered(f"{row}\n")).strip().strip("|").split("|")
    ]
    assert cells == [
        "❌ regressed",
        "vision/resnet18",
        "latency(ms)",
        "1.213 → 1.251 ms",
        "+3.1% (+2.4…+3.9)",
        "±2.1%",
        "because",
    ]


def test_the_whole_suite_and_the_notes_are_there(judgement: Judgement) -> None:
    text = re.sub("<[^>]*>", "", rendered(verdicts_markdown([judgement], ROOM)))
    assert "latency(ms): +0.2% (+0.1…+0.3) over 64 series, geometric mean" in text
    assert "2 records were refused" in text
    assert "torch 2.12.0 → torch 2.13.0" in text


@pytest.mark.parametrize(
    ("word", "candidate", "step"),
    [
        ("broken", False, "run it by itself and read its error."),
        ("noisy", True, "measure it again to see whether the change is real."),
        ("noisy", False, "none; “detectable” is the smallest change"),
    ],
)
def test_the_next_step_is_that_of_the_worst(verdict: Callable[..., Verdict], word, candidate, step) -> None:
    text = verdicts_markdown(
        [Judgement("compare", "a", "b", [verdict(), verdict(word, candidate=candidate)])], ROOM
    )
    assert f"**Next step:** {step}" in text


def test_a_check_is_repeated_as_a_comparison_of_the_commits_that_its_evidence_names(
    verdict: Callable[..., Verdict],
) -> None:
    ends = {"last_old": {"commit": "c" * 40}, "first_new": {"commit": "d" * 40}}
    named = replace(verdict("regressed"), evidence=evidence_of(ends))
    texts = [
        verdicts_markdown([Judgement("check", "a", "b", [one], reproduction=RepeatOptions())], ROOM)
        for one in (named, replace(named, evidence=evidence_of({})))
    ]
    compares = [re.findall("torchperf compare --base (c*) --head (d*) ", text) for text in texts]
    assert compares == [[("c" * 40, "d" * 40)], []]
    assert "torchperf compare" not in texts[1]


def test_where_all_is_well_there_is_no_next_step_and_no_table(verdict: Callable[..., Verdict]) -> None:
    text = verdicts_markdown([Judgement("compare", "a", "b", [verdict()])], ROOM)
    assert text.startswith("### ✅ Performance: 1 unchanged\n\na → b\n\n<details>")
    assert "Next step" not in text


def test_where_little_was_judged_the_next_step_is_what_it_takes(verdict: Callable[..., Verdict]) -> None:
    few = [verdict(), *[verdict("noisy", why="5 pairs")] * 5, *[verdict("missing", why="no job")] * 44]
    text = verdicts_markdown([Judgement("compare", "a", "b", few)], ROOM)
    shown, _ = text.split("<details>", 1)
    assert shown.startswith("### ⚪ Performance: too little could be judged: 1 unchanged, ")
    assert "**Next step:** to judge the rest, provide a run that measures what is missing" in shown
    assert "Only 1 of 50 series were judged: 44 missing (no job); 5 noisy (5 pairs)." in shown
    assert "none" not in shown


def test_what_is_red_does_not_hide_how_little_was_judged(verdict: Callable[..., Verdict]) -> None:
    text = verdicts_markdown(
        [Judgement("check", "a", "b", [verdict("regressed"), *[verdict("missing")] * 9])], ROOM
    )
    assert "**Next step:** reproduce the worst one" in text
    assert "Only 1 of 10 series were judged" in text.split("<details>")[0]


def test_a_first_run_is_one_sentence(verdict: Callable[..., Verdict]) -> None:
    new = [verdict("new", f"model{number}", new=1.0) for number in range(51)]
    text = verdicts_markdown([Judgement("check", "store", "records", new)], ROOM)
    assert text.startswith(
        "### ⚪ Performance: 51 series are new; they are judged from the sixth run on\n\nstore → records\n\n<details>"
    )
    assert "model" not in text
    assert "Next step" not in text
    failing = verdict("new", "oops", why="fails: oom", evidence=Evidence(failing=1))
    assert "fails: oom" in verdicts_markdown([Judgement("check", "store", "records", [*new, failing])], ROOM)


def test_series_with_too_few_runs_are_one_sentence_instead_of_a_row_each(
    verdict: Callable[..., Verdict],
) -> None:
    young = [verdict("noisy", f"model{number}", evidence=Evidence(too_few_runs=True)) for number in range(51)]
    judgement = Judgement(
        "check", "store", "records", [*young, verdict("noisy", "loud", why="varies by 44%")]
    )
    page = verdicts_markdown([judgement], ROOM)
    with StringIO() as out:
        print_document(verdicts_document([judgement]), out)
        terminal = out.getvalue()
    for text in (page, terminal):
        assert "51 series have too few comparable runs so far; they are judged from the sixth on" in text
        assert "model" not in text
        assert "loud" in text


def test_notes_stand_above_the_table_and_are_not_folded(judgement: Judgement) -> None:
    text = verdicts_markdown([replace(judgement, notes=["⚠ load 9 on 2 CPUs while this was measured"])], ROOM)
    assert text.index("\n> ⚠ load 9 on 2 CPUs") < text.index("| verdict |") < text.index("<details>")


def test_several_files_have_one_title_and_a_section_each(judgement: Judgement, verdict) -> None:
    text = verdicts_markdown([Judgement("compare", "a", "b", [verdict()]), judgement], ROOM)
    assert [line.partition(":")[0] for line in text.splitlines() if line.startswith("#")] == [
        "### ❌ Performance",
        "#### ✅ 1 unchanged",
        f"#### ❌ {headline([judgement])}",
    ]
    assert "62 unchanged" in text.splitlines()[0]


def test_text_from_outside_is_text(hostile: Judgement) -> None:
    text = verdicts_markdown([hostile], ROOM)
    html = rendered(text)
    assert "<img" not in html
    assert 'javascript:x"' not in html
    assert "<a " not in html
    outside = re.sub(r"^### |^    .*", "", text, flags=re.MULTILINE)  # what is code is shown to the letter
    assert not re.search(r"@(?!<!-- -->)|(?<![#&])#(?!<!-- -->|#|\d+;| )", outside)
    assert rendered(text).count("<pre>") == 1
    assert not re.search(r"^::error", text, re.MULTILINE)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert {line.count("|") for line in rows} <= {8, 3}


@pytest.mark.parametrize("room", [65_536, 8000, 2500, 1200])
def test_what_does_not_fit_loses_rows_and_says_how_many(hostile: Judgement, room: int) -> None:
    many = replace(hostile, verdicts=[hostile.verdicts[-1]] * 3000, notes=["note"] * 300)
    text = verdicts_markdown([many, many], room)
    assert len(text.encode()) <= room
    assert text.startswith("### ❌ Performance: 6,000 regressed\n")
    rows = text.count("| ❌ regressed ")
    if "no room here" not in text:
        hidden = [
            int(number.replace(",", "")) for number in re.findall(r"^…and ([\d,]+) more", text, re.MULTILINE)
        ]
        assert sum(count for count in hidden if count > 10) + rows == 6000, "the others are facts"


def test_as_much_is_shown_as_fits(judgement: Judgement) -> None:
    many = replace(judgement, verdicts=[judgement.verdicts[-1]] * 3000)
    assert 0 <= 65_536 - len(verdicts_markdown([many], 65_536).encode()) < 200
    assert "…and 2,000 more, left out here" in verdicts_markdown([many], 2**20)
