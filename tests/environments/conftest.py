"""The repository that builds are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from checkout import Checkout

if TYPE_CHECKING:
    from pathlib import Path

    from checkout import Git


@pytest.fixture
def checkout(tmp_path: Path, git: Git) -> Checkout:
    """The repository of a user who is in the middle of something."""
    folder = tmp_path / "repo with a space"
    folder.mkdir()
    return Checkout(folder, git)
