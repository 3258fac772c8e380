"""What there is to tell: files of verdicts and of culprits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci.culprits import file as culprits
from torchperf_ci.errors import UsageError
from torchperf_ci.verdicts import file as verdicts

if TYPE_CHECKING:
    from torchperf_ci.culprits.culprit import Location
    from torchperf_ci.options import ReportOptions
    from torchperf_ci.verdicts.verdict import Judgement, Verdict


@dataclass(frozen=True)
class Told:
    """The files' content, in the order in which they are given."""

    judgements: tuple[Judgement, ...]
    locations: tuple[Location, ...] = ()

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Those of all files."""
        return tuple(verdict for judgement in self.judgements for verdict in judgement.verdicts)


def read(options: ReportOptions) -> Told:
    """Read the files that the options name. Raises :class:`TorchperfError` for one that is none."""
    files = bool(options.verdicts or options.culprits)
    if files == options.unjudged:
        msg = (
            "report what? give files of verdicts with --verdicts, and of culprits with --culprits, or --unjudged "
            "alone"
        )
        raise UsageError(msg)
    if options.unjudged and options.to != "comment":
        msg = "--unjudged is for an earlier comment: give --to comment, too"
        raise UsageError(msg)
    return Told(
        tuple(verdicts.read(Path(path)) for path in options.verdicts),
        tuple(culprits.read(Path(path)) for path in options.culprits),
    )
