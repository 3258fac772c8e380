"""Run ``torchperf upload`` as users do, and read what it kept."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from torchperf_ci import cli
from torchperf_ci.places import open_place

CHANGE = ("--repo-name", "octo/perf", "--head-branch", "main", "--head-sha", "1f" * 20)
DAY = 86_400


def upload(*argv: object) -> int:
    return cli.main(["upload", *map(str, argv)])


def kept(place: Path) -> dict[str, list[dict[str, Any]]]:
    """The records at a directory by their keys."""
    found = open_place(str(place))
    return {key: rows(gzip.decompress(found.get(key))) for key in found.keys()}  # noqa: SIM118  # a place is no dict


def rows(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in body.decode().splitlines()]


def outputs(job: dict[str, str]) -> dict[str, str]:
    lines = Path(job["GITHUB_OUTPUT"]).read_text().splitlines()
    return {lines[at].partition("<<")[0]: lines[at + 1] for at in range(0, len(lines), 3)}
