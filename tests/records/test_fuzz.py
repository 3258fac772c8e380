"""Random files that no handwritten test would contain."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from torchperf_ci.records.parser import whole
from torchperf_ci.records.reading import parse_records, read_records
from torchperf_ci.records.record import write_records

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
HUGE = st.sampled_from([10**309, -(10**400)])
EXTRA = {"extra_info": st.dictionaries(TEXT, JSON, max_size=3)}
METRIC = st.fixed_dictionaries(
    {"name": TEXT},
    optional=EXTRA
    | {
        "benchmark_values": st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers() | HUGE),
        "target_value": HUGE,
    },
)
NAMED = st.fixed_dictionaries({"name": TEXT}, optional=EXTRA)
RECORD = st.fixed_dictionaries(
    {"metric": METRIC},
    optional={
        "benchmark": NAMED,
        "model": st.fixed_dictionaries(
            {"name": TEXT}, optional=EXTRA | {"origins": st.lists(TEXT, max_size=2)}
        ),
        "job_id": st.integers(0, 2**70) | HUGE.map(abs),
        "timestamp": HUGE.map(abs),
        "runners": st.lists(NAMED, max_size=2),
        "something else": JSON,
    },
)
FRAGMENTS = st.sampled_from(
    [
        '{"metric": {"name":',
        '{"metric": 1, 2}',
        '{"a":',
        "[",
        "]",
        "},",
        '"',
        '{"b": [',
        "NaN",
        "\\",
        "\ufeff",
        "\x00",
        "\xff",
    ]
)
GARBAGE = (FRAGMENTS | st.text(max_size=20).filter(lambda text: "\n" not in text)).map(
    lambda text: text.encode("utf-8", "surrogatepass")
)
QUICK = settings(deadline=None, max_examples=150)


def is_json(content: bytes) -> bool:
    try:
        whole(content.decode())
    except (ValueError, RecursionError):
        return False
    return True


@QUICK
@given(st.binary() | st.lists(GARBAGE).map(b"\n".join) | st.lists(GARBAGE).map(b"".join))
@example(b"\x1f\x8b")
@example(gzip.compress(b"[{}")[:-3])
@example(b"\xef\xbb\xbf\xef\xbb\xbf")
def test_no_bytes_crash_the_reader(content):
    reading = parse_records(content, "records.json")
    assert reading.records or reading.problems


@QUICK
@given(st.lists(RECORD | GARBAGE, min_size=1), st.sampled_from([b"\n", b"\r\n", b"\n\n"]))
def test_good_records_come_back_unchanged_from_between_garbage(lines, end):
    good = [line for line in lines if isinstance(line, dict)]
    content = end.join(json.dumps(line).encode() if isinstance(line, dict) else line for line in lines)
    # Garbage around good lines can make one JSON value of the file; then that is what the file says.
    assume(len(lines) == len(good) or not is_json(content))
    found = [located.record for located in parse_records(content, "records.json").records]
    assert [record for record in found if record in good] == good


@QUICK
@given(st.lists(RECORD, min_size=1), st.integers(0))
def test_a_list_cut_off_anywhere_keeps_what_is_whole(records, cut):
    text = json.dumps(records)
    text = text[: cut % len(text)]
    found = [located.record for located in parse_records(text.encode(), "records.json").records]
    assert found == records[: len(found)]
    assert len(text) < len(json.dumps(records[: len(found) + 1]))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "records.json"


@QUICK
@given(records=st.lists(RECORD))
def test_what_is_written_is_read_back(file, records):
    write_records(file, records)
    reading = read_records(file)
    assert [located.record for located in reading.records] == records
    assert not reading.refused
