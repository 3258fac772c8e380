from __future__ import annotations

import json
from dataclasses import replace
from math import inf, nan
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from torchperf_ci import json_files
from torchperf_ci.errors import JsonFileError, OutputDirectoryError
from torchperf_ci.series.points import Series
from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.verdict import (
    VERDICTS_FORMAT,
    BuildVariance,
    CommitRange,
    Evidence,
    Judgement,
    MeasuredPoint,
    RangeEnd,
    RepeatOptions,
    SuiteMean,
    Verdict,
    VerdictWord,
    read_verdicts,
    verdicts_json,
    write_verdicts,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXT = st.text(st.characters(codec="utf-8"))
POSITIVE = st.floats(1e-300, 1e300)
EFFECTS = st.builds(Effect, POSITIVE, st.just(0.0) | POSITIVE, st.just(inf) | POSITIVE, st.integers(0, 10**9))
NUMBERS = st.none() | st.floats(allow_nan=False, allow_infinity=False)
SHARES = st.none() | st.floats(0, 1e300)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=5,
)
COMMITS = st.builds(RangeEnd, *[st.sampled_from(["", "a" * 40, "0" * 7])] * 2, st.integers(0, 2**40))
EVIDENCE = st.builds(
    Evidence,
    st.builds(CommitRange, COMMITS, COMMITS),
    st.lists(st.builds(MeasuredPoint, st.floats(-1e14, 1e14), TEXT, st.integers(0, 2**40)), max_size=2).map(
        tuple
    ),
    st.integers(0, 9),
    *[st.none() | st.integers(1, 9)] * 2,
    st.none() | st.builds(BuildVariance, *[st.floats(0, 1) | st.integers(0, 1)] * 4),
    st.sampled_from(["", "0a" * 5]),
    st.booleans(),
    st.dictionaries(TEXT.map(lambda name: f"x{name}"), JSON, max_size=2),
)
VERDICTS = st.builds(
    Verdict,
    st.builds(Series, *[TEXT] * 9),
    st.sampled_from(get_args(VerdictWord)),
    TEXT,
    st.none() | EFFECTS,
    NUMBERS,
    NUMBERS,
    SHARES,
    SHARES,
    st.booleans(),
    EVIDENCE,
)
SUITES = st.builds(SuiteMean, TEXT, EFFECTS, st.integers(0, 10**9))
BUILDS = st.sampled_from(["", "a" * 40, "torch==2.13.0"])
AGAIN = st.builds(RepeatOptions, BUILDS, BUILDS, st.lists(TEXT, max_size=2).map(tuple), TEXT, TEXT)
JUDGEMENTS = st.builds(
    Judgement,
    *[TEXT] * 3,
    st.lists(VERDICTS, max_size=3),
    st.lists(SUITES, max_size=2),
    st.lists(TEXT),
    st.none() | AGAIN,
)
CORE = {
    "version": 1,
    "verdicts": [
        {
            "series": dict.fromkeys(Series.__dataclass_fields__, "x"),
            "verdict": "regressed",
            "why": "so it is",
            "effect": {"ratio": 1.1, "low": None, "high": None},
        }
    ],
}


def changed(**members: Any) -> dict[str, Any]:
    """:data:`CORE` with other members in its verdict, without those that are ``...``."""
    merged = {**CORE["verdicts"][0], **members}
    return {**CORE, "verdicts": [{name: value for name, value in merged.items() if value is not ...}]}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(JUDGEMENTS)
def test_what_is_written_is_read(tmp_path: Path, judgement: Judgement) -> None:
    path = tmp_path / "verdicts.json"
    write_verdicts(path, judgement)
    assert read_verdicts(path) == judgement
    assert verdicts_json(read_verdicts(path)) == path.read_text()


def test_the_schema_is_one_and_knows_every_word() -> None:
    Draft202012Validator.check_schema(VERDICTS_FORMAT.schema)
    assert VERDICTS_FORMAT.schema["$defs"]["verdict"]["properties"]["verdict"]["enum"] == list(
        get_args(VerdictWord)
    )
    assert VERDICTS_FORMAT.schema["$defs"]["series"]["required"] == list(Series.__dataclass_fields__)


