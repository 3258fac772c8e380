from __future__ import annotations

import gzip
import json
import textwrap

import pytest

from torchperf_ci.errors import RecordsError
from torchperf_ci.records.reading import parse_records, read_records
from torchperf_ci.records.schema import MAX_FINDINGS


def record(name: str = "m", **metric: object) -> dict:
    values = {"name": name, "benchmark_values": [1.5]} | metric
    return {"benchmark": {"name": "b"}, "model": {"name": "resnet"}, "metric": values}


def line(name: str = "m") -> str:
    return json.dumps(record(name))


def names(reading) -> list[str]:
    return [located.record["metric"]["name"] for located in reading.records]


def reported(reading) -> list[tuple[int, str, str]]:
    return [(problem.line, problem.path, problem.severity) for problem in reading.problems]


A, B, C = line("a"), line("b"), line("c")

FORMS = {
    "object": (A, ["a"]),
    "object over lines": (json.dumps(record("a"), indent=2), ["a"]),
    "list": (f"[{A},{B},{C}]", ["a", "b", "c"]),
    "list over lines": (json.dumps([record("a"), record("b")], indent=4), ["a", "b"]),
    "rows": (f"{A}\n{B}\n{C}\n", ["a", "b", "c"]),
    "rows without a last newline": (f"{A}\n{B}", ["a", "b"]),
    "rows with lists": (f"{A}\n[{B}, {C}]\n", ["a", "b", "c"]),
    "a list on the first line": (f"[{A}]\n{B}\n[{C}]\n", ["a", "b", "c"]),
    "an object over lines among rows": (f"{A}\n{json.dumps(record('b'), indent=1)}\n{C}\n", ["a", "b", "c"]),
    "objects without a separator": (f"{A}{B} {C}", ["a", "b", "c"]),
    "objects with commas": (f"{A},\n{B},\n{C}", ["a", "b", "c"]),
    "Windows": (f"{A}\r\n\r\n{B}\r\n", ["a", "b"]),
    "blank lines": (f"\n\n{A}\n  \n{B}\n\n", ["a", "b"]),
    "byte order mark": (f"\ufeff{A}\n{B}\n", ["a", "b"]),
}


def utf16(content: bytes) -> bytes:
    """What the redirection of Windows PowerShell writes."""
    return content.decode("utf-8-sig").encode("utf-16")


@pytest.mark.parametrize(("text", "expected"), FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress, utf16], ids=["plain", "gzip", "UTF-16"])
def test_every_form_is_read_without_a_complaint(text, expected, pack):
    reading = parse_records(pack(text.encode()), "records.json")
    assert names(reading) == expected
    assert [json.loads(item.text) for item in reading.records] == [item.record for item in reading.records]
    assert not reading.problems
    assert not reading.refused


def test_a_record_is_located():
    reading = parse_records(f"\n[{A},\n {B}]".encode(), "results.json")
    assert [(item.file, item.line, item.path) for item in reading.records] == [
        ("results.json", 2, "$[0]"),
        ("results.json", 3, "$[1]"),
    ]


BAD = '{"metric": nope}'
CUT = B[:40]

