"""A workload whose compiler has two variants that tie but for a few percent, and keeps whichever it timed as quicker.

Which that is, noise decides, as on a GPU; here, a die that falls alike in each folder: first the quicker one, then the
other. It is kept where torch keeps such winners, by torch's own code.
"""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace

import torch
from torch._inductor.runtime.autotune_cache import AutotuneCache
from torch._inductor.runtime.cache_dir_utils import cache_dir

from torchperf_ci.suite import Task, workload

PRODUCTS = (40, 44)
"""What a step of either variant takes; the second is 10% slower."""
DIE = 3
WIDTH = 128
_LOCALLY = {"autotune_local_cache": True, "autotune_remote_cache": False, "is_fbcode": False}


class Products(torch.nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.weight = torch.nn.Parameter(torch.eye(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.count):
            x = x @ self.weight
        return x


@workload(
    "autotuned/products", "products whose number was chosen by timing", batch=WIDTH, modes=("inference",)
)
def products(batch_size: int) -> Task:
    """As many as the winner has."""
    return Task(Products(_winner().kwargs["PRODUCTS"]), (torch.randn(batch_size, WIDTH),))


def _winner() -> SimpleNamespace:
    variants = [SimpleNamespace(kwargs={"PRODUCTS": one}, num_warps=4, num_stages=1) for one in PRODUCTS]
    kept = AutotuneCache.create(_LOCALLY, str(Path(cache_dir(), "ab", "kernel.py")), "variants")
    known = kept.read_best(_LOCALLY, variants)
    if known is None:
        timed = Path(__file__).with_name("timed")
        before = timed.read_text() if timed.exists() else ""
        known = random.Random(f"{DIE} {before}").choice(variants)
        kept.save(known, 1000)
        timed.write_text(f"{before}{known.kwargs['PRODUCTS']}\n")
    return known
