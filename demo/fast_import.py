"""A whole history for git in one stream, as ``git fast-import`` reads it: a hundred commits take milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BRANCH = "main"
START = 1_767_600_000  # Monday, 5 January 2026
PAUSE = 17_000  # seconds from one commit to the next
AUTHORS = (
    ("Ada Okafor", "ada@smallnet.example"),
    ("Zoë Ågren", "zoe@smallnet.example"),
    ("Łukasz Nowak", "lukasz@smallnet.example"),
    ("Mei Tanaka", "mei@smallnet.example"),
    ("J. R. O'Neill", "jr@smallnet.example"),
    ("Samir Haddad", "samir@smallnet.example"),
    ("Lucía Fernández", "lucia@smallnet.example"),
)


class Stream:
    """Grows by a commit at a time. The same calls give the same bytes, and so the same hashes."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._trees: list[Mapping[str, str]] = [{}]

    def __bytes__(self) -> bytes:
        return "".join(self._parts).encode()

    def commit(self, subject: str, tree: Mapping[str, str], parents: Sequence[int]) -> int:
        """Append a commit of all files in ``tree``, by their paths; its mark, which names it as a parent."""
        mark = len(self._trees)
        name, address = AUTHORS[mark * 3 % len(AUTHORS)]
        signature = f"{name} <{address}> {START + mark * PAUSE} +0000"
        before = self._trees[parents[0]] if parents else {}
        self._trees.append(dict(tree))
        self._parts += [
            f"commit refs/heads/{BRANCH}\nmark :{mark}\nauthor {signature}\ncommitter {signature}\n",
            _data(subject),
            *(f"{'merge' if number else 'from'} :{parent}\n" for number, parent in enumerate(parents)),
            *(
                f"M 100644 inline {path}\n{_data(text)}"
                for path, text in tree.items()
                if before.get(path) != text
            ),
        ]
        return mark


def _data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}\n"
