"""A small torch package in a repository of its own, and commits that slow it down in ways that people really do."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = '''
"""Parts of models."""

import torch
from torch.distributions import Normal
from torch.nn import functional as F


def clip(gradients, most):
    """Scale gradients so that their norms together are at most so large."""
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    return torch._foreach_mul(gradients, (most / (norm + 1e-6)).clamp(max=1.0))


def activate(rows):
    """GELU by its approximation."""
    return F.gelu(rows, approximate="tanh")


def log_likelihood(mean, spread, value):
    """Of a value under a normal distribution."""
    return Normal(mean, spread, validate_args=True).log_prob(value)


def mix(images, factor):
    """Blend each image with its mirror image."""
    return torch.lerp(images, images.flip(-1), factor)


def project(rows, weights):
    """A linear layer."""
    return rows @ weights
'''

SUITE = """
import torch

import parts
from torchperf_ci.suite import Task, workload


def one(name, function, *inputs):
    return workload(f"parts/{name}", "a part", modes=("inference",))(lambda batch: Task(function, inputs))


torch.manual_seed(0)
clip = one("clip", lambda *gradients: parts.clip(list(gradients), 1.0), *(torch.randn(32, 32) for _ in range(40)))
activate = one("activate", parts.activate, torch.randn(128, 256))
likelihood = one("likelihood", parts.log_likelihood, torch.zeros(64, 64), torch.ones(64, 64), torch.randn(64, 64))
mix = one("mix", parts.mix, torch.randn(8, 3, 64, 64), 0.3)
project = one("project", parts.project, torch.randn(128, 128), torch.randn(128, 128))
"""


@dataclass(frozen=True)
class Change:
    """A commit that replaces some lines of the package."""

    subject: str
    before: str
    after: str


SLOWER = {
    "parts/clip": Change(
        "Refuse gradients that are not finite",
        "    norm = torch.linalg",
        "    for gradient in gradients:\n"
        "        if not gradient.abs().max().isfinite().item():\n"
        "            raise ValueError(gradient)\n"
        "    norm = torch.linalg",
    ),
    "parts/activate": Change(
        "Write GELU out",
        '    return F.gelu(rows, approximate="tanh")\n',
        "    return 0.5 * rows * (1 + torch.tanh(0.7978845608 * (rows + 0.044715 * rows**3)))\n",
    ),
    "parts/likelihood": Change(
        "Check arguments and values",
        "    return Normal(mean, spread, validate_args=True).log_prob(value)\n",
        "    Normal(mean, spread, validate_args=True)._validate_sample(value)\n"
        "    return Normal(mean, spread, validate_args=True).log_prob(value)\n",
    ),
    "parts/mix": Change(
        "Never touch the caller's images",
        "    return torch.lerp(images,",
        "    images = images.clone().contiguous().clone()\n    return torch.lerp(images,",
    ),
}
HARMLESS = Change(
    "Say more of the linear layer", '"""A linear layer."""', '"""A linear layer without a bias."""'
)


def make_repository(folder: Path) -> None:
    """The package, tagged ``base``, and a commit a change on ``main``; the suite lies beside the repository."""
    folder.mkdir()
    _git(folder, "init", "--quiet", "--initial-branch=main")
    package = folder / "parts.py"
    package.write_text(PACKAGE)
    _commit(folder, "Add parts of models")
    _git(folder, "tag", "base")
    for change in (*SLOWER.values(), HARMLESS):
        text = package.read_text()
        assert text.count(change.before) == 1, change.subject
        package.write_text(text.replace(change.before, change.after))
        _commit(folder, change.subject)
    (folder.parent / "suite.py").write_text(SUITE)


def _commit(folder: Path, subject: str) -> None:
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--message", subject)


def _git(folder: Path, *arguments: str) -> None:
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid", *arguments]
    subprocess.run(command, cwd=folder, env=environ, timeout=60, check=True)
