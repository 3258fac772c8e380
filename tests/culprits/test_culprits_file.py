from __future__ import annotations

import json
from math import inf
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from torchperf_ci.culprits.culprit import (
    CULPRITS_FORMAT,
    Bisection,
    BisectionStatus,
    Culprit,
    DependencyChange,
    KnownBuildVariance,
    MachineTime,
    OperatorCost,
    OperatorKind,
    PairMeasurement,
    ProfileChange,
    SeriesEffect,
    SkippedCommit,
    Suspect,
    culprits_json,
    read_culprits,
    write_culprits,
)
from torchperf_ci.errors import JsonFileError, OutputDirectoryError
from torchperf_ci.stats.effect import Effect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
SHAS = st.text("0123456789abcdef", min_size=1, max_size=40)
POSITIVE = st.floats(1e-300, 1e300)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SECONDS = st.floats(0, 1e300)
COUNTS = st.integers(0, 10**9)
SHARES = st.floats(0, 1)
EFFECTS = st.builds(Effect, POSITIVE, st.just(0.0) | POSITIVE, st.just(inf) | POSITIVE, COUNTS)


def some(of: st.SearchStrategy[Any], least: int = 0) -> st.SearchStrategy[Any]:
    """Tuples of them."""
    return st.lists(of, min_size=least, max_size=2).map(tuple)


MOVED = some(st.builds(DependencyChange, TEXT, TEXT, TEXT))
SOME_MS = st.none() | SECONDS
INSIDES = st.builds(
    ProfileChange,
    TEXT,
    some(
        st.builds(
            OperatorCost, TEXT, st.sampled_from(get_args(OperatorKind)), SOME_MS, SOME_MS, SOME_MS, SOME_MS
        )
    ),
    some(TEXT),
    some(st.sampled_from(["culprits.profiles/1a2b3c/new.trace.json.gz", "a"])),
    some(TEXT),
)
CULPRITS = st.builds(
    Culprit,
    commit=st.none() | SHAS,
    set=some(SHAS, 1),
    posterior=SHARES,
    effect=EFFECTS,
    series=some(st.builds(SeriesEffect, TEXT, st.none() | EFFECTS, some(FINITE))),
    author=TEXT,
    date=TEXT,
    subject=TEXT,
    pull_request=st.none() | st.integers(1, 10**9),
    url=st.none() | TEXT,
    moved=MOVED,
    inside=st.none() | INSIDES,
    builds=st.none() | st.tuples(st.integers(1, 9), st.integers(1, 9)),
)


def locations(statuses: st.SearchStrategy[str], least: int) -> st.SearchStrategy[Bisection]:
    return st.builds(
        Bisection,
        statuses,
        *[SHAS] * 2,
        *[TEXT] * 6,
        *[COUNTS] * 2,
        seconds=st.builds(MachineTime, SECONDS, SECONDS),
        confirmed=st.dictionaries(TEXT, EFFECTS, max_size=2),
        culprits=some(CULPRITS, least),
        credible=some(st.builds(Suspect, SHAS, SHARES, TEXT)),
        skipped=some(st.builds(SkippedCommit, SHAS, TEXT)),
        notes=some(TEXT),
        luck=st.none() | st.builds(KnownBuildVariance, SHARES, TEXT),
        readings=some(
            st.builds(
                PairMeasurement,
                *(TEXT, SHAS, SHAS, TEXT, st.dictionaries(TEXT, FINITE, max_size=2), SECONDS),
                st.tuples(COUNTS, COUNTS),
            )
        ),
    )


CULPRIT = {
    "commit": "1a2b3c4d5e",
    "set": ["1a2b3c4d5e"],
    "posterior": 0.97,
    "effect": {"ratio": 1.1, "low": None, "high": None},
    "series": ["latency"],
    "author": "Ada",
    "date": "2026-11-01",
    "subject": "Slow down",
    "pull_request": None,
}
CORE = {
    "version": 1,
    "status": "found",
    "good": "900d",
    "bad": "bad0",
    "culprits": [CULPRIT],
    "skipped": [{"commit": "dead", "why": "it does not build"}],
    "runs": 20,
    "builds": 7,
}


def without(name: str) -> dict[str, Any]:
    """:data:`CORE` less one of its members."""
    return {key: value for key, value in CORE.items() if key != name}


def changed(**members: Any) -> dict[str, Any]:
    """:data:`CORE` with other members in its culprit."""
    return {**CORE, "culprits": [{**CULPRIT, **members}]}


@pytest.fixture
def read(tmp_path: Path) -> Callable[[Any], Bisection]:
    """Read what a file with this content holds."""

    def written_and_read(content: Any) -> Bisection:
        path = tmp_path / "c.json"
        path.write_text(json.dumps(content))
        return read_culprits(path)

    return written_and_read


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
    max_examples=50,
)
@given(locations(st.sampled_from(get_args(BisectionStatus)[1:]), 0) | locations(st.just("found"), 1))
def test_what_is_written_is_read(tmp_path: Path, bisection: Bisection) -> None:
    path = tmp_path / "culprits.json"
    write_culprits(path, bisection)
    assert read_culprits(path) == bisection
    assert culprits_json(read_culprits(path)) == path.read_text()


