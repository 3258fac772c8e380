"""Real slowdowns of real torch code, as commits of a real repository: they are named, and nothing else is.

One of each kind: what takes long on the host, and what copies memory. benchmarks/planted_slowdowns.py has them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from slowdowns import make_repository

from torchperf_ci import cli
from torchperf_ci.bench import pairs
from torchperf_ci.verdicts.verdicts_file import read_verdicts

if TYPE_CHECKING:
    from pathlib import Path

    from torchperf_ci.verdicts.verdict import Judgement


PLANTED = ("parts/clip", "parts/mix")


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
                *("--filter", *PLANTED, "parts/project"),
                *("--out", str(folder / "verdicts.json"), "--min-effect", "0.1", "--budget", "900"),
            ]
        )
    found = read_verdicts(folder / "verdicts.json")
    assert code == 1, found
    return found


@pytest.mark.parametrize("workload", PLANTED)
def test_each_slowdown_is_named(judgement: Judgement, workload: str) -> None:
    [verdict] = [
        one
        for one in judgement.verdicts
        if (one.series.model, one.series.metric) == (workload, "latency(ms)")
    ]
    assert verdict.verdict == "regressed", verdict
    assert verdict.effect.low > 1
    assert verdict.old < verdict.new


def test_nothing_else_is_named(judgement: Judgement) -> None:
    assert {verdict.series.model for verdict in judgement.red} == {*PLANTED}


def test_both_commits_are_told_in_words(judgement: Judgement) -> None:
    assert "Add parts of models (torch 2." in judgement.base
    assert "Say more of the linear layer (torch 2." in judgement.head
