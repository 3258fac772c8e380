from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchperf_ci.bisect.commits import FAVOUR, prior_weights

if TYPE_CHECKING:
    from pathlib import Path

PATHS = [
    "README.md",
    "torch/nn/conv.py",
    "torch/nn/modules/conv.py",
    "torch/nnx/conv.py",
    "torch/conv.cpp",
    "docs/torch/nn.md",
    "docs/line\nbreak.py",
    "docs/[x].py",
]
PATTERNS = [
    "torch",
    "torch/",
    "torch/nn",
    "torch/nn/conv.py",
    "*.py",
    "torch/*.py",
    "torch/**/conv.py",
    "torch/n[nx]/*",
    "torch/n?x/*",
    "docs/*",
    "docs/[x].py",
    "TORCH",
    "nn",
    ".",
    "./torch",
]

changes = st.lists(st.frozensets(st.sampled_from(PATHS)), min_size=1, max_size=50)


def favoured(path: str, pattern: str) -> bool:
    share = prior_weights([frozenset({path}), frozenset()], [pattern])
    return bool(share[0] > share[1])


def test_a_commit_that_touches_what_was_pointed_at_is_ten_times_as_suspect_as_another() -> None:
    changed = [frozenset({"docs/a.md"}), frozenset({"docs/a.md", "torch/nn/conv.py"}), frozenset[str]()]
    assert prior_weights(changed, ["other", "torch/nn"]).tolist() == pytest.approx([1 / 12, 10 / 12, 1 / 12])


@pytest.mark.parametrize("patterns", [[], ["nowhere"], ["*"]])
def test_where_nothing_tells_them_apart_all_are_as_suspect(patterns) -> None:
    assert prior_weights([frozenset({path}) for path in PATHS], patterns).tolist() == [1 / len(PATHS)] * len(
        PATHS
    )


@given(changes, st.lists(st.sampled_from(PATTERNS)))
def test_no_commit_is_ever_ruled_out_by_its_paths(changed, patterns) -> None:
    share = prior_weights(changed, patterns)
    assert share.shape == (len(changed),)
    assert share.sum() == pytest.approx(1)
    assert np.all(share * len(changed) >= 1 / FAVOUR - 1e-12)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_means_what_it_means_to_git(pattern: str, tmp_path: Path, git) -> None:
    git(tmp_path, "init", "--quiet")
    for path in PATHS:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    git(tmp_path, "add", "--all")
    listed = subprocess.check_output(["git", "ls-files", "-z", "--", pattern], cwd=tmp_path, text=True)
    assert {path for path in PATHS if favoured(path, pattern)} == set(listed.split("\0")) - {""}
