"""Measure how many requests per second the receiver stores, and how long 32 concurrent clients wait.

python benchmarks/receiver.py
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING
from uuid import uuid4

from report import print_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CONNECTIONS = 32
REQUESTS = 1000
REPEATS = 5
RECORDS = (1, 25)
"""In a request: what a harness sends that uploads each result by itself, and about what one case makes."""
USER, PASSWORD = "uploader", "pa55word-of-the-uploader"


def content(records: int) -> str:
    """JSONEachRow."""
    record = {
        "timestamp": 1_700_000_000,
        "repo": "octo/perf",
        "benchmark": {
            "name": "nightly",
            "mode": "inference",
            "dtype": "bf16",
            "extra_info": {"device": "cuda"},
        },
        "model": {"name": "vision/resnet18", "backend": "inductor", "origins": ["torchbench"]},
        "metric": {"name": "latency(ms)", "benchmark_values": [1.52, 1.49, 1.51]},
        "runners": [
            {"name": "cuda", "type": "NVIDIA H100 80GB HBM3", "extra_info": {"fingerprint": "1f" * 6}}
        ],
    }
    return f"{json.dumps(record)}\n" * records


def request(rows: str) -> bytes:
    """A whole request, under a key of its own."""
    fields = {"username": USER, "password": PASSWORD, "s3_path": f"v3/{uuid4()}.json", "content": rows}
    body = json.dumps(fields).encode()
    head = f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


class Bare(BaseHTTPRequestHandler):
    """The least that can be done: no credentials, no check of anything, an overwriting put, nothing made durable."""

    def do_POST(self) -> None:
        fields = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = Path(fields["s3_path"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(fields["content"].encode(), mtime=0))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")


class BareServer(ThreadingHTTPServer):
    request_queue_size = (
        2 * CONNECTIONS
    )  # with the 5 that are usual, clients wait a second to connect once more


def serve_bare() -> None:
    with BareServer(("127.0.0.1", 0), Bare) as server:
        sys.stderr.write(f"listening on http://127.0.0.1:{server.server_port}, keeping\n")
        server.serve_forever()


SERVERS = {
    "bare `http.server`": (__file__, "--bare"),
    "`torchperf receive`": ("-m", "torchperf_ci", "receive", "--bind", "127.0.0.1:0", "--to", "."),
}


@contextmanager
def running(arguments: Sequence[str]) -> Iterator[int]:
    """The port of a server in a process of its own, which keeps in a new directory; its log is a file, as usual."""
    environ = {**os.environ, "UPLOADER_USERNAME": USER, "UPLOADER_PASSWORD": PASSWORD}
    with tempfile.TemporaryDirectory() as folder, Path(folder, "log").open("w+") as log:
        with subprocess.Popen([sys.executable, *arguments], cwd=folder, env=environ, stderr=log) as process:
            try:
                yield port(Path(folder, "log"))
            finally:
                process.terminate()
        kept = len(list(Path(folder, "v3").iterdir()))
        assert kept == REQUESTS, f"{kept} objects were kept"


def port(log: Path) -> int:
    """What the first line of the log says, once it is there."""
    deadline = time.monotonic() + 30
    while ", keeping" not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    return int(log.read_text().partition(",")[0].rpartition(":")[2])


async def one(to: int, content: bytes) -> float:
    """Seconds from connecting to the end of the answer."""
    start = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", to)
    writer.write(content)
    answer = await reader.read()
    writer.close()
    assert answer.split(b" ", 2)[1] == b"200", answer
    return time.perf_counter() - start


async def load(to: int, requests: Sequence[bytes]) -> list[float]:
    """Seconds of each request; CONNECTIONS are always open."""
    waiting = iter(requests)

    async def client() -> list[float]:
        return [await one(to, request) for request in waiting]

    return [
        seconds
        for all_of_one in await asyncio.gather(*(client() for _ in range(CONNECTIONS)))
        for seconds in all_of_one
    ]


def measure(arguments: Sequence[str], records: int) -> tuple[float, float, float]:
    """Requests a second; and milliseconds that half, and 99% of the requests take at most."""
    rows = content(records)
    requests = [request(rows) for _ in range(REQUESTS)]
    with running(arguments) as to:
        start = time.perf_counter()
        seconds = asyncio.run(load(to, requests))
        wall = time.perf_counter() - start
    percentiles = quantiles(seconds, n=100)
    return REQUESTS / wall, percentiles[49] * 1000, percentiles[98] * 1000


def compare(records: int) -> Iterator[list[str]]:
    """The rows of the table for requests of one size."""
    runs = [[measure(arguments, records) for arguments in SERVERS.values()] for _ in range(REPEATS)]
    size = f"{len(request(content(records))) / 1000:.1f} kB"
    for at, name in enumerate(SERVERS):
        rate, half, most = (median(run[at][figure] for run in runs) for figure in range(3))
        ratio = median(run[at][0] / run[0][0] for run in runs)
        yield [size, f"{records}", name, f"{rate:.0f}", f"{half:.0f} ms", f"{most:.0f} ms", f"{ratio:.2f}"]


def main() -> None:
    rows = [row for records in RECORDS for row in compare(records)]
    title = (
        f"{REQUESTS} requests, {CONNECTIONS} at a time, kept in a directory, load from the same machine, "
        f"medians of {REPEATS} alternating runs"
    )
    print_table(title, ("request", "records", "server", "requests/s", "p50", "p99", "ratio"), rows)


if __name__ == "__main__":
    serve_bare() if sys.argv[1:] == ["--bare"] else main()