def test_a_verdict_is_a_line(judgement: Judgement, tmp_path: Path) -> None:
    write_verdicts(tmp_path / "a/b/verdicts.json", judgement)
    lines = (tmp_path / "a/b/verdicts.json").read_text().splitlines()
    assert sum('"verdict": ' in line for line in lines) == len(judgement.verdicts)
    assert [path.name for path in (tmp_path / "a/b").iterdir()] == ["verdicts.json"]


def test_a_number_that_is_not_finite_is_null(verdict: Callable[..., Verdict]) -> None:
    odd = verdict(
        "noisy",
        old=nan,
        new=inf,
        effect=Effect(1.1, 0.0, inf, 3),
        evidence=Evidence(others={"p": [nan, {"x": -inf}]}),
    )
    written = json.loads(verdicts_json(Judgement("check", "", "", [odd])))["verdicts"][0]
    assert (written["old"], written["new"]) == (None, None)
    assert written["effect"] == {"ratio": 1.1, "low": None, "high": None, "pairs": 3}
    assert written["evidence"] == {"p": [None, {"x": None}]}


def test_a_name_that_is_no_unicode_does_not_stop_the_file(
    verdict: Callable[..., Verdict], tmp_path: Path
) -> None:
    write_verdicts(tmp_path / "v.json", Judgement("check", "", "", [verdict(model="caf\udce9")]))
    assert read_verdicts(tmp_path / "v.json").verdicts[0].series.model == "caf?"


def test_the_core_of_somebody_else_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    path.write_text(json.dumps({**CORE, "future": 1}))
    (found,) = read_verdicts(path).verdicts
    assert found.effect == Effect(1.1, 0.0, inf, 0)
    assert read_verdicts(path).command == ""


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "is not valid JSON"),
        (b"\xff\xfe", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ("[]", "is not an object; expected: verdicts.json"),
        (json.dumps({"verdicts": []}), "$: 'version' is a required property; expected: verdicts.json"),
        (json.dumps({**CORE, "version": True}), "$.version: 1 was expected"),
        (json.dumps({**CORE, "version": 2}), "version 2 is newer than this torchperf, which reads 1"),
        (json.dumps(changed(verdict="slower")), "$.verdicts[0].verdict: 'slower' is not one of"),
        (json.dumps(changed(why=...)), "$.verdicts[0]: 'why' is a required property"),
        (json.dumps(changed(series={})), "$.verdicts[0].series: 'repo' is a required property"),
        (json.dumps(changed(effect={"ratio": -1, "low": 1, "high": 1})), "$.verdicts[0].effect.ratio: -1"),
        (json.dumps(changed(old="1")), "$.verdicts[0].old: '1' is not of type"),
        (json.dumps({**CORE, "suites": [{"metric": "x", "effect": None, "series": 1}]}), "$.suites[0].effect"),
    ],
)  # fmt: skip
def test_what_is_no_file_of_verdicts_is_refused_with_the_place(
    tmp_path: Path, content: str | bytes, told: str
) -> None:
    path = tmp_path / "v.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(JsonFileError) as error:
        read_verdicts(path)
    assert str(error.value).startswith(f"{path}: ")
    assert told in str(error.value)
    assert len(str(error.value)) < 400


def test_a_file_that_is_not_there_or_too_large_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "v.json"
    with pytest.raises(JsonFileError, match="cannot be read: No such file"):
        read_verdicts(path)
    monkeypatch.setattr(json_files, "MAX_BYTES", 2**20)
    path.write_bytes(b" " * (2**20 + 1))
    with pytest.raises(JsonFileError, match="it holds more than 1 MiB"):
        read_verdicts(path)


def test_what_cannot_be_written_is_told_and_leaves_the_old_file(judgement: Judgement, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(OutputDirectoryError, match="cannot be written"):
        write_verdicts(tmp_path / "taken/v.json", judgement)
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputDirectoryError):
        write_verdicts(tmp_path / "folder", replace(judgement, notes=["x"]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "taken"]
