#!/usr/bin/env python3
"""Does a model of TorchBench cost in torchperf's harness what its own `invoke()` costs in a plain loop?

    python benchmarks/torchbench_ratio.py benchmark MODEL ... --python models/bin/python [--quads 3]

Fresh processes of one thread in turn, A B B A: torchperf's step ten times, as a block of its workers, and Python
that imports the checkout, builds the model and calls `invoke()` ten times. Each measures CPU seconds
(`time.process_time`) of as many blocks, and gives their median. Prints the ratio and its 95% interval (Student's t of
the pairs, in logarithms).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import tempfile
from pathlib import Path
from statistics import fmean, stdev

MODELS = ("dcgan", "resnet18", "squeezenet1_1", "phlippe_resnet", "lennard_jones")
T95 = {3: 3.182, 5: 2.571, 7: 2.365, 9: 2.262, 11: 2.201}
"""Two-sided 95% points of Student's t by degrees of freedom."""
LOOP = """
import json, statistics, sys, time
import torch
torch.set_num_threads(1)
{before}
def seconds():
    start = time.process_time()
    {step}
    return time.process_time() - start
seconds()
print(json.dumps(statistics.median(seconds() for _ in range({blocks}))))
"""
OWN = """
sys.path[:0] = [{root!r}]
from torchperf_ci.suite.library_import import import_torchvision
import_torchvision()
import importlib
model = importlib.import_module("torchbenchmark.models.{name}").Model(test={test!r}, device="cpu", batch_size=None)
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
    parser.add_argument("--python", required=True)
    parser.add_argument("--quads", type=int, default=3)
    parser.add_argument("--blocks", type=int, default=5)
    options = parser.parse_args()
    for name in options.models:
        for mode, test in (("inference", "eval"), ("training", "train")):
            given = {"root": str(options.root.resolve()), "name": name, "mode": mode, "test": test}
            ours = LOOP.format(
                before=OURS.format(**given), step="for _ in range(10): step.run()", blocks=options.blocks
            )
            own = LOOP.format(
                before=OWN.format(**given), step="for _ in range(10): model.invoke()", blocks=options.blocks
            )
            logs = list[float]()
            for _ in range(options.quads):
                a, b, b2, a2 = (
                    measured(str(Path(options.python).absolute()), code) for code in (ours, own, own, ours)
                )
                logs += [math.log(a / b), math.log(a2 / b2)]
            half = T95[len(logs) - 1] * stdev(logs) / math.sqrt(len(logs))
            low, mid, high = (math.exp(fmean(logs) + sign * half) for sign in (-1, 0, 1))
            print(f"{name:16} {mode:10} {mid:.3f} ({low:.3f} to {high:.3f})", flush=True)


def measured(python: str, code: str) -> float:
    """CPU seconds of ten steps in a fresh process."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).absolute().parents[1])}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [python, "-c", code], cwd=folder, env=environment, check=True, capture_output=True, text=True
        )
    return float(json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    main()
