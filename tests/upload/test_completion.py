from __future__ import annotations

import json
import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from torchperf_ci.upload.metadata import Completion, Metadata, inexact
from torchperf_ci.upload.payload import file_key

METADATA = Metadata("measure", "octo/perf", "refs/heads/main", "1f", 71, 2, 9)
METRIC = {"name": "latency(ms)", "benchmark_values": [1.5]}


def complete(record: dict[str, Any], metadata: Metadata = METADATA) -> dict[str, Any]:
    return Completion(metadata, lambda: {"name": "cpu", "type": "here"}).complete(
        {"metric": METRIC, **record}, 5
    )


def test_the_records_own_values_win() -> None:
    merged = complete({"head_sha": "own", "timestamp": 7, "unknown": [1]})
    assert merged == {**METADATA.fields(7), "head_sha": "own", "unknown": [1]} | {
        "metric": METRIC,
        "dependencies": {},
        "runners": [{"name": "cpu", "type": "here"}],
    }


def test_what_a_job_says_by_itself_gives_way_to_the_flags() -> None:
    """``torchperf run`` writes it into its records, and knows nothing of what the upload is told."""
    completion = Completion(METADATA, dict, of_job={"head_sha": "jobs"})
    assert completion.complete({"metric": METRIC, "head_sha": "jobs"}, 5)["head_sha"] == METADATA.head_sha
    assert completion.complete({"metric": METRIC, "head_sha": "own"}, 5)["head_sha"] == "own"


def test_an_explicit_list_of_no_runners_is_kept() -> None:
    assert complete({"runners": []})["runners"] == []
    assert complete({"runners": None})["runners"] == [{"name": "cpu", "type": "here"}]


def test_the_machine_is_asked_only_where_a_record_names_none() -> None:
    def asked() -> dict[str, object]:
        raise AssertionError

    Completion(METADATA, asked).complete({"metric": METRIC, "runners": [{"name": "cuda"}]}, 5)


def test_null_says_nothing() -> None:
    assert complete({"repo": None})["repo"] == "octo/perf"


def test_an_id_of_zero_says_nothing_except_in_records_of_servicelab() -> None:
    """Two runs whose records have no id but 0 would otherwise be stored under one key."""
    zeros = {"workflow_id": 0, "job_id": 0}
    assert complete({**zeros, "timestamp": 0}) == complete({})
    of_servicelab = {**zeros, "servicelab_experiment_id": 5}
    assert complete(of_servicelab).items() >= of_servicelab.items()
    assert file_key(complete(of_servicelab), "r.json") == "v3/octo/perf/5/0/r.json"


def test_the_files_time_gives_way_to_the_commits() -> None:
    dated = Metadata("measure", "octo/perf", "main", "1f", 71, 2, 9, timestamp=1_600_000_000)
    assert complete({}, dated)["timestamp"] == 1_600_000_000


def test_an_id_of_our_own_is_flagged() -> None:
    ours = Metadata("measure", "octo/perf", "main", "1f", 71, 2, 2**52, synthetic="no token")
    benchmark = {"name": "nightly", "extra_info": {"device": "cuda"}}
    assert complete({"benchmark": benchmark}, ours)["benchmark"] == {
        "name": "nightly",
        "extra_info": {"device": "cuda", "torchperf_job_id": "synthetic"},
    }
    assert complete({}, ours)["benchmark"] == {"extra_info": {"torchperf_job_id": "synthetic"}}
    assert "benchmark" not in complete({"job_id": 3}, ours)
    assert "benchmark" not in complete({})


def test_the_record_given_is_left_as_it_is() -> None:
    record = {"metric": {"benchmark_values": [3086359081]}, "benchmark": {"extra_info": {}}}
    before = json.dumps(record)
    complete(record)
    assert json.dumps(record) == before


def test_whole_numbers_that_a_float32_cannot_hold_are_kept_as_text() -> None:
    metric = {"benchmark_values": [1, 3086359081], "target_value": 2**60 + 1, "extra_info": {"unit": "1"}}
    assert complete({"metric": metric})["metric"]["extra_info"] == {
        "unit": "1",
        "benchmark_values_exact": "[1, 3086359081]",
        "target_value_exact": "1152921504606846977",
    }


def test_a_null_is_kept_too_since_the_database_makes_it_a_measured_zero() -> None:
    assert inexact({"benchmark_values": [None, 1.5]}) == {"benchmark_values_exact": "[null, 1.5]"}


@given(st.lists(st.integers(-(2**70), 2**70)))
def test_every_whole_number_can_be_had_back(values: list[int]) -> None:
    stored = [struct.unpack("f", struct.pack("f", value))[0] for value in values]
    exact = inexact({"benchmark_values": values}).get("benchmark_values_exact")
    assert (json.loads(exact) if exact else stored) == values


def test_a_benchmark_is_renamed_where_it_has_a_name() -> None:
    completion = Completion(METADATA, dict, "New")
    named = {"metric": METRIC, "benchmark": {"name": "Old", "mode": "inference"}}
    assert completion.complete(named, 5)["benchmark"] == {"name": "New", "mode": "inference"}
    assert "benchmark" not in completion.complete({"metric": METRIC}, 5)
    assert completion.complete({"metric": METRIC, "benchmark": {"mode": "x"}}, 5)["benchmark"] == {
        "mode": "x"
    }
    assert complete(named)["benchmark"]["name"] == "Old"
