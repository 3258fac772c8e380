"""The command line that measures a series again, by hand."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchperf_ci.series.series import Series


def command(verb: str, between: str, series: Series) -> str:
    """``torchperf VERB BETWEEN --filter MODEL …``, in which the names are quoted for a shell."""
    given = {"filter": series.model, "mode": series.mode, "dtype": series.dtype, "backend": series.backend}
    flags = [part for name, value in given.items() if value for part in (f"--{name}", value)]
    return " ".join(part for part in ("torchperf", verb, between, shlex.join(flags)) if part)
