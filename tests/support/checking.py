"""Run ``torchperf check`` as users do, on records made for it, and read what it wrote."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from made_points import START

from torchperf_ci import cli

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

FACTS = {"driver": "550", "fingerprint": "f00", "fingerprint_of": "driver"}
SLOW = 1.2


def record(metric: str, value: float, day: int | None, **changes: Any) -> dict[str, Any]:
    """A record of a day's run; without a day one that comes fresh from a measurement."""
    ids = {
        "timestamp": START + (day or 0) * 86_400,
        "repo": "octo/perf",
        "head_branch": "refs/heads/main",
        "head_sha": f"{day or 0:040x}",
        "workflow_id": 100 + (day or 0),
        "run_attempt": 1,
        "job_id": 1,
    }
    return {
        **({} if day is None else ids),
        "runners": [{"name": "cuda", "type": "H100", "extra_info": FACTS}],
        "benchmark": {"name": "nightly", "mode": "inference", "dtype": "bf16"},
        "model": {"name": "resnet", "backend": "eager"},
        "metric": {"name": metric, "benchmark_values": [value, value * 1.001, value * 1.002]},
        **changes,
    }


def run(folder: Path, name: str, records: Iterable[dict[str, Any]]) -> Path:
    (folder / name).mkdir(parents=True)
    (folder / name / "records.json").write_text(json.dumps(list(records)))
    return folder / name


def check(*argv: object) -> int:
    return cli.main(["check", *map(str, argv)])


def judged(tmp_path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / "verdicts.json").read_text())
    return found


def verdicts(tmp_path: Path) -> list[dict[str, Any]]:
    return list(judged(tmp_path)["verdicts"])


def words(tmp_path: Path) -> list[str]:
    return [verdict["verdict"] for verdict in verdicts(tmp_path)]


def notes(tmp_path: Path) -> list[str]:
    return list(judged(tmp_path)["notes"])
