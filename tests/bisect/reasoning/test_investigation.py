"""The choice of the next step, in complete bisections of ranges with known culprits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from simulated_range import Simulated, SimulatedRange, bisected, facts_of

from torchperf_ci.bisect.measurement_setup import BisectLimits
from torchperf_ci.bisect.reasoning.evidence import (
    BisectFacts,
    BisectReading,
    BuildAttempt,
    PlannedPair,
    ProbeFailure,
    SuspectRange,
)
from torchperf_ci.bisect.reasoning.investigation import Investigation
from torchperf_ci.bisect.reasoning.proof import MAX_PAIRS, MIN_TO_VERIFY
from torchperf_ci.bisect.reasoning.series_evidence import SeriesEvidence

if TYPE_CHECKING:
    from torchperf_ci.bisect.reasoning.culprit_search import CulpritSearch

N = 70


def a_range(changes, noise: float = 0.01, n: int = N, **more) -> SimulatedRange:
    """One series and one probe."""
    return SimulatedRange(n, {"s": Simulated(changes, noise)}, **more)


def steps(*positions: int) -> list[SuspectRange]:
    return [SuspectRange(position - 1, position) for position in positions]


@pytest.mark.parametrize("noise", [0.0, 0.005, 0.02])
@pytest.mark.parametrize("culprit", [1, 2, 35, 69, 70])
def test_the_culprit_is_named(culprit, noise) -> None:
    ended = bisected(a_range({culprit: 1.07}, noise))
    assert ended.culprits == {"s": steps(culprit)}
    assert len(ended.facts.builds) <= 2 + 7 + 2  # a binary search, and its neighbours


def test_what_is_proven_stays_proven_when_bad_looks_fast_later() -> None:
    """A probe of several series is read on after one of them is clear."""
    ended = bisected(a_range({35: 1.07}))
    fast = [BisectReading("p", 0, N, {"s": 0.0}, "confirm")] * 3 * MAX_PAIRS
    facts = replace(ended.facts, readings=(*ended.facts.readings, *fast))
    [evidence] = Investigation(a_range({}).question(), facts).regressed
    assert evidence.confirmation.word == "not slower"
    assert evidence.culprits == steps(35)


def test_what_was_never_measured_on_both_ends_is_not_taken_for_explained() -> None:
    """As where another probe has found the step."""
    noise = [0.001, -0.001, 0.0] * 4
    ends = [BisectReading("p", 0, N, {"s": 0.14 + error}, "confirm") for error in noise]
    step = [BisectReading("p", 34, 35, {"s": 0.07 + error}, "verify") for error in noise]
    evidence = SeriesEvidence(a_range({}).question(), BisectFacts((*ends, *step)), "s", "p")
    assert evidence.culprits == steps(35)
    assert SuspectRange(0, 34) in evidence.unexplained


def test_the_probe_with_the_fewest_pairs_is_confirmed_first() -> None:
    question = replace(a_range({}).question(), probes=["p", "q"])
    facts = BisectFacts((BisectReading("p", 0, N, {"s": 0.0}, "confirm"),))
    step = Investigation(question, facts).next_step()
    assert step is not None
    assert step.probe == "q"


def test_five_hundred_commits_take_little_more_than_seventy() -> None:
    ended = bisected(a_range({337: 1.07}, n=500))
    assert ended.culprits == {"s": steps(337)}
    assert len(ended.facts.builds) <= 2 + 9 + 2


def test_one_suspect_is_proven_as_well() -> None:
    ended = bisected(a_range({1: 1.07}, n=1))
    assert ended.culprits == {"s": steps(1)}
    assert sum(reading.purpose == "verify" for reading in ended.facts.readings) >= MIN_TO_VERIFY


def test_spikes_do_not_matter() -> None:
    for seed in range(5):
        assert bisected(a_range({37: 1.07}, seed=seed, spikes=0.08)).culprits == {"s": steps(37)}


def test_a_part_that_may_be_slower_is_asked_although_it_is_likelier_not() -> None:
    """Position 41 is slower by another 4%; five pairs of bad and good happened to be low."""
    read = {
        (0, 70, "confirm"): (0.121, 0.068, 0.06, 0.046, 0.048),
        (0, 39, "locate"): (0.004, -0.019, -0.006),
        (0, 41, "locate"): (0.088,),
        (0, 40, "locate"): (0.032, 0.027, 0.044, 0.032, 0.069, 0.037, 0.067),
        (39, 40, "verify"): (0.031, 0.024, 0.044, 0.022, 0.04, 0.027, 0.051, 0.042, 0.044, 0.048),
        (39, 39, "control"): (0.004, -0.011, 0.006),
    }
    readings = [
        BisectReading("p", *ends, {"s": value}, purpose, head_first=bool(number % 2))
        for (*ends, purpose), row in read.items()
        for number, value in enumerate(row)
    ]
    evidence = SeriesEvidence(a_range({}).question(), BisectFacts(tuple(readings)), "s", "p")
    assert evidence.culprits == [SuspectRange(39, 40)]
    assert [*evidence.unexplained] == [SuspectRange(40, 70)]


def test_every_culprit_rests_on_fresh_pairs_of_itself_and_the_one_before() -> None:
    ended = bisected(a_range({37: 1.07}))
    pairs = [r.purpose for r in ended.facts.readings if (r.base, r.head) == (36, 37)]
    assert pairs.count("verify") >= MIN_TO_VERIFY
    (evidence,) = ended.investigation.regressed
    assert len(evidence.tried[SuspectRange(36, 37)].log_ratios) == pairs.count("verify")


@pytest.mark.parametrize("row", [(36, 39), (25, 45)], ids=["three", "twenty"])
def test_unbuildable_neighbours_end_in_a_set(row) -> None:
    ended = bisected(a_range({37: 1.07}, unbuildable=frozenset(range(*row))))
    assert ended.culprits == {"s": [SuspectRange(row[0] - 1, row[1])]}


@pytest.mark.parametrize("culprit", [10, 22, 52])
def test_a_row_that_cannot_be_built_is_crossed_with_few_builds(culprit) -> None:
    """The middle and what is around it; the culprit is elsewhere."""
    row = frozenset(range(25, 45))
    ended = bisected(a_range({culprit: 1.07}, unbuildable=row))
    assert ended.culprits == {"s": steps(culprit)}
    assert len([build for build in ended.facts.builds if not build.ok]) <= 6


def test_where_the_probe_does_not_run_is_crossed_like_that_too() -> None:
    ended = bisected(a_range({52: 1.07}, fails={"p": frozenset(range(25, 45))}))
    assert ended.culprits == {"s": steps(52)}
    assert len(ended.facts.failures) <= 6


@pytest.mark.parametrize(
    ("changes", "culprits"),
    [
        ({17: 1.07, 50: 1.05}, (17, 50)),
        ({40: 1.06, 41: 1.06}, (40, 41)),
        ({1: 1.07, 70: 1.07}, (1, 70)),
        ({17: 1.07, 40: 1.06, 60: 1.05}, (17, 40, 60)),
        ({20: 1.07, 50: 1 / 1.035}, (20,)),
        ({20: 1 / 1.035, 50: 1.07}, (50,)),
        ({10: 1.10, 30: 1 / 1.10, 50: 1.07}, (50,)),
        ({10: 1.07, 30: 1.10, 50: 1 / 1.10}, (10,)),
    ],
    ids=[
        "two",
        "next to each other",
        "first and last",
        "three",
        "partly hidden",
        "hidden at first",
        "reverted before",
        "reverted after",
    ],
)
def test_all_that_lasts_is_found_one_by_one(changes, culprits) -> None:
    for seed in range(3):
        assert bisected(a_range(changes, seed=seed)).culprits == {"s": steps(*culprits)}


@pytest.mark.parametrize(
    "changes", [{}, {20: 1 / 1.07}, {20: 1.07, 50: 1 / 1.07}], ids=["nothing", "faster", "reverted"]
)
def test_nobody_is_named_where_the_end_is_not_slower(changes) -> None:
    for seed in range(100):
        ended = bisected(a_range(changes, noise=0.015, seed=seed, spikes=0.05))
        assert not ended.culprits
        assert ended.facts.built == {0, N}


def test_series_of_one_cause_share_its_search_and_each_proves_it() -> None:
    series = {"s": Simulated({20: 1.05}), "t": Simulated({20: 1.07}, noise=0.02, probe="q")}
    both = bisected(SimulatedRange(N, series))
    assert both.culprits == {"s": steps(20), "t": steps(20)}
    located = [reading for reading in both.facts.readings if reading.purpose == "locate"]
    assert {reading.probe for reading in located} == {"p"}, "the clearer one is asked"
    one = bisected(SimulatedRange(N, {"s": series["s"]}))
    assert len(both.facts.builds) <= len(one.facts.builds) + 1


@pytest.mark.parametrize("other", ["p", "q"], ids=["one probe", "two probes"])
def test_series_of_two_causes_are_told_apart(other) -> None:
    series = {"s": Simulated({20: 1.05}), "t": Simulated({50: 1.07}, probe=other)}
    assert bisected(SimulatedRange(N, series)).culprits == {"s": steps(20), "t": steps(50)}


@pytest.mark.parametrize("other", ["p", "q"], ids=["one probe", "two probes"])
def test_a_series_with_a_culprit_is_searched_though_that_of_a_clearer_one_is_in_vain(other) -> None:
    """The clearer one gets a little slower with every commit, and takes all pairs that a search may."""
    creep = dict.fromkeys(range(1, 41), 1.004)
    series = {"s": Simulated(creep, noise=0.003), "t": Simulated({30: 1.07}, noise=0.01, probe=other)}
    ended = bisected(SimulatedRange(40, series))
    assert ended.culprits == {"t": steps(30)}
    assert [search.is_spent for search in ended.investigation.searches] == [True]


def test_series_are_searched_together_for_as_long_as_they_agree() -> None:
    def agreeing(late: int) -> list[int]:
        series = {"s": Simulated({20: 1.05}), "t": Simulated({late: 1.05})}
        ended = bisected(SimulatedRange(N, series))
        moments = [Investigation(ended.investigation.question, facts_of(ended.events[:k])) for k in range(20)]
        return [len(moment.searches[0].agreeing) for moment in moments if moment.searches]

    together, apart = agreeing(20), agreeing(50)
    assert set(together) == {2}
    assert (apart[0], apart[-1]) == (2, 1)


def test_a_commit_that_both_share_and_one_that_only_one_has() -> None:
    series = {"s": Simulated({20: 1.06}), "t": Simulated({20: 1.06, 50: 1.06}, probe="q")}
    assert bisected(SimulatedRange(N, series)).culprits == {"s": steps(20), "t": steps(20, 50)}


def test_a_noisy_probe_does_not_hold_up_a_clear_one() -> None:
    series = {"s": Simulated({20: 1.05}), "t": Simulated({}, noise=0.1, probe="q")}
    ended = bisected(SimulatedRange(N, series))
    assert ended.culprits == {"s": steps(20)}
    proven = max(place for place, r in enumerate(ended.facts.readings) if r.purpose == "verify")
    before = [reading.probe for reading in ended.facts.readings[:proven]]
    assert before.count("q") <= 9
    assert sum(reading.probe == "q" for reading in ended.facts.readings) <= MAX_PAIRS


@pytest.mark.parametrize("clearest", ["s", "t"])
@pytest.mark.parametrize("place", [19, 20])
def test_a_probe_that_does_not_run_at_the_culprit_is_not_asked_there_for_ever(place, clearest) -> None:
    """It is located as closely as it runs, and the other one is located exactly."""
    series = {name: Simulated({20: 1.07 if name == clearest else 1.06}, probe=name) for name in "st"}
    ended = bisected(SimulatedRange(N, series, fails={"t": frozenset({place})}))
    assert ended.culprits == {"s": steps(20), "t": [SuspectRange(place - 1, place + 1)]}
    assert len(ended.facts.failures) == 1


def test_where_a_probe_does_not_run_the_culprit_of_another_is_located_exactly() -> None:
    series = {"s": Simulated({20: 1.07}), "t": Simulated({35: 1.06}, probe="q")}
    ended = bisected(SimulatedRange(N, series, fails={"p": frozenset(range(30, 40))}))
    assert ended.culprits == {"s": steps(20), "t": steps(35)}


@pytest.mark.parametrize(
    ("absent", "culprit"),
    [
        (range(30, 40), SuspectRange(19, 20)),
        (range(12, 30), SuspectRange(11, 30)),
        ((20,), SuspectRange(19, 21)),
    ],
)
def test_a_series_that_some_commits_do_not_have_is_searched_on_the_others(absent, culprit) -> None:
    """One that good lacks cannot be confirmed, and is left alone."""
    series = {
        "s": Simulated({20: 1.07}, absent=frozenset(absent)),
        "t": Simulated({35: 1.06}),
        "u": Simulated({35: 1.10}, absent=frozenset({0})),
    }
    assert bisected(SimulatedRange(N, series)).culprits == {"s": [culprit], "t": steps(35)}


def test_a_series_that_is_mostly_lost_ends_as_unknown() -> None:
    series = {"s": Simulated({20: 1.07}), "t": Simulated(noise=0.1, lost=0.95, probe="q")}
    ended = bisected(SimulatedRange(N, series | {"u": Simulated(probe="q")}))
    assert {one.name: one.confirmation.word for one in ended.investigation.series}["t"] == "unknown"


def test_a_probe_that_does_not_run_at_the_end_leaves_the_others_alone() -> None:
    series = {"s": Simulated({20: 1.07}), "t": Simulated({20: 1.06}, probe="q")}
    ended = bisected(SimulatedRange(N, series, fails={"q": frozenset({N})}))
    assert ended.culprits == {"s": steps(20)}
    assert ended.investigation.probes == ["p"]


def test_what_fails_only_when_it_is_to_be_proven_ends() -> None:
    """A build that was measured, and made room for others, may not come back."""
    ended = bisected(a_range({37: 1.07}))
    proofs = [r for r in ended.facts.readings if r.purpose in ("verify", "control")]
    located = replace(ended.facts, readings=ended.facts.readings[: -len(proofs)])
    question = ended.investigation.question
    planned = Investigation(question, located).next_step()
    assert planned is not None
    assert replace(planned, head_first=False) == PlannedPair("p", 36, 37, "verify")
    lost = replace(located, failures=(ProbeFailure("p", 37, "it cannot be made again"),))
    step = Investigation(question, lost).next_step()
    assert step is None or 37 not in (step.base, step.head)


def test_weights_lead_the_search_but_rule_nobody_out() -> None:
    weights = np.ones(N)
    weights[:10] = 10.0
    question = replace(a_range({}).question(), weights=weights / weights.sum())
    for culprit in (5, 60):
        world = a_range({culprit: 1.07})
        assert bisected(world, question=question).culprits == {"s": steps(culprit)}


@pytest.mark.parametrize("limits", [BisectLimits(builds=5), BisectLimits(pairs=14)], ids=["builds", "pairs"])
def test_a_limit_leaves_suspects_among_whom_the_culprit_is(limits) -> None:
    for seed in range(10):
        ended = bisected(a_range({37: 1.07}, seed=seed), limits)
        assert ended.ended_by in ("--max-builds", "--max-runs")
        assert not ended.culprits
        (search,) = ended.investigation.searches
        suspects = search.suspects()
        assert 37 in suspects
        assert len(suspects) < N / 2
        assert len(ended.facts.builds) <= 5 or limits.builds is None
        assert len(ended.facts.readings) <= 14 or limits.pairs is None


def test_a_bisection_goes_on_from_any_of_its_moments() -> None:
    """As does the next job: the same facts give the same step, which is the one that was taken."""
    world = a_range({17: 1.07, 50: 1.05}, unbuildable=frozenset({16, 35}))
    ended = bisected(world)
    question = world.question()
    for count, event in enumerate(ended.events):
        facts = facts_of(ended.events[:count])
        step = Investigation(question, facts).next_step()
        assert step == Investigation(question, facts_of(ended.events[:count])).next_step()
        assert step, "it had not ended there"
        if isinstance(event, BuildAttempt):
            assert event.position in (step.base, step.head)
        else:
            assert (event.base, event.head, event.purpose) == (step.base, step.head, step.purpose)
    assert Investigation(question, ended.facts).next_step() is None


def test_the_first_step_is_to_confirm() -> None:
    world = a_range({})
    assert Investigation(world.question(), BisectFacts()).next_step() == PlannedPair("p", 0, N, "confirm")
    assert Investigation(world.question(), BisectFacts()).searches == []


def test_a_search_for_what_no_single_commit_has_done_ends() -> None:
    """Fourteen of half a percent each."""
    creep = {5 * place: 1.005 for place in range(1, 15)}
    for seed in range(3):
        ended = bisected(a_range(creep, noise=0.01, seed=seed))
        assert not ended.culprits
        assert len(ended.facts.readings) <= 150


def test_a_search_that_found_no_culprit_in_time_leaves_nearly_all_suspects() -> None:
    """Its pairs point at a few commits of fourteen that did it together: odds of one culprit are not to be believed."""
    ended = bisected(a_range({5 * place: 1.005 for place in range(1, 15)}, noise=0.01))
    (search,) = ended.investigation.searches
    assert search.is_spent
    assert len(search.suspects()) > 0.9 * N


def test_where_no_pair_tells_more_the_likeliest_step_has_its_proof() -> None:
    """The first build of good is a slow one by chance, which every pair shares: commit 1 stays a suspect."""
    ended = bisected(a_range({35: 1.12}, seed=26, luck=0.012, rebuilds=True))
    assert ended.culprits == {"s": steps(35)}
    assert ended.investigation.searches == []


def test_a_step_on_which_all_readings_insist_is_given_up_only_after_many_pairs() -> None:
    """It is measured from both sides; its own first pairs read little."""
    world = a_range({35: 1.04}, 0.015)
    located = [
        *(one for one in bisected(world).facts.readings if one.purpose in ("confirm", "locate")),
        *(BisectReading("p", 0, head, {"s": read}, "locate") for head, read in [(34, 0.0), (35, 0.04)] * 6),
    ]

    def search(fresh: int) -> CulpritSearch:
        """After so many pairs of the step that read 0.8%."""
        pairs = [BisectReading("p", 34, 35, {"s": 0.008 + (-1) ** k * 0.012}, "verify") for k in range(fresh)]
        (found,) = Investigation(world.question(), BisectFacts((*located, *pairs))).searches
        return found

    (step,) = steps(35)
    assert (search(6).step, search(6).disputed_step) == (step, None)  # its proof is open
    assert (search(8).step, search(8).disputed_step) == (None, step)  # refuted
    assert (search(12).step, search(12).disputed_step) == (None, None)  # and nothing insists on it any more


def test_where_nothing_else_is_left_to_do_such_a_step_is_proven_after_all() -> None:
    """Its first pairs read too little to prove it, and many before had shown it."""
    ended = bisected(a_range({3: 1.03}, 0.03, n=6, seed=16, spikes=0.05))
    assert ended.culprits == {"s": steps(3)}
    assert ended.investigation.searches == []


def test_a_culprit_after_many_small_commits_is_named() -> None:
    """Before it they add up to a third of the whole change, which no single one of them has made."""
    changes = dict.fromkeys(range(1, 101), 1.0003) | {90: 1.05}
    assert bisected(a_range(changes, n=100, seed=1)).culprits == {"s": steps(90)}
