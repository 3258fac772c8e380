#!/usr/bin/env python3
"""Check that a TorchBench model takes as long in torchperf's harness as its own `invoke()` does in a plain loop.

    python benchmarks/torchbench_ratio.py benchmark MODEL ... --python models/bin/python [--processes 3]

Each process, with one thread, builds the model twice, as torchperf's workers do and as TorchBench does, and measures
both in turn, A B B A, in blocks of about 0.3 CPU seconds (`time.process_time`). Prints the median ratio of the blocks
of all processes, and the medians of single processes, which differ because of where the two models lie in memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from itertools import chain
from pathlib import Path
from statistics import median

MODELS = ("dcgan", "resnet18", "squeezenet1_1", "phlippe_resnet", "lennard_jones")
BOTH = """
import json, sys, time
import torch
torch.set_num_threads(1)
sys.path[:0] = [{root!r}]
{ours}
import importlib
model = importlib.import_module("torchbenchmark.models.{name}").Model(test={test!r}, device="cpu", batch_size=None)

def seconds(run, count):
    start = time.process_time()
    for _ in range(count):
        run()
    return time.process_time() - start

seconds(step.run, 3), seconds(model.invoke, 3)
count = max(1, round(.3 / max(seconds(model.invoke, 1), 1e-6)))
ratios = []
for _ in range({quads}):
    a, b, b2, a2 = (seconds(run, count) for run in (step.run, model.invoke, model.invoke, step.run))
    ratios += [a / b, a2 / b2]
print(json.dumps(ratios))
"""
OURS = """
from pathlib import Path
from torchperf_ci.bench.worker.step import StepRequest, build_step
from torchperf_ci.machine.devices import device as device_of
from torchperf_ci.suite.registry import catalogue
workload = catalogue([Path("torchbench:{root}")]).workloads["torchbench/{name}"]
request = StepRequest(mode={mode!r}, dtype="fp32", backend="eager", batch_size=1)
device = device_of("cpu", hip=False)
step = build_step(workload, request, device)
"""


def main() -> None:
    """Print a row for each model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--quads", type=int, default=5)
    options = parser.parse_args()
    root, python = str(options.root.resolve()), str(options.python.absolute())
    for name in options.models:
        for mode, test in (("inference", "eval"), ("training", "train")):
            ours = OURS.format(root=root, name=name, mode=mode)
            code = BOTH.format(root=root, name=name, test=test, ours=ours, quads=options.quads)
            found = [measured(python, code) for _ in range(options.processes)]
            each = ", ".join(f"{median(ratios):.3f}" for ratios in sorted(found, key=median))
            print(f"{name:16} {mode:10} {median(chain(*found)):.3f} ({each})", flush=True)


def measured(python: str, code: str) -> list[float]:
    """CPU seconds of torchperf's blocks over TorchBench's, in a fresh process."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).absolute().parents[1])}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [python, "-c", code], cwd=folder, env=environment, check=True, capture_output=True, text=True
        )
    return list(json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    main()
