"""The options of the commands that store records, and of those that show stored records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torchperf_ci.options.option import (
    CONFIG,
    FORMAT,
    JSON,
    REGION,
    STORE,
    Option,
    address,
    github_id,
    local_directory,
    moment,
    option,
    positive_int,
    seconds,
    shared,
    switch,
    utf8,
)
from torchperf_ci.places import REMOTE_FORMS


@dataclass(frozen=True)
class UploadOptions:
    """Upload records to a bucket, an upload API, a branch, a directory or a store.

    torchperf upload records --to s3://bucket --role arn:aws:iam::1234:role/uploader
    """

    dir: str | None = option(
        "Directory whose *.json and *.json.gz files hold records or another tool's results, or one such file",
        positional=True,
    )
    benchmark_results: str | None = option("Same as DIR", metavar="DIR")
    format: str | None = shared(FORMAT)
    config: str | None = shared(CONFIG)
    to: str | None = option(
        f"{REMOTE_FORMS}, https://… (an upload API), a directory, chdb://PATH or "
        "clickhouse://USER@HOST/DATABASE",
        metavar="TARGET",
        otherwise="the config's upload",
    )
    benchmark_name: str | None = option(
        "name for the records, and benchmark.name for those that have one",
        utf8,
        metavar="NAME",
        otherwise="the job's name, and each record's own benchmark.name",
    )
    repo: str | None = option(
        "Checkout that was measured; provides the repository, branch, commit and date",
        metavar="DIR",
    )
    repo_name: str | None = option(
        "owner/name that was measured", utf8, metavar="REPO", otherwise="the job's repository"
    )
    head_branch: str | None = option("Branch that was measured", utf8, metavar="NAME", otherwise="the job's")
    head_sha: str | None = option("Commit that was measured", utf8, metavar="SHA", otherwise="the job's")
    workflow_id: int | None = option("ID of the workflow run", github_id, otherwise="the job's")
    run_attempt: int | None = option("Attempt number of that run", positive_int, otherwise="the job's")
    job_id: int | None = option("ID of the job in that run", github_id, otherwise="from GitHub's API")
    device_name: str | None = option(
        "Device kind for records without runners: cuda, rocm, cpu, …",
        utf8,
        metavar="NAME",
        otherwise="this machine's",
    )
    device_type: str | None = option(
        "Hardware for records without runners, for example 'NVIDIA H100 80GB HBM3'",
        utf8,
        metavar="TYPE",
        otherwise="this machine's",
        aliases=("--device",),
    )
    model: str | None = option("Suffix of the key at an upload API", metavar="NAME", otherwise="the job's ID")
    role: str | None = option("ARN of the role to assume with the job's OIDC token", metavar="ARN")
    role_session_name: str = option("Name of the role session", metavar="NAME", default="torchperf")
    role_duration: int = option(
        "Seconds that the role session lasts",
        positive_int,
        metavar="SECONDS",
        default="3600",
    )
    region: str | None = shared(REGION)
    endpoint: str | None = option("URL of an S3-compatible service other than AWS", utf8, metavar="URL")
    deadline: float = option("Maximum seconds to keep trying to deliver", seconds, default="300")
    spool: str | None = option(
        "Directory for records that are not delivered yet or were refused",
        metavar="DIR",
        otherwise=".torchperf/spool; in a job, one under $RUNNER_TEMP",
    )
    if_no_files_found: str = option(
        "What to do if there is no DIR or no record to upload",
        default="error",
        choices=("error", "warn", "ignore"),
    )
    on_failure: str | None = option(
        "What fails the command: error, any record not stored; warn-invalid, the same except for invalid records; "
        "warn, nothing",
        otherwise="error; in a dry run, warn-invalid",
        choices=("error", "warn-invalid", "warn"),
    )
    resume: bool = switch("First send what an earlier upload to the same target left in the spool")
    dry_run: bool = switch("Show what would be sent where, and exit")
    json: bool = shared(JSON)


_BIND = Option(
    "Address to listen on, without TLS, which a proxy can add; port 0 picks any free port",
    address,
    metavar="HOST:PORT",
    default="127.0.0.1:8080",
)
_TRUSTED_PROXY = Option(
    "Address of a proxy to trust about the client's address and whether it used TLS",
    metavar="ADDRESS",
    otherwise="none",
)


@dataclass(frozen=True)
class ReceiveOptions:
    """Serve an upload API to clients with the credentials in UPLOADER_USERNAME and UPLOADER_PASSWORD.

    torchperf receive --bind 127.0.0.1:8080 --to s3://bucket
    """

    bind: tuple[str, int] = shared(_BIND)
    to: str | None = option("Where to store uploads: s3://BUCKET[/PREFIX] or a directory", metavar="TARGET")
    trusted_proxy: str | None = shared(_TRUSTED_PROXY)


@dataclass(frozen=True)
class IngestOptions:
    """Ingest records into the store, each exactly once no matter how often it runs.

    torchperf ingest s3://bucket --store clickhouse://user@host/benchmark
    """

    src: Sequence[str] = option(
        f"Directory or file of records, {REMOTE_FORMS}",
        many=True,
        otherwise="the config's upload, unless the store is a server",
        positional=True,
    )
    format: str | None = shared(FORMAT)
    git: str | None = option(
        "Clone whose commit subjects, authors and dates are stored with the results",
        metavar="PATH",
    )
    config: str | None = shared(CONFIG)
    store: str | None = shared(STORE)
    if_no_files_found: str | None = option(
        "What to do if a SRC holds no records or does not exist",
        otherwise="error; warn for a branch, a bucket and the config's upload, which may be new",
        choices=("error", "warn", "ignore"),
    )


@dataclass(frozen=True)
class PackOptions:
    """Keep a data branch small: pack records older than a quarter into one object per month.

    torchperf pack branch:benchmarks
    """

    place: str | None = option("branch:NAME[@REMOTE]", otherwise="the config's upload", positional=True)
    config: str | None = shared(CONFIG)


@dataclass(frozen=True)
class QueryOptions:
    """Print results from the store.

    torchperf query --repo pytorch/pytorch --benchmark nightly --start 2026-08-01 --metrics 'latency(ms)'
    """

    config: str | None = shared(CONFIG)
    store: str | None = shared(STORE)
    repo: str | None = option("owner/name that was measured", utf8, metavar="REPO")
    benchmark: str | None = option("benchmark.name of the records", utf8, metavar="NAME")
    start: int | None = option("Only results since this time: Unix seconds, or a date in UTC", moment)
    stop: int | None = option("Only results before this time", moment)
    models: Sequence[str] = option("Only these models", utf8, metavar="NAME", many=True, whole=True)
    metrics: Sequence[str] = option("Only these metrics", utf8, metavar="NAME", many=True, whole=True)
    device: str | None = option("Only this kind of device: cuda, cpu, …", utf8, metavar="NAME")
    arch: str | None = option("Only hardware whose name contains this text", utf8, metavar="TEXT")
    branch: str | None = option("Only this branch, with or without refs/heads/", utf8, metavar="NAME")
    commit: str | None = option("Only commits whose SHA begins with this", utf8, metavar="SHA")
    format: str = option(
        "table, json, jsoneachrow, csv or parquet",
        metavar="FORMAT",
        default="table",
        choices=("table", "json", "jsoneachrow", "csv", "parquet"),
    )


@dataclass(frozen=True)
class SiteOptions:
    """Write the dashboard of a store as static pages, for any web server or GitHub Pages.

    torchperf site public --store chdb://.torchperf/store
    """

    dir: str = option(
        "Directory for the pages and their data, which is updated",
        local_directory,
        default="site",
        positional=True,
    )
    config: str | None = shared(CONFIG)
    store: str | None = shared(STORE)


@dataclass(frozen=True)
class ServeOptions:
    """Serve a store: the dashboard and the query API of the PyTorch OSS benchmark infrastructure.

    torchperf serve --store clickhouse://user@host/benchmark --bind 0.0.0.0:8000
    """

    config: str | None = shared(CONFIG)
    store: str | None = shared(STORE)
    bind: tuple[str, int] = shared(replace(_BIND, default="127.0.0.1:8000"))
    root_path: str | None = option("Path under which a proxy serves it, such as /perf", metavar="PATH")
    trusted_proxy: str | None = shared(_TRUSTED_PROXY)
    to: str | None = option(
        "Also accept uploads, at /upload, and store them in s3://BUCKET[/PREFIX] or a directory",
        metavar="TARGET",
    )
