"""Measure how much faster 1,000 small files are uploaded concurrently than one after the other.

python benchmarks/upload_files.py
"""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING
from uuid import uuid4

import boto3
from report import print_table

from torchperf_ci.places.place import PlaceAccess
from torchperf_ci.places.s3 import S3Place

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))  # the server that the tests use

from seaweedfs import BUCKET, running_seaweedfs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from types_boto3_s3 import S3Client

    Upload = Callable[[Mapping[str, bytes], str, float], None]

FILES = 1000
REPEATS = 4
DELAYS = (0.0, 0.02)
"""Seconds before each request: none, and about what S3 takes to answer within its region."""


def files() -> dict[str, bytes]:
    """As many as a large run writes, each as large as the records of one case, no two alike."""
    return {f"v3/{number}.json": gzip.compress(os.urandom(2000), mtime=0) for number in range(FILES)}


def plain_loop(bodies: Mapping[str, bytes], prefix: str, delay: float) -> None:
    """What a script does: one unconditional put after the other."""
    client = boto3.client("s3")
    slow_down(client, delay)
    for key, body in bodies.items():
        client.put_object(Bucket=BUCKET, Key=f"{prefix}/{key}", Body=body)


def put_all(bodies: Mapping[str, bytes], prefix: str, delay: float) -> None:
    """Conditional puts, several at a time."""
    place = S3Place.at(f"s3://{BUCKET}/{prefix}", PlaceAccess())
    slow_down(place._client(), delay)  # noqa: SLF001  # no option of a place makes it slower
    outcomes = place.put_all(bodies)
    assert set(outcomes.values()) == {"written"}


def slow_down(client: S3Client, delay: float) -> None:
    client.meta.events.register("before-send.s3", lambda **_event: time.sleep(delay))


def seconds(upload: Upload, delay: float) -> float:
    bodies, prefix = files(), str(uuid4())
    start = time.perf_counter()
    upload(bodies, prefix, delay)
    return time.perf_counter() - start


def compare(delay: float) -> list[list[str]]:
    """The rows of the table for one distance to the server."""
    times: dict[Upload, list[float]] = {plain_loop: [], put_all: []}
    for number in range(REPEATS):
        for upload in list(times)[:: -1 if number % 2 else 1]:
            times[upload].append(seconds(upload, delay))
    loop, ours = median(times[plain_loop]), median(times[put_all])
    ratio = median(theirs / mine for theirs, mine in zip(*times.values(), strict=True))
    distance = f"{delay * 1000:.0f} ms"
    return [
        [distance, "plain boto3 loop", f"{loop:.2f} s", f"{FILES / loop:.0f}", "1.0"],
        [distance, "torchperf, conditional puts", f"{ours:.2f} s", f"{FILES / ours:.0f}", f"{ratio:.1f}"],
    ]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, running_seaweedfs(Path(folder)) as server:
        os.environ.update(server.environment)
        seconds(plain_loop, 0)  # the server makes its volumes at the first writes
        rows = [row for delay in DELAYS for row in compare(delay)]
    title = f"{FILES} files of 2 kB to SeaweedFS on the same machine, medians of {REPEATS} runs in alternating order"
    print_table(title, ("added delay", "how", "wall", "files/s", "times as fast"), rows)


if __name__ == "__main__":
    main()