# The text, the records that are rescued, and line and path of each piece that is refused.
DAMAGED = {
    "a broken line": (f"{A}\n{BAD}\n{C}\n", ["a", "c"], [(2, "$")]),
    "two broken lines": (f"{A}\n{BAD}\nno JSON\n{C}\n", ["a", "c"], [(2, "$"), (3, "$")]),
    "two broken lines at the end": (f"{A}\n{BAD}\nno JSON\n", ["a"], [(2, "$"), (3, "$")]),
    "a broken object without a separator": (f"{BAD} {A}", ["a"], [(1, "$")]),
    "a log before an object over lines": (f"oops\n{json.dumps(record('a'), indent=1)}", ["a"], [(1, "$")]),
    "words before a list": (f"oops [{A}]", ["a"], [(1, "$")]),
    "words before an indented object over lines": (
        "oops\n" + textwrap.indent(json.dumps(record("a"), indent=1), " \t"),
        ["a"],
        [(1, "$")],
    ),
    "a broken list before an object": (f"[{BAD}]\t{A}", ["a"], [(1, "$[0]")]),
    "broken items with other spaces": (
        f"[{BAD},{A},{BAD},  {B}]",
        ["a", "b"],
        [(1, "$[0]"), (1, "$[2]")],
    ),
    "a line cut off": (f"{A}\n{CUT}\n{C}\n", ["a", "c"], [(2, "$")]),
    "a last line cut off": (f"{A}\n{CUT}", ["a"], [(2, "$")]),
    "an indented broken line": (f"{A}\n{BAD}\n    oops,\n{C}\n", ["a", "c"], [(2, "$"), (3, "$")]),
    "no comma between items": (f"[{A};{B}]", ["a"], [(1, "$[1]")]),
    "a list of a word": (f'{A}\n["metric"]\n{B}\n', ["a", "b"], [(2, "$")]),
    "a list of more than records": (f"{A}\n[{B}, 3]\n{C}\n", ["a", "b", "c"], [(2, "$")]),
    "a line of a log that begins with a date": (f"2026-11-30 done\n{A}\n", ["a"], [(1, "$")]),
    "a line of a log": (f"INFO: [1/2] {{done}}\n{A}\n", ["a"], [(1, "$")]),
    "an open string before a record": (f'"oops\n{A}\n', ["a"], [(1, "$")]),
    "an open object before a record": (f'{{"x":\n{A}\n{B}\n', ["a", "b"], [(1, "$")]),
    "a scalar": (f"{A}\n17\n{B}", ["a", "b"], [(2, "$")]),
    "a broken item": (f"[{A}, {BAD}, {C}]", ["a", "c"], [(1, "$[1]")]),
    "a broken item on a line": (f"[\n{A},\n{BAD},\n{C}\n]\n", ["a", "c"], [(3, "$[1]")]),
    "a broken item over lines": (
        json.dumps([record("a"), record("b"), record("c")], indent=2).replace('"b",', '"b" oops', 1),
        ["a", "c"],
        [(24, "$[1]")],
    ),
    "a broken item with parts": (
        f'[{A}, {{"metric": nope, "runners": [{{"name": "x"}}, {{"name": "y"}}]}}, {C}]',
        ["a", "c"],
        [(1, "$[1]")],
    ),
    "a list cut off in an item": (f"[{A}, {CUT}", ["a"], [(1, "$[1]")]),
    "a list cut off over lines": (
        json.dumps([record("a"), record("b")], indent=2)[:-60],
        ["a"],
        [(24, "$[1]")],
    ),
    "a list cut off between items": (f"[{A},\n{B},\n", ["a", "b"], [(3, "$")]),
    "items that are no objects": (
        f'[{A}, 5, null, "x", [{B}]]',
        ["a"],
        [(1, f"$[{i}]") for i in (1, 2, 3, 4)],
    ),
    "a wrong record": (f'[{A}, {{"metric": 5}}]', ["a"], [(1, "$[1].metric")]),
    "no metric": (f'{A}\n{{"model": {{"name": "x"}}}}\n', ["a"], [(2, "$")]),
    "a key twice": (f'{A}\n{{"metric": {{"name": "x", "name": "y"}}}}\n', ["a"], [(2, "$.metric")]),
    "half a character": (f'{A}\n{{"metric": {{"name": "\\ud83d"}}}}\n', ["a"], [(2, "$.metric.name")]),
    "half a character in a key": (f'{A}\n{{"metric": {{"\\ud83d": 1}}}}\n', ["a"], [(2, "$.metric")]),
    "a number that is none": (f'{A}\n{{"metric": {{"name": NaN}}}}\n', ["a"], [(2, "$.metric.name")]),
    "a number without end": (
        f'{A}\n{{"metric": {{"extra_info": {{"x y": [1e999]}}}}}}\n',
        ["a"],
        [(2, '$.metric.extra_info["x y"][0]')],
    ),
    "very deep": (f'{A}\n{{"metric": {{}}, "x": {"[" * 300}{"]" * 300}}}\n', ["a"], [(2, "$.x[0][0]")]),
    "too deep for Python": (
        f'{A}\n{{"metric": {{}}, "x": {"[" * 90000}{"]" * 90000}}}\n{B}',
        ["a", "b"],
        [(2, "$")],
    ),
    "nothing but depth": ("[" * 90000, [], [(1, "$")]),
}


@pytest.mark.parametrize(("text", "expected", "refused"), DAMAGED.values(), ids=DAMAGED)
def test_good_records_survive_their_neighbours(text, expected, refused):
    reading = parse_records(text.encode(), "records.json")
    assert names(reading) == expected
    assert [(line, path) for line, path, severity in reported(reading) if severity == "refused"] == refused
    for item in reading.refused:
        assert item.text in text
        assert item.text == item.text.strip(" \n,")
        assert all(item.path == "$" or reason.startswith(item.path) for reason in item.reasons)


def test_what_is_refused_keeps_its_text_and_every_reason():
    bad = '{"metric": {"benchmark_values": 5}, "job_id": -1}'
    (refused,) = parse_records(f"{A}\n{bad}\n".encode(), "records.json").refused
    assert (refused.file, refused.line, refused.path, refused.text) == ("records.json", 2, "$", bad)
    assert sorted(refused.reasons) == [
        "$.job_id: -1 is negative",
        "$.metric.benchmark_values: 5 is of the wrong type: array expected",
    ]


@pytest.mark.parametrize(
    ("time", "told"),
    [("1790000000000", True), ("10413792000", True), ("10413791999", False), ("null", False)],
)
def test_a_time_in_milliseconds_is_told_and_kept(time, told):
    reading = parse_records(A.replace("{", f'{{"timestamp": {time}, ', 1).encode(), "records.json")
    assert names(reading) == ["a"]
    expected = f"{time} is after the year 2299, as milliseconds are; write Unix time in seconds"
    assert [(one.path, one.reason, one.severity) for one in reading.problems] == [
        ("$.timestamp", expected, "flag")
    ] * told


