"""A checkout of TorchBench: a small one of the same layout."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.bench import process
from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.bench.commands import PAPER, paper_models
from torchperf_ci.bench.process import WorkerConversation, open_worker
from torchperf_ci.bench.worker.protocol import FirstStep
from torchperf_ci.bench.worker_client import WorkerFailure
from torchperf_ci.suite.registry import BadSuiteFileError, catalogue
from torchperf_ci.suite.torchbench import torchbench_workloads

if TYPE_CHECKING:
    from pathlib import Path

    from checkout import Git

BASE = """
class BenchmarkModel:
    def __init__(self, test, device, batch_size=None):
        self.test, self.device = test, device

    def invoke(self):
        return {"train": self.train, "eval": self.eval}[self.test]()
"""
MODEL = """
import torch
from torchbenchmark.util.model import BenchmarkModel

class Model(BenchmarkModel):
    task = COMPUTER_VISION.GENERATION

    def __init__(self, test, device, batch_size=None, extra_args=[]):
        super().__init__(test, device, batch_size)
        assert extra_args == ["--precision", "fp32"]  # TorchBench would choose fp16 on a GPU
        self.model = torch.nn.Linear(3, 2)
        {more}

    def train(self):
        self.model(torch.ones(4, 3)).sum().backward()

    def eval(self):
        assert not torch.is_grad_enabled()
        return self.model(torch.ones(4, 3))
""".replace("COMPUTER_VISION.GENERATION", "type('', (), {{'GENERATION': 1}}).GENERATION")
LACKS = {
    "connects": (
        "import urllib.request as r; r.urlopen('http://models.invalid/w')",
        "wants to download from models.invalid",
    ),
    "wants_package": ("import no_such_package.inner", "needs the package no_such_package"),
    "wants_something": ("raise ModuleNotFoundError('install what it says')", "install what it says"),
    "wants_file": ("open('/no/such/file')", "needs the file /no/such/file"),
    "has_no_training": (
        "if test == 'train': raise NotImplementedError('no training here')",
        "no training here",
    ),
}
WEIGHTS = "self.model.load_state_dict(torch.hub.load_state_dict_from_url('https://models.invalid/w.pt'))"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("benchmark")
    models = folder / "torchbenchmark/models"
    sources = {"plain": "pass", "weights": WEIGHTS, **{name: more for name, (more, _) in LACKS.items()}}
    sources["fails"] = "1 / 0"
    sources["of_torchvision"] = "import torchvision"
    for name, more in sources.items():
        (models / name).mkdir(parents=True)
        (models / name / "__init__.py").write_text(MODEL.format(more=more))
    (models / "broken").mkdir()
    (models / "broken/__init__.py").write_text(
        "raise SystemExit('never import me to list')\nclass Model: pass\n"
    )
    (models / "notes").mkdir()
    (models / "notes/__init__.py").write_text("")
    (folder / "torchbenchmark/util").mkdir()
    (folder / "torchbenchmark/util/model.py").write_text(BASE)
    (models / "__init__.py").write_text("")
    return folder


def test_names_come_from_files_and_nothing_is_imported(root: Path) -> None:
    names = {entry.name for entry in torchbench_workloads(root)}
    assert names == {
        f"torchbench/{name}" for name in (*LACKS, "plain", "weights", "fails", "broken", "of_torchvision")
    }
    assert not [name for name in sys.modules if name.startswith("torchbenchmark")]


def test_a_suite_of_a_folder_without_models_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSuiteFileError, match="not a checkout of TorchBench"):
        catalogue([type(tmp_path)(f"torchbench:{tmp_path}")])


def test_the_origin_has_the_commit_of_a_clone_and_of_a_worktree(tmp_path: Path, git: Git) -> None:
    clone = tmp_path / "clone"
    model = clone / "torchbenchmark/models/one"
    model.mkdir(parents=True)
    (model / "__init__.py").write_text("class Model: pass\n")
    git(clone, "init", "--quiet")
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--message", "One")
    sha = git(clone, "rev-parse", "HEAD").strip()[:10]

    def origins(folder: Path) -> set[str]:
        return {entry.origin for entry in torchbench_workloads(folder)}

    assert origins(clone) == {f"torchbench@{sha}"}
    git(clone, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    git(clone, "pack-refs", "--all")
    assert origins(tmp_path / "side") == origins(clone) == {f"torchbench@{sha}"}
    git(clone, "checkout", "--quiet", "--detach")
    assert origins(clone) == {f"torchbench@{sha}"}


def test_models_run_by_their_own_steps_and_what_they_lack_is_said(root: Path, tmp_path: Path) -> None:
    """All in one process: no build leaves the next one without what it needs."""
    settings = Settings(sys.executable, "cpu", (f"torchbench:{root}",), timeout=120)
    case = Case("torchbench/plain", "training", "fp32", "eager", 1)
    with open_worker(case, settings, tmp_path) as worker:
        conversation = WorkerConversation(worker, settings.timeout)

        def build(name: str, mode: str = "training") -> None:
            process.build(conversation, replace(case, workload=f"torchbench/{name}", mode=mode), settings)

        built = (
            ("plain", "training"),
            ("plain", "inference"),
            ("weights", "inference"),
            ("of_torchvision", "training"),
        )
        for name, mode in built:
            build(name, mode)
            conversation.ask("first_step", FirstStep)
        for name, (_, why) in LACKS.items():
            with pytest.raises(WorkerFailure) as failure:
                build(name)
            assert (failure.value.status, failure.value.reason.partition(": ")[2]) == ("unsupported", why)
        with pytest.raises(WorkerFailure, match="ZeroDivisionError") as failure:
            build("fails")
        assert failure.value.status == "failed"
        build("has_no_training", "inference")


def test_each_name_of_the_paper_has_a_place_or_a_reason() -> None:
    models = {
        model.name: model
        for model in paper_models({"vision/resnet18": 0, "torchbench/resnet18": 0, "torchbench/moco": 0})
    }
    assert len(PAPER) == len(models) == 83
    assert (models["resnet18"].builtin, models["resnet18"].checkout) == (
        "vision/resnet18",
        "torchbench/resnet18",
    )
    assert (models["moco"].builtin, models["moco"].checkout, models["moco"].why_not) == (
        "",
        "torchbench/moco",
        "",
    )
    assert models["public_image_generator1"].why_not == "the paper does not say which model this is"
    assert models["fambench_xlmr"].why_not == "it is no longer in the checkout"
