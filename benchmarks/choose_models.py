#!/usr/bin/env python3
"""Choose the suite `models` from measured coverage, and write its table, torchperf_ci/suite/chosen_models.tsv.

    torchperf suite coverage --json --python models/bin/python > coverage.json
    python benchmarks/choose_models.py coverage.json
    python docs/generate.py

The models that need only PyTorch come first. A model whose step takes longer than two seconds is left out. Prints how
much is covered by a night that ends early.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import msgspec

from torchperf_ci.bench.suite_coverage import choose, together
from torchperf_ci.bench.worker.protocol import ApiUse
from torchperf_ci.suite.registry import CHOSEN_MODELS, catalogue

MAX_SECONDS = 2.0
RANDOM_ORDERS = 200


def main() -> None:
    """Write the table, and print the curve."""
    uses = measured(json.loads(Path(sys.argv[1]).read_text("utf-8")))
    first = [name for name, entry in catalogue().workloads.items() if name in uses and not entry.requires]
    chosen = choose(uses, first)
    rows = "".join(row(name, adds, uses) for name, adds in chosen.items())
    CHOSEN_MODELS.write_text(f"name\tcpu_seconds\ttriples\tadds\talone\n{rows}", encoding="utf-8")
    free = [*choose(uses, [])]
    generator = random.Random(0)
    shuffled = [generator.sample(free, len(free)) for _ in range(RANDOM_ORDERS)]
    print("models  greedy  random (mean of 200)  of this table")
    for count in (5, 10, 20, len(first), 30, len(first) + 30, len(uses)):
        mean = sum(covered(uses, order[:count]) for order in shuffled) / RANDOM_ORDERS
        table = covered(uses, [*chosen][:count])
        print(f"{count:6}  {covered(uses, free[:count]):6}  {mean:20.0f}  {table:13}")


def measured(answer: dict[str, list[dict[str, object]]]) -> dict[str, ApiUse]:
    """By model what its modes use together, and the CPU seconds of the slowest; without operators and slow models."""
    found: dict[str, ApiUse] = {}
    for case in answer["cases"]:
        name, use = str(case["workload"]), msgspec.convert(case, ApiUse)
        before = found.get(name, ApiUse())
        both = together((before, use))
        found[name] = ApiUse(both.functions, both.triples, max(before.cpu_seconds, use.cpu_seconds))
    return {
        name: use
        for name, use in found.items()
        if use.cpu_seconds <= MAX_SECONDS and not name.startswith("operators/")
    }


def covered(uses: dict[str, ApiUse], names: list[str]) -> int:
    """How many triples the models have."""
    return len(together(uses[name] for name in names).triples)


def row(name: str, adds: int, uses: dict[str, ApiUse]) -> str:
    """A line of the table: what a model has, adds to those before it, and has alone."""
    own = uses[name]
    alone = own.triples - together(use for other, use in uses.items() if other != name).triples
    return f"{name}\t{own.cpu_seconds:.3f}\t{len(own.triples)}\t{adds}\t{len(alone)}\n"


if __name__ == "__main__":
    main()
