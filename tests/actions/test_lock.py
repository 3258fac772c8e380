"""The lock file that the actions install: it fits the project's requirements on each Python and system, with hashes."""

from __future__ import annotations

import re
import sys
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest brings it

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).parents[2]
SETUP = PROJECT / "actions/setup"
LOCKS = {"": SETUP / "requirements.txt", "store": SETUP / "requirements-store.txt"}
UPLOAD = SETUP / "requirements-upload.txt"
SYSTEMS = (("Linux", "linux", "x86_64"), ("Linux", "linux", "aarch64"), ("Darwin", "darwin", "arm64"))


def declared() -> dict[str, list[Requirement]]:
    """What pyproject.toml asks for: what builds it, what it needs, and what its extras need."""
    content = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    project = content["project"]
    lists = {
        "build": content["build-system"]["requires"],
        "": project["dependencies"],
        **project["optional-dependencies"],
    }
    return {name: [Requirement(item) for item in items] for name, items in lists.items()}


def locked(file: Path) -> Iterator[tuple[Requirement, list[str]]]:
    """Each requirement of a lock file, and its hashes."""
    text = re.sub(r"^#.*\n", "", file.read_text(), flags=re.MULTILINE)
    for block in re.split(r"\n(?=\S)", text.replace("\\\n", "\n").strip()):
        line, *hashes = block.splitlines()
        yield Requirement(line), [text.strip() for text in hashes]


def environments() -> Iterator[dict[str, str]]:
    for minor, (system, platform, machine) in product(range(10, 15), SYSTEMS):
        yield {
            "implementation_name": "cpython",
            "platform_machine": machine,
            "platform_python_implementation": "CPython",
            "platform_system": system,
            "python_full_version": f"3.{minor}.1",
            "python_version": f"3.{minor}",
            "sys_platform": platform,
        }


def applies(requirement: Requirement, environment: dict[str, str]) -> bool:
    return requirement.marker is None or requirement.marker.evaluate(environment)


@pytest.mark.parametrize("extra", LOCKS)
def test_each_dependency_has_one_version_that_fits_on_every_python_and_system(extra) -> None:
    wanted = [requirement for name in {"", extra} for requirement in declared()[name]]
    lock = [requirement for requirement, _ in locked(LOCKS[extra])]
    for environment in environments():
        there = [found for found in lock if applies(found, environment)]
        versions = {canonicalize_name(found.name): next(iter(found.specifier)).version for found in there}
        assert len(versions) == len(there), "one version each"
        for asked in wanted:
            version = versions.get(canonicalize_name(asked.name), "0")
            told = f"{asked} on {environment}: {version}; renew the lock: bash actions/setup/lock.sh"
            assert asked.specifier.contains(version), told


@pytest.mark.parametrize("file", sorted(SETUP.glob("requirements*.txt")), ids=lambda file: file.name)
def test_a_file_is_known_by_its_hash_and_comes_from_no_particular_host(file) -> None:
    for requirement, hashes in locked(file):
        assert [one.operator for one in requirement.specifier] == ["=="]
        assert hashes
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", text) for text in hashes), requirement
    assert not re.search(r"https?:|--(extra-)?index|--find-links|--trusted", file.read_text())


def test_with_the_store_everything_else_is_the_same() -> None:
    base, store = (
        {str(requirement): hashes for requirement, hashes in locked(file)} for file in LOCKS.values()
    )
    assert base.items() <= store.items()


def test_an_upload_installs_the_same_but_for_the_numbers() -> None:
    base, upload = (
        {(found.name, str(found), *hashes) for found, hashes in locked(file)} for file in (LOCKS[""], UPLOAD)
    )
    assert upload < base
    assert {name for name, *_ in base - upload} == {"numpy"}


def test_no_dependency_may_grow_without_a_bound() -> None:
    asked = [requirement for requirements in declared().values() for requirement in requirements]
    for requirement in asked:
        bounds = {one.operator for one in requirement.specifier}
        assert bounds & {"<", "=="} or requirement.name == "torchperf-ci", requirement