def test_the_schema_is_one_and_knows_every_member() -> None:
    Draft202012Validator.check_schema(CULPRITS_FORMAT.schema)
    members, described = (
        CULPRITS_FORMAT.schema["properties"],
        CULPRITS_FORMAT.schema["$defs"],
    )
    assert members["status"]["enum"] == list(get_args(BisectionStatus))
    for kind, properties in (
        (Bisection, {*members} - {"version"}),
        (MachineTime, members["seconds"]["properties"]),
        (KnownBuildVariance, members["luck"]["properties"]),
        (SkippedCommit, members["skipped"]["items"]["properties"]),
        (Culprit, described["culprit"]["properties"]),
        (SeriesEffect, described["change"]["properties"]),
        (Suspect, described["suspect"]["properties"]),
        (DependencyChange, described["moved"]["items"]["properties"]),
        (ProfileChange, described["inside"]["properties"]),
        (OperatorCost, described["operator"]["properties"]),
        (PairMeasurement, described["measurement"]["properties"]),
    ):
        assert set(properties) == set(kind.__dataclass_fields__)


def test_a_culprit_and_a_measurement_are_a_line_each(bisection: Bisection, tmp_path: Path) -> None:
    write_culprits(tmp_path / "a/b/culprits.json", bisection)
    lines = (tmp_path / "a/b/culprits.json").read_text().splitlines()
    assert sum('"posterior": 0.9971, "effect"' in line for line in lines) == 1
    assert sum('"purpose": ' in line for line in lines) == 3
    assert [path.name for path in (tmp_path / "a/b").iterdir()] == ["culprits.json"]


def test_the_core_of_somebody_else_is_enough(read: Callable[[Any], Bisection]) -> None:
    assert read(CORE) == Bisection(
        status="found",
        good="900d",
        bad="bad0",
        runs=20,
        builds=7,
        culprits=(
            Culprit(
                commit="1a2b3c4d5e",
                set=("1a2b3c4d5e",),
                posterior=0.97,
                effect=Effect(1.1, 0.0, inf, 0),
                series=(SeriesEffect("latency"),),
                author="Ada",
                date="2026-11-01",
                subject="Slow down",
            ),
        ),
        skipped=(SkippedCommit("dead", "it does not build"),),
    )


def test_one_of_several_commits_has_no_name_of_its_own(read: Callable[[Any], Bisection]) -> None:
    nobody = dict.fromkeys(("commit", "author", "date", "subject", "pull_request", "url"))
    (found,) = read(
        changed(set=["a", "b"], future=1, series=[{"name": "x", "effect": None}], **nobody)
    ).culprits
    assert (found.commit, found.set, found.author, found.url) == (None, ("a", "b"), "", None)
    assert found.series == (SeriesEffect("x"),)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ([], "is not an object; expected: culprits.json"),
        (without("skipped"), "$: 'skipped' is a required property; expected: culprits.json"),
        ({**CORE, "version": 2}, "version 2 is newer than this torchperf, which reads 1"),
        ({**CORE, "status": "guilty"}, "$.status: 'guilty' is not one of"),
        ({**CORE, "culprits": []}, "$.culprits: [] "),
        ({**CORE, "runs": -1}, "$.runs: -1 is less than"),
        ({**CORE, "good": ""}, "$.good: '' "),
        (changed(posterior=1.5), "$.culprits[0].posterior: 1.5 is greater than"),
        (changed(effect=None), "$.culprits[0].effect: None is not of type 'object'"),
        (changed(set=[]), "$.culprits[0].set: [] "),
        (changed(pull_request="#1"), "$.culprits[0].pull_request: '#1' is not of type"),
        (changed(series=[1]), "$.culprits[0].series[0]: 1 is not of type"),
        (changed(series=[{"effect": None}]), "$.culprits[0].series[0]: 'name' is a required property"),
        ({**CORE, "confirmed": {"x": None}}, "None is not of type 'object'"),
        ({**CORE, "readings": [{}]}, "$.readings[0]: 'probe' is a required property"),
        (changed(inside={"probe": "x"}), "$.culprits[0].inside: 'moved' is a required property"),
        (changed(inside={"probe": "x", "moved": [{"name": "x", "kind": "y"}]}), "'y' is not one of"),
        *(
            (changed(inside={"probe": "x", "moved": [], "files": [path]}), f"{path!r} does not match")
            for path in (
                "/etc/passwd",
                "../x",
                "a/../../x",
                "a//b",
                "https://x.example/y",
                ".hidden",
                "javascript:x",
            )
        ),
        (changed(moved=[{"name": "x"}]), "$.culprits[0].moved[0]: 'old' is a required property"),
    ],
)
def test_what_is_no_file_of_culprits_is_refused_with_the_place(
    tmp_path: Path, read: Callable[[Any], Bisection], content: Any, told: str
) -> None:
    with pytest.raises(JsonFileError) as error:
        read(content)
    assert str(error.value).startswith(f"{tmp_path / 'c.json'}: ")
    assert told in str(error.value)


def test_what_cannot_be_written_is_told(bisection: Bisection, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(OutputDirectoryError, match="cannot be written"):
        write_culprits(tmp_path / "taken/c.json", bisection)
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputDirectoryError):
        write_culprits(tmp_path / "folder", bisection)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "taken"]
