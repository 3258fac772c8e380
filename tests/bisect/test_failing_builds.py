"""Builds that fail by chance, with the real command: each is tried three times before anything depends on it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from torchperf_ci import scratch
from torchperf_ci.deadline import Deadline

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Bisecting, History


@pytest.fixture
def fails(history: History, tmp_path: Path):
    """Commit costs that fail to build so many times; the commits, and the build that fails."""
    build = (
        f"echo >>{tmp_path}/tried.$(cat name); [ $(wc -l <{tmp_path}/tried.$(cat name)) -gt $(cat fails) ]"
    )

    def fails(*commits: tuple[int, int]) -> tuple[list[str], str]:
        shas = []
        for name, (cost, times) in enumerate(commits):
            (history.folder / "name").write_text(str(name))
            (history.folder / "fails").write_text(str(times))
            shas.append(history.cost(cost, f"Change {name}"))
        return shas, f"{build} && cp cost.sh {{env}}/$SEED"

    return fails


def tried(tmp_path: Path, name: int) -> int:
    return (tmp_path / f"tried.{name}").read_text().count("\n")


def test_builds_that_fail_once_or_twice_by_chance_change_nothing(
    bisect: Bisecting, fails, quick: str
) -> None:
    shas, build = fails((100, 2), (150, 1), (150, 2))
    options = ("--good", shas[0], "--bad", shas[2], "--python", quick, "--build", build)
    found = bisect(*options, command="sh cost.sh")
    assert [culprit.commit for culprit in found.culprits] == [shas[1]]
    assert found.skipped == (), "all of them were measured in the end"


def test_a_good_commit_that_fails_is_not_built_again_after_the_deadline(
    bisect: Bisecting, fails, quick: str, tmp_path: Path, capsys
) -> None:
    (good, bad), build = fails((100, 3), (150, 0))
    ends = ("--good", good, "--bad", bad, "--python", quick, "--build", build)
    assert bisect.code(*ends, "--deadline", "0.01") == 2
    assert "the good commit cannot be built" in capsys.readouterr().err
    assert tried(tmp_path, 0) == 1


@pytest.fixture
def late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that ends every deadline as soon as it exists."""
    over = tmp_path / "over"
    monkeypatch.setattr(Deadline, "left", property(lambda _: 0.0 if over.exists() else 1000.0))
    return over


LATE = ("--deadline", "1000")


@pytest.mark.parametrize("builds", [5, 6])
def test_good_is_not_built_again_after_the_deadline_when_others_fail_in_a_row(
    bisect: Bisecting, history: History, quick: str, tmp_path: Path, late: Path, builds: int
) -> None:
    """The deadline passes with the third failure, or with the first one of good itself."""
    shas, built = history.costs(100, 100, 150, 150), tmp_path / "built"
    fails = f"{{ [ $(wc -l <{built}) -lt {builds} ] || touch {late}; exit 1; }}"
    works = f"[ $SHA = {shas[3]} ] || {{ [ $SHA = {shas[0]} ] && [ $(wc -l <{built}) -lt 3 ]; }}"
    build = f"echo $SHA >>{built}; {works} || {fails}"
    options = ("--good", shas[0], "--bad", shas[3], "--python", quick, "--build", build)
    assert bisect.code(*options, *LATE) == 5
    row = built.read_text().split()
    assert (len(row), row.count(shas[0])) == (builds, builds - 4)


def test_no_build_of_a_pair_begins_after_the_deadline(
    bisect: Bisecting, history: History, quick: str, tmp_path: Path, late: Path
) -> None:
    """That of its first commit had begun before; the pair then waits for the next call."""
    shas, built = history.costs(100, 150), tmp_path / "built"
    build = f"cp cost.sh {{env}}/$SEED; echo $SHA >>{built}; [ $(wc -l <{built}) != 3 ] || touch {late}"
    options = ("--good", shas[0], "--bad", shas[1], "--python", quick, "--build", build)
    assert bisect(*options, *LATE, code=5).builds == 3
    assert built.read_text().split() == [*shas, shas[0]]
    late.unlink()
    assert [one.commit for one in bisect(*options).culprits] == [shas[1]]


