from __future__ import annotations

from dataclasses import replace

import pytest
from made_night import NIGHT, RESNET, a_series

from torchperf_ci.issues.memory import IssueMemory, IssueRow, memory_line, parse_memory
from torchperf_ci.issues.table import (
    change_in_words,
    largest_first,
    level_in_words,
    machine_names,
    on_machines,
    what_got_worse,
)
from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.verdict import Verdict
from torchperf_ci.verdicts.verdict_document import difference_text, levels_text


def a_row(ratio: float | None = 1.071, metric: str = "latency(ms)", arch: str = "H100", **given) -> IssueRow:
    effect = Effect(ratio, ratio * 0.99, ratio * 1.01, 10) if ratio else None
    return IssueRow(a_series(metric=metric, arch=arch), effect=effect, night=NIGHT, **given)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (a_row(1.071), "7.1% slower"),
        (a_row(12.5), "1,150.0% slower"),
        (a_row(0.934, "throughput(samples/s)"), "throughput −6.6%"),
        (a_row(1.2, "peak_memory(MiB)"), "peak_memory +20.0%"),
        (a_row(0.9), "latency −10.0%"),
        (a_row(None, "graph_breaks", old=0.0, new=2.0), "graph_breaks 0 → 2"),
        (a_row(None, "accuracy", old=0.87, new=0.0), "accuracy 0.87 → 0"),
        (a_row(None, "status", old=1.0, new=0.0), "fails"),
    ],
)
def test_a_change_is_said_as_people_say_it(row: IssueRow, said: str) -> None:
    assert change_in_words(row) == said


def test_time_goes_before_another_metric_of_the_same_change() -> None:
    time, rate, more = a_row(1.071), a_row(1 / 1.071, "throughput(samples/s)"), a_row(1.1, "peak_memory(MiB)")
    assert largest_first([rate, time, more]) == [more, time, rate]


def test_the_worst_is_the_first_by_the_digits_that_are_shown() -> None:
    """Their logarithms differ by less than 0.001."""
    proven, worse, same = a_row(1.3011, proven=True), a_row(1.3022), a_row(1.3013)
    assert largest_first([same, proven, worse]) == [worse, proven, same]
    few, many = (a_row(None, "graph_breaks", old=0.0, new=new) for new in (1.0, 50.0))
    assert largest_first([few, many, worse]) == [worse, many, few]


def test_the_worst_stands_for_the_others() -> None:
    other = replace(a_row(1.02), series=a_series("other", arch="MI300"))
    assert (
        what_got_worse([other, a_row()]) == "vision/resnet18 and 1 more, up to 7.1% slower on MI300 and H100"
    )
    assert what_got_worse([]) == ""


@pytest.mark.parametrize(
    ("archs", "said"),
    [
        (["NVIDIA H100 80GB HBM3"], "on H100"),
        (["AMD_EPYC_2c"], "on EPYC_2c"),
        (["NVIDIA H100 80GB HBM3", "NVIDIA H100 96GB"], "on NVIDIA H100 80GB HBM3 and NVIDIA H100 96GB"),
        (["a", "b", "c", "a"], "on 3 kinds of machine"),
        ([""], "on cuda"),
    ],
)
def test_machines_are_named_as_briefly_as_tells_them_apart(archs: list[str], said: str) -> None:
    rows = [a_row(arch=arch) for arch in archs]
    assert on_machines(rows) == said
    assert len(set(machine_names(rows).values())) == len(set(archs))


def test_a_level_has_its_unit() -> None:
    row = IssueRow(RESNET)
    assert level_in_words(row, 1.2345) == "1.234 ms"
    assert level_in_words(row, None) == ""


def test_the_title_the_table_and_the_verdicts_say_the_same_of_a_change() -> None:
    """An issue remembers six digits: 30.14989% became 30.15%, which is 30.2%."""
    row = IssueRow(RESNET, 1.21349996, 2.0, Effect(1.301498936, 1.2, 1.4), NIGHT)
    known = parse_memory(memory_line(IssueMemory("unlocated", ("0" * 16,), (row,), NIGHT, NIGHT)))
    assert known is not None
    (remembered,) = known.rows
    assert remembered != row
    assert change_in_words(remembered) == change_in_words(row)
    seen, kept = (
        Verdict(row.series, "regressed", "", each.effect, each.old, each.new) for each in (row, remembered)
    )
    assert (levels_text(kept), difference_text(kept)) == (levels_text(seen), difference_text(seen))
