"""The command line: parsing, help, exit codes; what a command does lives in its room."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torchperf_ci import __version__
from torchperf_ci.errors import TorchperfError, WorkloadsFailedError
from torchperf_ci.options import (
    BASELINE_UPDATE_OPTIONS,
    BISECT_OPTIONS,
    CHECK_OPTIONS,
    COMPARE_OPTIONS,
    DOCTOR_OPTIONS,
    HISTORY_OPTIONS,
    INGEST_OPTIONS,
    LIST_OPTIONS,
    PLAN_OPTIONS,
    QUERY_OPTIONS,
    RECEIVE_OPTIONS,
    REPORT_OPTIONS,
    RUN_OPTIONS,
    UPLOAD_OPTIONS,
    WATCH_OPTIONS,
    Option,
    read_all,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BUG = 70
EPILOG = """\
exit codes:
  0   done, nothing wrong
  1   a regression is confirmed
  2   the call or the configuration is wrong
  3   some workloads or records failed or were refused; the rest is done and kept
  4   not delivered: spooled, and can be resumed
  5   inconclusive
  70  a bug of torchperf
"""


@dataclass(frozen=True)
class Command:
    """One verb, or two words: its options, an example for its help, and what it does."""

    name: str
    help: str
    example: str
    options: Sequence[Option]
    action: Callable[[dict[str, Any]], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the only place that prints errors and decides the exit code."""
    namespace = _parser().parse_args(argv)
    command: Command = namespace.chosen
    try:
        return command.action(read_all(command.options, namespace, os.environ))
    except WorkloadsFailedError as error:  # each has its annotation already
        _complain(str(error))
        return error.exit_code
    except TorchperfError as error:
        _complain(str(error))
        _annotate(str(error))
        return error.exit_code
    except Exception:  # noqa: BLE001  # whatever is left is our own bug
        _complain(
            f"{traceback.format_exc()}this is a bug of torchperf: please report it with the lines above"
        )
        _annotate("a bug of torchperf: the log has its traceback")
        return BUG


def _complain(message: str) -> None:
    from torchperf_ci.actions import literal

    with literal():
        sys.stderr.write(f"torchperf: error: {message}\n")


def _annotate(message: str) -> None:
    from torchperf_ci.actions import Annotation, annotate

    annotate([Annotation("error", message, title="torchperf")])


def _parser() -> argparse.ArgumentParser:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="torchperf",
        description="Continuous performance testing of PyTorch.",
        epilog=EPILOG,
        formatter_class=formatter,
    )
    parser.add_argument("--version", action="version", version=f"torchperf {__version__}")
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    families: dict[str, Any] = {}
    for command in COMMANDS:
        family, _, name = command.name.rpartition(" ")
        if family and family not in families:
            members = verbs.add_parser(family, help=FAMILIES[family], description=FAMILIES[family])
            families[family] = members.add_subparsers(metavar="COMMAND", required=True)
        verb = families.get(family, verbs).add_parser(
            name,
            help=command.help,
            description=command.help,
            epilog=f"example:\n  {command.example}",
            formatter_class=formatter,
        )
        for option in command.options:
            option.add_to(verb)
        verb.set_defaults(chosen=command)
    return parser


def _run(options: dict[str, Any]) -> int:
    from torchperf_ci.bench.commands import run_command

    return run_command(options)


def _plan(options: dict[str, Any]) -> int:
    from torchperf_ci.plan.command import plan_command

    return plan_command(options)


def _list(options: dict[str, Any]) -> int:
    from torchperf_ci.bench.commands import list_command

    return list_command(options)


def _doctor(options: dict[str, Any]) -> int:
    from torchperf_ci.bench.commands import doctor_command

    return doctor_command(options)


def _upload(options: dict[str, Any]) -> int:
    from torchperf_ci.upload.command import upload_command

    return upload_command(options)


def _receive(options: dict[str, Any]) -> int:
    from torchperf_ci.upload.server import receive_command

    return receive_command(options)


def _ingest(options: dict[str, Any]) -> int:
    from torchperf_ci.store.command import ingest_command

    return ingest_command(options)


def _query(options: dict[str, Any]) -> int:
    from torchperf_ci.store.command import query_command

    return query_command(options)


def _check(options: dict[str, Any]) -> int:
    from torchperf_ci.check.command import check_command

    return check_command(options)


def _baseline_update(options: dict[str, Any]) -> int:
    from torchperf_ci.check.command import baseline_update_command

    return baseline_update_command(options)


