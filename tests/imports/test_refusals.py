"""Invalid results are refused with their location and the reason, and those beside them are kept."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
from tool_files import MADE

from torchperf_ci.imports.other_tools import parse_results
from torchperf_ci.records import files

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_ci.records.reading import RecordsReading

PYTEST, GOOGLE, HYPERFINE, TORCH, CODSPEED = (
    f"{name}.json"
    for name in ("pytest_benchmark", "google_benchmark", "hyperfine", "torch_benchmark", "codspeed")
)
ASV = "asv/ci/9e18d7e6-virtualenv-py3.11.json"
JOIN = "speed.time_join"


def changed(name: str, change: Callable[[Any], object], given: str = "") -> RecordsReading:
    source = json.loads((MADE / name).read_text())
    change(source)
    return parse_results(json.dumps(source).encode(), "results.json", given)


def put(*steps: str | int, value: object) -> Callable[[Any], object]:
    def change(source: Any) -> None:
        for step in steps[:-1]:
            source = source[step]
        source[steps[-1]] = value

    return change


DATA = ("benchmarks", 1, "stats", "data")
SPOILT = [
    (PYTEST, put(*DATA, 0, value="3.2"), "$.benchmarks[1].stats.data[0]", '"3.2" is not a number'),
    (PYTEST, put(*DATA, 0, value=None), "$.benchmarks[1].stats.data[0]", "null is not a number"),
    (
        PYTEST,
        put(*DATA, 0, value=float("nan")),
        "$.benchmarks[1].stats.data[0]",
        "NaN is not a finite number",
    ),
    (PYTEST, put(*DATA, 0, value=10**400), "$.benchmarks[1].stats.data[0]", "is not a finite number"),
    (PYTEST, put(*DATA, value=[]), "$.benchmarks[1].stats.data", "holds no number"),
    (PYTEST, put(*DATA, value={"0": 1}), "$.benchmarks[1].stats.data", "is not a list of numbers"),
    (PYTEST, put("benchmarks", 1, value=[1]), "$.benchmarks[1]", "[1] is not a benchmark"),
    (PYTEST, put("benchmarks", 1, "fullname", value="x" * 501), "$.benchmarks[1].fullname", "more than 500"),
    (
        PYTEST,
        put("benchmarks", 1, "fullname", value="test_speed.py::test_sort[100]"),
        "$.benchmarks[1]",
        "occurs twice; give each its own name",
    ),
    (PYTEST, put("benchmarks", 1, "fullname", value="\ud800"), "$.benchmarks[1]", "not valid Unicode"),
    (
        GOOGLE,
        put("benchmarks", 0, "time_unit", value="weeks"),
        "$.benchmarks[0].time_unit",
        "not a unit of time",
    ),
    (
        GOOGLE,
        put("benchmarks", 0, "real_time", value=True),
        "$.benchmarks[0].real_time",
        "true is not a number",
    ),
    (
        GOOGLE,
        put("benchmarks", 0, "cache_hits", value=[1]),
        "$.benchmarks[0].cache_hits",
        "[1] is not a number",
    ),
    (
        GOOGLE,
        put("benchmarks", 0, value={"name": "a", "run_type": "aggregate", "aggregate_name": [1]}),
        "$.benchmarks[1]",
        "",
    ),
    (
        GOOGLE,
        lambda source: source["benchmarks"].append({**source["benchmarks"][0], "family_index": 9}),
        "$.benchmarks[3]",
        "'sum_of_range/100' occurs twice",
    ),
    (HYPERFINE, put("results", 0, "times", value="fast"), "$.results[0].times", "is not a list of numbers"),
    (HYPERFINE, put("results", 0, "command", value=""), "$.results[0].command", '"" is not a name'),
    (
        HYPERFINE,
        lambda source: source["results"].append(source["results"][0]),
        "$.results[2]",
        "occurs twice",
    ),
    (
        TORCH,
        lambda source: source[3]["task_spec"].update(setup="x = torch.ones(9, 9)"),
        "$[3]",
        "'matmul: 64x64' occurs twice",
    ),
    (TORCH, put(1, "number_per_run", value=0), "$[1].number_per_run", "is not a number of runs"),
    (TORCH, put(1, "task_spec", value=None), "$[1].task_spec", "null is not the task"),
    (
        CODSPEED,
        put("benchmarks", 0, "stats", "median_ns", value=None),
        "$.benchmarks[0].stats.median_ns",
        "null",
    ),
    (
        ASV,
        put("results", JOIN, 11, value=["x"]),
        f'$.results["{JOIN}"][0][0]',
        '"x" is not a list of numbers',
    ),
    (ASV, put("results", JOIN, 0, value=["1"]), f'$.results["{JOIN}"]', ""),
    (
        ASV,
        put("results", JOIN, 1, value=[["1"] * 9] * 9),
        f'$.results["{JOIN}"]',
        "more than 10000 combinations",
    ),
]


@pytest.mark.parametrize(("name", "change", "path", "reason"), SPOILT)
def test_a_spoilt_result_is_refused_and_its_neighbours_are_kept(name, change, path, reason) -> None:
    good = {found.path for found in changed(name, lambda _: None).records}
    reading = changed(name, change)
    if not reason:  # asv's samples stand beside a wrong median, and aggregates that nobody knows are not read
        assert reading.records
        return
    (problem,) = reading.problems
    assert (problem.path, problem.severity) == (path, "refused")
    assert reason in problem.reason
    (refused,) = reading.refused
    assert refused.text
    assert {found.path for found in reading.records} >= {
        kept for kept in good if not (path.startswith(kept) or kept.startswith(path))
    } - {"$.results[1]"}
    assert reading.records


WHOLE = [
    (CODSPEED, put("instrument", "type", value="valgrind"), "--codspeed-mode walltime"),
    (CODSPEED, put("creator", "version", value="3.1.2"), "update it"),
    (ASV, put("version", value=1), "asv update"),
    (ASV, lambda source: (source.pop("env_name"), source.update(version=1)), "asv update"),
    (PYTEST, put("benchmarks", value=7), "7 is not a list of benchmarks"),
    (PYTEST, put("machine_info", value=7), "7 is not a description of the machine"),
]


@pytest.mark.parametrize(("name", "change", "reason"), WHOLE)
def test_a_file_that_cannot_be_read_at_all_says_why_and_what_to_do(name, change, reason) -> None:
    reading = changed(name, change)
    assert not reading.records
    (problem,) = reading.problems
    assert reason in problem.reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            b'{"benchmarks": [], "metadata": {"name": "x"}, "version": "1.0"}',
            "it is no supported tool",
        ),
        (b'{"model": {"name": "x"}}', "metric is missing"),
    ],
)
def test_results_of_a_tool_that_is_not_supported_are_called_so(content: bytes, reason: str) -> None:
    """The first is pyperf's; its user needs more than "metric is missing"."""
    (refused,) = parse_results(content, "x").refused
    assert reason in refused.reasons[0]
    assert refused.text == content.decode()


