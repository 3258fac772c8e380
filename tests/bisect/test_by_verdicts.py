"""Bisection from verdicts: real torch processes measure what got worse over the range that the verdicts name.

One pair of each two builds is real, and the others repeat it: tests/actions measures one of each order.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import planted_changes
import pytest
from repeated_pairs import repeating
from slowed_repository import Repository, make_repository

from torchperf_ci.bench import pairs
from torchperf_ci.bench.pairs import Pair
from torchperf_ci.bisect import laboratory, search
from torchperf_ci.culprits.culprit import read_culprits
from torchperf_ci.series.points import Series
from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.verdict import CommitRange, Evidence, Judgement, RangeEnd, Verdict, write_verdicts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def verdict(
    metric: str = "latency(ms)", word: str = "regressed", model: str = "smallnet/bags", **more
) -> Verdict:
    series = Series("o/r", "b", model, "inference", "fp32", "eager", "cpu", "", metric)
    return Verdict(series, word, "because", **more)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return make_repository(tmp_path / "smallnet", {1: planted_changes.validation(times=6)}, commits=2)


@pytest.fixture
def bisect_verdicts(
    bisect, repository: Repository, torch_environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable:
    """What is planted is large, so that few blocks are enough."""
    monkeypatch.setattr(pairs, "QUADS", 3)
    monkeypatch.setattr(laboratory, "measure_pair", repeating(laboratory.measure_pair))
    bisect.repo = repository.path
    file = tmp_path / "verdicts.json"
    where = ("--suite", str(repository.suite), "--python", str(torch_environment / "bin/python"))

    def call(*verdicts: Verdict, more: tuple[str, ...] = (), code: int = 0):
        write_verdicts(file, Judgement("check", "", "", verdicts))
        return bisect.code("--verdicts", str(file), *where, *more, command="") == code

    return call


def effect_of(ratio: float) -> Effect:
    return Effect(ratio, ratio - 0.01, ratio + 0.01, 10)


def points(repository: Repository, old: int, new: int) -> Evidence:
    return Evidence(CommitRange(*(RangeEnd(repository.sha(end), timestamp=end) for end in (old, new))))


def test_what_got_worse_is_found_in_the_range_of_its_evidence(
    bisect_verdicts, bisect, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = verdict("status", "broken", model="smallnet/blocks")
    compiling = verdict("warm_compile_time(s)", model="smallnet/blocks")
    verdicts = (verdict(evidence=points(repository, 0, 1)), compiling, broken)
    assert bisect_verdicts(*verdicts)
    location = read_culprits(bisect.out)
    assert "--workload smallnet/bags --suite" in location.command, "only what can be bisected is repeated"
    assert (location.good, location.bad) == (repository.sha(0), repository.sha(1))
    assert [one.commit for one in location.culprits] == [repository.sha(1)]
    assert location.culprits[0].series[0].name == str(verdict().series)
    assert location.culprits[0].effect.ratio > 1.2
    assert "is not bisected: what fails has no number to bisect by" in location.notes[-1]
    inside = location.culprits[0].inside
    assert inside.probe == "smallnet/bags inference fp32 eager batch 128"
    checks = next(one for one in inside.moved if one.name == "aten::any")
    assert (checks.old_count, checks.new_count) == (2, 14)
    assert [(bisect.out.parent / file).stat().st_size > 0 for file in inside.files] == [True] * 3
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert bisect_verdicts(*verdicts), "the same call again"
    assert read_culprits(bisect.out).culprits == location.culprits
    with monkeypatch.context() as next_night:
        next_night.setattr(search, "_build_good", lambda *_: pytest.fail("an answered search is built again"))
        assert bisect_verdicts(*verdicts)
        answered = read_culprits(bisect.out)
        assert [culprit.effect for culprit in answered.culprits] == [location.culprits[0].effect]
        assert answered.culprits[0].inside.files == (), "they are among the earlier job's artifacts"
        with pytest.raises(pytest.fail.Exception):
            bisect_verdicts(*verdicts, more=("--min-effect", "0.5"))
        memory = verdict("peak_memory(MiB)", evidence=points(repository, 0, 1), effect=effect_of(1.9))
        with pytest.raises(
            pytest.fail.Exception
        ):  # the same command line, but another series is the clearest
            bisect_verdicts(*verdicts, memory)


def test_a_search_goes_on_in_the_next_nights_job_though_more_series_got_worse_since(
    bisect_verdicts, bisect, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pairs are made up; the builds are real, and asked what they can run."""
    pair = Pair((0.4,), 1e-3, 1e-3, {"peak_memory(MiB)": 10.0}, {"peak_memory(MiB)": 19.0})
    monkeypatch.setattr(laboratory, "measure_pair", lambda *_, **__: pair)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    where = points(repository, 0, 1)
    clear, small = effect_of(1.5), effect_of(1.05)
    first = verdict(evidence=where, effect=clear)
    assert bisect_verdicts(first, more=("--max-runs", "2"), code=5)
    begun = read_culprits(bisect.out)
    one_more = verdict(model="smallnet/blocks", evidence=where, effect=small)
    assert bisect_verdicts(one_more, first, more=("--max-runs", "3"), code=5)
    gone_on = read_culprits(bisect.out)
    assert gone_on.readings[:2] == begun.readings
    assert [*gone_on.readings[2].log_ratios] == [str(first.series)]
    other = verdict("peak_memory(MiB)", evidence=where, effect=effect_of(1.9))
    assert bisect_verdicts(first, other, more=("--max-runs", "2"), code=5), (
        "what is clearest now is searched for"
    )
    assert any(str(other.series) in reading.log_ratios for reading in read_culprits(bisect.out).readings)


def test_a_good_build_that_is_as_slow_here_as_bad_was_tells_of_the_machine(
    bisect_verdicts, bisect, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The builds are real, and asked what they can run; no pair of them is measured, since none differs."""
    noise = itertools.cycle([0.001, -0.001, 0.002])
    monkeypatch.setattr(laboratory, "measure_pair", lambda *_, **__: Pair((next(noise),), 1e-7, 1e-7))
    slower = verdict(old=1e-9, new=1e-4)  # in ms, as those seconds are
    ends = ("--good", repository.sha(1), "--bad", repository.sha(2), "--min-effect", "0.5")
    assert bisect_verdicts(slower, more=ends)
    location = read_culprits(bisect.out)
    assert (location.status, location.culprits) == ("environment", ())
    assert "the good build itself is as slow here now as bad was" in location.why
    assert "was 1e-09 and then 0.0001" in location.why


def test_verdicts_of_which_nothing_can_be_bisected_are_told(
    bisect_verdicts, repository: Repository, capsys
) -> None:
    ends = ("--good", repository.sha(0), "--bad", repository.sha(1))
    others = verdict("status", "broken"), verdict("warm_compile_time(s)"), verdict(model="other/net")
    assert bisect_verdicts(*others, verdict(word="improved"), more=ends, code=2)
    said = capsys.readouterr().err
    assert "the verdicts contain no regression that can be bisected" in said
    assert "there is no workload 'other/net' at the good commit: name its --suite" in said


@pytest.mark.parametrize(
    "evidence", [Evidence(), Evidence(CommitRange(RangeEnd("a" * 40), RangeEnd("b" * 40)))]
)
def test_verdicts_that_do_not_name_a_range_here_are_told(bisect_verdicts, evidence: Evidence, capsys) -> None:
    assert bisect_verdicts(verdict(evidence=evidence), code=2)
    said = capsys.readouterr().err
    assert "do not give a range of" in said
    assert "name it with --good and --bad" in said
