"""The models of libraries: frozen, and a sample of them built and stepped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from torchperf_ci.bench.worker.step import StepRequest, build_step
from torchperf_ci.machine.devices import device as device_of
from torchperf_ci.suite import hugging_face
from torchperf_ci.suite.library_model import import_library
from torchperf_ci.suite.registry import catalogue

pytestmark = pytest.mark.filterwarnings("default")  # the libraries' are their own
CATALOGUE = catalogue()
NAMES = [name for name, entry in CATALOGUE.workloads.items() if entry.requires]
DIGESTS = Path(__file__).parent / "model_digests.json"
SAMPLE = (
    "language/hf_albert",
    "language/hf_mixtral",
    "language/hf_t5",
    "speech/hf_wav2vec2",
    "vision/hf_swin",
    "vision/torchvision_squeezenet1_1",
    "vision/torchvision_lraspp_mobilenet_v3_large",
    "vision/timm_edgenext_xx_small",
    "vision/diffusers_unet",
)
"""One of each kind of each library; all of them take minutes."""


def test_a_name_stands_for_the_same_model_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a new release of a library changes one, its series begins anew: then, and not else, renew the file."""
    classes = hugging_face._model_class

    def unmade(config: object, name: str) -> object:
        kind = classes(config, name)
        return type(
            kind.__name__,
            (),
            {"main_input_name": kind.main_input_name, "__init__": _nothing, "__call__": _nothing},
        )

    monkeypatch.setattr(hugging_face, "_model_class", unmade)
    with torch.device("meta"):
        found = {name: CATALOGUE.workloads[name].task_of(2).config_digest() for name in NAMES}
    assert found == json.loads(DIGESTS.read_text())


def _nothing(*_: object) -> None:
    """In place of a model."""


def test_the_task_of_a_transformers_model_is_that_of_its_head() -> None:
    transformers = import_library("transformers")
    heads = {
        "language modelling": ("ForMaskedLM", "ForCausalLM", "LMHeadModel", "ForConditionalGeneration"),
        "speech recognition": ("ForConditionalGeneration",),
        "audio classification": ("ForSequenceClassification",),
        "image classification": ("ForImageClassification",),
    }
    for name in CATALOGUE.suites["transformers"]:
        config = transformers.AutoConfig.for_model(name.partition("/hf_")[2])
        head = hugging_face._model_class(config, "").__name__
        assert head.endswith(heads[CATALOGUE.workloads[name].task]), name


@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("name", SAMPLE)
def test_a_model_runs(name: str, mode: str) -> None:
    step = build_step(CATALOGUE.workloads[name], StepRequest(mode, "fp32", "eager", 2), device_of("cpu"))
    phases: list[str] = []
    step.phases(phases.append)
    assert phases == (["forward"] if mode == "inference" else ["forward", "backward", "optimizer"])


@pytest.mark.parametrize("name", ["vision/torchvision_squeezenet1_1", "vision/timm_ghostnetv2_100"])
def test_training_draws_nothing(name: str) -> None:
    """One has a module for dropout, the other a rate that it gives to a function."""
    task = CATALOGUE.workloads[name].task_of(2)
    losses = [task.loss(task.call(task.model.train())) for _ in range(2)]
    assert losses[0] == losses[1]


UNFIT_TORCHVISION = """\
import torch
for name in ("nms", "qnms"):
    torch.library.register_fake(f"torchvision::{name}")(print)
"""


def test_a_torchvision_built_for_another_torch_is_told_of_once(tmp_path: Path) -> None:
    """It describes operators to torch that its own library should have brought."""
    (tmp_path / "torchvision.py").write_text(UNFIT_TORCHVISION)
    code = (
        "from torchperf_ci.suite.library_model import import_library; import_library('torchvision'); "
        "print(import_library('json').__name__)"
    )
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join((str(tmp_path), str(Path(__file__).parents[2])))
    }
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, cwd=tmp_path)
    assert done.stdout == "json\n", done.stderr
    assert done.stderr.count("operators do not load (operator torchvision::nms does not exist)") == 1