def test_a_build_that_cannot_be_made_again_is_not_tried_twice_after_the_deadline(
    bisect: Bisecting, history: History, quick: str, tmp_path: Path, late: Path
) -> None:
    shas, built = history.costs(100, 150), tmp_path / "built"
    build = f"echo $SHA >>{built}; [ $(wc -l <{built}) != 4 ] || {{ touch {late}; exit 1; }}"
    options = ("--good", shas[0], "--bad", shas[1], "--python", quick, "--build", build)
    bisect(*options, "--max-runs", "1", code=5)
    assert "--deadline ended it" in bisect(*options, *LATE, code=5).why
    assert built.read_text().split() == [*shas, *shas]
    late.unlink()
    found = bisect(*options)
    assert ([one.commit for one in found.culprits], found.skipped) == ([shas[1]], ())


@pytest.mark.parametrize(("end", "which"), [(0, "good"), (1, "bad")])
def test_an_end_that_fails_three_times_is_an_error(
    bisect: Bisecting, fails, quick: str, tmp_path: Path, capsys, end: int, which: str
) -> None:
    (good, bad), build = fails((100, 3 * (end == 0)), (150, 3 * (end == 1)))
    code = bisect.code("--good", good, "--bad", bad, "--python", quick, "--build", build)
    assert code == 2
    assert f"the {which} commit cannot be built" in capsys.readouterr().err
    assert tried(tmp_path, end) == 3


def test_a_command_that_fails_on_good_is_told_before_bad_is_built(
    bisect: Bisecting, fails, quick: str, tmp_path: Path, capsys
) -> None:
    (good, bad), build = fails((100, 0), (150, 0))
    options = ("--good", good, "--bad", bad, "--python", quick, "--build", build)
    assert bisect.code(*options, command="exit 4") == 3
    said = capsys.readouterr().err
    assert (
        f"command does not run on {good[:10]} Change 0, the good commit: failed: it exited with code 4"
        in said
    )
    assert f"building {good[:10]}" in said
    assert not (tmp_path / "tried.1").exists()


def test_a_call_that_has_nothing_to_measure_builds_nothing(
    bisect: Bisecting, fails, quick: str, tmp_path: Path
) -> None:
    shas, build = fails((100, 0), (150, 0))
    options = ("--good", shas[0], "--bad", shas[1], "--python", quick, "--build", build)
    found = bisect(*options)
    builds = [tried(tmp_path, name) for name in range(2)]
    assert bisect(*options) == found
    assert bisect.code(*options, "--min-effect", "0.2") == 2, "the state is of another question"
    assert [tried(tmp_path, name) for name in range(2)] == builds


def test_a_call_that_goes_on_builds_only_what_it_measures(
    bisect: Bisecting, history: History, quick: str, tmp_path: Path
) -> None:
    good, bad = history.costs(100, 150)
    build = f"echo $SHA $SEED >>{tmp_path}/made && cp cost.sh {{env}}/$SEED"
    options = ("--good", good, "--bad", bad, "--python", quick, "--build", build)
    bisect(*options, "--max-runs", "5", code=5)
    made = (tmp_path / "made").read_text().splitlines()
    assert bisect(*options).status == "found"
    more = (tmp_path / "made").read_text().splitlines()[len(made) :]
    assert f"{good} 0" in made
    assert f"{good} 0" not in more


def test_every_attempt_is_recorded_with_the_time_that_it_took(bisect: Bisecting, fails, quick: str) -> None:
    (good, bad), build = fails((100, 1), (150, 2))
    bisect("--good", good, "--bad", bad, "--python", quick, "--build", f"sleep 0.1; {build}")
    events = [json.loads(line) for line in bisect.state.read_text().splitlines()]
    first = [event["build"] for event in events if not event.get("build", {"draw": 1}).get("draw")]
    assert [(build["position"], build["ok"]) for build in first] == [
        *((0, False), (0, True)),
        *((1, False), (1, False), (1, True)),
    ]
    assert min(build["seconds"] for build in first) > 0.1


def test_what_did_not_run_until_the_end_of_a_call_is_tried_again_by_the_next(
    bisect: Bisecting, history: History, quick: str, tmp_path: Path
) -> None:
    """As with a server that a command asks: the step that was proven around what did not run is searched."""
    down = tmp_path / "down"
    down.touch()
    shas = history.costs(100, 150, 150)
    runs = f"[ ! -e {down} ] || [ $SHA != {shas[1]} ] || exit 1; sh cost.sh"
    options = ("--good", shas[0], "--bad", shas[2], "--python", quick)
    during = bisect(*options, command=runs)
    assert [culprit.set for culprit in during.culprits] == [tuple(shas[1:])]
    down.unlink()
    spent = bisect(*options, "--max-runs", str(len(during.readings)), command=runs)
    assert spent.culprits == during.culprits
    after = bisect(*options, command=runs)
    assert [culprit.set for culprit in after.culprits] == [(shas[1],)]
    assert after.skipped == ()
    known = [(reading.base, reading.head) for reading in during.readings]
    assert [(reading.base, reading.head) for reading in after.readings][: len(known)] == known


