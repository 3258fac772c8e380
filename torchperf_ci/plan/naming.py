"""Names of jobs: each its own, and safe in an artifact's name, a file's and a workflow's."""

from __future__ import annotations

import re

LONGEST = 80
"""Characters: artifacts and files put more around them, and a file's name has at most 255 bytes."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_.]+")


class Names:
    """Gives names out, none of them twice, nor one that differs from another only in its case."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def unique(self, *parts: str) -> str:
        """The safe characters of ``parts`` as one name, with a number behind it where that was given before."""
        wanted = _UNSAFE.sub("-", "-".join(parts)).strip("-.")[:LONGEST] or "job"
        name, number = wanted, 1
        while name.casefold() in self._given:
            number += 1
            name = f"{wanted}-{number}"
        self._given.add(name.casefold())
        return name
