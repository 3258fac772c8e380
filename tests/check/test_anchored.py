"""An anchored series decides for the other series of its case."""

from __future__ import annotations

from typing import TYPE_CHECKING

from made_points import noisy, row, series
from made_verdicts import LATENCY, OTHER, judged

if TYPE_CHECKING:
    from torchperf_ci.verdicts.verdict import Verdict

ANCHORED = series("latency_vs_anchor(ratio)")
THROUGHPUT = series("throughput(samples/s)")
ANCHOR = {"anchor": "torch 2.12.0 abc"}


def verdicts(ratio: float, runs: int = 30, **fresh) -> dict[str, Verdict]:
    old = {
        ANCHORED: row(noisy(1.0, runs, cv=0.004), fingerprint=ANCHOR),
        LATENCY: row(noisy(10, 30, cv=0.01)),
        THROUGHPUT: row(noisy(100, 30, cv=0.01)),
    }
    new = {
        ANCHORED: row([ratio] * 3, 30, fingerprint=ANCHOR),
        LATENCY: row([14.0] * 3, 30, **fresh),
        THROUGHPUT: row([100 / 1.4] * 3, 30, **fresh),
    }
    return judged(old, new)


def test_it_speaks_for_the_latency() -> None:
    found = verdicts(1.0)
    assert {verdict.verdict for verdict in found.values()} == {"unchanged"}
    assert found["latency(ms)"].why.startswith("follows the anchored series")
    assert found["latency(ms)"].new == 14.0


def test_its_regression_is_that_of_the_latency() -> None:
    found = verdicts(1.05)
    assert {metric: verdict.verdict for metric, verdict in found.items()} == {
        "latency_vs_anchor(ratio)": "regressed",
        "latency(ms)": "regressed",
    }
    assert found["latency(ms)"].effect == found["latency_vs_anchor(ratio)"].effect


def test_each_has_the_points_of_its_own_chart() -> None:
    found = verdicts(1.05)
    newest = {metric: verdict.evidence.points[-1].value for metric, verdict in found.items()}
    assert newest == {"latency_vs_anchor(ratio)": 1.05, "latency(ms)": 14.0}
    assert not [verdict for verdict in verdicts(1.0).values() if verdict.evidence.points]


def test_it_survives_a_change_of_machine() -> None:
    assert verdicts(1.05, fingerprint=OTHER)["latency(ms)"].verdict == "regressed"


def test_five_past_runs_are_enough_for_it_to_speak() -> None:
    old = {ANCHORED: row([1.0] * 5, fingerprint=ANCHOR), LATENCY: row(noisy(10, 5))}
    new = {ANCHORED: row([1.0], 5, fingerprint=ANCHOR), LATENCY: row([10.0], 5)}
    found = judged(old, new)["latency(ms)"]
    assert found.verdict == "unchanged"
    assert found.why.startswith("follows the anchored series")


def test_while_it_is_young_the_others_speak_for_themselves() -> None:
    found = verdicts(1.0, runs=3)
    assert found["latency_vs_anchor(ratio)"].verdict == "noisy"
    assert found["latency(ms)"].verdict == "regressed"
