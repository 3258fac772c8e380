"""Anchored series: the build under test against one that stays the same, measured as pairs in the same job."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torchperf_ci.bench import planning
from torchperf_ci.bench.pairs import measure_pair, on_same_cpus

if TYPE_CHECKING:
    from pathlib import Path

    from torchperf_ci.bench.case import Case, Settings
    from torchperf_ci.bench.pairs import ArmFailure, Pair

FLAG = "--anchor"


@dataclass(frozen=True)
class Anchor:
    """A Python with a build that stays the same; ``build`` names it: ratios to another anchor are another series."""

    python: str
    build: str


def find(given: str | None, settings: Settings) -> Anchor | None:
    """Ask the anchor what it is; raises as :func:`planning.describe` does.

    What it can run shows when it is asked to: what it does not have must not keep the rest from being measured.
    """
    if given is None:
        return None
    python = planning.python_under_test(given, FLAG)
    environment = planning.describe(replace(settings, python=python, files=()), FLAG).environment
    return Anchor(python, f"torch {environment['torch_version']} {environment['torch_commit']}".rstrip())


def measure_against(anchor: Anchor, case: Case, settings: Settings, scratch: Path) -> Pair:
    """One pair, the anchor its base; raises :class:`ArmFailure`."""
    base, head = on_same_cpus(replace(settings, python=anchor.python), settings)
    return measure_pair(case, base, head, scratch / "anchored")


def why_not(failure: ArmFailure) -> str:
    """Why there is no pair, in one sentence."""
    arm = {"base": "the anchor", "head": "the build under test, beside the anchor"}[failure.side]
    return f"{arm}: {failure.status}: {failure.reason}"
