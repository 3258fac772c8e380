"""Records are refused exactly if the published schema refuses them, as a general validator reads it."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from torchperf_ci.records.parser import decode
from torchperf_ci.records.schema import MAX_DEPTH, check_record, is_plain_json, schema

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


def test_what_is_refused_is_what_the_published_schema_refuses() -> None:
    """Of values that JSON can hold; that 4.0 is no integer is said by the schema's comment."""
    checker = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    validator = extend(Draft202012Validator, type_checker=checker)(schema())
    refused = total = 0
    for element in filter(lambda element: is_plain_json(element, MAX_DEPTH), spoiled()):
        is_refused = any(finding.severity == "refused" for finding in check_record(element))
        assert is_refused != validator.is_valid(element), json.dumps(element)
        total, refused = total + 1, refused + is_refused
    assert total > 2500
    assert 500 < refused < total - 500
