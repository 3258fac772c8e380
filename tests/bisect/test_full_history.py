"""The search within merges: whether the culprit is one of the commits that a guilty merge brought in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


def branch(history, name: str, at: str, *costs: int) -> list[str]:
    """Commits on a branch of their own; the checkout goes back to where it was."""
    history.start(name, at)
    shas = [history.cost(cost, f"{name} {number}") for number, cost in enumerate(costs)]
    history.go_to("main")
    return shas


@pytest.fixture
def merged(history) -> Callable[..., tuple[str, list[str], str, str]]:
    """A merge of a branch with such costs between two commits of the main line: good, the branch, the merge, bad."""

    def merged(*costs: int, message: str = "Merge") -> tuple[str, list[str], str, str]:
        good = history.cost(100, "Start")
        side = branch(history, "side", good, *costs)
        history.commit("Say more")
        merge = history.merge("side", message=message)
        return good, side, merge, history.commit("Say less")

    return merged


def test_the_culprit_is_the_merge_unless_asked_what_it_brought_in(bisect, merged) -> None:
    good, side, merge, bad = merged(100, 120, 120, message="Merge pull request #7 from o/side")
    ends = ("--good", good, "--bad", bad)
    [first] = bisect(*ends).culprits
    assert (first.commit, first.pull_request) == (merge, 7)
    found = bisect(*ends, "--full-history")
    [named] = found.culprits
    assert (named.commit, named.subject, named.pull_request) == (side[1], "side 1", 7)
    assert not any("suspect for the rest" in note for note in found.notes)
    assert found.runs == len(found.readings)
    assert {side[0], merge} <= {one.base for one in found.readings} | {one.head for one in found.readings}


def test_the_culprit_inside_a_merge_that_a_merge_brought_in_is_named(bisect, history) -> None:
    good = history.cost(100, "Start")
    history.start("outer", good)
    history.commit("Say that it is an outer branch")
    history.start("inner", good)
    history.commit("Say that it is an inner branch")
    culprit = history.cost(120, "Be slow")
    history.go_to("outer")
    history.merge("inner")
    history.go_to("main")
    history.commit("Say more")
    bad = history.merge("outer")
    longest = bisect.state.with_name("x" * (255 - 41))  # the merge within a merge had two hashes behind it
    [named] = bisect("--good", good, "--bad", bad, "--full-history", "--state", str(longest)).culprits
    assert named.commit == culprit


def test_a_merge_that_is_slow_by_itself_keeps_the_blame(bisect, history, merged) -> None:
    good, _, merge, _ = merged(100, 100)
    history.git("checkout", "--quiet", merge)
    (history.folder / "cost.sh").write_text("echo 120000")
    history.git("commit", "--quiet", "--all", "--amend", "--no-edit")
    slow = history.git("rev-parse", "HEAD")
    found = bisect("--good", good, "--bad", slow, "--full-history")
    assert [one.commit for one in found.culprits] == [slow]
    assert f"no commit that the merge {slow[:10]} brought in is named: bad is not slower" in found.notes[-1]


def test_limits_that_do_not_reach_into_the_merge_are_told_and_the_next_call_goes_on(bisect, merged) -> None:
    good, side, merge, bad = merged(100, 120)
    ends = ("--good", good, "--bad", bad, "--full-history")
    builds = bisect("--good", good, "--bad", bad).builds
    stopped = bisect(*ends, "--max-builds", str(builds))
    assert [one.commit for one in stopped.culprits] == [merge]
    assert f"the limits do not reach the commits that the merge {merge[:10]} brought in" in stopped.notes[-1]
    assert [one.commit for one in bisect(*ends).culprits] == [side[1]]


def test_a_merge_is_named_also_if_an_earlier_search_of_it_was_another(bisect, merged) -> None:
    """The state of the whole range had been deleted, to begin anew; the call ended without an answer, after hours."""
    good, _, merge, bad = merged(100, 120)
    ends = ("--good", good, "--bad", bad, "--full-history")
    bisect(*ends)
    bisect.state.unlink()
    bisect.out.unlink()
    found = bisect(*ends, "--min-effect", "5%")
    assert [one.commit for one in found.culprits] == [merge]
    assert f"state.jsonl.{merge} belongs to another run: min_effect changed" in found.notes[-1]


def test_a_merge_is_named_also_if_what_it_brought_in_cannot_be_searched(bisect, history) -> None:
    history.commit("A branch begins before the benchmark")
    history.start("side", "main")
    history.commit("be slow", "slow")
    history.go_to("main")
    good = history.cost(
        "echo $(( $(test -e slow && echo 120000 || echo 100000) + $$ * 7919 % 1000 ))", "Start"
    )
    merge = history.merge("side")
    found = bisect("--good", good, "--bad", merge, "--full-history")
    assert [one.commit for one in found.culprits] == [merge]
    assert (
        f"no commit that the merge {merge[:10]} brought in is named: command does not run" in found.notes[-1]
    )


def test_a_merge_of_several_branches_is_named_with_why_none_is_searched(bisect, history) -> None:
    good = history.cost(100, "Start")
    for name in ("one", "two"):
        history.start(name, good)
        history.commit(name, name)
    history.cost(120, "Be slow")
    history.go_to("main")
    history.commit("Say more")
    merge = history.merge("one", "two")
    found = bisect("--good", good, "--bad", merge, "--full-history")
    assert [one.commit for one in found.culprits] == [merge]
    assert (
        f"no commit that the merge {merge[:10]} brought in is named: it merges 2 branches" in found.notes[-1]
    )
    tips = history.git("rev-parse", "one", "two").split()
    assert found.notes[-1].endswith(f"search each with --bad {' or '.join(sorted(tips))}")
