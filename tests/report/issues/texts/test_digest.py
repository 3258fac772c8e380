from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hostile import all_at_once
from made_night import INCONCLUSIVE, JUDGEMENT, LOCATION, NIGHT, RUN_URL

from torchperf_ci.report.issues.causes.finding import Finding
from torchperf_ci.report.issues.causes.findings import findings_of
from torchperf_ci.report.issues.causes.fingerprint import fingerprint
from torchperf_ci.report.issues.life.hidden import recall
from torchperf_ci.report.issues.life.memory import Memory
from torchperf_ci.report.issues.texts import digest
from torchperf_ci.report.issues.texts.body import LIMIT
from torchperf_ci.report.issues.texts.context import Context

CONTEXT = Context(NIGHT, RUN_URL)


def written(findings: list[Finding]) -> str:
    rows = tuple({row.series: row for finding in findings for row in finding.rows}.values())
    return digest.body(findings, Memory("digest", (fingerprint("digest"),), rows, NIGHT, NIGHT), CONTEXT)


def rows_of(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_each_finding_is_a_row() -> None:
    findings = [
        *findings_of([JUDGEMENT], [LOCATION], NIGHT, 3),
        *findings_of([JUDGEMENT], [INCONCLUSIVE], NIGHT, 99),
    ]
    text = written(findings)
    assert "**4 findings** have no issue of their own, as of 2026-11-21" in text
    culprit, broken, unlocated, _ = rows_of(text)
    assert culprit[0].startswith("vision/resnet18 and 2 more, up to 7.1% slower")
    assert "Check the shapes of every input twice" in culprit[2]
    assert "<code>git fetch origin" in culprit[3]
    assert broken[0] == "speech/conformer fails"
    assert unlocated[2].startswith("no commit is proven&#58; It would take about 40 more pairs")


def test_one_is_one() -> None:
    assert "**1 finding** has no issue" in written(findings_of([JUDGEMENT], [LOCATION], NIGHT, 99))


def test_a_finding_of_an_earlier_night_says_so() -> None:
    (finding,) = findings_of([JUDGEMENT], [LOCATION], NIGHT, 99)
    earlier = Finding("unlocated", "0" * 16, finding.rows[:1], why="It was found on 2026-11-19.")
    assert "2026-11-19" in written([earlier])


@pytest.mark.parametrize("count", [1, 2000])
def test_it_always_fits_and_what_is_hidden_comes_back(count: int) -> None:
    (finding,) = findings_of([JUDGEMENT], [LOCATION], NIGHT, 99)
    hostile = [
        replace(finding, rows=(replace(row, series=replace(row.series, model=f"{n} {all_at_once}")),))
        for n in range(count)
        for row in finding.rows[:1]
    ]
    text = written(hostile)
    assert len(text.encode()) <= LIMIT
    assert recall(text) is not None
    assert ("left out here" in text) == (count > 1)
    assert not re.search(r"@(?!<!-- -->)|<(?!!--|/?code>|/?sub>)", text)
    assert {len(cells) for cells in rows_of(text)} == {4}
