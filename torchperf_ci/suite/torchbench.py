"""Workloads from a TorchBench checkout. The checkout's own code builds the models and runs their steps, offline.

Model names are read from the files: nothing of the checkout is imported before one of its models is built. Weights
that torch.hub would download stay random.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch

from torchperf_ci.machine.devices.system_files import program_output
from torchperf_ci.suite.library_model import import_torchvision
from torchperf_ci.suite.workload import Task, Workload

PREFIX = "torchbench:"
"""Prefix of a suite's name, before the path of the checkout."""
_MODELS = Path("torchbenchmark", "models")
_MODEL = re.compile(r"^class Model\b", re.MULTILINE)
_TASK = re.compile(r"^ +task = (\w+)\.(\w+)", re.MULTILINE)
_TESTS = {"inference": "eval", "training": "train"}
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
_HUB_ERRORS = {"LocalEntryNotFoundError", "OfflineModeIsEnabled"}
_CONNECTING = ("socket.connect", "socket.getaddrinfo")


class UnbuildableError(Exception):
    """A model of the checkout cannot be built here. The message says what is missing."""


def torchbench_workloads(root: Path) -> tuple[Workload, ...]:
    """Return a workload for each model folder that defines a ``Model``; none if ``root`` is not a checkout."""
    origin = f"torchbench@{_commit(root)}"
    sources = sorted((root / _MODELS).glob("*/__init__.py"))
    texts = {path.parent.name: path.read_text("utf-8", "replace") for path in sources}
    return tuple(
        Workload(f"torchbench/{name}", _task(text), _builder(root, name), {}, origin=origin)
        for name, text in texts.items()
        if _MODEL.search(text)
    )


def _task(source: str) -> str:
    match = _TASK.search(source)
    return " ".join(match.groups()).replace("_", " ").lower() if match else "TorchBench model"


def _commit(root: Path) -> str:
    """Return the first digits of the checkout's commit; ``unknown`` if it is not a clone."""
    asked = program_output("git", "--git-dir", str(root / ".git"), "rev-parse", "HEAD")
    return asked[:10] or "unknown"


def _builder(root: Path, name: str) -> Callable[..., Task]:
    def build(mode: str, device: str) -> Task:
        benchmark = _built(root, name, _TESTS[mode], device)
        model = getattr(benchmark, "model", None)  # a few have several, under other names
        module = model if isinstance(model, torch.nn.Module) else torch.nn.Identity()
        return Task(module, step=lambda _mark: benchmark.invoke())

    return build


def _built(root: Path, name: str, test: str, device: str) -> Any:
    os.environ.update(_OFFLINE)
    sys.path.insert(0, str(root))
    _keep_random_weights()
    with _without_network() as refused:
        try:
            import_torchvision()
            module = importlib.import_module(f"torchbenchmark.models.{name}")
            # Many models would else compute in fp16 on a GPU, which is not the dtype of the record.
            return module.Model(test=test, device=device, extra_args=["--precision", "fp32"])
        except (Exception, SystemExit) as error:
            if why := _lack(error, refused):
                raise UnbuildableError(why) from error
            raise


def _lack(error: BaseException, refused: list[str]) -> str:
    """Return what is missing here if that caused the error; empty if the model itself is at fault."""
    chain = [error]
    while following := chain[-1].__cause__ or chain[-1].__context__:
        chain.append(following)
    if refused:
        return f"wants to download from {refused[0]}"
    if hub := [error for error in chain if type(error).__name__ in _HUB_ERRORS]:
        return f"wants to download from a hub: {str(hub[0]).splitlines()[0]}"
    if isinstance(error, ModuleNotFoundError):
        return f"needs the package {error.name}" if error.name else str(error).strip().splitlines()[0]
    if isinstance(error, FileNotFoundError):
        return f"needs the file {error.filename}"
    return str(error) if isinstance(error, NotImplementedError) else ""


class _NoWeights(dict[str, Any]):
    """Stands for weights that are not downloaded. A module that loads it keeps its random weights."""


@cache
def _keep_random_weights() -> None:
    """Make torch.hub return no weights, and modules accept that, for the rest of this process."""
    load = torch.nn.Module.load_state_dict

    def load_state_dict(self: torch.nn.Module, weights: Any, *arguments: Any, **more: Any) -> Any:
        return None if isinstance(weights, _NoWeights) else load(self, weights, *arguments, **more)

    torch.nn.Module.load_state_dict = load_state_dict  # type: ignore[assignment,method-assign]
    torch.hub.load_state_dict_from_url = lambda *_, **__: _NoWeights()


@contextmanager
def _without_network() -> Iterator[list[str]]:
    """Refuse connections to other machines within the block. Yields a list of the refused host names."""
    refused: list[str] = []
    active = True

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if active and event in _CONNECTING:
            address = arguments[0] if event == "socket.getaddrinfo" else arguments[1]
            refused.append(str(address[0] if isinstance(address, tuple) else address))
            raise ConnectionRefusedError("a model is built without the network")

    sys.addaudithook(hook)
    try:
        yield refused
    finally:
        active = False
