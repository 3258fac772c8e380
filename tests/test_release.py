"""The parts of a release: its notes, its files, and the order of its jobs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

PROJECT = Path(__file__).parents[1]
CHANGELOG = """# Changelog

## [Unreleased]

- to come

## [1.2.0] - 2026-11-30

### Added

- a thing

## [1.1.0] - 2026-10-01

- older

[1.1.0]: https://example.org
"""


@pytest.fixture
def repository(tmp_path: Path, git) -> Path:
    """One of the project's shape, at version 1.2.0."""
    folder = tmp_path / "repository"
    for name in (".ci", "torchperf_ci", "workflows-templates"):
        (folder / name).mkdir(parents=True)
    shutil.copy(PROJECT / ".ci/release.py", folder / ".ci")
    (folder / "CHANGELOG.md").write_text(CHANGELOG)
    (folder / "torchperf_ci/__init__.py").write_text('__version__ = "1.2.0"\n')
    (folder / "torchperf_ci/v3.schema.json").write_text("{}")
    (folder / "workflows-templates/nightly.yml").write_text("on: push\n")
    for name in ("LICENSE", "README.md", "pyproject.toml"):
        (folder / name).touch()
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    return folder


def release(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ".ci/release.py", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def pack(folder: Path, *left_out: str) -> None:
    """A wheel and an sdist of what is there."""
    (folder / "dist").mkdir()
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and ".git/" not in str(path)]
    with (
        zipfile.ZipFile(folder / "dist/a.whl", "w") as wheel,
        tarfile.open(folder / "dist/a.tar.gz", "w:gz") as sdist,
    ):
        for path in files:
            name = path.relative_to(folder).as_posix()
            if name not in left_out:
                wheel.write(path, name.replace("workflows-templates/", "torchperf_ci/templates/"))
                sdist.add(path, f"a-1.2.0/{name}")


def test_the_notes_are_the_versions_own_part_of_the_changelog(repository: Path) -> None:
    assert release(repository, "notes", "v1.2.0").stdout == "### Added\n\n- a thing\n"
    assert release(repository, "notes", "v1.1.0").stdout == "- older\n"


def test_a_tag_that_the_changelog_does_not_know_is_no_release(repository: Path) -> None:
    done = release(repository, "notes", "v1.3.0")
    assert done.returncode == 1
    assert done.stderr == "CHANGELOG.md has no '## [1.3.0] - DATE': rename [Unreleased] before you tag\n"


def test_a_tag_of_another_version_is_no_release(repository: Path) -> None:
    pack(repository)
    assert release(repository, "check", "v1.2.0", "dist").stderr == ""
    done = release(repository, "check", "v1.1.0", "dist")
    assert done.stderr == "the tag is v1.1.0, and torchperf_ci/__init__.py says 1.2.0\n"
    assert done.returncode == 1


def test_a_schema_or_a_template_that_is_not_packed_is_told(repository: Path) -> None:
    left_out = ("torchperf_ci/v3.schema.json", "workflows-templates/nightly.yml")
    pack(repository, *left_out)
    done = release(repository, "contents", "dist")
    assert done.returncode == 1
    lost = [f"{archive}: {name}" for archive in ("a.whl", "a.tar.gz") for name in left_out]
    assert done.stderr.splitlines() == ["not packed:", *lost]


def test_nothing_is_published_before_it_is_checked_and_nothing_told_before_it_is_published() -> None:
    jobs = yaml.safe_load((PROJECT / ".github/workflows/release.yml").read_text())["jobs"]
    assert [job.get("needs") for job in jobs.values()] == [None, "build", "publish"]
    writes = {name: [*job["permissions"].items()] for name, job in jobs.items()}
    assert writes == {
        "build": [("contents", "read")],
        "publish": [("id-token", "write")],
        "tell": [("contents", "write")],
    }
    assert jobs["publish"]["environment"] == "pypi"


@pytest.mark.parametrize(("tag", "moving"), [("v1.2.0", "v1"), ("v12.0.3", "v12"), ("v0.1.0", "v0")])
def test_the_tag_of_the_major_version_moves(tmp_path: Path, tag: str, moving: str) -> None:
    """To the commit of the release; where there is none yet, it is made."""
    jobs = yaml.safe_load((PROJECT / ".github/workflows/release.yml").read_text())["jobs"]
    (step,) = [step for step in jobs["tell"]["steps"] if step["name"].startswith("Move")]
    program = tmp_path / "gh"
    program.write_text('#!/bin/sh\necho "$@" >>asked\necho "${TAG#v}"\n[ "$#" -lt 7 ]\n')
    program.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "GH_REPO": "octo/perf", "TAG": tag, "GITHUB_SHA": "abc"}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    subprocess.run(command, cwd=tmp_path, env=environ, check=True, timeout=60)
    _, first, second = (tmp_path / "asked").read_text().splitlines()
    assert first.startswith(f"api repos/octo/perf/git/refs/tags/{moving} --method PATCH --field sha=abc")
    assert re.search(rf"git/refs --field ref=refs/tags/{moving} --field sha=abc$", second)
