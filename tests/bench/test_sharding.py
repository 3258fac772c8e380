from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchperf_ci.bench.case import Case, cases_of_shard

SECONDS = st.floats(0, 1e6, allow_subnormal=False)


def cases(count: int) -> tuple[Case, ...]:
    return tuple(Case(f"vision/w{number}", "inference", "fp32", "eager", 8) for number in range(count))


def known(*seconds: float) -> dict[str, float]:
    """What the first cases cost."""
    return {
        case.cost_key: cost
        for case, cost in zip(cases(len(seconds)), seconds, strict=True)
        if cost is not None
    }


def shards(count: int, of: int, costs: dict[str, float] | None) -> list[tuple[Case, ...]]:
    return [cases_of_shard(cases(count), (number, of), costs or {}) for number in range(1, of + 1)]


def load(shard: tuple[Case, ...], costs: dict[str, float]) -> float:
    return sum(costs[case.cost_key] for case in shard)


@given(st.integers(0, 40), st.integers(1, 9), st.lists(st.none() | SECONDS, max_size=40) | st.none())
def test_all_shards_together_have_every_case_once_whatever_the_costs(count, of, seconds) -> None:
    found = shards(count, of, None if seconds is None else known(*seconds))
    assert sorted(case for shard in found for case in map(str, shard)) == sorted(map(str, cases(count)))


@given(st.lists(SECONDS, min_size=1, max_size=40), st.integers(1, 9))
def test_no_shard_takes_longer_than_the_theorem_allows(seconds: list[float], of: int) -> None:
    """Whatever the split, the longest shard takes the mean, and the longest case; Graham's bound is on the best one."""
    costs = known(*seconds)
    longest = max(load(shard, costs) for shard in shards(len(seconds), of, costs))
    assert longest <= sum(seconds) / of + max(seconds) * (1 - 1 / of) + 1e-6 * sum(seconds)


@given(st.lists(SECONDS, min_size=1, max_size=40), st.integers(1, 9))
def test_no_shard_is_idle_where_there_are_cases_enough(seconds: list[float], of: int) -> None:
    found = shards(len(seconds), of, known(*seconds))
    assert sum(map(bool, found)) == min(of, len(seconds))


def test_the_long_cases_are_apart() -> None:
    costs = known(100, 90, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
    assert [load(shard, costs) for shard in shards(12, 2, costs)] == [100, 100]
    assert [len(shard) for shard in shards(12, 2, None)] == [6, 6]


def test_a_case_that_nobody_knows_costs_the_median_of_the_known() -> None:
    first, second = shards(4, 2, known(30, 20, 10))
    assert [[case.workload for case in shard] for shard in (first, second)] == [
        ["vision/w0", "vision/w2"],
        ["vision/w1", "vision/w3"],
    ]


def test_a_shard_keeps_the_order_of_the_cases() -> None:
    (shard, _) = shards(6, 2, known(1, 5, 2, 4, 3, 6))
    numbers = [int(case.workload.removeprefix("vision/w")) for case in shard]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("costs", [{}, known(*[7] * 9), known(*[0] * 9)])
def test_equal_costs_make_equally_many_cases(costs: dict[str, float]) -> None:
    assert [len(shard) for shard in shards(9, 4, costs)] == [3, 2, 2, 2]


def test_the_batch_size_does_not_matter() -> None:
    small, large = (
        [Case(name, "inference", "fp32", "eager", size) for name in ("a", "b", "c")] for size in (0, 64)
    )
    costs = {small[2].cost_key: 9.0, small[0].cost_key: 1.0, small[1].cost_key: 8.0}
    names = [[case.workload for case in cases_of_shard(of, (1, 2), costs)] for of in (small, large)]
    assert names == [["c"], ["c"]]
