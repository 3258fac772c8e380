"""No report contains invisible characters: control codes, ESC, bidirectional overrides, zero-width characters."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from made_night import hostile_night

from torchperf_ci.cli import main
from torchperf_ci.culprits.culprit import write_culprits
from torchperf_ci.verdicts.verdict import RepeatOptions, SuiteMean, write_verdicts

if TYPE_CHECKING:
    from pathlib import Path

UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
OWN = "\n\N{WORD JOINER}"
HOSTILE = "a\0\x07\x1b[31m\x1b]0;x\x9b2J\r\u202e\u2066b\u200b\u2028\ufeff\xad\U000e0041::error::x"


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    judgement, location = hostile_night(HOSTILE)
    (culprit,) = location.culprits
    inside = replace(culprit.inside, files=("profile.json",))  # paths of other forms are refused
    location = replace(location, culprits=(replace(culprit, inside=inside),))
    again = RepeatOptions("a" * 40, "b" * 40, ("--suite", HOSTILE), HOSTILE, HOSTILE)
    suite = SuiteMean(HOSTILE, judgement.verdicts[0].effect, 3)
    write_verdicts(
        tmp_path / "v.json", replace(judgement, reproduction=again, notes=[HOSTILE], suites=[suite])
    )
    write_culprits(tmp_path / "c.json", location)
    return ["--verdicts", str(tmp_path / "v.json"), "--culprits", str(tmp_path / "c.json")]


def unseen(text: str) -> set[str]:
    return {char for char in text if unicodedata.category(char) in UNSEEN and char not in OWN}


@pytest.mark.parametrize("to", ["comment", "issues", "page"])
def test_no_draft_and_no_page_holds_what_nobody_sees(files: list[str], tmp_path: Path, to: str) -> None:
    out = tmp_path / "out"
    where = [str(out)] if to == "page" else [to, "--dry-run", "--out", str(out), "--repo", "octo/perf"]
    pull_request = ["--pull-request", "7"] if to == "comment" else []
    assert main(["report", *files, "--to", *where, *pull_request]) == 0
    texts = [path.read_text(encoding="utf-8") for path in out.iterdir()]
    assert texts
    assert set().union(*map(unseen, texts)) == set()
    assert any(r"\x1b" in text or "&#92;x1b" in text for text in texts), "it is written out"


def test_no_summary_and_no_log_either(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", *files, "--to", "summary"]) == 0
    shown = capsys.readouterr()
    assert unseen(shown.out + shown.err) == set()
