"""A release is built, up to what would be published."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from act_runner import standing_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Runner

PROJECT = Path(__file__).parents[2]
FOLDERS = (".ci", "actions/setup", "torchperf_ci", "workflows-templates")
FILES = (".github/workflows/release.yml", "CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml")

# Stands for GitHub's own client: it knows one release and the tags by files, and moves no tag at the first attempt.
GH = """\
#!/usr/bin/env bash
set -euo pipefail
case "$*" in
  "release view "*) [[ -e $FOLDER/released ]] ;;
  "release create "*) [[ ! -e $FOLDER/released ]]; touch "$FOLDER/released" ;;
  *matching-refs*) jq --raw-output "${@: -1}" "$FOLDER/tags" ;;
  *) [[ -e $FOLDER/again ]]; touch "$FOLDER/moved" ;;
esac
"""


def tell(folder: Path, *others: str) -> int:
    """The exit code of an attempt to tell about v7.9.0, where there are also the tags ``others``."""
    client = folder / "bin/gh"
    client.parent.mkdir(exist_ok=True)
    client.write_text(GH)
    client.chmod(0o755)
    (folder / "tags").write_text(json.dumps([{"ref": f"refs/tags/{tag}"} for tag in ("v7.9.0", *others)]))
    environ = {
        "PATH": f"{client.parent}:{os.environ['PATH']}",
        "FOLDER": str(folder),
        "GH_REPO": "octo/perf",
        "GITHUB_SHA": "1" * 40,
        "TAG": "v7.9.0",
    }
    steps = yaml.safe_load((PROJECT / ".github/workflows/release.yml").read_text())["jobs"]["tell"]["steps"]
    for script in (step["run"] for step in steps if "run" in step):
        done = subprocess.run(["bash", "-e", "-c", script], cwd=folder, env=environ, timeout=60)
        if done.returncode:
            return done.returncode
    return 0


def test_another_attempt_moves_the_tag_for_a_release_that_is_there(tmp_path: Path) -> None:
    assert tell(tmp_path) != 0
    (tmp_path / "again").touch()
    assert tell(tmp_path) == 0
    assert (tmp_path / "moved").exists()


@pytest.mark.parametrize(("other", "moved"), [("v7.8.11", True), ("v7.10.0-rc1", True), ("v7.10.0", False)])
def test_the_tag_is_that_of_the_newest_release(tmp_path: Path, other: str, moved: bool) -> None:
    (tmp_path / "again").touch()
    assert tell(tmp_path, other) == 0
    assert (tmp_path / "moved").exists() == moved


def test_a_tag_is_built_checked_and_handed_on_with_its_notes(
    runner: Runner, tmp_path: Path, git: Callable[..., str]
) -> None:
    folder, artifacts = tmp_path / "repository", tmp_path / "artifacts"
    for name in FOLDERS:
        shutil.copytree(PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / ".github/workflows").mkdir(parents=True)
    for name in FILES:
        shutil.copy(PROJECT / name, folder / name)
    notes = "## [7.8.9] - 2026-11-30\n\n- something new\n\n"
    changelog = folder / "CHANGELOG.md"
    changelog.write_text(
        changelog.read_text().replace("## [Unreleased]", f"## [Unreleased]\n\n{notes}## rest", 1)
    )
    (folder / "torchperf_ci/__init__.py").write_text('__version__ = "7.8.9"\n')
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "A release")
    artifacts.mkdir()
    workflow = (folder / ".github/workflows/release.yml").read_text()
    done = replace(runner, caller=folder, folder=tmp_path / "act").run(
        "push",
        {"ref": "refs/tags/v7.8.9"},
        "release",
        "--job=build",  # what comes after it publishes
        *standing_in([workflow]),
        f"--env=ORIGIN={folder}",
        f"--env=ARTIFACTS={artifacts}",
        "--env=GITHUB_REF=refs/tags/v7.8.9",
        "--env=GITHUB_REF_NAME=v7.8.9",
        "--env=LINKED_PIP=1",
    )
    assert done.results == {"build": "success"}, done.log
    handed_on = {path.name: path for path in artifacts.rglob("*") if path.is_file()}
    assert {
        "torchperf_ci-7.8.9-py3-none-any.whl",
        "torchperf_ci-7.8.9.tar.gz",
        "notes.md",
    } <= handed_on.keys()
    assert handed_on["notes.md"].read_text() == "- something new\n"
