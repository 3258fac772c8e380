"""Text into words."""

from __future__ import annotations

from smallnet.abbreviations import ABBREVIATIONS


def words(text: str) -> list[str]:
    """The words of ``text`` in lower case, written out and without punctuation."""
    return [ABBREVIATIONS.get(word, word).strip(".,;:!?") for word in text.lower().split()]
