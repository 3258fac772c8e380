"""Measure how long `torchperf serve` takes for the documents of a large store, and how large a site of it is.

python benchmarks/documents.py [--rows 10000000] [--machines 10] [--store FOLDER]
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

from filled_store import DAY, END, fill
from report import print_table

from torchperf_ci.store.migrations import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence

ASKED = 100
"""Requests of each kind, each for another document, which nothing has in memory."""
CLIENTS = (1, 16)
"""At a time."""
WHOLE = ("index.json", "overview.json", "regressions.json")
"""Documents of the whole store, which are made by the first request after a change and kept."""


class Served:
    """A server of its own. ``first_overview`` is in seconds, from the start of the process on."""

    def __init__(self, dsn: str) -> None:
        began = time.perf_counter()
        command = [sys.executable, "-m", "torchperf_ci", "serve", "--store", dsn, "--bind", "127.0.0.1:0"]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr
        self._address = next(line for line in self._process.stderr if "http://" in line).split()[-1]
        self.get("data/overview.json")
        self.first_overview = time.perf_counter() - began

    def get(self, path: str, body: bytes | None = None) -> bytes:
        """What it answers."""
        headers = {"Content-Type": "application/json", "Accept-Encoding": "gzip"}
        request = urllib.request.Request(self._address + path, body, headers)
        with urllib.request.urlopen(request, timeout=600) as answer:
            content: bytes = answer.read()
            packed = answer.headers["Content-Encoding"] == "gzip"
        return gzip.decompress(content) if packed else content

    def cpu(self) -> float:
        """Processor seconds until now."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._process.terminate()
        self._process.wait(60)


def question(model: int) -> bytes:
    """The wiki's, for a metric of a model over 60 days."""
    asked = {
        "repo": "pytorch/pytorch",
        "benchmark": "nightly",
        "startTime": str(END - 60 * DAY),
        "stopTime": str(END),
        "models": [f"model{model}"],
        "metrics": ["latency(ms)"],
    }
    return json.dumps({"format": "JSONEachRow", "queryVariables": asked}).encode()


def paths(index: Any) -> dict[str, list[str]]:
    """Documents by what they are, each once."""
    series = [row[0] for row in index["series"][:: max(1, len(index["series"]) // (2 * ASKED))]]
    runs = index["runs"]
    pairs = index["comparisons"][:: max(1, len(index["comparisons"]) // (2 * ASKED))]
    return {
        "a year of a series": [f"data/series/{one}/2026.json" for one in series],
        "a run": [f"data/run/{run['id']}.json" for run in runs[:: max(1, len(runs) // (2 * ASKED))]],
        "two runs compared": [f"data/compare/{base}/{head}.json" for base, head in pairs],
    }


def measured(served: Served, asked: Sequence[tuple[str, bytes | None]], clients: int) -> list[str]:
    """Median and 99th percentile of the clock, and processor time, in ms for an answer."""

    def seconds(one: tuple[str, bytes | None]) -> float:
        began = time.perf_counter()
        served.get(*one)
        return time.perf_counter() - began

    before = served.cpu()
    with ThreadPoolExecutor(clients) as pool:
        taken = list(pool.map(seconds, asked))
    last = quantiles([*taken, *taken], n=100, method="inclusive")[98]
    cost = (served.cpu() - before) / len(taken)
    return [f"{1000 * each:,.0f}" for each in (median(taken), last, cost)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--machines", type=int, default=10)
    parser.add_argument("--store", help="one that an earlier call has filled, or is to be filled and kept")
    parser.add_argument("--site", action="store_true", help="also write all documents as files")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        dsn = f"chdb://{options.store or folder}"
        if not (options.store and Path(options.store).exists()):
            with open_store(dsn) as store, store.keep_open():
                fill(store, options.rows, options.machines)
        measure(dsn)
        if options.site:
            measure_site(dsn, Path(folder) / "site")


def measure(dsn: str) -> None:
    """Print what a server of this store takes."""
    firsts = []
    for name in ("nothing kept yet", "judged before"):
        with Served(dsn) as served:
            firsts.append([name, f"{served.first_overview:.2f}", f"{served.cpu():.2f}"])
    print_table("From the start of `serve` to its first overview, in s", ("", "wall", "CPU"), firsts)
    rows = []
    with Served(dsn) as served:
        for name in WHOLE:
            rows.append([f"{name}, first", "1", *measured(served, [(f"data/{name}", None)], 1)])
            for clients in CLIENTS:
                asked = [(f"data/{name}", None)] * ASKED
                rows.append([f"{name}, again", f"{clients}", *measured(served, asked, clients)])
        index = json.loads(served.get("data/index.json"))
        for name, found in paths(index).items():
            half = len(found) // 2
            for clients, some in zip(CLIENTS, (found[:half], found[half:]), strict=True):
                rows.append([name, f"{clients}", *measured(served, [(path, None) for path in some], clients)])
        for clients in CLIENTS:
            asked = [("run/query", question(model)) for model in range(ASKED)]
            rows.append(["the wiki's query", f"{clients}", *measured(served, asked, clients)])
    print_table("An answer, in ms", ("document", "clients", "p50", "p99", "CPU"), rows)


def measure_site(dsn: str, site: Path) -> None:
    """Print what its site takes, and how large each kind of its documents is."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "torchperf_ci", "site", str(site), "--store", dsn], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cost = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"\nThe site: {time.perf_counter() - began:.0f} s, CPU {cost:.0f} s")
    sizes: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for path in (site / "data").rglob("*.json"):
        content = path.read_bytes()
        kind = path.relative_to(site / "data").parts[0]
        sizes[kind].append((len(content), len(gzip.compress(content))))
    rows = [
        [kind, f"{len(found):,}", *(f"{sum(each) / 1e6:.2f}" for each in zip(*found, strict=True))]
        for kind, found in sorted(sizes.items())
    ]
    print_table("Its documents", ("kind", "files", "MB", "MB with gzip"), rows)


if __name__ == "__main__":
    main()
