"""Every file of examples/ runs: in one process, as a worker runs it, and one of them by the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from torchperf_ci.bench.case import Settings
from torchperf_ci.bench.user_command import InstalledBuild, run_user_command
from torchperf_ci.bench.worker.session import WorkerSession
from torchperf_ci.bisect.probes import UNNAMED_SERIES, read_command_output
from torchperf_ci.suite.registry import catalogue

EXAMPLES = Path(__file__).parents[2] / "examples"
TORCHVISION = EXAMPLES / "torchvision_resnet.py"
"""Its wheels fit one build of torch each; beside another, only what is built in goes on without its operators."""
FILES = sorted({*EXAMPLES.glob("*.py")} - {TORCHVISION})
USUAL = {"inference": {"forward"}, "training": {"forward", "backward", "optimizer"}}
OWN_PHASES = {
    "vision/small_gan": {"discriminator", "generator"},
    "reinforcement/actor_critic": {"critic", "actor"},
}


def test_there_are_ten() -> None:
    assert len(FILES) >= 10


@pytest.mark.filterwarnings("ignore:torchvision's compiled operators")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_runs(path: Path) -> None:
    found = catalogue([path])
    for name in found.suites[str(path)]:
        entry = found.workloads[name]
        for mode in entry.modes:
            session = WorkerSession()
            built = session.build(
                workload=name,
                files=[str(path)],
                device="cpu",
                threads=1,
                mode=mode,
                dtype="fp32",
                backend="eager",
                batch_size=entry.batch_sizes.get(mode, 1),
            )
            assert built.moved == {}
            session.first_step()
            if built.is_function:
                session.dtype_check()
            assert set(session.phases(budget=0.0)) == OWN_PHASES.get(name, USUAL[mode])
            assert session.flops() or entry.domain == "operators"


@pytest.mark.parametrize("path", [*FILES, TORCHVISION, EXAMPLES / "matmul.cpp"], ids=lambda path: path.name)
def test_an_example_says_how_to_run_it(path: Path) -> None:
    opening = path.read_text().split("\n\nfrom __future__")[0].split("#include")[0]
    assert f"examples/{path.name}" in opening
    assert "torchperf " in opening


def test_a_program_of_ones_own_runs(tmp_path: Path) -> None:
    line = f"c++ -O2 -o matmul {EXAMPLES / 'matmul.cpp'} && ./matmul"
    build = InstalledBuild(Settings(sys.executable, "cpu", timeout=60), None, None, tmp_path)
    found = run_user_command(line, build, lambda output: read_command_output(output, "", {}))
    assert found[UNNAMED_SERIES] > 0


def test_a_library_that_is_missing_is_named_by_the_list_and_costs_nothing(torch_environment: Path) -> None:
    """The environment under test has torch alone: a list needs no more, and imports no more."""
    python = torch_environment / "bin/python"
    command = [sys.executable, "-m", "torchperf_ci", "list", "--python", str(python), "--json", "--suite"]
    paths = [str(EXAMPLES / name) for name in ("architectures.py", TORCHVISION.name, "small_net.py")]
    done = subprocess.run([*command, *paths], capture_output=True, text=True, timeout=120, check=True)
    listed = json.loads(done.stdout)
    unavailable = {entry["name"]: listed["unavailable"].get(entry["name"]) for entry in listed["workloads"]}
    assert unavailable.pop("vision/small_net") is None
    library = {
        "language/bert_2_layers": "transformers",
        "language/bert_classifier": "transformers",
        "vision/vit_2_layers": "transformers",
        "vision/torchvision_resnet18": "torchvision",
    }
    assert unavailable == {
        name: f"needs {package}: {python} -m pip install {package}" for name, package in library.items()
    }


def test_the_command_measures_a_step_of_ones_own(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torchperf_ci", "run", "--suite", str(EXAMPLES / "actor_critic.py")]
    how = ["--mode", "training", "--processes", "1", "--budget", "0.1", "--target-ci", "0.5", "--json"]
    more = ["--device", "cpu", "--batch-size", "8"]
    done = subprocess.run([*command, *how, *more], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (case,) = json.loads(done.stdout)
    assert case["metrics"]["latency(ms)"] > 0
    assert [path.name for path in (tmp_path / "torchperf-records").glob("*.json")] == [
        "reinforcement-actor_critic.training.fp32.eager.b1.json"
    ]
