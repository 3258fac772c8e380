"""Files that would exhaust memory or time, and numbers out of range."""

from __future__ import annotations

import gzip
import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from torchperf_ci.records import files, reading
from torchperf_ci.records.reading import parse_records

GOOD = '{"metric": {"name": "good", "benchmark_values": [1.5]}}'
HUGE = [sign + digit * number for sign in ("", "-") for digit in "19" for number in (40, 309, 4300, 4301)]


@pytest.mark.parametrize("number", HUGE, ids=lambda number: f"{number[:2]}…{len(number)}")
@pytest.mark.parametrize(
    "record",
    [
        '{"metric": {"name": "m", "benchmark_values": [1, HUGE]}}',
        '{"metric": {"name": "m", "target_value": HUGE}}',
        '{"metric": {"name": "m"}, "timestamp": HUGE, "workflow_id": HUGE, "job_id": HUGE}',
        '{"metric": {"name": "m"}, "runners": [{"cpu_count": HUGE, "extra_info": {"a": HUGE}}]}',
        '{"metric": {"name": HUGE, "extra_info": {"a": [HUGE]}}, "model": {"origins": HUGE}}',
        '{"metric": HUGE}',
    ],
)
def test_no_number_is_too_large_to_be_read_and_told(record, number) -> None:
    found = parse_records(f"{GOOD}\n{record.replace('HUGE', number)}\n{GOOD}\n".encode(), "a.json")
    told = [problem for problem in found.problems if problem.line == 2 and problem.severity != "flag"]
    assert [located.line for located in found.records if located.line != 2] == [1, 3]
    assert told or "name" not in record
    assert not any("bug" in problem.reason for problem in told)
    assert all(len(problem.reason) < 200 for problem in told)


def test_what_nobody_foresaw_refuses_the_file_alone_and_keeps_its_text(monkeypatch) -> None:
    def fail(_value: object) -> object:
        msg = "of all things"
        raise ZeroDivisionError(msg)

    monkeypatch.setattr(reading, "check_record", fail)
    found = parse_records(GOOD.encode(), "a.json")
    assert not found.records
    (problem,) = found.problems
    assert (problem.file, problem.severity) == ("a.json", "refused")
    assert "ZeroDivisionError: of all things" in problem.reason
    assert [item.text for item in found.refused] == [GOOD]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
def test_what_is_not_about_the_file_goes_on_upwards(monkeypatch, error) -> None:
    def fail(_value: object) -> object:
        raise error

    monkeypatch.setattr(reading, "check_record", fail)
    with pytest.raises(error):
        parse_records(GOOD.encode(), "a.json")


@pytest.mark.parametrize(
    ("limit", "content", "reason"),
    [
        ("MAX_BYTES", GOOD.encode(), "holds more than 0 MiB; split it"),
        ("MAX_BYTES", gzip.compress(b" " * 100, mtime=0), "unpacks to more than 0 MiB; split it"),
        ("MAX_VALUES", b'{"metric": {"benchmark_values": [' + b"1," * 60 + b"1]}}", "more than 50 values"),
        ("MAX_ELEMENTS", b"[" + b"{}," * 50 + b"{}]", "more than 50 records"),
        ("MAX_ELEMENTS", f"{GOOD}\n".encode() * 51, "more than 50 records"),
        ("MAX_ELEMENTS", f"{GOOD}\n".encode() + b"x\n" * 50, "more than 50 records"),
    ],
)
def test_what_is_beyond_a_limit_is_refused_by_name(monkeypatch, limit, content, reason) -> None:
    before = parse_records(content, "a.json")
    assert "more than" not in str(before.problems)
    monkeypatch.setattr(files, limit, 50)
    found = parse_records(content, "a.json")
    assert not found.records
    assert [item.text for item in found.refused] == [""]
    (problem,) = found.problems
    assert (problem.file, problem.severity) == ("a.json", "refused")
    assert reason in problem.reason


