"""What a run has measured so far, kept beside its records so that an interrupted run can be continued."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from torchperf_ci import journal
from torchperf_ci.bench.pairs import Pair
from torchperf_ci.bench.process import Outcome
from torchperf_ci.errors import OutputDirectoryError, ResumeError
from torchperf_ci.records.files import open_journal
from torchperf_ci.records.own_folder import NAME, make_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

OTHERWISE = "repeat its options or start anew in --out"


class Journal:
    """One line a finished process or pair, appended and synced; the first line is the plan that they belong to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.outcomes: dict[str, list[Outcome]] = {}
        self.pairs: dict[str, list[Pair]] = {}
        self.unpaired: dict[str, str] = {}
        self.batch_sizes: dict[str, int] = {}

    def add(self, key: str, outcome: Outcome) -> None:
        """Keep one process of the case ``key``."""
        self._append({"case": key, "outcome": asdict(outcome)})

    def add_pair(self, key: str, pair: Pair) -> None:
        """Keep one pair of the case ``key`` and the anchor."""
        self._append({"case": key, "pair": asdict(pair)})

    def cannot_pair(self, key: str, why: str) -> None:
        """Keep why the case ``key`` is not measured against the anchor."""
        self._append({"case": key, "unpaired": why})

    def found_batch_size(self, key: str, size: int) -> None:
        """Keep the batch size found for the case ``key``, so that all its processes use one."""
        self._append({"case": key, "batch_size": size})

    def _append(self, entry: Mapping[str, Any]) -> None:
        with open_journal(self._path) as file:
            journal.append(file, entry)
        self._take(entry)

    def _take(self, entry: Mapping[str, Any]) -> None:
        match entry:
            case {"case": key, "outcome": outcome}:
                self.outcomes.setdefault(key, []).append(Outcome(**outcome))
            case {"case": key, "pair": pair}:
                ratios = tuple(pair["log_ratios"])  # a list after a detour through JSON
                self.pairs.setdefault(key, []).append(Pair(**{**pair, "log_ratios": ratios}))
            case {"case": key, "unpaired": why}:
                self.unpaired[key] = why
            case {"case": key, "batch_size": size}:
                self.batch_sizes[key] = size

    @classmethod
    def start(cls, records: Path, plan: Mapping[str, Any]) -> Journal:
        """Begin a run in ``records``; refuses a directory that holds the records of an earlier one."""
        path = _path(records)
        if path.exists() or any(records.glob("*.json")):
            msg = f"{records} holds the records of an earlier run: choose another --out, or continue it with --resume"
            raise OutputDirectoryError(msg)
        try:
            make_folder(path.parent)
            with open_journal(path) as file:
                journal.entries(file, plan, OTHERWISE)
        except OSError as error:
            msg = f"{records} cannot be written ({error.strerror}): choose a directory of yours with --out"
            raise OutputDirectoryError(msg) from None
        return cls(path)

    @classmethod
    def resume(cls, records: Path, plan: Mapping[str, Any]) -> Journal:
        """Read what an interrupted run of the same plan left; a torn last line was never a finished process."""
        path = _path(records)
        if not path.exists():
            msg = f"{records} holds no run to resume: leave out --resume, or name its directory with --out"
            raise ResumeError(msg)
        found = cls(path)
        try:
            with open_journal(path) as file:
                for entry in journal.entries(file, plan, OTHERWISE):
                    found._take(entry)  # its own alternative constructor
        except OSError as error:
            msg = f"{path} cannot be read ({error.strerror}): {OTHERWISE}"
            raise ResumeError(msg) from None
        return found


def _path(records: Path) -> Path:
    """Below the records, in a folder that no reader of records looks into."""
    return records / NAME / "journal.jsonl"
