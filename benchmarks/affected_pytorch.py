#!/usr/bin/env python3
"""Count the commits of PyTorch for which `torchperf compare --affected` can skip workloads, and how many it skips.

    python benchmarks/affected_pytorch.py pytorch operators.json [--commits 400] [--unbuilt cuda cudnn miopen hip mps]

The clone needs its history. operators.json maps each workload to the operators that its steps run. To write it, with
PYTHON of an environment with the suite's models:

    python benchmarks/affected_pytorch.py --operators operators.json [--python PYTHON]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from torchperf_ci.bench.selection import (
    Selection,
    describe_environment,
    select_cases,
    selected_workloads,
    settings_of,
)
from torchperf_ci.bench.worker_client import WorkerFailure
from torchperf_ci.compare.affected import changed_operators, files_read, tree_change
from torchperf_ci.compare.pytorch_sources import NATIVE, UnknownEffectError
from torchperf_ci.config import Config, Suite
from torchperf_ci.deadline import Deadline
from torchperf_ci.environments.revisions import Revision
from torchperf_ci.git import Git
from torchperf_ci.options.option import MODES

if TYPE_CHECKING:
    from collections.abc import Iterator


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("repository", nargs="?", type=Path)
    parser.add_argument("operators", type=Path)
    parser.add_argument("--python")
    parser.add_argument("--commits", type=int, default=400)
    parser.add_argument("--tip", default="HEAD")
    parser.add_argument("--unbuilt", nargs="*", default=("cuda", "cudnn", "miopen", "hip", "mps"))
    options = parser.parse_args()
    if options.repository is None:
        found: dict[str, list[str]] = {}
        for case, ran in operators_of_suite(options.python):
            found[case] = ran
            options.operators.write_text(json.dumps(found, indent=1))
        return
    by_workload = {name: set(ran) for name, ran in json.loads(options.operators.read_text()).items()}
    left_out: list[float] = []
    reasons: Counter[str] = Counter()
    commits = native_commits(options.repository, options.tip, options.commits)
    for commit in commits:
        try:
            share = share_left_out(options.repository, commit, options.unbuilt, by_workload)
        except UnknownEffectError as why:
            reasons[" ".join(str(why).split()[1:4])] += 1
        else:
            left_out.append(share)
            print(f"{commit[:10]} {share:.0%}", flush=True)
    print(
        f"{len(commits)} commits, of {len(left_out)} the operators are known: {fmean(left_out or [0]):.0%} left out"
    )
    print(f"of all, on average {sum(left_out) / len(commits):.1%} of {len(by_workload)} workloads")
    print(*reasons.most_common(12), sep="\n")


def native_commits(repository: Path, tip: str, most: int) -> list[str]:
    """The last ones that change operators' sources and nothing else but tests."""
    log = _git(repository)("log", "--no-merges", "--format=@%H", "--name-only", f"-{20 * most}", tip).decode()
    found = []
    for entry in log.split("@")[1:]:
        commit, *paths = entry.split()
        tests = [path for path in paths if path.startswith(("test/", "torch/testing/_internal/"))]
        native = [path for path in paths if path.startswith(NATIVE)]
        if native and len(tests) + len(native) == len(paths):
            found.append(commit)
    return found[:most]


def share_left_out(
    repository: Path, commit: str, unbuilt: list[str], by_workload: dict[str, set[str]]
) -> float:
    """Of the workloads; raises UnknownEffectError where all are measured."""
    head, base = (Revision(repository, _sha(repository, name), "") for name in (commit, f"{commit}~1"))
    change = tree_change(base, head)
    if change.others:
        raise UnknownEffectError(change.others[0])
    changed = changed_operators(_git(repository), base, head, change.contents, unbuilt)
    return fmean(changed.operators.isdisjoint(ran) for ran in by_workload.values())


def operators_of_suite(python: str | None) -> Iterator[tuple[str, list[str]]]:
    """By workload of `core` and mode, the operators that a case of it runs."""
    config = Config()
    settings = settings_of(config, suite=(), python=python, device="cpu", timeout=300)
    under_test = describe_environment(settings)
    settings = replace(settings.on(under_test.environment), budget=0.5)
    entries = selected_workloads(["core"], (), config, under_test.known)
    suite = Suite(tuple(entry.name for entry in entries), MODES)
    with tempfile.TemporaryDirectory() as scratch:
        for case in select_cases(Selection([suite]), under_test.known, "cpu"):
            try:
                read = files_read(case, settings, Path(scratch), operators=True)
            except WorkerFailure as failure:
                print(case, failure, flush=True)
            else:
                yield f"{case.workload} {case.mode}", sorted(read.operators)
                print(case, len(read.operators), *read.unknown[:1], flush=True)


def _sha(repository: Path, name: str) -> str:
    return _git(repository)("rev-parse", name).decode().strip()


def _git(repository: Path) -> Git:
    return Git(repository, Deadline.after(600))


if __name__ == "__main__":
    main()
