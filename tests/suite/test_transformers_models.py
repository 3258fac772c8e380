"""The suite of architectures of transformers: frozen, and a sample of it built and stepped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torchperf_ci.bench.worker.step import StepRequest, build_step
from torchperf_ci.machine.devices import device as device_of
from torchperf_ci.suite import hugging_face
from torchperf_ci.suite.registry import catalogue

pytestmark = pytest.mark.filterwarnings("default")  # the library's are its own
CATALOGUE = catalogue()
NAMES = CATALOGUE.suites["transformers"]
DIGESTS = Path(__file__).parent / "transformers_digests.json"
SAMPLE = (
    "language/hf_albert",
    "language/hf_mixtral",
    "language/hf_t5",
    "speech/hf_wav2vec2",
    "vision/hf_swin",
)
"""One of each kind: an encoder, a decoder with experts, both, sound and images; the whole suite takes a minute."""


def test_a_name_stands_for_the_same_config_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a new release of the library changes one, its series begins anew: then, and not else, renew the file."""
    found = {}
    classes = hugging_face._model_class

    def unmade(config: object, name: str) -> object:
        kind = classes(config, name)
        return type(
            kind.__name__,
            (),
            {"main_input_name": kind.main_input_name, "__init__": _nothing, "__call__": _nothing},
        )

    monkeypatch.setattr(hugging_face, "_model_class", unmade)
    for name in NAMES:
        found[name] = CATALOGUE.workloads[name].task_of(1).config_digest()
    assert found == json.loads(DIGESTS.read_text())


def _nothing(*_: object) -> None:
    """In place of a model."""


@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("name", SAMPLE)
def test_a_model_runs(name: str, mode: str) -> None:
    step = build_step(CATALOGUE.workloads[name], StepRequest(mode, "fp32", "eager", 1), device_of("cpu"))
    phases: list[str] = []
    step.phases(phases.append)
    assert phases == (["forward"] if mode == "inference" else ["forward", "backward", "optimizer"])
