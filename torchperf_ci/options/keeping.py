"""The options of ``upload``, ``receive``, ``ingest`` and ``query``."""

from __future__ import annotations

from torchperf_ci.options.common import CONFIG, JSON
from torchperf_ci.options.option import Option
from torchperf_ci.options.values import address, moment, positive, positive_int, truth

UPLOAD_OPTIONS = (
    Option("DIR", "Directory whose *.json and *.json.gz files hold the records", metavar="DIR"),
    Option("--benchmark-results", "The same as DIR", metavar="DIR"),
    CONFIG,
    Option(
        "--to",
        "s3://BUCKET[/PREFIX], https://… (an upload API), branch:NAME[@REMOTE], a directory, chdb://PATH or "
        "clickhouse://USER@HOST/DATABASE",
        metavar="TARGET",
        default="the config's upload",
    ),
    Option(
        "--benchmark-name",
        "name of the records, and benchmark.name of those that have one",
        metavar="NAME",
        default="the job's name, and each its own",
    ),
    Option(
        "--repo", "Checkout that was measured; it tells repository, branch, commit and date", metavar="DIR"
    ),
    Option("--repo-name", "owner/name that was measured", metavar="REPO", default="the job's repository"),
    Option("--head-branch", "Branch that was measured", metavar="NAME", default="the job's"),
    Option("--head-sha", "Commit that was measured", metavar="SHA", default="the job's"),
    Option("--workflow-id", "Run of the workflow", positive_int, metavar="N", default="the job's"),
    Option("--run-attempt", "Attempt of that run", positive_int, metavar="N", default="the job's"),
    Option("--job-id", "Job of that run", positive_int, metavar="N", default="what GitHub's API says"),
    Option(
        "--device-name",
        "Device kind of records that have no runners: cuda, rocm, cpu, …",
        metavar="NAME",
        default="this machine's",
    ),
    Option(
        "--device-type",
        "Hardware of records that have no runners, for example 'NVIDIA H100 80GB HBM3'",
        metavar="TYPE",
        default="this machine's",
        aliases=("--device",),
    ),
    Option("--model", "Suffix of the key at an upload API", metavar="NAME"),
    Option("--role", "ARN of the role to assume with the job's OIDC token", metavar="ARN"),
    Option("--role-session-name", "What the session is called", metavar="NAME", default="torchperf"),
    Option("--role-duration", "Seconds that it lasts", positive_int, metavar="SECONDS", default="3600"),
    Option("--region", "Region of the bucket and of STS", metavar="NAME", default="AWS's own settings"),
    Option("--endpoint", "URL of an S3 that is not that of AWS", metavar="URL"),
    Option("--deadline", "Most seconds to try to deliver", positive, metavar="SECONDS", default="300"),
    Option(
        "--spool",
        "Directory that keeps what is not delivered yet, and what was refused",
        metavar="DIR",
        default=".torchperf/spool; in a job below $RUNNER_TEMP",
    ),
    Option(
        "--if-no-files-found",
        "Where there is no record to upload, or no DIR",
        metavar="error|warn|ignore",
        default="error",
        choices=("error", "warn", "ignore"),
    ),
    Option(
        "--on-failure",
        "What fails the command: error, whatever is not kept; warn-invalid, the same but for invalid records; "
        "warn, nothing",
        metavar="error|warn-invalid|warn",
        default="error; of a dry run warn-invalid",
        choices=("error", "warn-invalid", "warn"),
    ),
    Option("--resume", "First send what an earlier upload to the same target has left in the spool", truth),
    Option("--dry-run", "Show what would be sent where, and stop", truth),
    JSON,
)

RECEIVE_OPTIONS = (
    Option(
        "--bind",
        "Where to listen, without TLS: a proxy adds that; port 0 is any free one",
        address,
        metavar="HOST:PORT",
        default="127.0.0.1:8080",
    ),
    Option("--to", "Where to keep what is received: s3://BUCKET[/PREFIX] or a directory", metavar="TARGET"),
)

STORE = Option(
    "--store",
    "chdb://PATH (embedded) or clickhouse://USER@HOST[:PORT]/DATABASE[?secure=true], whose password is in the "
    "environment: TORCHPERF_STORE_PASSWORD",
    metavar="DSN",
    default="the config's store, else chdb://.torchperf/store",
)
INGEST_OPTIONS = (
    Option(
        "SRC",
        "Directory or file of records, s3://BUCKET[/PREFIX] or branch:NAME[@REMOTE]",
        metavar="SRC",
        many=True,
        default="the config's upload, unless the store is a server",
    ),
    CONFIG,
    STORE,
    Option(
        "--if-no-files-found",
        "Where a SRC holds no record, or is not there",
        metavar="error|warn|ignore",
        default="error; warn of a branch, a bucket and the config's upload, which may be new",
        choices=("error", "warn", "ignore"),
    ),
)
QUERY_OPTIONS = (
    CONFIG,
    STORE,
    Option("--repo", "owner/name that was measured", metavar="REPO"),
    Option("--benchmark", "benchmark.name of the records", metavar="NAME"),
    Option("--start", "From this time on: Unix seconds, or a date in UTC", moment, metavar="TIME"),
    Option("--stop", "Before this time", moment, metavar="TIME"),
    Option("--models", "Only these models", metavar="NAME", many=True),
    Option("--metrics", "Only these metrics", metavar="NAME", many=True),
    Option("--device", "Only this kind of device: cuda, cpu, …", metavar="NAME"),
    Option("--arch", "Only hardware whose name holds this text", metavar="TEXT"),
    Option("--branch", "Only this branch, with or without refs/heads/", metavar="NAME"),
    Option("--commit", "Only commits that begin with this", metavar="SHA"),
    Option(
        "--format",
        "table, json, jsoneachrow, csv or parquet",
        metavar="FORMAT",
        default="table",
        choices=("table", "json", "jsoneachrow", "csv", "parquet"),
    ),
)
