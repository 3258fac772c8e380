"""An environment under test with nothing but torch, whose records the real database accepts."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from torchperf_ci.records.reading import read_records

if TYPE_CHECKING:
    from pathlib import Path

    from database import Table

TOOLKITS = ("numpy", "jsonschema", "yaml", "rich", "pynvml", "torchperf_ci")


def test_it_has_nothing_of_the_toolkits(torch_environment: Path) -> None:
    code = f"import importlib.util as u; print([n for n in {TOOLKITS} if u.find_spec(n)])"
    found = subprocess.run(
        [torch_environment / "bin/python", "-I", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert found.stdout == "[]\n"


def test_a_run_there_is_taken_by_the_database(torch_environment: Path, tmp_path: Path, table: Table) -> None:
    command = [
        *(sys.executable, "-m", "torchperf_ci", "run", "--python", torch_environment / "bin/python"),
        *("--suite", "recommendation/dlrm", "--mode", "inference,training"),
        *("--processes", "1", "--budget", "0.1", "--target-ci", "0.5", "--out", tmp_path / "records"),
    ]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    files = sorted((tmp_path / "records").glob("*.json"))
    assert len(files) == 2
    for file in files:
        reading = read_records(file)
        assert not reading.problems
        rows = table.insert(file.read_bytes())
        assert len(rows) == len(reading.records)
        assert {row["runners"][0]["name"] for row in rows} <= {"cpu", "arm64-cpu"}
        latency = next(row for row in rows if row["metric"]["name"] == "latency(ms)")
        assert len(latency["metric"]["benchmark_values"]) == 1
        assert latency["dependencies"]["pytorch"]["sha"]
