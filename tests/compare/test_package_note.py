"""Which packages differ between the environments of base and head, or that none does, is said beside the verdicts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from torchperf_ci.compare import compared_builds
from torchperf_ci.compare.compared_builds import MAX_CHANGES, notes_on_builds, package_note
from torchperf_ci.environments.build_environment import Interpreter, WheelRequirement
from torchperf_ci.environments.revisions import Revision
from torchperf_ci.environments.wheels import Distribution
from torchperf_ci.errors import EnvironmentUnderTestError
from torchperf_ci.options.comparison_commands import CompareOptions


@pytest.fixture
def note(monkeypatch: pytest.MonkeyPatch):
    """The note for packages that are installed, by name and version."""

    def note(base: dict[str, str], head: dict[str, str], pythons: tuple[str, str] = ("a", "b")) -> str:
        sides = dict(zip(pythons, (base, head), strict=True))
        monkeypatch.setattr(
            compared_builds,
            "installed_distributions",
            lambda python: {name: Distribution(v, "", requested=True) for name, v in sides[python].items()},
        )
        builds = [SimpleNamespace(settings=SimpleNamespace(python=python), spec=None) for python in pythons]
        return package_note(*builds)

    return note


def test_what_differs_is_named_and_torch_has_its_own_place(note) -> None:
    said = note(
        {"torch": "2.12", "numpy": "1.26.4", "old": "1", "same": "3"},
        {"torch": "2.13", "numpy": "2.1.0", "new": "2", "same": "3"},
    )
    assert "head, too: new none → 2, numpy 1.26.4 → 2.1.0, old 1 → none. A change may come from them" in said


def test_equal_environments_and_a_single_one_need_no_note(note) -> None:
    assert note({"torch": "2.12", "numpy": "2"}, {"torch": "2.13", "numpy": "2"}) == ""
    assert note({"numpy": "1"}, {"numpy": "2"}, pythons=("a", "a")) == ""


def test_of_many_it_names_some(note) -> None:
    assert "and 3 more" in note({}, {f"p{n}": "1" for n in range(MAX_CHANGES + 3)})


def test_what_cannot_be_read_spoils_no_comparison(note, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(python: str) -> None:
        raise EnvironmentUnderTestError(python)

    builds = [SimpleNamespace(settings=SimpleNamespace(python=python)) for python in "ab"]
    monkeypatch.setattr(compared_builds, "installed_distributions", fails)
    assert package_note(*builds) == ""


@pytest.mark.parametrize(
    ("kind", "commit", "is_told"),
    [
        (WheelRequirement, "abc1234", True),
        (WheelRequirement, "def5678", False),
        (Interpreter, "abc1234", False),
    ],
)
def test_two_wheels_that_contain_the_same_torch_are_told(monkeypatch, kind, commit, is_told) -> None:
    """Whatever their names are; two Pythons may differ in a file that somebody has edited there."""
    commits = {"a": "abc1234", "b": commit}
    monkeypatch.setattr(
        compared_builds,
        "installed_distributions",
        lambda python: {"torch": Distribution("2.13", commits[python], requested=True)},
    )
    builds = [
        SimpleNamespace(settings=SimpleNamespace(python=python), torch="2.13", spec=kind(Path(python)))
        for python in commits
    ]
    assert ("both wheels install the same versions, with torch 2.13" in package_note(*builds)) is is_told


@pytest.mark.parametrize(
    ("imported", "files", "head", "told"),
    [
        ("benchmarks/helper.py", ["suite.py"], Revision, True),
        ("tree/src/package/__init__.py", ["suite.py"], Revision, False),
        ("benchmarks/helper.py", [], Revision, False),
        ("benchmarks/helper.py", ["suite.py"], WheelRequirement, False),
    ],
)
def test_a_suite_that_imports_nothing_of_the_commits_is_told(imported, files, head, told, tmp_path) -> None:
    spec = Revision(tmp_path, "ab", "Add") if head is Revision else WheelRequirement("torch==2.13.0")
    build = SimpleNamespace(
        spec=spec,
        settings=SimpleNamespace(
            python="", files=files, path=(str(tmp_path / "tree/src"), str(tmp_path / "tree"))
        ),
        under_test=SimpleNamespace(imported=[str(tmp_path / imported)]),
    )
    notes = notes_on_builds(CompareOptions(), build, build)
    assert any("imports no code of these commits" in note for note in notes) is told
