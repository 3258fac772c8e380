"""The reader's fast path for valid records, compared with the general validator on thousands of spoiled records."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from torchperf_ci.records import schema
from torchperf_ci.records.fast_validation import compiled
from torchperf_ci.records.parser import decode
from torchperf_ci.records.schema import check_record, searched_for_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD: dict[str, Any] = {
    "timestamp": 1_790_000_000, "schema_version": "v3", "name": "n", "repo": "o/r", "head_branch": "main",
    "head_sha": "0" * 40, "workflow_id": 1, "run_attempt": 1, "job_id": 2, "servicelab_experiment_id": 0,
    "runners": [{"name": "cuda", "cpu_count": 8, "avail_mem_in_gb": 9, "extra_info": {"boot": "7f"}}],
    "benchmark": {"name": "b", "mode": "inference", "dtype": "bf16", "extra_info": {"batch": 8}},
    "model": {"name": "m", "backend": "eager", "origins": ["torch"], "extra_info": {"task": "x"}},
    "inputs": {"image": {"dtype": "bf16", "extra_info": {"shape": [8, 3]}}},
    "dependencies": {"torch": {"repo": "o/r", "branch": "main", "sha": "1", "version": "2", "extra_info": {}}},
    "metric": {"name": "latency(ms)", "benchmark_values": [1, 2.5], "target_value": 0, "extra_info": {"a": [1.5]}},
    "unheard_of": {"of": ["nobody"]},
}  # fmt: skip
VALUES = r"""
null true false 0 1 -1 1.0 1.5 -0.0 1e3 1e400 1e-50 NaN -Infinity 4294967295 4294967296 16777217
18446744073709551615 18446744073709551616 -18446744073709551616 99999999999999999999999999999999999999999
3.5e38 "" "x" "1" "+1" "-1" "1.5" "NaN" "12\u0020" "0x10" "\u0000" "é" "\ud83d\ude00" "\ud800" [] {} [null] [[]]
[{}] [1] [-1] ["1"] ["\udc80"] [true] [NaN] [1e400] [1,null] [3086359081] {"a":1} {"a":null} {"a":NaN}
{"a":1,"a":1} {"\ud800":1} {"name":""} {"name":null} {"name":1} {"name":"n"} {"name":"n","extra_info":[]}
{"a":{"dtype":1}} {"a":[{"b":{"c":1,"c":2}}]} [{"name":"n","cpu_count":1.0}]
""".split()  # noqa: SIM905 - seventy short texts
DEEP = [depth * "[" + depth * "]" for depth in (190, 199, 200, 201, 900)]


def places(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """All below a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in inner:
        yield (*place, step)
        yield from places(item, (*place, step))


def spoiled() -> Iterator[Any]:
    """Records with one place that is gone, or has another value."""
    values = [decode(text, 0)[0] for text in VALUES]
    yield from values
    yield from ({**RECORD, "unheard_of": decode(text, 0)[0]} for text in DEEP)
    for place in places(RECORD):
        record: Any = copy.deepcopy(RECORD)
        above = record
        for step in place[:-1]:
            above = above[step]
        for value in values:
            above[place[-1]] = value
            yield record
        del above[place[-1]]
        yield record


def test_no_record_is_judged_otherwise_than_by_the_general_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the fast way lets through has nothing wrong with it, and few of those go the slow way."""
    why, total, faultless, asked = (schema.RecordFinding((), "asked", "refused"),), 0, 0, 0
    monkeypatch.setattr(schema, "searched_for_faults", lambda _: why)
    for element in spoiled():
        total += 1
        findings, told = searched_for_faults(element), check_record(element)
        faultless += not findings
        asked += told == why
        assert told == why or findings == (), json.dumps(element)
        assert findings or told == (), json.dumps(element)
    assert total > 3000
    assert faultless == total - asked > 500


def test_a_keyword_that_nobody_knows_is_no_yes() -> None:
    with pytest.raises(KeyError, match="multipleOf"):
        compiled({"properties": {"a": {"multipleOf": 2}}}, {})
