"""What the schema refuses or reports, compared with the real engine."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.records.reading import parse_records, read_records
from torchperf_ci.records.record import Benchmark, Dependency, Metric, Model, build_record, write_records

if TYPE_CHECKING:
    from pathlib import Path

DEEP = "[" * 1500 + "]" * 1500
EMPTY_RUNNER = {
    "name": "",
    "type": "",
    "cpu_info": "",
    "cpu_count": 0,
    "mem_info": "",
    "avail_mem_in_gb": 0,
    "gpu_info": "",
    "gpu_count": 0,
    "gpu_mem_info": "",
    "avail_gpu_mem_in_gb": 0,
    "extra_info": {},
}
REFUSED, CHANGED, KEPT = "refused", "changed", None

# The place of a value, the value as JSON text, how it is reported, and what the engine stores there (REFUSED: nothing).
CASES = [
    ("metric.benchmark_values", "[1, 2.5, -3]", KEPT, [1, 2.5, -3]),
    ("metric.benchmark_values", "[]", KEPT, []),
    ("metric.benchmark_values", "null", KEPT, []),
    ("metric.benchmark_values", "[16777216]", KEPT, [16777216]),
    ("metric.benchmark_values", "[1, null]", CHANGED, [1, 0]),
    ("metric.benchmark_values", "[16777217]", KEPT, [16777216]),
    ("metric.benchmark_values", "[3086359081]", KEPT, [3086359000]),
    ("metric.benchmark_values", "[3086359081.0]", KEPT, [3086359000]),
    ("metric.benchmark_values", "[3.5e38, -3.5e38]", CHANGED, ["inf", "-inf"]),
    ("metric.benchmark_values", "[1e400]", CHANGED, ["inf"]),
    ("metric.benchmark_values", "[" + "9" * 5000 + "]", CHANGED, ["inf"]),
    ("metric.benchmark_values", "[1e-50]", CHANGED, [0]),
    ("metric.benchmark_values", "[NaN, Infinity]", CHANGED, ["nan", "inf"]),
    ("metric.benchmark_values", '["1.5", "1e5", ".5", "+1", "1."]', CHANGED, [1.5, 100000, 0.5, 1, 1]),
    ("metric.benchmark_values", '["NaN", "-Infinity", "inf"]', CHANGED, ["nan", "-inf", "inf"]),
    ("metric.benchmark_values", '[""]', CHANGED, [0]),
    ("metric.benchmark_values", "[true, false]", CHANGED, [1, 0]),
    ("metric.benchmark_values", "1.5", REFUSED, None),
    ("metric.benchmark_values", '"[1, 2]"', REFUSED, None),
    ("metric.benchmark_values", "{}", REFUSED, None),
    ("metric.benchmark_values", "[[1]]", REFUSED, None),
    ("metric.benchmark_values", '[{"a": 1}]', REFUSED, None),
    ("metric.benchmark_values", '["fast"]', REFUSED, None),
    ("metric.benchmark_values", '["1 "]', REFUSED, None),
    ("metric.benchmark_values", '["1_000"]', REFUSED, None),
    ("metric.benchmark_values", '["0x10"]', REFUSED, None),
    ("metric.target_value", "2.5", KEPT, 2.5),
    ("metric.target_value", "null", KEPT, 0),
    ("metric.target_value", '"2.5"', CHANGED, 2.5),
    ("metric.target_value", "NaN", CHANGED, "nan"),
    ("metric.target_value", '"x"', REFUSED, None),
    ("metric.target_value", "[1]", REFUSED, None),
    ("metric.name", '"latency(ms)"', KEPT, "latency(ms)"),
    ("metric.name", '"line\\nbreak \\u0000 \\ud83d\\ude00"', KEPT, "line\nbreak \0 😀"),
    ("metric.name", "1.50", CHANGED, "1.50"),
    ("metric.name", "true", CHANGED, "true"),
    ("metric.name", '["a"]', CHANGED, '["a"]'),
    ("metric.name", "NaN", REFUSED, None),
    ("metric.name", '"\\ud800"', REFUSED, None),
    (
        "metric.extra_info",
        '{"a": 1, "b": true, "c": [1, "x"]}',
        KEPT,
        {"a": "1", "b": "true", "c": '[1, "x"]'},
    ),
    ("metric.extra_info", '{"a": null}', KEPT, {"a": ""}),
    ("metric.extra_info", "null", KEPT, {}),
    ("metric.extra_info", '{"a": NaN}', REFUSED, None),
    ("metric.extra_info", "[]", REFUSED, None),
    ("metric.extra_info", '"x"', REFUSED, None),
    ("metric.unheard_of", "[1]", KEPT, None),
    ("metric", '["latency", [1], 0, {}]', REFUSED, None),
    ("metric", '"latency"', REFUSED, None),
    ("benchmark", '["b", "inference", "fp32", {}]', REFUSED, None),
    ("benchmark.mode", "null", KEPT, ""),
    ("model.origins", '["torchbench"]', KEPT, ["torchbench"]),
    ("model.origins", "null", KEPT, []),
    ("model.origins", "[null]", CHANGED, [""]),
    ("model.origins", "[1]", CHANGED, ["1"]),
    ("model.origins", '"torchbench"', REFUSED, None),
    ("inputs", '{"x": {"dtype": "bf16"}}', KEPT, {"x": {"dtype": "bf16", "extra_info": {}}}),
    ("inputs", '{"x": null}', KEPT, {"x": {"dtype": "", "extra_info": {}}}),
    ("inputs", '{"x": "bf16"}', REFUSED, None),
    ("inputs", '{"x": ["bf16", {}]}', REFUSED, None),
    ("inputs", "[]", REFUSED, None),
    ("dependencies", '{"torch": "2.13"}', REFUSED, None),
    ("dependencies.torch.version", "2.13", CHANGED, "2.13"),
    ("runners", "[]", KEPT, []),
    ("runners", "null", KEPT, []),
    ("runners", "[null]", CHANGED, [EMPTY_RUNNER]),
    ("runners", '{"name": "cpu"}', REFUSED, None),
    ("runners", '["cpu"]', REFUSED, None),
    ("runners", '[["cpu"]]', REFUSED, None),
    ("runners.0.cpu_count", "4294967295", KEPT, 4294967295),
    ("runners.0.cpu_count", "4294967296", CHANGED, 0),
    ("runners.0.cpu_count", '"15"', CHANGED, 15),
    ("runners.0.cpu_count", "null", KEPT, 0),
    ("runners.0.cpu_count", "-1", REFUSED, None),
    ("runners.0.avail_mem_in_gb", "15.5", REFUSED, None),
    ("runners.0.avail_mem_in_gb", "15.0", REFUSED, None),
    ("workflow_id", "18446744073709551615", KEPT, 18446744073709551615),
    ("workflow_id", "18446744073709551623", CHANGED, 7),
    ("workflow_id", '"12"', CHANGED, 12),
    ("workflow_id", '"+12"', CHANGED, 12),
    ("workflow_id", '""', CHANGED, 0),
    ("workflow_id", "true", CHANGED, 1),
    ("workflow_id", "null", KEPT, 0),
    ("workflow_id", "1.5", REFUSED, None),
    ("workflow_id", "1e3", REFUSED, None),
    ("workflow_id", '"' + "9" * 100 + '"', CHANGED, 2**64 - 1),
    ("workflow_id", '"1.5"', REFUSED, None),
    ("workflow_id", '"-1"', REFUSED, None),
    ("workflow_id", '"12 "', REFUSED, None),
    ("workflow_id", "-1", REFUSED, None),
    ("workflow_id", "[1]", REFUSED, None),
    ("workflow_id", "NaN", REFUSED, None),
    ("repo", "null", KEPT, "pytorch/pytorch"),
    ("repo", "5", CHANGED, "5"),
    ("unheard_of", '{"a": [1]}', KEPT, None),
    ("unheard_of", "NaN", REFUSED, None),
    ("unheard_of", DEEP, REFUSED, None),
]

# What the engine takes and turns into something that nobody meant, and what it cannot know to be wrong.
STRICTER_THAN_THE_ENGINE = {
    "no metric at all": b'{"metric": null}',
    "a number without digits": b'{"metric": {"name": "m", "benchmark_values": ["-"]}}',
    "two values for one key": b'{"metric": {"name": "m", "extra_info": {"a": 1, "a": 2}}}',
    "half a character": b'{"metric": {"name": "\\udc80"}}',
    "bytes that are not UTF-8": b'{"metric": {"name": "\xff"}}',
    "a metric that is missing": b'{"benchmark": {"name": "b"}}',
}


def row(place: str, value: str) -> bytes:
    """A record as JSON text with ``value`` at ``place`` (the text itself: JSON libraries would mend it)."""
    column, *keys = place.split(".")
    for key in reversed(keys):
        value = f"[{value}]" if key == "0" else f'{{"{key}": {value}}}'
    parts = {"benchmark": '{"name": "b"}', "model": '{"name": "m"}', "metric": '{"benchmark_values": [1]}'}
    parts[column] = value
    return ("{" + ", ".join(f'"{key}": {part}' for key, part in parts.items()) + "}").encode()


def stored_at(place: str, stored: dict) -> object:
    for key in place.split("."):
        stored = stored[0] if key == "0" else stored[key]
    return stored


@pytest.mark.parametrize(("place", "value", "severity", "stored"), CASES, ids=lambda text: str(text)[:40])
def test_reports_what_the_engine_does(table, place, value, severity, stored):
    content = row(place, value)
    reading = parse_records(content, "records.json")
    reported = {problem.severity for problem in reading.problems} - {"flag"}

    assert reported == ({severity} if severity else set())
    assert len(reading.records) == (severity != REFUSED)
    if severity == REFUSED:
        with pytest.raises(RuntimeError, match="DB::Exception"):
            table.insert(content)
    elif not place.endswith("unheard_of"):
        assert stored_at(place, table.insert(content)[0]) == stored


@pytest.mark.parametrize("content", STRICTER_THAN_THE_ENGINE.values(), ids=STRICTER_THAN_THE_ENGINE.keys())
def test_refuses_what_the_engine_would_take_by_mistake(table, content):
    assert len(table.insert(content)) == 1
    assert not parse_records(content, "records.json").records


def test_one_refused_record_makes_the_engine_reject_the_whole_file(table):
    good, bad = row("metric.name", '"good"'), row("metric.benchmark_values", "1.5")
    with pytest.raises(RuntimeError, match="DB::Exception"):
        table.insert(good + b"\n" + bad)

    rescued = parse_records(good + b"\n" + bad, "records.json").records
    assert [row["metric"]["name"] for row in table.insert(as_rows(rescued))] == ["good"]


def test_a_key_that_the_engine_takes_for_a_column_is_refused(table):
    content = row("name", '"n"').replace(b"{", b'{"Name": "N", ', 1)
    with pytest.raises(RuntimeError, match="Duplicate field"):
        table.insert(content)
    reading = parse_records(content, "records.json")
    assert not reading.records
    assert "$.Name" in [problem.path for problem in reading.problems]


def test_columns_stand_in_the_order_of_the_original(table):
    assert table.columns() == [
        *(
            "timestamp",
            "schema_version",
            "name",
            "repo",
            "head_branch",
            "head_sha",
            "workflow_id",
            "run_attempt",
        ),
        *(
            "job_id",
            "servicelab_experiment_id",
            "servicelab_trial_id",
            "_meta",
            "runners",
            "benchmark",
            "model",
        ),
        *("inputs", "dependencies", "metric"),
    ]


def full_record() -> dict:
    runner = {"name": "cuda", "type": "NVIDIA H100 80GB HBM3", "cpu_info": "x86_64", "cpu_count": 48}
    memory = {"mem_info": "DDR5", "avail_mem_in_gb": 256, "gpu_mem_info": "HBM3", "avail_gpu_mem_in_gb": 79}
    built = build_record(
        benchmark=Benchmark("nightly", "inference", "bf16", {"device": "cuda", "dynamic": False, "batch": 8}),
        model=Model("vision/resnet18", "vision", "inductor", ("torchbench", "torch"), {"task": "classify"}),
        metric=Metric("latency(ms)", [1.5, 2.25, 3.0], {"samples": [1.5, {"n": 2}]}),
        dependencies={"torch": Dependency("pytorch/pytorch", "0a1b2c", "2.13.0")},
        runners=[runner | memory | {"gpu_info": "H100", "gpu_count": 1, "extra_info": {"boot": "7f"}}],
    )
    built["metric"]["target_value"] = 1.25
    built["dependencies"]["torch"] |= {"branch": "main", "extra_info": {"cuda": "13.0"}}
    return built | {"inputs": {"image": {"dtype": "bf16", "extra_info": {"shape": "[8,3,224,224]"}}}}


def as_rows(located) -> bytes:
    return b"\n".join(json.dumps(item.record).encode() for item in located)


def test_a_record_of_the_builder_comes_back_equal(table):
    built = full_record()
    (stored,) = table.insert(json.dumps(built).encode())
    assert {key: stored[key] for key in built} == built


def test_the_least_record_of_the_builder_is_filled_with_empty_values(table):
    least = build_record(benchmark=Benchmark("b"), model=Model("m"), metric=Metric("status", []))
    (stored,) = table.insert(json.dumps(least).encode())
    assert stored["metric"] == {"name": "status", "benchmark_values": [], "target_value": 0, "extra_info": {}}
    assert stored["benchmark"] == {"name": "b", "mode": "", "dtype": "", "extra_info": {}}
    assert stored["runners"] == []


@pytest.mark.parametrize("form", ["list", "object", "rows", "rows of lists", "gzip", "written"])
def test_every_form_that_is_read_is_inserted_whole(table, tmp_path: Path, form):
    records = [full_record() | {"job_id": job} for job in range(1 if form == "object" else 3)]
    path = tmp_path / "records.json"
    lines = [json.dumps(record) for record in records]
    match form:
        case "list":
            path.write_text(json.dumps(records, indent=2))
        case "object" | "rows":
            path.write_text("\n".join(lines))
        case "rows of lists":
            path.write_text(f"[{lines[0]}]\n{lines[1]}\n[{lines[2]}]\n")
        case "gzip":
            path.write_bytes(gzip.compress("\n".join(lines).encode()))
        case "written":
            write_records(path, records)

    reading = read_records(path)
    assert not reading.problems
    stored = table.insert(as_rows(reading.records))
    assert [
        {key: row[key] for key in records[0]} for row in sorted(stored, key=lambda row: row["job_id"])
    ] == records
