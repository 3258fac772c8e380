from __future__ import annotations

import pytest

from torchperf_ci.errors import UnknownNameError


@pytest.mark.parametrize(
    ("name", "known", "told"),
    [
        ("mian", ["main", "other"], "did you mean main?"),
        ("xyz", ["main", "other"], "known: main, other"),
        ("--workload", ["--threads", "--repo", "--mode"], "known: --mode, --repo, --threads"),
        ("cort", ["core", "core"], "did you mean core?"),
        ("case", [f"case{number}" for number in range(200)], "did you mean case9 or case8 or case7?"),
        ("xyz", [f"case{number}" for number in range(200)], "there are 200; `torchperf list` lists them"),
    ],
)
def test_at_most_a_few_names_are_told(name: str, known: list[str], told: str) -> None:
    assert str(UnknownNameError("thing", name, known, "torchperf list")) == f"unknown thing {name!r}: {told}"