OUTAGE = "builds fail, and now that of the good commit does, too"


def test_an_outage_ends_each_call_that_it_lasts_for_and_says_nothing_about_commits(
    bisect: Bisecting, history: History, quick: str, tmp_path: Path, capsys
) -> None:
    shas = history.costs(100, 100, 150, 150, 150)
    down, begins = tmp_path / "down", tmp_path / "begins"
    build = f"[ ! -e {down} ] || {{ echo no network; exit 1; }}; [ $SHA != $(cat {begins}) ] || touch {down}"
    options = ("--good", shas[0], "--bad", shas[-1], "--python", quick, "--build", build)
    begins.write_text("never")
    assert bisect.code(*options, "--max-runs", "1") == 5
    # Before bad, which was built by the first call, is built again; after that; and twice before any other commit is.
    for last in (shas[0], shas[-1], shas[0], shas[0]):
        begins.write_text(last)
        capsys.readouterr()
        assert bisect.code(*options) == 2
        said = capsys.readouterr().err
        assert OUTAGE in said
        assert said.rstrip().endswith("no network")
        down.unlink()
    begins.write_text("never")
    found = bisect(*options)
    assert ([one.commit for one in found.culprits], found.skipped) == ([shas[2]], ())


def test_commits_that_fail_in_a_row_while_good_can_be_built_are_to_blame(
    bisect: Bisecting, history: History, quick: str, tmp_path: Path
) -> None:
    shas = history.costs(100, 100, 150, 150)
    build = f"echo $SHA >>{tmp_path}/tried; [ $SHA != {shas[1]} ] && [ $SHA != {shas[2]} ]"
    options = ("--good", shas[0], "--bad", shas[3], "--python", quick, "--build", build)
    found = bisect(*options)
    assert [culprit.set for culprit in found.culprits] == [tuple(shas[1:])]
    assert {one.commit for one in found.skipped} == {*shas[1:3]}
    row = (tmp_path / "tried").read_text().split()[2:6]
    assert {*row[:3]} <= {*shas[1:3]}
    assert row[3] == shas[0], "it is built again as soon as three builds have failed"


@pytest.mark.parametrize("says", ["No space left on device", ""])
def test_a_full_disk_ends_the_search_and_says_nothing_about_the_commit(
    bisect: Bisecting, history: History, quick: str, capsys, tmp_path: Path, monkeypatch, says: str
) -> None:
    good, bad = history.costs(100, 150)
    ends = ("--good", good, "--bad", bad, "--python", quick)
    full = tmp_path / "full"
    full.touch()
    build = f"[ {{sha}} = {good} ] || [ ! -e {full} ] || {{ echo {says}; exit 1; }}"
    if not says:
        monkeypatch.setattr(scratch, "FULL_DISK", 2**62)
    assert bisect.code(*ends, "--build", build) == 2
    assert "is full: free some of it, or set TMPDIR" in capsys.readouterr().err
    full.unlink()
    found = bisect(*ends, "--build", build)
    assert ([one.commit for one in found.culprits], found.skipped) == ([bad], ())


def test_a_full_disk_that_fails_a_measurement_ends_the_search_as_well(
    bisect: Bisecting, history: History, quick: str, capsys, tmp_path: Path
) -> None:
    good, bad = history.costs(100, 150)
    ends = ("--good", good, "--bad", bad, "--python", quick)
    full = tmp_path / "full"
    full.touch()
    compiles = f"[ $SHA = {good} ] || [ ! -e {full} ] || {{ echo No space left on device >&2; exit 1; }}"
    assert bisect.code(*ends, command=f"{compiles}; sh cost.sh") == 2
    assert "is full: free some of it, or set TMPDIR" in capsys.readouterr().err
    full.unlink()
    found = bisect(*ends, command=f"{compiles}; sh cost.sh")
    assert ([one.commit for one in found.culprits], found.skipped) == ([bad], ())
