from __future__ import annotations

from smallnet.text import words


def test_punctuation_is_dropped() -> None:
    assert words("One, two; three!") == ["one", "two", "three"]
