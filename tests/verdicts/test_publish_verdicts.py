from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.console import print_document
from torchperf_ci.errors import OutputDirectoryError
from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.verdict import read_verdicts
from torchperf_ci.verdicts.verdict_document import publish_verdicts, verdict_annotations, verdicts_document

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torchperf_ci.verdicts.verdict import Judgement, Verdict


def words(shown: str) -> list[str]:
    """The first words of the table's lines."""
    return [line.split(" ")[0] for line in shown.splitlines()]


def printed(judgement: Judgement) -> str:
    out = io.StringIO()
    print_document(verdicts_document([judgement]), out)
    return out.getvalue()


def outputs(job: Path) -> dict[str, str]:
    found = re.findall(r"^(.+)<<(.+)\n(.*)\n\2$", (job / "output").read_text(), re.MULTILINE)
    return {name: value for name, _, value in found}


@pytest.fixture(autouse=True)
def _not_in_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


def test_the_table_has_the_worst_first_and_only_what_is_not_unchanged(judgement: Judgement) -> None:
    text = printed(judgement)
    assert words(text) == [
        *("torch", "inference", "verdict"),
        *("regressed", "regressed", "broken", "candidate", "improved", "fixed"),
        *("noisy", "not-comparable", "missing", "new"),
        *("latency(ms):", "2"),
    ]


def test_what_a_failed_case_lacks_for_one_reason_is_one_line(
    judgement: Judgement, verdict: Callable[..., Verdict]
) -> None:
    lacking = [
        verdict("missing", "bert", metric=metric, why="oom", old=1.0) for metric in ("latency", "memory")
    ]
    other = verdict("missing", "bert", metric="flops", why="not counted")
    lines = printed(replace(judgement, verdicts=[*judgement.verdicts, *lacking, other])).splitlines()
    missing = [line.split() for line in lines if line.startswith("missing")]
    assert [" ".join(line) for line in missing] == [
        "missing gone latency(ms) because",
        "missing bert 2 metrics oom (latency, memory)",
        "missing bert flops not counted",
    ]


def test_changes_for_one_reason_keep_their_numbers(
    judgement: Judgement, verdict: Callable[..., Verdict]
) -> None:
    undirected = [
        verdict("noisy", "bert", metric=metric, why="no direction", effect=Effect(ratio, ratio, ratio))
        for metric, ratio in (("hits", 1.5), ("misses", 0.5))
    ]
    text = printed(replace(judgement, verdicts=[*judgement.verdicts, *undirected]))
    assert [change in text for change in ("+50.0%", "−50.0%", "2 metrics")] == [True, True, False]


def test_a_long_table_says_how_much_is_left_out(judgement: Judgement) -> None:
    text = printed(replace(judgement, verdicts=[judgement.verdicts[-1]] * 130, suites=[], notes=[]))
    assert words(text).count("regressed") == 100
    assert text.endswith("and 30 more, all of them in the file\n")


def test_nothing_hostile_reaches_a_terminal(hostile: Judgement) -> None:
    text = printed(hostile)
    assert "\x1b" not in text
    assert "octocat" in text
    assert not re.search("^::", text, re.MULTILINE)


def test_outside_a_job_there_is_a_table_and_a_file(judgement, tmp_path: Path, capsys) -> None:
    publish_verdicts(judgement, tmp_path / "v.json", json_output=False)
    shown = capsys.readouterr()
    assert "vision/resnet18" in shown.out
    assert shown.err.startswith("2 regressed, 1 broken, ")
    assert shown.err.endswith(f"; verdicts in {tmp_path / 'v.json'}\n")
    assert read_verdicts(tmp_path / "v.json") == judgement


def test_a_first_run_is_one_sentence(judgement, tmp_path: Path, capsys) -> None:
    new = [replace(judgement.verdicts[-1], verdict="new") for _ in range(51)]
    publish_verdicts(
        replace(judgement, command="check", verdicts=new, suites=[], notes=[]),
        tmp_path / "v",
        json_output=False,
    )
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 2  # what was set against what
    assert (
        shown.err
        == f"51 series are new; they are judged from the sixth run on; verdicts in {tmp_path / 'v'}\n"
    )


