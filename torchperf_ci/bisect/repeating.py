"""The command line that repeats a bisection in a clone of the repository."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torchperf_ci.git import without_secrets
from torchperf_ci.metrics import LATENCY, bisected_as
from torchperf_ci.verdicts.again import PYTHON
from torchperf_ci.verdicts.portable import portable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_ci.culprits.culprit import Location
    from torchperf_ci.options import BisectOptions
    from torchperf_ci.verdicts.verdict import Judgement

_OPTIONS = (
    *("workload", "command", "metric", "suite", "builder", "build", "wheels", "config", "device"),
    *("mode", "dtype", "backend", "batch_size", "threads", "min_effect", "paths", "full_history"),
)


def repeatable(location: Location, options: BisectOptions, judgement: Judgement | None) -> Location:
    """``location`` with that line: commits by their hashes, what verdicts said in words, no path, no credentials."""
    given = {**vars(options), **(_suspected(judgement) if judgement else {})}
    texts = {name: without_secrets(given[name]) for name in ("command", "build", "wheels") if given[name]}
    words, folder = portable({**given, **texts}, _OPTIONS)
    is_dated = options.builder == "nightly"
    ends = (options.good or "", options.bad or "") if is_dated else (location.good, location.bad)
    line = ["torchperf", "bisect", "--good", ends[0], "--bad", ends[1], *PYTHON, *words]
    return replace(location, command=shlex.join(line), folder=folder)


def _suspected(judgement: Judgement) -> dict[str, Any]:
    """The options that ask for what verdicts say got worse."""
    worse = [one.series for one in judgement.verdicts if one.is_red or one.candidate]
    metrics = _different(bisected_as(one.metric) or one.metric for one in worse)
    return {
        "workload": _different(one.model for one in worse),
        "metric": metrics[0] if len(metrics) == 1 and metrics != [LATENCY] else None,
        "mode": _different(one.mode for one in worse),
        "dtype": _different(one.dtype for one in worse),
        "backend": _different(one.backend for one in worse),
    }


def _different(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
