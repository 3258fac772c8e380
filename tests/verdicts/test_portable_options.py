"""Options for other machines contain no path of the one that measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from torchperf_ci.options.option import batch_size
from torchperf_ci.verdicts.reproduction import portable_options

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("config", "suite", "build", "batch_size", "full_history", "device")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The repository that the job works in, with one inside it that is ignored, and one beside it."""
    for name in ("work/perf", "work/perf/suspects", "work/other"):
        (tmp_path / name / ".git").mkdir(parents=True)
        (tmp_path / name / "suite.py").touch()
    (tmp_path / "work/perf/sub").mkdir()
    (tmp_path / "work/perf/sub/mine.py").touch()
    (tmp_path / "suite.py").touch()
    monkeypatch.chdir(tmp_path / "work/perf")
    return tmp_path / "work/perf"


def words(**options: Any) -> tuple[str, ...]:
    return portable_options(options, NAMES).words


def test_files_are_named_from_the_root_of_the_clone(checkout: Path) -> None:
    assert words(suite=[str(checkout / "suite.py"), "quick"]) == ("--suite", "suite.py", "quick")
    assert words(suite=["sub/../sub/mine.py"], config=str(checkout / "no.yml")) == (
        *("--config", "no.yml"),
        *("--suite", "sub/mine.py"),
    )


def test_what_is_in_no_repository_is_named_alone(checkout: Path) -> None:
    assert words(suite=[str(checkout.parents[1] / "suite.py")]) == ("--suite", "suite.py")


def test_a_call_from_a_folder_says_where_its_names_hold(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout / "sub")
    assert portable_options({"suite": ["mine.py", "../suite.py"]}, NAMES) == (
        ("--suite", "mine.py", "../suite.py"),
        "sub",
    )


def test_a_repository_that_has_its_own_suite_is_a_clone_by_itself(checkout: Path) -> None:
    given = {"repo": str(checkout / "suspects"), "suite": [str(checkout / "suspects/suite.py")]}
    assert portable_options(given, NAMES) == (("--suite", "suite.py"), "")
    other = {"repo": "../other", "suite": ["../other/suite.py"]}
    assert portable_options(other, NAMES) == (("--suite", "suite.py"), "")
    (checkout / "torchperf.yml").touch()  # not read where another is named
    for option in ("suite", "config"):
        given = {"repo": str(checkout / "suspects"), option: [str(checkout / "suspects/suite.py")]}
        assert portable_options(given, NAMES) == ((f"--{option}", "suite.py"), "")


def test_a_repository_that_is_measured_by_anothers_suite_stays_beside_it(checkout: Path) -> None:
    assert words(repo="suspects", suite=["suite.py"]) == ("--repo", "suspects", "--suite", "suite.py")
    assert words(repo=str(checkout.parent / "other"), suite=["suite.py"]) == (
        *("--repo", "other"),
        *("--suite", "suite.py"),
    )
    (checkout / "torchperf.yml").touch()
    assert words(repo="suspects") == ("--repo", "suspects")


@pytest.mark.usefixtures("checkout")
def test_what_was_not_given_is_left_out_and_the_rest_stays_as_it_is() -> None:
    given = {
        "build": "pip install .\npip list",
        "batch_size": 4,
        "full_history": True,
        "device": None,
        "suite": (),
    }
    assert words(**given) == ("--build", "pip install .\npip list", "--batch-size", "4", "--full-history")
    assert words(full_history=False) == ()


def test_an_automatic_batch_size_is_written_as_it_was_given() -> None:
    assert words(batch_size=batch_size("auto")) == ("--batch-size", "auto")