def test_results_for_github_action_benchmark_without_a_direction_are_refused() -> None:
    reading = parse_results(b'[{"name": "a", "unit": "ms", "value": 1}]', "x")
    (problem,) = reading.problems
    assert "give --format customSmallerIsBetter or --format customBiggerIsBetter" in problem.reason


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ({"name": "b", "unit": "ms", "value": "1"}, "$[1].value"),
        ({"name": "b", "unit": 3, "value": 1}, "$[1].unit"),
        ({"unit": "ms", "value": 1}, "$[1].name"),
        (None, "$[1]"),
    ],
)
def test_a_spoilt_entry_of_a_list_is_refused_alone(entry: object, path: str) -> None:
    listed = [{"name": "a", "unit": "ms", "value": 1}, entry]
    reading = parse_results(json.dumps(listed).encode(), "x", "customSmallerIsBetter")
    assert [found.path for found in reading.records] == ["$[0]"]
    assert [problem.path for problem in reading.problems] == [path]


def test_a_key_that_stands_twice_is_refused() -> None:
    text = (
        (MADE / HYPERFINE).read_text().replace('"command": "sleep 0.01",', '"command": "a", "command": "b",')
    )
    reading = parse_results(text.encode(), "x")
    (problem,) = reading.problems
    assert 'the key "command" occurs more than once' in problem.reason
    assert reading.records


def test_a_text_too_long_for_each_record_is_cut() -> None:
    reading = changed(PYTEST, put("machine_info", "cpu", "brand_raw", value="x" * 1_000_000))
    assert max(len(found.text) for found in reading.records) < 10_000


def test_a_file_of_too_many_results_is_refused_by_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_ELEMENTS", 10)
    listed = [{"name": str(number), "unit": "ms", "value": 1} for number in range(11)]
    reading = parse_results(json.dumps(listed).encode(), "x", "customSmallerIsBetter")
    assert "records; split it" in reading.limit


def test_deep_nesting_ends_in_a_refusal() -> None:
    deep = "[" * 900 + "]" * 900
    text = (MADE / HYPERFINE).read_text().replace('"sleep 0.01"', deep)
    reading = parse_results(text.encode(), "x")
    assert [problem.severity for problem in reading.problems] == ["refused"]


@pytest.mark.parametrize("name", [PYTEST, GOOGLE, HYPERFINE, CODSPEED, ASV, TORCH])
def test_whatever_is_put_anywhere_ends_in_records_and_refusals(name: str) -> None:
    """No value in no place is a bug of ours."""
    source = json.loads((MADE / name).read_text())
    told = ("machine_info", "options", "config", "context")  # facts, of which any single value will do
    for steps in (steps for steps in places(source) if not {*steps[:-1]} & {*told}):
        for value in (None, True, "x", 1e400, [[]], {"a": {}}):
            spoilt = deepcopy(source)
            put(*steps, value=value)(spoilt)
            reading = parse_results(json.dumps(spoilt).encode(), "x")
            assert not any("a bug of torchperf" in problem.reason for problem in reading.problems), steps


def places(value: Any, steps: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The ways to all values below, of long lists to the first."""
    children = (
        value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    )
    found = [] if not steps else [steps]
    for key, child in children:
        found += places(child, (*steps, key))
    return found
