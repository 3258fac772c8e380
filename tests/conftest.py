"""Fixtures of several folders: an environment under test, the database engine, servers, Pythons, and directories."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from chromium import chromium
from database import Table
from hypothesis import HealthCheck, settings
from linked_pip import link_pip
from oidc_issuer import Issuer, running_issuer
from seaweedfs import S3Server, running_seaweedfs
from toolkits import copy_project, install_toolkits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser

# A busy machine fails nothing, nor does the luck of one run; pytest --hypothesis-profile=default draws other examples.
settings.register_profile(
    "unhurried", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")


pytest_plugins = ["reporting_job"]
PROJECT = Path(__file__).parents[1]
DESCRIPTORS = 8192


def pytest_configure() -> None:
    """The embedded engine keeps some twenty files of every database open that a process has ever opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, enough), hard))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """What is collected is never garbage: Python looks for none in it, neither now nor during the tests.

    There it looks for some less often than usual: that took a tenth of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(100_000, 50, 100)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with long files that need no ``toolkits``: other processes would wait while the first installs them."""
    items.sort(key=lambda item: item.path.name not in ("test_console_blocks.py", "test_workloads.py"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One for all tests: a process can have only one Playwright."""
    with chromium() as running:
        yield running


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe, to be evaluated: a script element would be against the pages' policy."""
    path = PROJECT / ".cache/npm/node_modules/axe-core/axe.min.js"
    assert path.exists(), "axe is missing: `make .cache/npm`"
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def torch_environment() -> Path:
    """The environment under test, which holds torch and nothing of ours."""
    python = Path(os.environ.get("TORCHPERF_TEST_TORCH_PYTHON", PROJECT / ".venv/torch/bin/python"))
    assert python.exists(), f"no Python with torch at {python}: `make .venv/torch` makes one"
    return python.absolute().parent.parent


@pytest.fixture(scope="session")
def torch_python(torch_environment: Path) -> str:
    """Its Python: torch is imported faster where there is nothing else."""
    return str(torch_environment / "bin/python")


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the project that a runner downloads to use its actions, or to call its workflow."""
    copy = tmp_path_factory.mktemp("project")
    copy_project(copy)
    return copy


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all processes that run these tests, for what one of them makes for all."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def toolkits(project: Path, torch_environment: Path, shared: Path) -> Path:
    """A script that puts the toolkit where jobs install it; one installation for all processes that run tests."""
    return install_toolkits(project, torch_environment, shared / "toolkits")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    """The real engine with the real table; one at a time in a process, so it ends with the module."""
    table = Table(tmp_path_factory.mktemp("engine"))
    yield table
    table.close()


@pytest.fixture(scope="session")
def issuer() -> Iterator[Issuer]:
    """What issues OIDC tokens to jobs; ``s3_server`` trusts it."""
    with running_issuer() as running:
        yield running


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> Iterator[S3Server]:
    """A real S3 and STS with one bucket, ``records``; give each test a prefix of its own."""
    with running_seaweedfs(tmp_path_factory.mktemp("seaweedfs"), issuer.url) as running:
        yield running


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, s3_server: S3Server) -> S3Server:
    """The server, with its administrator's credentials in the environment, and nobody else's."""
    _forget_credentials(monkeypatch)
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch, s3_server: S3Server) -> S3Server:
    """The server, in an environment without any credentials."""
    _forget_credentials(monkeypatch)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    return s3_server


def _forget_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nonexistent")


@pytest.fixture
def git(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """git without the settings of whoever runs the tests: ``git(folder, *arguments)`` gives what it prints."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")

    def run(folder: Path, *arguments: str) -> str:
        own = ("-c", "user.name=t", "-c", "user.email=t@t.invalid", "-c", "maintenance.auto=false")
        command = ["git", *own, *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def remote(tmp_path: Path, git: Callable[..., str]) -> Path:
    """An empty bare repository, as a server has it."""
    folder = tmp_path / "remote.git"
    folder.mkdir()
    git(folder, "init", "--quiet", "--bare")
    git(folder, "config", "uploadpack.allowFilter", "true")
    git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    return folder


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where everything temporary goes; it must be empty in the end."""
    folder = tmp_path / "temporary files"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture(scope="session")
def bare_venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment without pip."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    subprocess.run([sys.executable, "-I", "-m", "venv", "--without-pip", folder], check=True, timeout=60)
    return folder


@pytest.fixture
def quick(tmp_path: Path, bare_venv: Path) -> str:
    """A Python whose virtual environments have no pip, which takes seconds to install: they are copies of one."""
    copy = f'case "$*" in "-I -m venv $4") exec cp -RP {bare_venv} "$4" ;; esac'
    return _program(tmp_path / "quick-python", f'{copy}\nexec {sys.executable} "$@"')


@pytest.fixture(scope="session")
def linked_pip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that runs ``PYTHON ARGUMENTS...``, where virtual environments share one pip."""
    return link_pip(tmp_path_factory.mktemp("pip"))


@pytest.fixture
def with_pip(tmp_path: Path, linked_pip: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A Python whose virtual environments share one pip, which asks no index by itself."""
    for name, value in {"PIP_CONFIG_FILE": "/dev/null", "PIP_NO_INDEX": "0", "PIP_FIND_LINKS": ""}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "no index").as_uri())
    return _program(tmp_path / "pip-python", f'exec {linked_pip} {sys.executable} "$@"')


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A folder for wheels."""
    folder = tmp_path / "a shelf"
    folder.mkdir()
    return folder


def _program(file: Path, line: str) -> str:
    file.write_text(f"#!/bin/sh\n{line}\n")
    file.chmod(0o755)
    return str(file)
