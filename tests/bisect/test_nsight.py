from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.bisect.culprit_profile import nsight_commands
from torchperf_ci.environments.revisions import Revision
from torchperf_ci.environments.wheels import Nightly
from torchperf_ci.options.comparison_commands import BisectOptions

if TYPE_CHECKING:
    from collections.abc import Callable

OLD, NEW = "a" * 40, "b" * 40
CASE = Case("vision/resnet18", "training", "bf16", "inductor", 32)
KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)"
ON_GPU = Settings("/venv/bin/python", "cuda", threads=4)
OPTIONS = BisectOptions(python="python3")
RUN = (
    "torchperf run --suite all --filter vision/resnet18 --mode training --dtype bf16 --backend inductor "
    "--batch-size 32 --device cuda --threads 4 --processes 1 --budget 1"
)


@pytest.fixture
def revisions(tmp_path: Path) -> list[Revision]:
    folder = tmp_path / "my repo"
    return [Revision(folder, sha, "") for sha in (OLD, NEW)]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes tools of these names the only programs beside Python."""

    def tools(*names: str) -> None:
        for name in (*names, "python3"):
            (tmp_path / name).write_text("#!/bin/sh\n")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))

    return tools


def test_the_builds_are_made_again_and_the_case_is_profiled_on_each(tools, revisions, tmp_path: Path) -> None:
    tools("nsys", "ncu")
    old_tree, _, old, new, _, kernel = nsight_commands(revisions, CASE, KERNEL, ON_GPU, OPTIONS)
    assert old_tree == f'git worktree add --detach "$PWD"/torchperf-aaaaaaaaaa {OLD}'
    here = '"$PWD"/torchperf-aaaaaaaaaa'
    assert old == (
        f"PYTHONPATH={here}/src:{here} "
        "nsys profile --trace=cuda,nvtx,osrt --force-overwrite=true --output=aaaaaaaaaa "
        f"{RUN} --python python --out {here}-records"
    )
    assert new == old.replace("a" * 10, "b" * 10)
    assert " ncu --target-processes=all --kernel-name=regex:vectorized_elementwise_kernel " in kernel
    assert "--launch-count=10 --set=full --force-overwrite --export=bbbbbbbbbb torchperf run" in kernel


def test_a_workload_of_the_configuration_is_run_from_its_file(
    tools, revisions, git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "--quiet")
    monkeypatch.chdir(tmp_path)
    tools("nsys")
    configured = replace(ON_GPU, files=(str(tmp_path / "benchmarks/suite.py"),))
    commands = nsight_commands(revisions, CASE, "", configured, OPTIONS)
    assert " torchperf run --suite all benchmarks/suite.py --filter vision/resnet18 " in commands[-1]


@pytest.mark.parametrize("names", [(), ("ncu",)])
def test_without_the_tools_or_a_kernel_that_moved_there_is_nothing(tools, revisions, names) -> None:
    tools(*names)
    assert nsight_commands(revisions, CASE, KERNEL if not names else "", ON_GPU, OPTIONS) == ()


def test_another_device_is_not_looked_at(tools, revisions) -> None:
    tools("nsys", "ncu")
    assert nsight_commands(revisions, CASE, KERNEL, Settings("python", "cpu"), OPTIONS) == ()


def test_a_build_runs_as_the_bisection_runs_it(tools, tmp_path: Path, git, monkeypatch) -> None:
    """The line is run; what it would install is looked at instead."""
    for variable, value in (("COUNT", "1"), ("KEY_0", "protocol.file.allow"), ("VALUE_0", "always")):
        monkeypatch.setenv(f"GIT_CONFIG_{variable}", value)
    where = repo = tmp_path / "a repo"
    for folder in (tmp_path / "library", repo):
        git(tmp_path, "init", "--quiet", folder.name)
        (folder / "source").touch()
        git(folder, "add", "source")
        git(folder, "commit", "--quiet", "--message", "First")
    git(repo, "submodule", "--quiet", "add", (tmp_path / "library").as_uri(), "library")
    git(repo, "commit", "--quiet", "--message", "Add the library")
    sha = git(repo, "rev-parse", "HEAD").strip()
    build = "printf '%s\\n' {sha} {worktree} {env} \"$VIRTUAL_ENV\" {seed} library/* > {env}/told"
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    options = replace(OPTIONS, build=build)
    [line, run] = nsight_commands([Revision(repo, sha, "")], CASE, "", ON_GPU, options)
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-c", line], cwd=where, env=environ, check=True, timeout=120, capture_output=True)
    env = where / f"torchperf-{sha[:10]}-env"
    assert (env / "told").read_text().splitlines() == [
        sha,
        str(where / f"torchperf-{sha[:10]}"),
        str(env),
        str(env),
        "0",
        "library/source",
    ]
    assert not run.startswith("PYTHONPATH")
    assert f'--python "$PWD"/torchperf-{sha[:10]}-env/bin/python' in run


@pytest.mark.parametrize(
    ("wheels", "installed"),
    [
        ("/mnt/my wheels", f"'/mnt/my wheels'/*{OLD[:7]}*.whl"),
        ("https://ci.example/{sha}/x.whl", f"https://ci.example/{OLD}/x.whl"),
        ("https://me:secret@ci.example/{short_sha}.whl", f"'https://***ci.example/{OLD[:7]}.whl'"),
        ("mylib==2.0.0.dev0+git{short_sha}", f"mylib==2.0.0.dev0+git{OLD[:7]}"),
    ],
)
def test_a_wheel_is_installed_again_without_anybodys_secrets(tools, revisions, wheels, installed) -> None:
    tools("nsys")
    first, *_, run = nsight_commands(revisions[:1], CASE, "", ON_GPU, replace(OPTIONS, wheels=wheels))
    assert first.endswith(f"-env/bin/pip install {installed}")
    assert '--python "$PWD"/torchperf-aaaaaaaaaa-env/bin/python' in run


def test_a_nightly_is_named_by_its_version(tools) -> None:
    tools("nsys")
    nightly = Nightly("2.14.0.dev20261102+cu128", date(2026, 11, 2))
    where = "https://download.pytorch.org/whl/nightly/cu128"
    first, run = nsight_commands([nightly], CASE, "", ON_GPU, replace(OPTIONS, wheels=where))
    assert first.endswith(f"pip install --index-url {where} torch==2.14.0.dev20261102+cu128")
    assert "--output=2.14.0.dev20261102+cu128 " in run
    assert shlex.split(run)