def test_a_syntax_error_is_reported_on_its_line():
    text = json.dumps(record("a"), indent=2).replace("1.5", "1.5 oops")
    (problem,) = parse_records(text.encode(), "records.json").problems
    assert "oops" in text.splitlines()[problem.line - 1]
    assert "is not valid JSON" in problem.reason


def test_bytes_that_are_not_utf8_refuse_their_record_alone_and_are_kept():
    content = f"{A}\n".encode() + B.encode().replace(b"resnet", b"r\xe9snet") + f"\n{C}\n".encode()
    reading = parse_records(content, "records.json")
    assert names(reading) == ["a", "c"]
    assert reported(reading) == [(2, "$.model.name", "refused")]
    assert reading.refused[0].text.encode("utf-8", "surrogateescape") == content.splitlines()[1]


@pytest.mark.parametrize("kept", [0.5, 0.9])
def test_a_damaged_gzip_file_gives_what_comes_before_the_damage(kept):
    lines = [
        json.dumps(record(f"metric {index}", extra_info={"noise": hash(str(index))})) for index in range(2000)
    ]
    packed = gzip.compress("\n".join(lines).encode())
    reading = parse_records(packed[: int(len(packed) * kept)], "records.json.gz")
    assert names(reading) == [f"metric {index}" for index in range(len(reading.records))]
    assert len(reading.records) > 2000 * kept / 2
    assert "gzip data is damaged" in reading.problems[-1].reason


def test_gzip_with_rubbish_at_its_end_loses_nothing():
    reading = parse_records(gzip.compress(A.encode()) + b"rubbish", "records.json.gz")
    assert names(reading) == ["a"]
    assert reported(reading)[-1][2] == "refused"


def test_values_are_not_touched():
    values = '[1, null, "2.5", 3086359081]'
    text = f'{{"metric": {{"name": "m", "benchmark_values": {values}, "extra_info": {{"n": 1234567890123456789}}}}}}'
    reading = parse_records(text.encode(), "records.json")
    assert reading.records[0].record == json.loads(text)
    assert [(path, severity) for _, path, severity in reported(reading) if severity == "changed"] == [
        ("$.metric.benchmark_values[1]", "changed"),
        ("$.metric.benchmark_values[2]", "changed"),
    ]


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ('{"metric": {"name": "accuracy"}}', ["$.benchmark", "$.model", "$.metric.benchmark_values"]),
        (
            '{"metric": {"name": "", "benchmark_values": [1]}, "benchmark": {}, "model": {"name": null}}',
            ["$.benchmark.name", "$.model.name", "$.metric.name"],
        ),
        ("", ["$"]),
        ("[]", ["$"]),
        (" \n ", ["$"]),
    ],
)
def test_what_is_missing_is_flagged(text, paths):
    reading = parse_records(text.encode(), "records.json")
    assert sorted(reported(reading)) == sorted((1, path, "flag") for path in paths)
    assert not reading.refused


def test_a_problem_reads_as_one_line():
    (problem,) = parse_records(
        b'{"benchmark": {"name": "b"}, "model": {"name": "m"}}', "results.json"
    ).problems
    assert str(problem) == "results.json:1: $: metric is missing"


def test_a_message_quotes_no_more_than_it_must():
    metric = {
        "benchmark_values": ["x" * 10_000, {"a": [1]}],
        "name": ["y" * 10_000],
        "target_value": -(10**309),
    }
    reading = parse_records(json.dumps({"metric": metric}).encode(), "records.json")
    assert sorted(problem.reason for problem in reading.problems if problem.severity != "flag") == [
        f'"{"x" * 58}… is not a number',
        f"-1{'0' * 57}… is not a finite Float32; it is stored as -inf, which spoils every average",
        f'["{"y" * 57}… is not a string; it is stored as its text',
        '{"a": [1]} is of the wrong type: number or string or boolean expected',
    ]


@pytest.mark.parametrize("name", ["missing.json", "."])
def test_a_file_that_cannot_be_read_is_an_error(tmp_path, name):
    with pytest.raises(RecordsError, match="cannot be read"):
        read_records(tmp_path / name)


def test_the_reasons_to_refuse_a_record_are_not_counted_out_to_the_last():
    """Somebody who may upload must not keep a receiver busy for minutes with one request."""
    record = {"metric": {"name": "latency(ms)", "benchmark_values": ["x"] * 1000}}
    reading = parse_records(json.dumps(record).encode(), "records.json")
    assert len([problem for problem in reading.problems if problem.severity == "refused"]) == MAX_FINDINGS
    assert not reading.records


def test_a_value_that_refuses_a_record_is_found_behind_many_that_are_only_changed():
    values = ["2.5"] * (MAX_FINDINGS + 1)
    for last, refused in [("2.5", False), ({}, True)]:
        metric = {"name": "m", "benchmark_values": [*values, last]}
        reading = parse_records(json.dumps({"metric": metric}).encode(), "a.json")
        assert bool(reading.refused) is refused
        assert len(reading.records) == (not refused)
