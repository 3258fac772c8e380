"""A bad commit whose first build is slow by luck, although no commit caused it, with real builds and processes."""

from __future__ import annotations

import pytest

from torchperf_ci.culprits.culprit_document import bisection_document
from torchperf_ci.markdown import to_markdown

COST = 'sh "$VIRTUAL_ENV/cost.sh"'
BUILD = "sed s/LAYOUT/$(cat layout)$SEED/ cost.sh >{env}/cost.sh"
LAID_OUT = """case LAYOUT in bad0) cost=SLOW ;; *) cost=100 ;; esac
echo $(( ${cost}000 + $$ * 7919 % 1000 ))"""
"""The first build of the commit whose layout is "bad" lies badly in memory, and no other one does."""
TOLD = "build luck, not a commit: the first builds of bad and good differ by +"


@pytest.mark.parametrize("slow", [104, 120])
def test_what_goes_away_once_it_is_built_anew_is_told_as_the_luck_of_a_build(
    bisect, history, quick: str, capsys, slow: int
) -> None:
    laid_out = LAID_OUT.replace("SLOW", str(slow))
    (history.folder / "layout").write_text("good")
    good, _ = history.costs(laid_out, laid_out)
    (history.folder / "layout").write_text("bad")
    bad = history.cost(laid_out, "Add a function that nobody calls")
    options = ("--good", good, "--bad", bad, "--python", quick, "--build", BUILD)
    found = bisect(*options, command=COST)
    assert (found.status, found.culprits, found.credible) == ("build", (), ())
    ends = [one for one in found.readings if (one.base, one.head) == (good, bad)]
    first = [one.log_ratios["the command's number"] for one in ends if one.draws == (0, 0)]
    anew = [one.log_ratios["the command's number"] for one in ends if all(one.draws)]
    assert min(first) > 0.03 > max(anew)
    assert found.luck is not None
    assert found.luck.source == "rebuilds"
    assert TOLD in capsys.readouterr().err
    assert TOLD in to_markdown(bisection_document(found))