def test_as_much_as_the_limits_allow_is_read(monkeypatch) -> None:
    content = gzip.compress(f"{GOOD}\n".encode() * 50)
    monkeypatch.setattr(files, "MAX_BYTES", len(GOOD) * 50 + 50)
    monkeypatch.setattr(files, "MAX_ELEMENTS", 50)
    monkeypatch.setattr(files, "MAX_VALUES", 200)
    assert len(parse_records(content, "a.json").records) == 50


@pytest.mark.parametrize(
    "content",
    [
        b"[" + b"{}," * 50 + b"{}]",
        b'{"metric": {"benchmark_values": [' + b"null, " * 50 + b"1]}}",
        b'{"metric": {"extra_info": {"a": [' + b"[], " * 50 + b"1]}}}",
        b'{"metric": nope}\n' * 50,
    ],
)
def test_checking_ends_when_its_time_is_up(monkeypatch, content) -> None:
    """Time goes by at each look at the clock."""
    seconds = iter(range(1000))
    monkeypatch.setattr(files.time, "thread_time", lambda: next(seconds))
    with files.cpu_limit(20):
        found = parse_records(content, "a.json")
    assert [problem.reason for problem in found.problems] == ["takes too long to check; split it"]
    assert not found.records
    assert parse_records(content, "a.json").problems != found.problems


def test_hostile_files_take_neither_all_memory_nor_all_day(tmp_path) -> None:
    """Each took minutes, hours, or more than 1.6 GB before there were limits; all together now take seconds."""
    texts = {
        "keys": "{" + ",".join(f'"k{i}": 1' for i in range(60_000)) + ', "k": 1, "k": 1}',
        "lines": "\n" * 5_000_000 + "x",
        "metrics": '[{"metric": nope},{"metric": {}},' * 3_000 + "x" * 3_000_000,
        "nulls": '{"metric": {"benchmark_values": [' + "null," * 30_000 + "1]}}",
        "inside": '{"m": nope, "x": [' + '{"b": 1, "c": [' * 300 + "]}" * 300 + "]}\n" * 50 + '"metric"',
        "digits": '{"metric": {"target_value": "' + "1" * 3_000_000 + 'x"}}',
        "bomb": gzip.compress(b" " * 2**24) * 48,
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    program = (
        "import sys; from pathlib import Path; from torchperf_ci.records.reading import read_records\n"
        "for path in sorted(Path(sys.argv[1]).iterdir()): print(read_records(path).problems[-1].reason)"
    )

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
        resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))

    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limited, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    told = dict(zip(sorted(texts), done.stdout.splitlines(), strict=True))
    assert told["bomb"] == "unpacks to more than 64 MiB; split it"
    assert told["keys"] == 'the key "k" occurs more than once; keep the intended one'


def test_of_very_many_changes_in_a_record_the_first_are_told() -> None:
    record = {"metric": {"name": "m", "benchmark_values": [None] * 5000}}
    found = parse_records(json.dumps(record).encode(), "a.json")
    assert 0 < len(found.problems) <= 200
    assert len(found.records) == 1


@pytest.mark.parametrize("value", ["16777217", "3086359081", "40859830085.0", "9" * 30])
def test_a_whole_number_is_rounded_without_a_word_as_every_other_number_is(value) -> None:
    found = parse_records(GOOD.replace("1.5", value).encode(), "a.json")
    assert {problem.severity for problem in found.problems} == {"flag"}


def test_the_documentation_has_the_same_limits() -> None:
    text = (Path(__file__).parents[2] / "docs" / "record.md").read_text()
    for size in (files.MAX_BYTES, files.MAX_UPLOAD):
        assert f"| {files.mebibytes(size)} |" in text
    for number in (files.MAX_ELEMENTS, files.MAX_VALUES, files.MAX_FILES):
        assert f"| {number:,} |" in text
