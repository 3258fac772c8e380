"""Bisection of dated wheels of a package named torch, and of the repository from which they were built."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest
from wheels import made_wheel

from torchperf_ci.bisect import range_bisection
from torchperf_ci.bisect.measurement_setup import BisectLimits
from torchperf_ci.config import Config
from torchperf_ci.culprits.culprit import Bisection, Culprit, DependencyChange, SeriesEffect, read_culprits
from torchperf_ci.errors import UsageError
from torchperf_ci.options.comparison_commands import BisectOptions
from torchperf_ci.stats.effect import Effect
from torchperf_ci.verdicts.verdict import CommitEnds

if TYPE_CHECKING:
    from pathlib import Path


# Of the worktree where there is one, else of what is installed; and what the dependency adds.
COMMAND = (
    'cd "${WORKTREE:-$(echo "$VIRTUAL_ENV"/lib/python*/site-packages)}" && '
    'sh torch/cost.sh "$(cat triton/extra 2>/dev/null || echo 0)"'
)
PROGRAM = "echo $(( {cost}000 + $1 + $$ * 7919 % 1000 ))\n"


@pytest.fixture
def nights(bisect, history, shelf: Path, with_pip: str):
    """Bisects wheels of 2026-11-01 and the days after, each of a commit and with a version of triton."""

    def commit(cost: int) -> str:
        file = history.folder / "torch/cost.sh"
        file.parent.mkdir(exist_ok=True)
        file.write_text(PROGRAM.format(cost=cost))
        return history.commit(f"Cost {cost}")

    def publish(day: int, cost: int, sha: str, triton: int = 1, extra: int = 0) -> None:
        files = {"torch/version.py": f"git_version = '{sha}'\n", "torch/cost.sh": PROGRAM.format(cost=cost)}
        stem = f"torch-2.14.0.dev202611{day:02}+cpu-py3-none-any"
        made_wheel(shelf, stem, files, needs=[f"triton=={triton}"])
        made_wheel(shelf, f"triton-{triton}-py3-none-any", {"triton/extra": f"{extra}"})

    def run(last: int, *more: str, found: bool = True) -> Bisection | None:
        dates = ("--good", "2026-11-01", "--bad", f"2026-11-{last:02}")
        wheels = ("--builder", "nightly", "--wheels", str(shelf), "--python", with_pip)
        assert bisect.code(*dates, *wheels, *more, command=COMMAND) == 0
        return read_culprits(bisect.out) if found else None

    run.commit, run.publish = commit, publish
    return run


def test_a_night_whose_dependency_moved_is_named_with_it_and_its_commits_are_not(nights, capsys) -> None:
    shas = [nights.commit(100) for _ in range(3)]
    nights.publish(1, 100, shas[0])
    nights.publish(2, 100, shas[2], triton=2, extra=20000)
    found = nights(2)
    [named] = found.culprits
    assert named.commit == "2.14.0.dev20261102+cpu"
    assert named.moved == (DependencyChange("triton", "1", "2"),)
    assert "Between 2.14.0.dev20261101+cpu and 2.14.0.dev20261102+cpu" in capsys.readouterr().out
    assert found.notes[-1].endswith("; suspect is triton 1 → 2")


def test_a_commit_that_explains_only_part_of_a_night_leaves_the_rest_to_the_dependency(nights) -> None:
    shas = [nights.commit(cost) for cost in (100, 105, 105)]
    nights.publish(1, 100, shas[0])
    nights.publish(2, 105, shas[2], triton=2, extra=15000)
    found = nights(2)
    [named] = found.culprits
    assert (named.commit, named.effect.ratio) == (shas[1], pytest.approx(1.05, rel=0.01))
    [note] = (note for note in found.notes if "suspect for the rest" in note)
    assert note.startswith("the command's number changes by +")
    assert ", of which +" in note
    assert note.endswith("; suspect for the rest is triton 1 → 2")


def test_of_the_ranges_that_verdicts_give_the_first_of_the_repository_is_taken(
    history, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere, here = (
        CommitEnds("0" * 40, "1" * 40),
        CommitEnds(history.commit("Good"), history.commit("Bad")),
    )
    options = BisectOptions(repo=str(history.folder), verdicts="verdicts.json")
    request = range_bisection.BisectRequest(options, Config(), Mock())
    monkeypatch.setattr(range_bisection, "commit_ranges", lambda _: [elsewhere, here])
    found = range_bisection._commits_asked_for(request)
    assert (found.good.sha, [one.sha for one in found.suspects]) == (here.good, [here.bad])
    monkeypatch.setattr(range_bisection, "commit_ranges", lambda _: [elsewhere])
    with pytest.raises(UsageError, match="do not give a range of"):
        range_bisection._commits_asked_for(request)


@pytest.mark.parametrize(
    ("whole", "part", "is_more"),
    [(1.10, 1.08, False), (1.10, 1.06, True), (0.90, 0.92, False), (0.90, 0.94, True), (1.50, 1.40, False)],
)
def test_a_part_leaves_a_rest_if_it_lacks_what_matters_and_a_quarter(
    whole: float, part: float, is_more: bool
) -> None:
    effect = Effect(whole, whole - 0.005, whole + 0.005, 20)
    assert range_bisection._exceeds(effect, Effect(part), 0.03) == is_more


def test_what_holds_for_a_search_and_for_the_one_inside_its_culprit_is_said_once() -> None:
    """Each of them said what the verdicts have and it cannot bisect, and a job annotated it twice."""
    said = [("x is not bisected: why", "one"), ("x is not bisected: why", "other")]
    whole, inside = (
        range_bisection.CombinedResult(Bisection("found", "a", "b", notes=notes), BisectLimits())
        for notes in said
    )
    whole.add_up(inside)
    assert whole.bisection.notes == ("x is not bisected: why", "one", "other")


def test_a_series_that_the_commits_of_a_night_do_not_have_leaves_no_rest() -> None:
    told = [SeriesEffect("only of wheels", Effect(1.1)), SeriesEffect("of both", Effect(1.1, 1.09, 1.11))]
    culprit = Culprit(None, ("night",), 1.0, Effect(1.1), tuple(told))
    found = range_bisection._unexplained(culprit, {"of both": Effect(1.02)}, 0.03)
    assert found == "of both changes by +10.0%, of which +2.0%"


def test_a_night_whose_commits_are_not_known_is_named_itself(nights) -> None:
    for day, cost in ((1, 100), (2, 120)):
        nights.publish(day, cost, "Unknown", triton=day)
    found = nights(2)
    [named] = found.culprits
    assert named.set == ("2.14.0.dev20261102+cpu",)
    assert named.moved == (DependencyChange("triton", "1", "2"),)
    assert found.notes[-1].startswith("no commit between ")
    assert "does not say which commit it was built from" in found.notes[-1]


def test_a_night_whose_commits_cannot_be_told_apart_is_named_with_the_suspects(nights) -> None:
    shas = [nights.commit(cost) for cost in (100, 120, 120)]
    nights.publish(1, 100, shas[0])
    nights.publish(2, 120, shas[2])
    found = nights(2, "--max-runs", "13")
    assert [one.commit for one in found.culprits] == ["2.14.0.dev20261102+cpu"]
    assert {one.commit for one in found.credible} == {shas[1], shas[2]}
    assert "the limit of --max-runs ended it" in found.notes[-1]


def test_a_night_whose_commits_cannot_be_built_is_named_itself(nights, capsys) -> None:
    shas = [nights.commit(cost) for cost in (100, 110, 120)]
    nights.publish(1, 100, shas[0])
    nights.publish(2, 120, shas[2])
    found = nights(2, "--build", "seq 30; echo no compiler; false")
    assert [(one.commit, one.moved) for one in found.culprits] == [("2.14.0.dev20261102+cpu", ())]
    assert "the good commit cannot be built" in found.notes[-1]
    assert found.notes[-1].endswith(" ended with 1: … no compiler"), "as it was cut, the reason was gone"
    assert "\n29\n30\nno compiler\n" in capsys.readouterr().err


def test_a_night_that_can_be_installed_later_narrows_the_range_of_commits(
    nights, shelf: Path, temporary: Path
) -> None:
    costs = (100, 100, 100, 120, 120)
    shas = [nights.commit(cost) for cost in costs]
    for day, place in ((1, 0), (2, 1), (3, 4)):
        nights.publish(day, costs[place], shas[place], triton=day)
    (shelf / "triton-2-py3-none-any.whl").rename(shelf.parent / "triton-2-py3-none-any.whl")
    [during] = nights(3, "--max-builds", "8").culprits
    assert during.set == ("2.14.0.dev20261102+cpu", "2.14.0.dev20261103+cpu")
    (shelf.parent / "triton-2-py3-none-any.whl").rename(shelf / "triton-2-py3-none-any.whl")
    found = nights(3)
    [named] = found.culprits
    assert (named.commit, named.subject) == (shas[3], "Cost 120")
    assert named.moved == (DependencyChange("triton", "2", "3"),)
    assert (found.good, found.bad) == ("2.14.0.dev20261101+cpu", "2.14.0.dev20261103+cpu")
    assert found.runs == len(found.readings)
    assert list(temporary.iterdir()) == []


def test_a_search_is_not_resumed_among_other_nights(nights, bisect, shelf: Path, with_pip, capsys) -> None:
    """As many as before, but for another Python there may be those of other days."""
    for day in (1, 2, 4):
        nights.publish(day, 100, "Unknown")
    nights(4, "--max-runs", "1", "--on-failure", "warn")
    (shelf / "torch-2.14.0.dev20261102+cpu-py3-none-any.whl").unlink()
    nights.publish(3, 100, "Unknown")
    dates = ("--good", "2026-11-01", "--bad", "2026-11-04", "--builder", "nightly", "--wheels", str(shelf))
    assert bisect.code(*dates, "--python", with_pip, command=COMMAND) == 2
    assert "nightlies changed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        (("HEAD~2", "HEAD"), "--good is the date of a nightly, such as 2026-11-01, not 'HEAD~2'"),
        (
            ("2026-11-01", "2026-11-09"),
            "no nightly of 2026-11-09; the nearest ones are of 2026-11-02, 2026-11-04",
        ),
        (
            ("2026-11-03", "2026-11-04"),
            "no nightly of 2026-11-03; the nearest ones are of 2026-11-02, 2026-11-04",
        ),
        (("2026-11-02", "2026-11-01"), "--good 2026-11-02 is not before --bad 2026-11-01"),
    ],
)
def test_ends_that_are_no_nightlies_are_told(
    nights, bisect, shelf, with_pip, ends, message, capsys, monkeypatch
) -> None:
    monkeypatch.setattr("torchperf_ci.bisect.range_bisection.MAX_NEAREST", 2)
    for day in (1, 2, 4):
        nights.publish(day, 100, "Unknown")
    wheels = ("--builder", "nightly", "--wheels", str(shelf), "--python", with_pip)
    assert bisect.code("--good", ends[0], "--bad", ends[1], *wheels) == 2
    assert message in capsys.readouterr().err


def test_a_dry_run_plans_with_one_wheel_of_each_day_of_the_range_and_installs_nothing(
    nights, bisect, shelf, with_pip, capsys
) -> None:
    for day in (1, 2, 3, 4):
        nights.publish(day, 100, "Unknown")
    made_wheel(shelf, "torch-2.14.0.dev20261104+cu126-py3-none-any", {})
    nights(3, "--dry-run", found=False)
    said = capsys.readouterr().err
    assert "good: torch==2.14.0.dev20261101+cpu\nbad:  torch==2.14.0.dev20261103+cpu\n2 suspects" in said
    assert not bisect.out.exists()
    assert not bisect.state.exists()
    wheels = ("--builder", "nightly", "--wheels", str(shelf), "--python", with_pip)
    assert bisect.code("--good", "2026-11-01", "--bad", "2026-11-04", *wheels, command=COMMAND) == 2
    assert (
        "there are several nightlies of 2026-11-04, such as 2.14.0.dev20261104+c" in capsys.readouterr().err
    )
