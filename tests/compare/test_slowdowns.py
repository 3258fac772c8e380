"""A real slowdown of torch code, as a commit of a repository, is reported, and nothing else is.

It copies memory. tests/bisect/test_by_verdicts.py has one that takes long on the host, and
benchmarks/planted_slowdowns.py has them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from slowdowns import make_repository

from torchperf_ci import cli
from torchperf_ci.bench import pairs
from torchperf_ci.verdicts.verdict import read_verdicts

if TYPE_CHECKING:
    from pathlib import Path

    from torchperf_ci.verdicts.verdict import Judgement


PLANTED = "parts/mix"


@pytest.fixture(scope="module")
def judgement(tmp_path_factory: pytest.TempPathFactory, torch_environment: Path) -> Judgement:
    """All commits against what was before them, in shorter blocks than usual: what is planted is large."""
    folder = tmp_path_factory.mktemp("slowdowns")
    make_repository(folder / "repo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs, "BLOCK_SECONDS", 0.02)
        patch.setattr(pairs, "QUADS", 5)
        code = cli.main(
            [
                *("compare", "--base", "base", "--head", "main", "--repo", str(folder / "repo")),
                *("--python", str(torch_environment / "bin/python"), "--suite", str(folder / "suite.py")),
                *("--filter", PLANTED, "parts/project"),
                *("--out", str(folder / "verdicts.json"), "--min-effect", "0.1", "--budget", "900"),
            ]
        )
    found = read_verdicts(folder / "verdicts.json")
    assert code == 1, found
    return found


def test_the_slowdown_is_named(judgement: Judgement) -> None:
    [verdict] = [
        verdict
        for verdict in judgement.verdicts
        if (verdict.series.model, verdict.series.metric) == (PLANTED, "latency(ms)")
    ]
    assert verdict.verdict == "regressed", verdict
    assert verdict.effect.low > 1
    assert verdict.old < verdict.new


def test_nothing_else_is_named(judgement: Judgement) -> None:
    assert {verdict.series.model for verdict in judgement.red} == {PLANTED}


def test_both_commits_are_told_in_words(judgement: Judgement) -> None:
    assert "Add parts of models (torch 2." in judgement.base
    assert "Say more of the linear layer (torch 2." in judgement.head
