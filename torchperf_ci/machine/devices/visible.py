"""Which GPUs torch sees, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def visible(choice: str | None, uuids: Sequence[str]) -> list[int]:
    """Indices into ``uuids`` that ``choice``, a list like ``CUDA_VISIBLE_DEVICES``, leaves visible, in order.

    ``None`` is an unset variable: all are visible. An entry is an index or the beginning of a UUID; the list
    ends at the first entry that is neither (CUDA C++ Programming Guide, "CUDA Environment Variables").
    """
    if choice is None:
        return list(range(len(uuids)))
    chosen: list[int] = []
    for entry in choice.split(","):
        index = _index(entry.strip(), uuids)
        if index is None or index in chosen:
            break
        chosen.append(index)
    return chosen


def _index(entry: str, uuids: Sequence[str]) -> int | None:
    if entry.isascii() and entry.isdigit():
        return int(entry) if int(entry) < len(uuids) else None
    matches = [index for index, uuid in enumerate(uuids) if entry and uuid.startswith(entry)]
    return matches[0] if len(matches) == 1 else None
