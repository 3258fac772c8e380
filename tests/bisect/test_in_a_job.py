"""In a GitHub Actions job, texts from commits remain mere text in the log and the summary."""

from __future__ import annotations

import io
import re
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from runner_log import commands

from torchperf_ci.bisect import command
from torchperf_ci.bisect.command import _beside, _earlier_answer, with_repeat_command
from torchperf_ci.culprits.culprit import Bisection, Culprit, write_culprits
from torchperf_ci.options.comparison_commands import BisectOptions
from torchperf_ci.series.points import Series
from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.verdict import Judgement, Verdict, write_verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOSTILE = "::error::boom %0A::add-mask::x | <img src=x> @octocat #1 [a](https://a.invalid) ##[add-mask]x"


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The summary of a job that this process runs in."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return tmp_path / "GITHUB_STEP_SUMMARY"


@contextmanager
def logged() -> Iterator[io.StringIO]:
    """Both channels, which a runner reads as one."""
    with redirect_stdout(io.StringIO()) as log, redirect_stderr(log):
        yield log


def test_a_hostile_commit_is_told_and_nothing_that_it_says_is_done(bisect, history, page: Path) -> None:
    good = history.cost(100, HOSTILE)
    culprit = history.cost(120, f"{HOSTILE}2", author="Eve ::error::x <e@e.invalid>")
    bad = history.cost(120, HOSTILE)
    with logged() as log:
        [named] = bisect("--good", good, "--bad", bad).culprits
    assert (named.commit, named.subject, named.author) == (culprit, f"{HOSTILE}2", "Eve ::error::x")
    busy = "::notice title=torchperf bisect::⚠ "  # this machine, while the test ran
    [done] = (line for line in commands(log.getvalue().splitlines()) if not line.startswith(busy))
    assert done.startswith("::warning title=culprit%3A ")
    summary = page.read_text()
    assert culprit[:10] in summary
    assert not re.search(r"<img|@octocat|\]\(https://a.invalid\)", summary)
    outputs = page.with_name("GITHUB_OUTPUT").read_text()
    assert re.search(rf"^commit<<(\S+)\n{culprit}\n\1$", outputs, re.MULTILINE)
    assert re.search(r"^status<<(\S+)\nfound\n\1$", outputs, re.MULTILINE)


def test_an_end_that_cannot_be_built_and_prints_commands_does_none(
    bisect, history, page: Path, quick: str
) -> None:
    good, bad = history.cost(100, HOSTILE), history.cost(100, HOSTILE)
    build = ("--python", quick, "--build", "echo '::set-output name=x::y'; echo '##[error]boom'; false")
    with logged() as log:
        assert bisect.code("--good", good, "--bad", bad, *build) == 2
    done = commands(log.getvalue().splitlines())
    assert [line.partition("::the good commit cannot be built")[0] for line in done] == [
        "::error title=torchperf"
    ]
    assert not page.exists()


SERIES = Series("o/r", "b", "m", "inference", "fp32", "eager", "cpu", "Xeon_48c", "latency(ms)")
SLOWER = Judgement("plan", verdicts=[Verdict(SERIES, "regressed", "")])
GOOD, BAD = "a" * 40, "b" * 40


@pytest.mark.parametrize(
    ("machine", "ends", "is_answer"),
    [
        ("Xeon_48c (cpu)", (), True),
        ("EPYC_96c (cpu)", (), False),
        ("Xeon_48c (cuda)", (), False),
        ("Xeon_48c (cpu)", (GOOD, BAD), True),
        ("Xeon_48c (cpu)", ("c" * 40, BAD), False),
    ],
)
def test_an_earlier_jobs_answer_counts_only_for_its_range_and_the_machine_that_got_slower(
    machine: str, ends: tuple[str, str], is_answer: bool, tmp_path: Path
) -> None:
    """Its label may have been given to another kind of machine that night, where nothing was slower."""
    options = replace(BisectOptions(), **dict(zip(("good", "bad"), ends, strict=False)))
    answer = Bisection("not-reproduced", GOOD, BAD, machine=machine)
    state = tmp_path / "state.jsonl"
    write_culprits(_beside(state, "culprits"), with_repeat_command(answer, options, SLOWER))
    assert bool(_earlier_answer(state, options, SLOWER)) == is_answer


NAMED = Bisection("found", GOOD, BAD, culprits=(Culprit(BAD, (BAD,), 1.0, Effect(1.1)),))
NOT_SLOWER = Bisection("not-reproduced", GOOD, BAD, "bad is not slower")


@pytest.mark.parametrize(
    ("deadline", "found", "is_answer"),
    [
        ("3600", NAMED, True),
        ("3600", replace(NAMED, why="limit"), False),
        ("1e-9", NAMED, False),
        ("1e-9", NOT_SLOWER, True),
    ],
)
def test_the_culprits_of_a_search_that_a_limit_ended_are_no_answer_for_the_next_night(
    bisect, page: Path, monkeypatch: pytest.MonkeyPatch, deadline: str, found: Bisection, is_answer: bool
) -> None:
    """It never went on to the second of two regressions, nor into a merge. Without a culprit, nothing is left."""
    monkeypatch.setattr(command, "bisect_commits", lambda *_: found)
    verdicts = bisect.out.with_name("verdicts.json")
    write_verdicts(verdicts, SLOWER)
    with logged():
        assert bisect.code("--verdicts", str(verdicts), "--deadline", deadline, command="") == 0
    options = BisectOptions(repo=str(bisect.repo), verdicts=str(verdicts))
    assert bool(_earlier_answer(bisect.state, options, SLOWER)) == is_answer
