"""The labels that issues get, made where they are missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.report.github import RefusedError
from torchperf_ci.report.issues.life.ours import EXPECTED, LABEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.report.github import Asking

_COLOUR = "d4863b"
_MEANINGS = {
    LABEL: "Opened by torchperf, which finds it again by this label",
    EXPECTED: "It is meant to be so: torchperf closes the issue, and the new level is taken for granted",
}


@dataclass(frozen=True)
class Labels:
    """Those that an issue gets, and those that are missing and that the token may not make."""

    usable: tuple[str, ...]
    refused: tuple[str, ...] = ()


def made(ask: Asking, wanted: Sequence[str]) -> Labels:
    """Our own label and those that are ``wanted`` beside it; the one that accepts is there to be chosen.

    Raises :class:`RefusedError` where our own cannot be made: no issue would be found again.
    """
    _make(ask, LABEL)
    names = dict.fromkeys((*wanted, EXPECTED))
    refused = tuple(name for name in names if not _is_made(ask, name))
    usable = dict.fromkeys((LABEL, *(name for name in wanted if name not in refused)))
    return Labels(tuple(usable), refused)


def _is_made(ask: Asking, name: str) -> bool:
    try:
        _make(ask, name)
    except RefusedError:
        return False
    return True


def _make(ask: Asking, name: str) -> None:
    try:
        ask(lambda: ask.repository.get_label(name).complete())
    except RefusedError as error:
        if error.status != 404:
            raise
        try:
            ask(lambda: ask.repository.create_label(name, _COLOUR, _MEANINGS.get(name, "")), again=False)
        except RefusedError as refused:
            if refused.status != 422 or not _is_there(ask, name):  # else somebody was faster
                raise


def _is_there(ask: Asking, name: str) -> bool:
    try:
        ask(lambda: ask.repository.get_label(name).complete())
    except RefusedError:
        return False
    return True
