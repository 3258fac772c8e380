"""``torchperf check --sensitivity`` and ``--calibrate``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from checking import check, record, run
from made_points import noisy

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("here")


def test_sensitivity_of_all_that_the_store_has(dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("--sensitivity", "--store", dsn, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    (seen,) = shown["series"]
    assert seen["history"] == 30
    assert seen["noise"] == pytest.approx(0.01, rel=0.5)
    assert 0.01 < seen["detectable"] < 0.06
    assert [suite["series"] for suite in shown["suites"]] == [1]


def test_what_sees_least_is_told_beside_the_middle_and_comes_first_in_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = {"calm": 1, "usual": 3, "wild": 6}  # how many times as far runs differ
    for day, value in enumerate(noisy(10, 30)):
        of_day = [
            record("latency(ms)", 10 + (value - 10) * times, day, model={"name": name, "backend": "eager"})
            for name, times in models.items()
        ]
        if day >= 28:
            of_day += [record("latency(ms)", value, day, model={"name": "young", "backend": "eager"})]
        run(tmp_path / "history", f"run-{day}", of_day)
    assert check("--sensitivity", "--against", tmp_path / "history", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    calm, usual, wild = sorted(seen["detectable"] for seen in shown["series"] if seen["detectable"])
    (suite,) = shown["suites"]
    assert (suite["series"], suite["judged"]) == (4, 3)
    assert (suite["detectable"], suite["worst"]) == (usual, wild)
    assert calm < 0.05 < usual < wild
    assert suite["enough"] == 1 / 4, "only of the calm one, changes of 5%, which matter, are seen"
    assert check("--sensitivity", "--against", tmp_path / "history") == 0
    table = capsys.readouterr().out
    assert (
        table.index("wild latency(ms)") < table.index("usual latency(ms)") < table.index("calm latency(ms)")
    )


def test_sensitivity_as_a_table(fine: Path, dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(fine, "--sensitivity", "--store", dsn) == 0
    shown = capsys.readouterr().out
    assert "sensitive enough" in shown
    assert "resnet latency(ms) (inference bf16 eager cuda)" in shown


def test_calibration_counts_the_alarms_of_the_past(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("--calibrate", "--against", history, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["replayed"]["runs"] == 21
    assert shown["shuffled"]["proven"] <= 2
    assert check("--calibrate", "--against", history) == 0
    assert "a month of 30 nights" in capsys.readouterr().out