def _history(options: dict[str, Any]) -> int:
    from torchperf_ci.history.command import history_command

    return history_command(options)


def _compare(options: dict[str, Any]) -> int:
    from torchperf_ci.compare.command import compare_command

    return compare_command(options)


def _bisect(options: dict[str, Any]) -> int:
    from torchperf_ci.bisect.command import bisect_command

    return bisect_command(options)


def _report(options: dict[str, Any]) -> int:
    from torchperf_ci.report.command import report_command

    return report_command(options)


def _watch(options: dict[str, Any]) -> int:
    from torchperf_ci.report.watching import watch_command

    return watch_command(options)


FAMILIES = {"baseline": "Keep the past beside the code: a file of baselines, one for each fingerprint."}
"""What commands of two words have in common, by the first."""
COMMANDS = (
    Command(
        "plan",
        "Turn torchperf.yml into the jobs that measure it, or what regressed into the jobs that bisect it.",
        "torchperf plan --costs costs.json --json",
        PLAN_OPTIONS,
        _plan,
    ),
    Command(
        "run",
        "Measure workloads on this machine and write v3 records.",
        "torchperf run --suite core --dtype bf16 --backend eager,inductor --out records",
        RUN_OPTIONS,
        _run,
    ),
    Command(
        "list",
        "Show what can be run, and what cannot, and why.",
        "torchperf list --suite all --filter 'vision/*'",
        LIST_OPTIONS,
        _list,
    ),
    Command(
        "doctor",
        "Say whether this machine can give trustworthy numbers, and what to do about each finding.",
        "torchperf doctor --device cuda",
        DOCTOR_OPTIONS,
        _doctor,
    ),
    Command(
        "upload",
        "Send records to where they are kept.",
        "torchperf upload records --to s3://bucket --role arn:aws:iam::1234:role/uploader",
        UPLOAD_OPTIONS,
        _upload,
    ),
    Command(
        "receive",
        "Serve an upload API to whoever sends the name and password in UPLOADER_USERNAME and UPLOADER_PASSWORD.",
        "torchperf receive --bind 127.0.0.1:8080 --to s3://bucket",
        RECEIVE_OPTIONS,
        _receive,
    ),
    Command(
        "ingest",
        "Take records into the store, each exactly once however often it is called.",
        "torchperf ingest s3://bucket/v3 --store clickhouse://user@host/benchmark",
        INGEST_OPTIONS,
        _ingest,
    ),
    Command(
        "query",
        "Print results that the store holds.",
        "torchperf query --repo pytorch/pytorch --benchmark nightly --start 2026-08-01 --metrics 'latency(ms)'",
        QUERY_OPTIONS,
        _query,
    ),
    Command(
        "check",
        "Say whether anything changed against history; exit code 1 where something regressed or is broken.",
        "torchperf check records --against store --store clickhouse://user@host/benchmark",
        CHECK_OPTIONS,
        _check,
    ),
    Command(
        "baseline update",
        "Renew the committed baseline of the machines that measured the records, and keep the others.",
        "torchperf baseline update --reason 'PyTorch 2.13' records",
        BASELINE_UPDATE_OPTIONS,
        _baseline_update,
    ),
    Command(
        "history",
        "Say what changed when: the levels of every series over the stored past.",
        "torchperf history --store clickhouse://user@host/benchmark --branch main --since 2026-01-01",
        HISTORY_OPTIONS,
        _history,
    ),
    Command(
        "compare",
        "Measure two builds in turn on this machine, and say whether head is slower than base.",
        "torchperf compare --base origin/main --head HEAD --python .venv/bin/python --suite benchmarks/suite.py",
        COMPARE_OPTIONS,
        _compare,
    ),
    Command(
        "bisect",
        "Find the commit that made something slower, and prove it.",
        "torchperf bisect --good v2.12.0 --bad main --workload vision/resnet18 --build './build.sh {env}'",
        BISECT_OPTIONS,
        _bisect,
    ),
    Command(
        "report",
        "Tell those who must know: in the job's summary, on the pull request, or in issues that open and close.",
        "torchperf report --verdicts verdicts.json --to comment --repo pytorch/pytorch --pull-request 1234",
        REPORT_OPTIONS,
        _report,
    ),
    Command(
        "watch",
        "Tell where a scheduled workflow did not run or failed: one issue, which is closed when it runs again.",
        "torchperf watch --workflow nightly.yml --within 36h --repo pytorch/pytorch --dry-run",
        WATCH_OPTIONS,
        _watch,
    ),
)
