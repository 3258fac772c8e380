"""Nights on two machines with known contents: a step, a failure, a missing case, and a new driver; and their site."""

from __future__ import annotations

import json
import random
from math import exp, inf
from typing import TYPE_CHECKING, Any

from hostile import all_at_once

from torchperf_ci.culprits.culprit import (
    Bisection,
    Culprit,
    OperatorCost,
    ProfileChange,
    SeriesEffect,
    write_culprits,
)
from torchperf_ci.places import open_place
from torchperf_ci.stats.effect import Effect
from torchperf_ci.store.ingest import ingest_place
from torchperf_ci.store.migrations import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

NIGHTS = 40
STEP = 30
"""The first night at which ``slow`` is slower by 8%."""
START = 1_790_035_200
DAY = 86_400
HOSTILE = f"<b id=injected>{all_at_once}</b>"
MACHINES = {"cuda": "NVIDIA H100 80GB HBM3", "cpu": HOSTILE}


def night_records(number: int) -> Iterator[dict[str, Any]]:
    """What one night writes: on the newest, ``failing`` fails and ``gone`` does not run."""
    for device, arch in MACHINES.items():
        noise = random.Random(f"{number}{device}")
        for model, level in {"slow": 50, "tiny": 0.0041, "failing": 5, "gone": 7, HOSTILE: 3}.items():
            newest = number == NIGHTS - 1
            if model == "gone" and newest:
                continue
            about = _about(number, model, device, arch)
            fails = model == "failing" and newest
            told = {"status": "oom", "reason": HOSTILE} if fails else {"status": "pass"}
            yield {
                **about,
                "metric": {"name": "status", "benchmark_values": [0 if fails else 1], "extra_info": told},
            }
            if not fails:
                slower = 1.08 if model == "slow" and number >= STEP else 1
                values = [level * slower * exp(noise.gauss(0, 0.004)) for _ in range(3)]
                yield {**about, "metric": {"name": "latency(ms)", "benchmark_values": values}}


def _about(number: int, model: str, device: str, arch: str) -> Mapping[str, Any]:
    driver = "560" if number >= 20 and device == "cuda" else "550"
    facts = {"fingerprint_of": "driver", "driver": driver, "fingerprint": driver}
    return {
        "timestamp": START + number * DAY,
        "repo": "pytorch/pytorch",
        "head_branch": "refs/heads/main",
        "head_sha": f"{number:02}" * 20,
        "workflow_id": 1000 + number,
        "run_attempt": 1,
        "job_id": 1,
        "runners": [{"name": device, "type": arch, "extra_info": facts}],
        "benchmark": {"name": "nightly", "mode": "inference", "dtype": "bf16"},
        "model": {"name": model, "backend": "inductor"},
    }


def put_nights(folder: Path, first: int, last: int) -> None:
    """A file a night."""
    folder.mkdir(exist_ok=True)
    for number in range(first, last):
        lines = "\n".join(map(json.dumps, night_records(number)))
        (folder / f"{number:03}.json").write_text(lines)


def put_culprit(path: Path) -> None:
    """What a bisection found behind the step of ``slow``."""
    commit = "30" * 20
    inside = ProfileChange("slow", (OperatorCost("aten::mm", "operator", 1.0, 5.0, 1, 1),))
    series = (SeriesEffect("slow latency(ms)"),)
    culprit = Culprit(
        *(commit, (commit,), 0.9996, Effect(1.08, 1.07, inf, 12), series),
        author="Ada",
        date="2026-10-22T00:00:00+00:00",
        subject=HOSTILE,
        url=f"https://github.com/pytorch/pytorch/commit/{commit}",
        inside=inside,
    )
    found = Bisection(
        "found", "29" * 20, commit, repo="https://github.com/pytorch/pytorch", culprits=(culprit,)
    )
    write_culprits(path, found)


def take_in(dsn: str, records: Path) -> None:
    """Ingest the records into the store."""
    with open_store(dsn) as store:
        ingest_place(store, open_place(str(records)))


def document(site: Path, path: str) -> Any:
    """A document of a site that was written."""
    return json.loads((site / "data" / path).read_text())


def series_id(site: Path, model: str, metric: str = "latency(ms)", device: str = "cuda") -> str:
    return series_in(document(site, "index.json"), model, metric, device)


def series_in(index: Any, model: str, metric: str = "latency(ms)", device: str = "cuda") -> str:
    """The ID of a series in the index."""
    for row in index["series"]:
        names = dict(zip(index["fields"], row[1:10], strict=True))
        told = {field: index["names"][field][place] for field, place in names.items()}
        if (told["model"], told["metric"], told["device"]) == (model, metric, device):
            return str(row[0])
    raise AssertionError(model)
