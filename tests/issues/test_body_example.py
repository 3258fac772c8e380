"""From a night's files to the text of its issues, as people read it: the golden files beside this are worth a look."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from made_night import INCONCLUSIVE, JUDGEMENT, LOCATION, NIGHT, RUN_URL

from torchperf_ci.issues.body import IssueContext, issue_body, issue_title
from torchperf_ci.issues.findings import findings_of
from torchperf_ci.issues.lifecycle import remember_finding
from torchperf_ci.issues.memory import parse_memory

HERE = Path(__file__).parent
CONTEXT = IssueContext(NIGHT, RUN_URL, author_login="ada")


@pytest.mark.parametrize(
    ("location", "golden"), [(LOCATION, "found"), (INCONCLUSIVE, "inconclusive"), (None, "not-bisected")]
)
def test_the_issues_of_a_night(location, golden: str) -> None:
    findings = findings_of([JUDGEMENT], [location] if location else [], NIGHT, 3)
    texts = []
    for finding in findings:
        memory = remember_finding(None, finding, NIGHT)
        text = issue_body(finding, memory, CONTEXT)
        assert parse_memory(text) is not None
        texts.append(f"# {issue_title(finding)}\n\n{text}")
    compare("\n".join(texts), f"issues-{golden}.md")


def compare(text: str, name: str) -> None:
    golden = HERE / name
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text(), f"if this is meant: UPDATE_GOLDEN=1, and read {name}"
