"""Measure the cost of three years of nights on a data branch: to clone it, add a night, ingest it, and judge it.

python benchmarks/data_branch.py [NIGHTS]
"""

from __future__ import annotations

import gzip
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from report import print_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NIGHTS, CASES, MACHINES = 1100, 100, 2
DAY = 86_400
LAST = int(time.time()) // DAY * DAY
"""The newest night is today's: what is old is reckoned from now."""
METRICS = (
    "status",
    "latency(ms)",
    "throughput(samples/s)",
    "peak_memory(MiB)",
    "host_peak_memory(MiB)",
    "flops",
)
LATE, RERUN, TWICE = 0.01, 0.02, 0.01
"""Shares of the nights: uploaded weeks later, measured again, on the branch under a second key as well."""


def environment(machine: int) -> dict[str, Any]:
    """As much as `torchperf run` says of a machine."""
    names = (
        "kernel",
        "microcode",
        "compiler_cxx",
        "governor",
        "turbo",
        "huge_pages",
        "sdpa_flash",
        "tuning",
        "cpus",
    )
    facts = {name: f"{name} of machine {machine}, as it says so itself" for name in names}
    return {
        "name": "cpu", "type": f"AMD_EPYC_{machine}c", "cpu_info": "x86_64 AMD EPYC", "cpu_count": 2,
        "mem_info": "24105 MiB", "avail_mem_in_gb": 23, "gpu_info": "", "gpu_count": 0, "gpu_mem_info": "",
        "avail_gpu_mem_in_gb": 0, "extra_info": {**facts, "fingerprint": f"6c1858e99c0{machine}", "boot_id": "@BOOT@"},
    }  # fmt: skip


def template(machine: int, case: int, metric: str) -> str:
    """A record whose @WORDS@ differ from night to night."""
    return json.dumps(
        {
            "timestamp": "@TIME@",
            "schema_version": "v3",
            "name": "Measure",
            "repo": "octo/perf",
            "head_branch": "refs/heads/main",
            "head_sha": "@SHA@",
            "workflow_id": "@RUN@",
            "run_attempt": 1,
            "job_id": "@JOB@",
            "benchmark": {
                "name": "nightly", "mode": "inference", "dtype": "fp32",
                "extra_info": {"device": "cpu", "batch_size": "32", "threads": "1", "fingerprint": "6c1858e99c0f"},
            },
            "model": {
                "name": f"vision/model{case}", "type": "vision", "backend": "eager", "origins": ["torch"],
                "extra_info": {"parameters": "8794913"},
            },
            "metric": {
                "name": metric, "benchmark_values": [1.0] if metric == "status" else ["@A@", "@B@", "@C@"],
                "extra_info": {"status": "pass", "processes": "3", "samples": "@SAMPLES@"},
            },
            "dependencies": {"pytorch": {"repo": "pytorch/pytorch", "sha": "@SHA@", "version": "2.13.0+cpu"}},
            "runners": [environment(machine)],
        }
    )  # fmt: skip


@dataclass(frozen=True)
class Night:
    """One job of one night: when it measured, and under which ids."""

    number: int
    machine: int
    attempt: int = 0

    @property
    def time(self) -> int:
        return LAST - (NIGHTS - self.number) * DAY + 3 * 3600 + self.machine

    @property
    def folder(self) -> str:
        run = 10_000_000_000 + self.number * 10 + self.attempt
        return f"v3/octo/perf/{run}/{40_000_000_000 + (self.number * 10 + self.attempt) * 10 + self.machine}"

    def files(self) -> Iterator[tuple[str, bytes]]:
        draw = random.Random(f"{self.number} {self.machine} {self.attempt}")
        *_, run, job = self.folder.split("/")
        same = {"@TIME@": self.time, "@RUN@": int(run), "@JOB@": int(job)}
        words = {"@SHA@": f"{draw.getrandbits(160):040x}", "@BOOT@": f"{draw.getrandbits(128):032x}"}
        for case in range(CASES):
            rows = []
            for metric in METRICS:
                text = TEMPLATES[self.machine, case, metric]
                for word, number in same.items():
                    text = text.replace(f'"{word}"', str(number))
                for word, value in words.items():
                    text = text.replace(word, value)
                for word in "ABC":
                    text = text.replace(f'"@{word}@"', f"{draw.lognormvariate(3, 0.02):.10g}")
                rows.append(text.replace("@SAMPLES@", str(draw.randrange(30, 300))))
            body = gzip.compress("\n".join(rows).encode(), mtime=0)
            yield f"{self.folder}/vision-model{case}.inference.fp32.eager.b32.json", body


TEMPLATES = {(m, c, k): template(m, c, k) for m in range(MACHINES) for c in range(CASES) for k in METRICS}


