from __future__ import annotations

import numpy as np
import pytest

from torchperf_ci.records.reading import parse_records
from torchperf_ci.records.record import Benchmark, Dependency, Metric, Model, build_record, extra_info_strings

LEAST = {"benchmark": Benchmark("b"), "model": Model("m"), "metric": Metric("latency(ms)", [1.5])}


def test_what_is_not_given_is_left_out():
    assert build_record(**LEAST) == {
        "benchmark": {"name": "b"},
        "model": {"name": "m"},
        "metric": {"name": "latency(ms)", "benchmark_values": [1.5]},
    }


def test_everything_that_is_given_is_in():
    built = build_record(
        benchmark=Benchmark("b", "training", "bf16", {"device": "cpu"}),
        model=Model("m", "vision", "eager", ("torchbench",), {"parameters": 12}),
        metric=Metric("latency(ms)", (1, 2.5), {"samples": [1]}),
        dependencies={"torch": Dependency("pytorch/pytorch", "0a1b", "2.13")},
        runners=({"name": "cpu", "cpu_count": 2, "extra_info": {"smt": False}},),
    )
    assert built == {
        "benchmark": {"name": "b", "mode": "training", "dtype": "bf16", "extra_info": {"device": "cpu"}},
        "model": {
            "name": "m",
            "type": "vision",
            "backend": "eager",
            "origins": ["torchbench"],
            "extra_info": {"parameters": "12"},
        },
        "metric": {
            "name": "latency(ms)",
            "benchmark_values": [1, 2.5],
            "extra_info": {"samples": "[1]"},
        },
        "dependencies": {"torch": {"repo": "pytorch/pytorch", "sha": "0a1b", "version": "2.13"}},
        "runners": [{"name": "cpu", "cpu_count": 2, "extra_info": {"smt": "false"}}],
    }


def test_no_runners_is_not_the_same_as_none_given():
    assert "runners" not in build_record(**LEAST)
    assert build_record(**LEAST, runners=())["runners"] == []


def test_numbers_of_numpy_become_plain_ones():
    values = np.array([1.5, 2.0], dtype=np.float32)
    built = build_record(**LEAST | {"metric": Metric("m", values)})["metric"]
    assert {type(value) for value in built["benchmark_values"]} == {float}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        ("", ""),
        (True, "true"),
        (3, "3"),
        (0.1, "0.1"),
        ([1, {"a": None}], '[1,{"a":null}]'),
        ({"a": "ü"}, '{"a":"\\u00fc"}'),
        ("tail \udcff of a log", "tail \\udcff of a log"),
    ],
)
def test_extra_info_is_text(value, text):
    assert extra_info_strings({"key": value}) == {"key": text}


def test_extra_info_says_nothing_about_what_is_unknown():
    assert extra_info_strings({"a": None, "b": 1}) == {"b": "1"}


def test_a_built_record_is_read_without_a_complaint():
    import json

    assert not parse_records(json.dumps(build_record(**LEAST)).encode(), "records.json").problems
