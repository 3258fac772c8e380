#!/usr/bin/env python3
"""Compute how much more of PyTorch a suite uses than models that stand for MLPerf, as in the TorchBench paper (§2).

    torchperf suite coverage --suite models --json --python models/bin/python > coverage.json
    python benchmarks/mlperf_ratio.py coverage.json

The paper says 2.3, but not how it was computed. This is the method of TorchBench's script `userbenchmark/api-coverage`:
the number of distinct functions of `torch.overrides.get_testing_overrides()` that Python calls around a step, over all
models of each side. MLPerf's own code is not run: similar models of the suite stand for it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from torchperf_ci.bench.suite_coverage import ApiUse, together

MLPERF = {
    "ResNet-50": "vision/torchvision_resnet50",
    "3D U-Net": "vision/pytorch_unet",
    "BERT": "language/hf_bert",
    "DLRM": "recommendation/dlrm",
    "RNN-T": "language/lstm_language_model",
}
"""Tasks of MLPerf Training 1.0 to 3.0 with a reference in PyTorch, and what stands for each."""
ABSENT = ("RetinaNet", "Mask R-CNN")
"""Those that need compiled operators of torchvision, which the suite does without."""


def main() -> None:
    """Print the table."""
    cases = json.loads(Path(sys.argv[1]).read_text("utf-8"))["cases"]
    uses = [(str(case["workload"]), ApiUse.of(case)) for case in cases]
    suite = together(use for _, use in uses)
    theirs = together(use for name, use in uses if name in MLPERF.values())
    print("MLPerf:", ", ".join(f"{task} ({name})" for task, name in MLPERF.items()))
    print("nothing stands for:", ", ".join(ABSENT))
    print(f"{len({name for name, _ in uses})} models".ljust(22), "suite  MLPerf  ratio")
    for kind in ("functions", "operators", "triples"):
        ours, others = len(getattr(suite, kind)), len(getattr(theirs, kind))
        print(f"{kind:22} {ours:5}  {others:6}  {ours / others:5.2f}")


if __name__ == "__main__":
    main()
