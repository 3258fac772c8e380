"""Two directories of records."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.compare.case_verdicts import ComparisonPolicy
from torchperf_ci.compare.record_directories import compare_directories, holds_records
from torchperf_ci.config import Config, Rule
from torchperf_ci.errors import RecordsError, UsageError
from torchperf_ci.verdicts.headline import what_it_takes

if TYPE_CHECKING:
    from pathlib import Path

POLICY = ComparisonPolicy(Config())


def spread(level: float, values: int = 8, sd: float = 0.01, seed: str = "") -> list[float]:
    noise = random.Random(seed or level)
    return [level * (1 + noise.gauss(0, sd)) for _ in range(values)]


@pytest.mark.parametrize("side", ["base", "head"])
def test_what_was_measured_by_hand_is_compared_with_what_was_measured_in_a_job(folder, side: str) -> None:
    sides = {name: folder(name, latency=spread(10, seed=name)) for name in ("base", "head")}
    (file,) = sides[side].iterdir()
    file.write_text(json.dumps([{**record, "repo": "octo/perf"} for record in json.loads(file.read_text())]))
    (verdict,) = compare_directories(sides["base"], sides["head"], POLICY).verdicts
    assert verdict.verdict == "unchanged"
    (other,) = sides["head" if side == "base" else "base"].iterdir()
    other.write_text(file.read_text().replace("octo/perf", "octo/fork"))
    verdicts = compare_directories(sides["base"], sides["head"], POLICY).verdicts
    assert {verdict.verdict for verdict in verdicts} == {"missing", "new"}, (
        "another repository's are not compared"
    )


def judged(base: Path, head: Path, policy: ComparisonPolicy = POLICY):
    [verdict] = compare_directories(base, head, policy).verdicts
    return verdict


@pytest.mark.parametrize(
    ("metric", "new", "word"),
    [
        ("latency", 2.2, "regressed"),
        ("latency", 1.8, "improved"),
        ("latency", 2.0, "unchanged"),
        ("throughput", 2.2, "improved"),
        ("throughput", 1.8, "regressed"),
    ],
)
def test_numbers_are_judged_in_the_direction_of_their_metric(folder, metric, new, word) -> None:
    verdict = judged(folder("base", **{metric: spread(2.0)}), folder("head", **{metric: spread(new)}))
    assert verdict.verdict == word
    assert verdict.effect.low < new / 2.0 < verdict.effect.high
    assert verdict.old == pytest.approx(2.0, rel=0.02)
    assert (verdict.evidence.batch_size, verdict.evidence.threads) == (8, 2)


def test_weaker_evidence_is_called_so(folder) -> None:
    base, head = folder("base", latency=[1.0]), folder("head", latency=[1.5])
    (weaker,) = compare_directories(base, head, POLICY).notes
    assert "not pairs" in weaker
    assert compare_directories(base, base, POLICY).notes[0] == "base and head are the same records"


@pytest.mark.parametrize("sides", [("all", "all/new"), ("all/new", "all")])
def test_a_folder_within_the_other_is_refused(folder, tmp_path, sides: tuple[str, str]) -> None:
    """The records of head would count on both sides."""
    folder("all", latency=spread(1.0))
    folder("all/new", latency=spread(2.0))
    with pytest.raises(
        UsageError, match="hold some of the same files: give two folders, neither in the other"
    ):
        compare_directories(*(tmp_path / side for side in sides), POLICY)


def test_records_of_a_disturbed_run_are_told_of_before_all_else(folder) -> None:
    base = folder("base", latency=[1.0], status={"values": [1.0], "disturbed": "load 9.0 on 2 CPUs"})
    judgement = compare_directories(base, folder("head", latency=[1.0, 1.5]), POLICY)
    assert [note.partition(" run ")[0] for note in judgement.notes[:2]] == [
        "⚠ disturbed during the measurement on cpu (x),"
    ] * 2
    assert "base: 1 of 1 case, such as: load 9.0 on 2 CPUs" in judgement.notes[0]
    assert "head: processes of a case differ by 50%" in judgement.notes[1]


@pytest.mark.parametrize("values", [1, 3, 4])
def test_few_values_are_never_red(folder, values) -> None:
    base, head = folder("base", latency=spread(1.0, values)), folder("head", latency=spread(2.0, values))
    assert judged(base, head).verdict == "noisy"


@pytest.mark.parametrize(("new", "word"), [([0.5, 0.0, 0.9], "unchanged"), ([0.0, 0.0, 500.0], "noisy")])
def test_few_amounts_agree_only_if_all_are_alike(folder, new: list[float], word: str) -> None:
    assert judged(folder("base", leak=[0.0, 0.0, 0.1]), folder("head", leak=new)).verdict == word


def test_few_values_that_are_alike_are_unchanged(folder) -> None:
    base, head = (
        folder("base", latency=spread(1.0, 3, 0.003)),
        folder("head", latency=spread(1.001, 3, 0.003)),
    )
    assert judged(base, head).verdict == "unchanged"


@pytest.mark.parametrize(("metric", "level"), [("latency", 1.0), ("leak", 0.0)])
@pytest.mark.parametrize("counts", [(1, 1), (1, 5), (5, 1), (2, 2), (5, 2), (2, 8), (40, 1)])
def test_one_or_two_values_do_not_show_that_nothing_changed(
    folder, metric: str, level: float, counts
) -> None:
    base, head = (folder(str(side), **{metric: [level] * count}) for side, count in enumerate(counts))
    verdict = judged(base, head)
    assert (verdict.verdict, verdict.candidate) == ("noisy", False)
    assert verdict.why.endswith("now do not show how much they vary")


def test_values_that_spread_tell_nothing(folder) -> None:
    verdict = judged(folder("base", latency=spread(1.0, sd=0.3)), folder("head", latency=spread(1.1, sd=0.3)))
    assert (verdict.verdict, verdict.candidate) == ("noisy", False)
    assert "vary too much" in verdict.why


def test_what_records_cannot_tell_takes_more_values_and_not_a_longer_budget(folder) -> None:
    """Nothing is measured, so there are no pairs, and there is no budget."""
    base = folder("base", latency=spread(10, sd=0.1))
    said = what_it_takes(compare_directories(base, folder("head", latency=spread(10.5, sd=0.1)), POLICY))
    assert said.startswith("more values on both sides")
    assert "budget" not in said


def test_a_change_that_is_only_likely_is_a_candidate(folder) -> None:
    base = folder("base", latency=[1.0, 1.01, 1.02, 1.0, 1.105])
    verdict = judged(base, folder("head", latency=[1.1, 1.101, 1.12, 1.11, 1.12]))
    assert (verdict.verdict, verdict.candidate) == ("noisy", True)
    assert verdict.why.endswith("differ, which may be chance in one of so many series")


@pytest.mark.parametrize(("new", "word"), [(11.0, "noisy"), (12.0, "regressed"), (10.2, "regressed")])
def test_what_rounding_may_explain_is_no_change(folder, new: float, word: str) -> None:
    """Whole milliseconds are 10 and 11 where the times are 10.4 and 10.6."""
    base, head = folder("base", latency=[10.0] * 6), folder("head", latency=[new] * 6)
    verdict = judged(base, head, ComparisonPolicy(Config(), 0.005))
    assert (verdict.verdict, verdict.candidate) == (word, word == "noisy")
    assert verdict.effect.low < new / 10 < verdict.effect.high
    assert verdict.why.endswith("their last digit may hide: record more digits") == verdict.candidate


def test_many_series_share_the_chance_of_a_false_alarm(folder) -> None:
    """Of 119 series without any change; each by itself would be red once in a hundred."""
    sides = {
        side: {f"latency_{number}(ms)": spread(1.0, 8, 0.1, seed=f"{side}{number}") for number in range(120)}
        for side in ("base", "head")
    }
    sides["head"]["latency_7(ms)"] = spread(2.0, 8)
    found = compare_directories(folder("base", **sides["base"]), folder("head", **sides["head"]), POLICY)
    red = [verdict.series.metric for verdict in found.verdicts if verdict.is_red]
    assert red == ["latency_7(ms)"]


@pytest.mark.parametrize("values", [1, 3, 4])
def test_few_values_that_lie_apart_are_a_candidate(folder, values) -> None:
    base, head = (folder(side, latency=[level] * values) for side, level in (("base", 1.0), ("head", 2.0)))
    verdict = judged(base, head)
    assert (verdict.verdict, verdict.candidate) == ("noisy", True)
    assert verdict.why.endswith("differ; calling that a change takes 5 on each side")
    assert judged(head, base).why == verdict.why


def test_five_values_that_lie_apart_are_a_change(folder) -> None:
    base, head = folder("base", latency=spread(1.0, 5)), folder("head", latency=spread(2.0, 5))
    assert judged(base, head).verdict == "regressed"
    assert judged(base, head).why == "5 values before and 5 now differ"
    assert judged(head, base).verdict == "improved"


def test_what_nobody_gave_a_direction_is_never_red(folder) -> None:
    verdict = judged(folder("base", wobbles=spread(1.0)), folder("head", wobbles=spread(9.0)))
    assert verdict.verdict == "noisy"
    assert "direction in the policy" in verdict.why


def test_what_matters_can_be_asked_for(folder) -> None:
    base, head = folder("base", latency=spread(1.0)), folder("head", latency=spread(1.1))
    assert judged(base, head).verdict == "regressed"
    assert judged(base, head, ComparisonPolicy(Config(), 0.2)).verdict == "unchanged"


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ([0] * 5, [1] * 5, "regressed"),
        ([2] * 5, [1] * 5, "improved"),
        ([1], [1], "unchanged"),
        ([1], [2], "noisy"),
        ([1] * 5, [1, 2, 1, 1, 1], "unchanged"),
        ([0, 0, 0, 0, 2], [2] * 5, "noisy"),
        ([1] * 3, [1, 1, 2], "noisy"),
    ],
)
def test_counts_are_judged_by_any_difference(folder, old, new, word) -> None:
    verdict = judged(folder("base", graph_breaks=old), folder("head", graph_breaks=new))
    assert verdict.verdict == word
    assert "1 values" not in verdict.why
    assert verdict.candidate == (word == "noisy" and min(new) > max(old))


@pytest.mark.parametrize(
    ("new", "word"),
    [
        ([900.0] * 5, "regressed"),
        ([0.5] * 5, "unchanged"),
        ([-900.0] * 5, "improved"),
        ([0.0, 40.0, 40.0, 40.0, 40.0], "noisy"),
    ],
)
def test_amounts_are_judged_by_their_difference(folder, new, word) -> None:
    assert judged(folder("base", leak=[0.0, 0.1, -0.1, 0.0, 0.0]), folder("head", leak=new)).verdict == word


@pytest.mark.parametrize("metric", ["latency", "score"])
def test_zero_and_less_are_no_measurements_of_a_ratio(folder, metric) -> None:
    head = folder("head", **{metric: [-1.0, 10.0, 10.0, 0.0, 10.0]})
    verdict = judged(folder("base", **{metric: [10.0] * 5}), head)
    assert (verdict.verdict, verdict.why) == ("unchanged", "5 values before and 3 now agree")


def test_a_score_that_falls_to_zero_is_judged_by_its_difference(folder) -> None:
    policy = ComparisonPolicy(Config(policy={"score(points)": Rule("up", 0.03)}))
    base, head = folder("base", score=[10.0] * 5), folder("head", score=[0.0] * 5)
    assert judged(base, head, policy).verdict == "regressed"


@pytest.mark.parametrize(("old", "new"), [(0.0, 0.0), (0.0, 10.0), (10.0, 0.0)])
def test_a_latency_of_zero_is_none_on_either_side(folder, old, new) -> None:
    verdict = judged(folder("base", latency=[old] * 5), folder("head", latency=[new] * 5))
    assert (verdict.verdict, verdict.why.partition(" ")[2]) == ("missing", "has no number above zero")


def test_what_is_negative_by_nature_is_judged_by_its_difference(folder) -> None:
    policy = ComparisonPolicy(Config(policy={"score(points)": Rule("up", 0.03)}))
    base, head = folder("base", score=[-10.0] * 5), folder("head", score=[-20.0] * 5)
    assert judged(base, head, policy).verdict == "regressed"


def test_values_of_any_size_that_the_database_holds_are_compared(folder) -> None:
    verdict = judged(folder("base", latency=[1e-44] * 6), folder("head", latency=[3e38] * 6))
    assert verdict.verdict == "regressed"


def test_an_accuracy_in_numbers_is_a_ratio(folder) -> None:
    base, head = folder("base", accuracy=spread(0.78)), folder("head", accuracy=spread(0.30))
    assert judged(base, head).verdict == "regressed"
    assert judged(folder("one", accuracy=[1.0]), folder("two", accuracy=[0.0])).verdict == "broken"


def test_other_conditions_are_not_comparable(folder) -> None:
    verdict = judged(folder("base", latency=[1.0]), folder("head", {"governor": "powersave"}, latency=[2.0]))
    assert verdict.verdict == "not-comparable"
    assert "governor: performance → powersave" in verdict.why


def test_what_only_one_side_has_is_new_or_missing(folder) -> None:
    judgement = compare_directories(folder("base", latency=[1.0]), folder("head", throughput=[1.0]), POLICY)
    words = {verdict.series.metric: verdict.verdict for verdict in judgement.verdicts}
    assert words == {"latency(ms)": "missing", "throughput(samples/s)": "new"}


def test_runs_of_a_runner_that_is_another_machine_each_time_say_why_nothing_is_compared(folder) -> None:
    base, head = folder("base", latency=[1.0]), folder("head", latency=[1.0])
    record = head / "0.json"
    record.write_text(record.read_text().replace('"type": "x"', '"type": "y"'))
    why = "the two were measured on different machines, which are not compared: base on cpu (x), head on cpu (y)"
    assert why in compare_directories(base, head, POLICY).notes
    assert why not in compare_directories(base, base, POLICY).notes


def test_a_throughput_is_not_judged_beside_its_latency(folder) -> None:
    base = folder("base", latency=[1.0] * 5, throughput=[8.0] * 5)
    judgement = compare_directories(base, folder("head", latency=[4.0] * 5, throughput=[2.0] * 5), POLICY)
    assert [(verdict.series.metric, verdict.verdict) for verdict in judgement.verdicts] == [
        ("latency(ms)", "regressed")
    ]


def test_a_directory_holds_records_where_there_is_json(folder, tmp_path) -> None:
    assert holds_records(folder("base", latency=[1.0]))
    assert not holds_records(tmp_path / "base/0.json")
    (tmp_path / "empty").mkdir()
    assert not holds_records(tmp_path / "empty")


def test_json_without_records_is_told(folder, tmp_path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "package.json").write_text('{"name": "x"}')
    with pytest.raises(RecordsError, match="holds no records"):
        compare_directories(folder("base", latency=[1.0]), other, POLICY)