def uploads(nights: int) -> Iterator[tuple[str, Sequence[tuple[str, bytes]]]]:
    """What is put on the branch, in this order: message and files."""
    draw = random.Random(18)
    late: list[Night] = []
    for number in range(NIGHTS - nights, NIGHTS):
        for machine in range(MACHINES):
            night = Night(number, machine)
            if draw.random() < LATE:
                late.append(night)
                continue
            yield "night", list(night.files())
            if draw.random() < RERUN:
                yield "rerun", list(Night(number, machine, 1).files())
            if draw.random() < TWICE:
                yield "by another way", [(f"copies/{key}", body) for key, body in night.files()]
        if late and draw.random() < 1 / 30:
            yield "a spool resumed weeks later", list(late.pop(0).files())
    yield "foreign", FOREIGN
    for night in late:
        yield "a spool resumed weeks later", list(night.files())


FOREIGN = [
    ("README.md", b"# What is this branch?\n"),
    ("notes/package.json", b'{"name": "somebody\'s", "version": "1"}'),
    ("notes/broken.json", b'[{"metric": '),
    ("notes/not.json.gz", b"\x1f\x8b\x08damaged"),
    ("packed/2024-01.tar.gz", b"not a pack at all"),
]


def make(remote: Path, nights: int) -> int:
    """Fill the branch `perf` of a new repository; the number of record files."""
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=perf", remote], check=True)
    for key in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):  # as GitHub has it
        subprocess.run(["git", "-C", remote, "config", key, "true"], check=True)
    subprocess.run(["git", "-C", remote, "config", "core.compression", "1"], check=True)
    count = 0
    arguments = ["git", "-C", str(remote), "fast-import", "--quiet", "--date-format=now"]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE) as process:
        assert process.stdin
        for message, files in uploads(nights):
            who = "torchperf <noreply@torchperf.invalid>"
            process.stdin.write(
                f"commit refs/heads/perf\ncommitter {who} now\ndata {len(message)}\n{message}\n".encode()
            )
            for path, body in files:
                process.stdin.write(f"M 100644 inline {path}\ndata {len(body)}\n".encode() + body + b"\n")
            count += len(files)
    return count


@dataclass(frozen=True)
class Cost:
    """Seconds on the clock and of the CPU."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:.1f} s ({self.cpu:.1f} s)"


def cost(*command: object, cwd: Path) -> Cost:
    """Run it; its output goes to our standard error."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([str(part) for part in command], cwd=cwd, stdout=sys.stderr, check=False)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode in {0, 1, 3, 5}, command  # a regression, or what is broken there, is told
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def torchperf(folder: Path, *arguments: object) -> str:
    return str(cost(sys.executable, "-m", "torchperf_ci", *arguments, cwd=folder))


def clone(folder: Path, remote: Path, *how: str) -> list[str]:
    """How long a clone takes, how large it is, and how many files the branch has."""
    into = folder / "clone"
    taken = cost("git", "clone", "--quiet", "--bare", *how, f"file://{remote}", into, cwd=folder)
    command = ["git", "-C", str(into), "ls-tree", "-r", "--name-only", "HEAD"]
    files = subprocess.run(command, capture_output=True, check=True).stdout.count(b"\n")
    taken_room = size(into)
    shutil.rmtree(into)
    return [str(taken), f"{taken_room / 1e6:.0f} MB, {files:,} files"]


def measure(folder: Path, remote: Path, number: int) -> Iterator[tuple[str, ...]]:
    """What, how long and how large, for a branch as it is; ``number`` is that of the night which comes in."""
    place, store = f"branch:perf@file://{remote}", folder / f"store-{number}"
    yield "git clone", *clone(folder, remote)
    yield "git clone --depth 1", *clone(folder, remote, "--depth=1")
    yield (
        "ingest into an empty store",
        torchperf(folder, "ingest", place, "--store", f"chdb://{store}"),
        f"{size(store) / 1e6:.0f} MB",
    )
    records = folder / f"records-{number}"
    records.mkdir()
    for key, body in Night(number, 0).files():
        (records / Path(key).name).write_bytes(gzip.decompress(body))
    identity = ("--repo-name", "octo/perf", "--head-branch", "main", "--head-sha", "f" * 40)
    yield (
        "upload of one more night",
        torchperf(folder, "upload", records, "--to", place, *identity),
        f"{CASES} files",
    )
    yield "ingest of one more night", torchperf(folder, "ingest", place, "--store", f"chdb://{store}"), ""
    against_store = ("--against", "store", "--store", f"chdb://{store}")
    yield "check --against store", torchperf(folder, "check", records, *against_store), ""
    yield "check --against branch", torchperf(folder, "check", records, "--against", place), ""


def main() -> None:
    nights = int(sys.argv[1]) if sys.argv[1:] else NIGHTS
    os.environ["GIT_CONFIG_GLOBAL"] = os.devnull
    with tempfile.TemporaryDirectory() as name:
        folder, remote = Path(name), Path(name, "remote.git")
        count = make(remote, nights)
        before = [["as uploaded", *row] for row in measure(folder, remote, NIGHTS)]
        packing = [
            ["", what, torchperf(folder, "pack", f"branch:perf@file://{remote}"), ""]
            for what in ("pack", "pack, with nothing to do")
        ]
        after = [["packed", *row] for row in measure(folder, remote, NIGHTS + 1)]
        print_table(
            f"{nights} nights, {count:,} files",
            ("branch", "what", "wall (CPU)", "size"),
            [*before, *packing, *after],
        )


if __name__ == "__main__":
    main()