def test_how_little_was_judged_is_the_last_to_be_read(judgement, tmp_path: Path, capsys) -> None:
    few = [judgement.verdicts[0], *[replace(judgement.verdicts[-1], verdict="missing", why="no job")] * 3]
    publish_verdicts(replace(judgement, verdicts=few, notes=["⚠ load 9"]), tmp_path / "v", json_output=False)
    shown = capsys.readouterr()
    assert shown.out.splitlines()[-3:] == [
        "Only 1 of 4 series were judged: 3 missing (no job).",
        "Judging the rest takes a run that measures what is missing.",
        "⚠ load 9",
    ]
    assert shown.err.startswith("too little could be judged: 1 unchanged, 3 missing; ")


def test_as_json_the_file_itself_is_printed(judgement, tmp_path: Path, capsys) -> None:
    publish_verdicts(judgement, tmp_path / "v.json", json_output=True)
    shown = capsys.readouterr().out
    assert shown == (tmp_path / "v.json").read_text()
    assert json.loads(shown)["version"] == 1


def test_a_job_gets_a_summary_annotations_and_outputs(judgement, job: Path, capsys) -> None:
    publish_verdicts(judgement, job / "v.json", json_output=False)
    assert (job / "summary").read_text().startswith("### ❌ Performance: 2 regressed, 1 broken")
    assert outputs(job) == {
        "verdicts": str(job / "v.json"),
        "regressed": "2",
        "broken": "1",
        "candidates": "1",
        "improved": "1",
        "fixed": "1",
        "judged": "66",
        "unjudged": "5",
    }
    commands = re.findall(
        r"^::(error|warning|notice) title=([^:]*)::(.*)$", capsys.readouterr().err, re.MULTILINE
    )
    assert [level for level, _, _ in commands] == ["error", "error", "error", "warning", "notice"]
    _, title, message = commands[0]
    assert title == "regressed%3A vision/resnet18 latency(ms) (inference bf16 eager cuda)"
    assert message == "1.213 → 1.251 ms: +3.1%25 (+2.4…+3.9); because"


def test_a_job_takes_hostile_text_as_text(hostile, job: Path, capsys) -> None:
    publish_verdicts(hostile, job / "v.json", json_output=False)
    lines = capsys.readouterr().err.splitlines()
    assert not [line for line in lines if line.startswith("::error::")]
    assert outputs(job)["regressed"] == "2"


@pytest.mark.parametrize("json_output", [False, True])
def test_nothing_on_stdout_is_a_command_whenever_the_runner_reads_it(
    hostile, job: Path, capsys, json_output: bool
) -> None:
    """It reads stdout apart from stderr, so no fence on the other channel helps."""
    publish_verdicts(hostile, job / "v.json", json_output=json_output)
    shown = capsys.readouterr().out.splitlines()
    assert not [line for line in shown if "##[" in line or line.strip().startswith("::")]
    if json_output:
        assert json.loads("".join(shown)) == json.loads((job / "v.json").read_text())


def test_red_series_come_first_among_ten_annotations(judgement, job: Path, capsys) -> None:
    many = replace(judgement, verdicts=[judgement.verdicts[2 + 60]] * 8 + [judgement.verdicts[-1]] * 8)
    publish_verdicts(many, job / "v.json", json_output=False)
    shown = re.findall(r"^::(error|warning|notice) ?.*$", capsys.readouterr().err, re.MULTILINE)
    assert shown == ["error"] * 8 + ["warning"] * 2
    assert len(verdict_annotations(many)) == 17


def test_a_summary_of_thousands_fits(judgement, job: Path) -> None:
    publish_verdicts(
        replace(judgement, verdicts=[judgement.verdicts[-1]] * 3000), job / "v.json", json_output=True
    )
    assert (job / "summary").stat().st_size < 2**19
    assert "left out here" in (job / "summary").read_text()


def test_what_cannot_be_written_is_told_first(
    judgement: Judgement, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "verdicts.json"
    out.mkdir()
    with pytest.raises(OutputDirectoryError, match=r"verdicts\.json: cannot be written"):
        publish_verdicts(judgement, out, json_output=False)
    printed = capsys.readouterr()
    assert "regressed" in printed.out
    assert "verdicts in" not in printed.err
