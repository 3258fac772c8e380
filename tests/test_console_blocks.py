"""Every console block of the README and of the tutorial is run as written.

A page is one shell script, in a home of its own. What stands in for the world outside: the commit of this checkout for
the repository on GitHub, a bare repository for the user's own, and the PyTorch of the tests for a download. A command
that should end with another code than 0 says so in a comment, as ``# exit code 1``.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROJECT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/tutorial.md")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)
MINUTES = 20
ENVIRONMENT = "python3 -m venv venv && . venv/bin/activate && pip install torch"


@dataclass(frozen=True)
class World:
    """What a page's commands run in: ``home``, where PyTorch is installed, and a ``wheel`` that measures briefly."""

    home: Path
    torch: Path
    wheel: Path

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """A shell that knows no settings and no toolkit; the least is measured that can be."""
        toolkit = str(Path(sys.executable).parent)
        programs = [folder for folder in os.environ["PATH"].split(os.pathsep) if folder != toolkit]
        environ = {
            **{name: value for name, value in os.environ.items() if name.startswith("PIP_")},
            **{
                f"GIT_{who}_{what}": "a@localhost"
                for who in ("AUTHOR", "COMMITTER")
                for what in ("NAME", "EMAIL")
            },
            "HOME": str(self.home),
            "PATH": os.pathsep.join([str(self.python.parent), *programs]),
            "PIP_REQUIRE_VIRTUALENV": "1",
            "TORCHPERF_BATCH_SIZE": "4",
            "TORCHPERF_FILTER": "my/*,operators/matmul_512x512x512",
            "TORCHPERF_PROCESSES": "1",
            "TORCHPERF_TARGET_CI": "0.2",
        }
        return subprocess.run(
            ["bash", "-c", script],
            cwd=self.home,
            env=environ,
            capture_output=True,
            text=True,
            timeout=60 * MINUTES,
        )

    @property
    def python(self) -> Path:
        """The one that is first on the path, without packages."""
        return self.home / "bin/python3"

    def translated(self, command: str) -> str:
        """The command with its parts outside of this machine replaced."""
        here = {
            r"pip install '?torchperf-ci\[store\] @ git\+https://\S+": self._install(
                self.wheel, sysconfig.get_path("purelib")
            ),
            r"pip install torch\b[^#\n]*": self._beside(self.torch),
            r"https://github\.com/ME/\w+": shlex.quote(str(self.remote)),
            r"\bmake (\w+)": rf"make --dry-run --silent --directory {shlex.quote(str(PROJECT))} \1 >/dev/null",
        }
        for pattern, replacement in here.items():
            command = re.sub(pattern, lambda found, put=replacement: found.expand(put), command)
        return command

    @property
    def remote(self) -> Path:
        return self.home / "remote.git"

    def _install(self, wheel: Path, dependencies: str) -> str:
        """The project, and what it depends on from where the tests have it."""
        install = f"pip install --quiet --no-deps {shlex.quote(str(wheel))}"
        return f"{install} && {self._beside(Path(dependencies))}"

    def _beside(self, packages: Path) -> str:
        line = "import site; print(site.getsitepackages()[0])"
        return f'echo {shlex.quote(str(packages))} >>"$(python -c {shlex.quote(line)})"/beside.pth'


@pytest.fixture(scope="module")
def wheel(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project, built from its files."""
    folder = tmp_path_factory.mktemp("wheel")
    build = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, project)
    subprocess.run(build, check=True, timeout=60 * MINUTES)
    return next(folder.iterdir())


@pytest.fixture
def world(tmp_path: Path, torch_environment: Path, wheel: Path, linked_pip: Path) -> World:
    (torch,) = torch_environment.glob("lib/python*/site-packages")
    made = World(tmp_path, torch, wheel)
    subprocess.run(["git", "init", "--quiet", "--bare", made.remote], check=True)
    made.python.parent.mkdir()
    made.python.write_text(f'#!/bin/sh\nexec {linked_pip} {sys._base_executable} "$@"\n')
    made.python.chmod(0o755)
    return made


def steps(page: str) -> Iterator[tuple[str, str]]:
    """Its blocks in their order: ``("run", command)``, or the path of a file that the page names, and its text."""
    text = (PROJECT / page).read_text(encoding="utf-8")
    before = 0
    for found in BLOCK.finditer(text):
        kind, content = found.groups()
        named = re.findall(
            r"`([\w./]+\.(?:py|yml))`", text[before : found.start()].rstrip().rpartition("\n\n")[2]
        )
        before = found.end()
        if kind == "console":
            yield from (("run", command) for command in COMMAND.findall(content))
        elif kind in ("python", "yaml") and page != "README.md":
            assert len(named) == 1, f"{page} does not say which file this is: {content}"
            yield named[0], content


def script(page: str, world: World) -> str:
    """All of a page; it ends at the first command that does not end as the page says."""
    begin = [] if page == "docs/tutorial.md" else [("run", ENVIRONMENT)]
    return "\n".join(
        line for kind, text in [*begin, *steps(page)] for line in script_lines(kind, text, world)
    )


def script_lines(kind: str, text: str, world: World) -> Sequence[str]:
    if kind != "run":
        return [f"cat >{kind} <<'END'", text.rstrip("\n"), "END"]
    code = (re.findall(r"# exit code (\d+)", text) or ["0"])[0]
    told = shlex.quote(f"$ {text}")
    return [f"echo {told}", world.translated(text), f"code=$?; [[ $code == {code} ]] || exit 99"]


@pytest.mark.parametrize("page", PAGES)
def test_every_console_block_runs_as_it_stands(page: str, world: World) -> None:
    done = world.run(script(page, world))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_a_command_that_ends_otherwise_than_its_page_says_is_noticed(world: World) -> None:
    assert world.run("\n".join(script_lines("run", "git status", world))).returncode == 99
    assert world.run("\n".join(script_lines("run", "git status # exit code 128", world))).returncode == 0
