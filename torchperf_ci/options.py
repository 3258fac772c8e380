"""The options of every command: one declaration gives flag, environment variable, action input and help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torchperf_ci.bench.case import BACKENDS, DEVICES, DTYPES, MODES
from torchperf_ci.errors import UnknownNameError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence


def text(value: str) -> str:
    """Any text."""
    return value


def positive_int(value: str) -> int:
    """A whole number from 1."""
    number = int(value)
    if number < 1:
        raise ValueError
    return number


def positive(value: str) -> float:
    """A number above 0."""
    number = float(value)
    if not 0 < number < float("inf"):
        raise ValueError
    return number


def batch_size(value: str) -> int:
    """A whole number from 1, or 0 for ``auto``."""
    return 0 if value == "auto" else positive_int(value)


def shard(value: str) -> tuple[int, int]:
    """``I/N`` with 1 ≤ I ≤ N."""
    number, _, of = value.partition("/")
    if not 1 <= int(number) <= int(of):
        raise ValueError
    return int(number), int(of)


def truth(value: str) -> bool:
    """``true`` or ``false``, as an action's inputs spell them."""
    return {"true": True, "false": False, "1": True, "0": False}[value.lower()]


@dataclass(frozen=True)
class Option:
    """One option. ``default`` is shown to people; the commands themselves see None where nothing was given.

    A ``many`` option may be repeated, takes several values after one flag, and splits each at commas and newlines.
    """

    flag: str
    help: str
    kind: Callable[[str], Any] = text
    metavar: str = ""
    default: str = ""
    choices: tuple[str, ...] = ()
    many: bool = False

    @property
    def name(self) -> str:
        """The flag as a Python name."""
        return self.flag.removeprefix("--").replace("-", "_")

    @property
    def env(self) -> str:
        """The environment variable that gives the option where the flag does not."""
        return f"TORCHPERF_{self.name.upper()}"

    @property
    def is_switch(self) -> bool:
        """Whether the flag takes no value."""
        return self.kind is truth

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Declare the flag; conversion happens in :meth:`read`, alike for flags and the environment."""
        help_text = f"{self.help} [default: {self.default}]" if self.default else self.help
        help_text = help_text.replace("%", "%%")  # argparse formats it
        if self.is_switch:
            parser.add_argument(self.flag, action="store_const", const="true", help=help_text)
        elif self.many:
            parser.add_argument(self.flag, action="extend", nargs="+", metavar=self.metavar, help=help_text)
        else:
            parser.add_argument(self.flag, metavar=self.metavar, help=help_text)

    def read(self, given: Any, environ: Mapping[str, str]) -> Any:
        """The option's value: the flag's, else the environment's, else None. Raises :class:`UsageError`."""
        source = self.flag
        if given is None:
            source, given = self.env, environ.get(self.env, "").strip() or None
        if given is None:
            return None
        if not self.many:
            return self._convert(given, source)
        parts = [given] if isinstance(given, str) else given
        values = [part.strip() for item in parts for line in item.splitlines() for part in line.split(",")]
        return [self._convert(value, source) for value in values if value]

    def _convert(self, value: str, source: str) -> Any:
        if self.choices and value not in self.choices:
            msg = f"value for {source}"
            raise UnknownNameError(msg, value, self.choices)
        try:
            return self.kind(value)
        except (ValueError, KeyError):
            wanted = (self.kind.__doc__ or "").strip().rstrip(".").replace("``", "")
            msg = f"{source} cannot be {value!r}: it is {wanted[:1].lower()}{wanted[1:]}"
            raise UsageError(msg) from None


def read_all(
    options: Sequence[Option], namespace: argparse.Namespace, environ: Mapping[str, str]
) -> dict[str, Any]:
    """The values of ``options`` by name."""
    return {option.name: option.read(getattr(namespace, option.name), environ) for option in options}


CONFIG = Option("--config", "The project's file", metavar="FILE", default="torchperf.yml, if it is there")
SUITE = Option(
    "--suite",
    "What to measure: quick, core, operators, all, a suite of the config, or a Python file of workloads",
    metavar="NAME",
    default="the config's suites, else quick",
    many=True,
)
FILTER = Option("--filter", "Only workloads whose name matches one of these globs", metavar="GLOB", many=True)
DEVICE = Option("--device", "Device to measure on", metavar="NAME", default="auto", choices=DEVICES)
PYTHON = Option(
    "--python", "Python of the environment under test: it has torch", metavar="PATH", default="this one"
)
OUT = Option(
    "--out", "Directory for the records, one file a case", metavar="DIR", default="torchperf-records"
)
JSON = Option("--json", "Print JSON instead of a table", truth)

RUN_OPTIONS = (
    CONFIG,
    SUITE,
    FILTER,
    DEVICE,
    Option("--mode", "inference, training", metavar="MODE", default="inference", choices=MODES, many=True),
    Option(
        "--dtype", "fp32, tf32, bf16, fp16, amp", metavar="DTYPE", default="fp32", choices=DTYPES, many=True
    ),
    Option(
        "--backend",
        "eager, inductor, or inductor:MODE with a mode of torch.compile",
        metavar="BACKEND",
        default="eager",
        choices=BACKENDS,
        many=True,
    ),
    Option(
        "--batch-size",
        "Samples a step; auto doubles until throughput stops growing or memory ends",
        batch_size,
        metavar="N|auto",
        default="each workload's own",
    ),
    PYTHON,
    Option("--processes", "Fresh worker processes a case", positive_int, metavar="N", default="3"),
    Option(
        "--target-ci",
        "Sample until the relative half-width of the median's 95% interval is this small",
        positive,
        metavar="X",
        default="0.01",
    ),
    Option("--budget", "Most seconds of sampling a process", positive, metavar="SECONDS", default="3"),
    Option("--timeout", "Most seconds a process may take in all", positive, metavar="SECONDS", default="300"),
    Option(
        "--threads", "Threads that torch computes with on the CPU", positive_int, metavar="N", default="1"
    ),
    Option("--shard", "Measure the I-th of N equal parts of the cases", shard, metavar="I/N"),
    Option("--tune", "Quieten the machine as far as allowed, and restore it afterwards", truth),
    Option("--resume", "Continue the interrupted run in --out", truth),
    Option("--benchmark-name", "benchmark.name of the records", metavar="NAME", default="the config's name"),
    OUT,
    Option(
        "--on-failure",
        "warn: exit with 0 even where workloads failed",
        metavar="error|warn",
        default="error",
        choices=("error", "warn"),
    ),
    Option("--dry-run", "Show what would be measured, and stop", truth),
    JSON,
)
LIST_OPTIONS = (CONFIG, SUITE, FILTER, DEVICE, PYTHON, JSON)
DOCTOR_OPTIONS = (DEVICE, PYTHON, JSON)
