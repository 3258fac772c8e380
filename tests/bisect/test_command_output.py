from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchperf_ci import config
from torchperf_ci.bisect.probes import UNNAMED_SERIES, _cost, read_command_output
from torchperf_ci.records.record import Benchmark, Metric, Model, build_record

if TYPE_CHECKING:
    from pathlib import Path

TIMES = "speed(bogo/s)"


@pytest.fixture
def costs(tmp_path: Path):
    def costs(printed: str, metric: str = "", direction: str = "") -> dict[str, float]:
        file = tmp_path / "stdout"
        file.write_text(printed)
        rules = {TIMES: config.Rule(direction=direction)} if direction else {}
        return dict(read_command_output(file, metric, rules))

    return costs


def a_record(metric: str, *values: float, model: str = "net", **extra: str) -> dict[str, object]:
    return build_record(
        benchmark=Benchmark("own", "inference", "fp32", {"device": "cpu"}),
        model=Model(model, backend="eager"),
        metric=Metric(metric, values, extra),
    )


@pytest.mark.parametrize(
    "printed", ["12.5", "12.5\n\n", "warming up\n 1.25e1 \n", "\x1b[1mbusy\xff\n12.5", "+12.5\r\n"]
)
def test_a_number_in_the_last_line_counts(costs, printed: str) -> None:
    assert costs(printed) == {UNNAMED_SERIES: 12.5}


def test_a_metric_names_the_number_and_tells_its_direction(costs) -> None:
    assert costs("4", "latency(ms)") == {"latency(ms)": 4}
    assert costs("4", "throughput(samples/s)") == {"throughput(samples/s)": 0.25}
    assert costs("4", TIMES) == {TIMES: 4}
    assert costs("4", TIMES, direction="up") == {TIMES: 0.25}
    assert costs("0", "graph_breaks") == {"graph_breaks": 1}


@pytest.mark.parametrize("printed", ["nan", "inf", "-1", "0", "-inf"])
def test_a_number_without_a_logarithm_is_none(costs, printed: str) -> None:
    with pytest.raises(ValueError, match=f"its last line is {printed}"):
        costs(printed)


@pytest.mark.parametrize("printed", ["done in 3 s", "[1, 2]", "{}", '{"latency": 3}'])
def test_neither_a_number_nor_records_is_said(costs, printed: str) -> None:
    with pytest.raises(ValueError, match="its last line is not a number, and its output has no v3 records"):
        costs(printed)


@pytest.mark.parametrize("printed", ["", "  \n"])
def test_an_empty_output_is_said_as_what_the_user_sees_may_be_on_standard_error(costs, printed: str) -> None:
    with pytest.raises(ValueError, match="it printed nothing on standard output"):
        costs(printed)


@pytest.mark.parametrize("form", ["list", "lines", "one", "noise"])
def test_records_give_every_series_that_has_a_direction(costs, form: str) -> None:
    records = [
        a_record("latency(ms)", 2.0, 4.0, 3.0),
        a_record("throughput(samples/s)", 500.0),
        a_record("graph_breaks", 0),
        a_record("memory_leak(KiB/iter)", 1),
        a_record("status", 1, status="pass"),
        a_record(TIMES, 7),
    ]
    lines = "\n".join(json.dumps(each) for each in records)
    text = {
        "list": json.dumps(records, indent=1),
        "lines": lines,
        "one": json.dumps(records[0]),
        "noise": f"begin\n{lines}\nend",
    }
    latency = {"net latency(ms) (inference fp32 eager cpu)": 3.0}
    others = {
        "net throughput(samples/s) (inference fp32 eager cpu)": 0.002,
        "net graph_breaks (inference fp32 eager cpu)": 1.0,
    }
    assert costs(text[form]) == (latency if form == "one" else {**latency, **others})


def test_a_metric_leaves_the_other_records_out(costs) -> None:
    text = json.dumps([a_record("latency(ms)", 2), a_record(TIMES, 4), a_record(TIMES, 5, model="other")])
    assert costs(text, TIMES, direction="up") == {
        f"net {TIMES} (inference fp32 eager cpu)": 0.25,
        f"other {TIMES} (inference fp32 eager cpu)": 0.2,
    }


def test_records_without_a_direction_are_never_guessed(costs) -> None:
    with pytest.raises(ValueError, match=r"of speed\(bogo/s\).* its direction in torchperf.yml"):
        costs(json.dumps(a_record(TIMES, 4)))
    with pytest.raises(ValueError, match="have no number of 'latency' that"):
        costs(json.dumps(a_record("latency(ms)", 4)), "latency")


def test_what_failed_has_no_number(costs) -> None:
    text = json.dumps(
        [a_record("latency(ms)", 4), a_record("status", 0, status="oom", reason="19 GiB too few")]
    )
    with pytest.raises(ValueError, match="19 GiB too few"):
        costs(text)


@given(
    st.sampled_from(["latency(ms)", "throughput(samples/s)", "graph_breaks", "peak_memory(MiB)"]),
    st.floats(1e-6, 1e6),
    st.floats(1.01, 100),
)
def test_a_cost_grows_as_things_get_worse(metric: str, value: float, factor: float) -> None:
    worse = value / factor if metric.startswith("throughput") else value * factor
    assert math.log(_cost(worse, metric, {}) / _cost(value, metric, {})) > 0
