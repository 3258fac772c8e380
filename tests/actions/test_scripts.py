"""The shell scripts alone, where something is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ACTIONS = Path(__file__).parents[2] / "actions"
BASH = shutil.which("bash")


@pytest.fixture
def job(tmp_path: Path) -> dict[str, str]:
    """The environment of a step in which only the programs that a test puts into ``bin`` are on the PATH."""
    (tmp_path / "bin").mkdir()
    return {
        "PATH": str(tmp_path / "bin"),
        "RUNNER_OS": "Linux",
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }


def run(script: str, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BASH, ACTIONS / script], env=environ, capture_output=True, text=True, timeout=120)


def program(environ: dict[str, str], name: str, script: str) -> None:
    file = Path(environ["PATH"]) / name
    file.write_text(f"#!{BASH}\n{script}\n")
    file.chmod(0o755)


def output(environ: dict[str, str]) -> str:
    return Path(environ["GITHUB_OUTPUT"]).read_text()


def test_the_first_python_that_works_is_found_by_its_absolute_path(job) -> None:
    program(job, "python3.13", "echo 'pyenv: python3.13: command not found' >&2; exit 127")
    program(job, "python3.12", "echo $PWD; exit 1")
    program(job, "python3", f'exec "{sys.executable}" "$@"')
    assert run("setup/find_python.sh", job).returncode == 0
    assert output(job) == f"python={sys.executable}\n"


def test_no_python_is_an_empty_answer(job) -> None:
    program(job, "python3", "exit 1")
    assert run("setup/find_python.sh", job).returncode == 0
    assert output(job) == "python=\n"


@pytest.mark.parametrize("fact", ["sys.version_info = (3, 9)", "sys.implementation.name = 'pypy'"])
def test_a_python_that_cannot_hold_the_toolkit_is_passed_by(job, fact) -> None:
    program(
        job,
        "python3",
        f'exec "{sys.executable}" -I -c "import sys; {fact}; exec(sys.argv.pop())" "${{@: -1}}"',
    )
    assert run("setup/find_python.sh", job).returncode == 0
    assert output(job) == "python=\n"


def test_windows_is_refused_with_a_sentence(job) -> None:
    done = run("setup/find_python.sh", {**job, "RUNNER_OS": "Windows"})
    assert done.returncode == 1
    assert done.stdout.startswith("::error title=torchperf::Windows runners are not supported")


def test_an_installation_that_fails_says_so_and_leaves_no_command(job) -> None:
    environ = {
        **job,
        "PATH": os.environ["PATH"],
        "PYTHON": sys.executable,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": "",
    }
    done = run("setup/install.sh", environ)
    assert done.returncode == 1
    assert "\n::error title=torchperf cannot be installed::pip failed" in f"\n{done.stdout}"
    assert not list(Path(job["RUNNER_TEMP"]).glob("torchperf-*/torchperf"))


def test_a_job_without_python_is_told_which_input_to_give(job) -> None:
    done = run("run/run.sh", {**job, "TORCHPERF": "true"})
    assert done.returncode == 2
    assert done.stdout.startswith("::error title=torchperf::No python on PATH")
