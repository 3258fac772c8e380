"""What most commits of a project are: documentation, tests and code that no benchmark runs."""

from __future__ import annotations

from dataclasses import dataclass

_KINDS = (
    ("Know the abbreviation of {}", "smallnet/abbreviations.py", 'ABBREVIATIONS["{0:.4}."] = "{0}"\n'),
    (
        "Explain {} in the guide",
        "docs/guide.md",
        "\n## {0}\n\nHow the word `{0}` is read, and where it counts.\n",
    ),
    (
        "Test that {} are read",
        "tests/test_text.py",
        '\n\ndef test_{0}_is_one_word() -> None:\n    assert words("{0}, {0}") == ["{0}", "{0}"]\n',
    ),
    ("Add an example about {}", "docs/examples.md", "- A sentence about {0}, and one about nothing else.\n"),
    ("Tell users what changed about {}", "CHANGELOG.md", "- Fixed how {0} is read in capitals.\n"),
)
_WORDS = (
    "animals", "bridges", "clouds", "deserts", "engines", "forests", "gardens", "harbours", "islands",
    "journeys", "kitchens", "libraries", "mountains", "numbers", "oceans", "painters", "questions",
)  # fmt: skip


@dataclass(frozen=True)
class Addition:
    """A commit that appends ``text`` to the file at ``path``."""

    subject: str
    path: str
    text: str


def addition(number: int) -> Addition:
    """The one with a number; 85 of them differ, since the lengths of the two lists have no common factor."""
    subject, path, text = _KINDS[number % len(_KINDS)]
    word = _WORDS[number % len(_WORDS)]
    return Addition(subject.format(word), path, text.format(word))
