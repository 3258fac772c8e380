"""The real database engine, embedded, with the real table."""

from __future__ import annotations

import json
from pathlib import Path

from chdb.session import Session

import torchperf_ci

SCHEMA = Path(torchperf_ci.__file__).parent / "store" / "migrations" / "0001_results.sql"
COLUMNS = """timestamp, schema_version, name, repo, head_branch, head_sha, workflow_id, run_attempt, job_id,
             servicelab_experiment_id, servicelab_trial_id, runners, benchmark, model, inputs, dependencies, metric"""


class Table:
    """``benchmark.oss_ci_benchmark_v3`` in an engine of its own."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "rows.json"
        self._session = Session(str(directory / "database"))
        self._session.query("CREATE DATABASE IF NOT EXISTS benchmark")
        self._session.query("USE benchmark")
        self._session.query(SCHEMA.read_text())

    def insert(self, content: bytes) -> list[dict]:
        """The rows of the table after ``content`` alone is inserted as JSONEachRow; RuntimeError if it is rejected."""
        self._file.write_bytes(content)
        self._session.query("TRUNCATE TABLE benchmark.oss_ci_benchmark_v3")
        self._session.query(
            f"INSERT INTO benchmark.oss_ci_benchmark_v3 ({COLUMNS}) FROM INFILE '{self._file}' FORMAT JSONEachRow"
        )
        rows = self._session.query(
            "SELECT * FROM benchmark.oss_ci_benchmark_v3 ORDER BY metric.name FORMAT JSONEachRow "
            "SETTINGS output_format_json_quote_denormals = 1"
        )
        return [json.loads(line) for line in rows.bytes().decode("utf-8", "surrogateescape").splitlines()]

    def columns(self) -> list[str]:
        listed = self._session.query("DESCRIBE TABLE benchmark.oss_ci_benchmark_v3 FORMAT TSV")
        return [line.split("\t")[0] for line in listed.bytes().decode().splitlines()]

    def close(self) -> None:
        self._session.close()
