"""Handmade results of nights: verdicts and bisections of a few series."""

from __future__ import annotations

from dataclasses import replace
from math import log
from typing import TYPE_CHECKING, Any

from torchperf_ci.culprits.culprit import Bisection, Culprit, SeriesEffect
from torchperf_ci.series.points import Series
from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.verdict import CommitRange, Evidence, Judgement, RangeEnd, Verdict

if TYPE_CHECKING:
    from torchperf_ci.verdicts.verdict import VerdictWord

GOOD, BAD = "1" * 40, "2" * 40
CULPRIT, OTHER = "c" * 40, "d" * 40
ARCHES = {"cuda": "NVIDIA H100", "cpu": "Xeon", "mps": "M2"}


def series(model: str = "resnet18", device: str = "cuda", metric: str = "latency(ms)") -> Series:
    """A latency, unless ``metric`` says otherwise."""
    return Series("octo/perf", "ci", model, "inference", "fp32", "eager", device, ARCHES[device], metric)


def regressed(
    of: Series,
    new: float = 1.1,
    old: float = 1.0,
    ends: tuple[str, str] = (GOOD, BAD),
    noise: float = 0.005,
    times: tuple[float, float] = (0, 0),
) -> Verdict:
    """Worse than history, between runs of two commits at two times."""
    ratio = new / old
    old_end, new_end = (RangeEnd(commit, timestamp=when) for commit, when in zip(ends, times, strict=True))
    evidence = Evidence(CommitRange(old_end, new_end))
    effect = Effect(ratio, ratio - 0.01, ratio + 0.01, 10)
    return Verdict(of, "regressed", "slower", effect, old, new, noise, evidence=evidence)


def measured(
    of: Series, new: float | None = 1.0, word: VerdictWord = "unchanged", noise: float = 0.005
) -> Verdict:
    """Not worse than history, which may have got used to it."""
    return Verdict(of, word, "as before", old=1.0, new=new, noise=noise)


def outcome(model: str, nights: int, device: str = "cuda") -> Verdict:
    """Whether a case passes: it has failed for so many nights."""
    found = Series("octo/perf", "ci", model, "inference", "fp32", "eager", device, ARCHES[device], "status")
    if not nights:
        return Verdict(found, "unchanged", "passes", old=1.0, new=1.0)
    word: VerdictWord = "broken" if nights == 1 else "unchanged"
    return Verdict(found, word, "failed: no memory", old=1.0, new=0.0, evidence=Evidence(failing=nights))


def located(
    *of: Verdict, commit: str = CULPRIT, ends: tuple[str, str] = (GOOD, BAD), **given: Any
) -> Bisection:
    """A bisection that proved one commit, measured on the machine of the first verdict."""
    effects = [verdict.effect or Effect(1.1, 1.09, 1.11, 10) for verdict in of]
    changes = tuple(
        SeriesEffect(str(verdict.series), effect, (log(effect.ratio),) * 10)
        for verdict, effect in zip(of, effects, strict=True)
    )
    subject = {"author": "Ada", "date": "2026-11-01T00:00:00+00:00", "subject": "Simplify the scheduler"}
    url = f"https://github.example/octo/perf/commit/{commit}"
    culprit = Culprit(commit, (commit,), 0.99, effects[0], changes, url=url, **subject)
    first = of[0].series
    return Bisection("found", *ends, machine=f"{first.arch} ({first.device})", culprits=(culprit,), **given)


def located_within(*of: Verdict, commits: tuple[str, ...], **given: Any) -> Bisection:
    """A bisection that proved a step of several commits, or of one."""
    bisection = located(*of, commit=commits[-1], **given)
    (culprit,) = bisection.culprits
    one = commits[0] if len(commits) == 1 else None
    return replace(bisection, culprits=(replace(culprit, commit=one, set=commits),))


def judged(*verdicts: Verdict) -> Judgement:
    """A night's file."""
    return Judgement("check", "history", "tonight", verdicts)
