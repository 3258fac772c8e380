from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchperf_ci.bench.case import Settings
from torchperf_ci.bench.selection import (
    Selection,
    describe_environment,
    select_cases,
    selected_workloads,
    settings_of_options,
)
from torchperf_ci.bench.worker.protocol import DescribedWorkload, KnownWorkloads
from torchperf_ci.config import Config, Suite
from torchperf_ci.errors import EnvironmentUnderTestError, UsageError
from torchperf_ci.options.measurement_commands import RunOptions

if TYPE_CHECKING:
    from pathlib import Path


def entry(name: str, *modes: str) -> DescribedWorkload:
    sizes = {"inference": 8, "training": 4, "inference/accelerator": 64}
    return DescribedWorkload(name, "t", modes, sizes, "torch")


KNOWN = KnownWorkloads(
    {
        e.name: e
        for e in (
            entry("vision/a", "inference", "training"),
            entry("vision/b", "inference"),
            entry("language/c", "inference", "training"),
        )
    },
    {"quick": ["language/c", "vision/a"], "/x/mine.py": ["vision/b"]},
)


def keys(selection: Selection, device: str = "cpu") -> list[str]:
    return [case.key for case in select_cases(selection, KNOWN, device)]


def grid(*workloads: str, modes: tuple[str, ...] = ("inference",), **more: tuple[str, ...]) -> Suite:
    return Suite(workloads, modes, **more)


def test_a_suite_is_taken_in_the_catalogues_order() -> None:
    assert keys(Selection([grid("quick")])) == [
        "vision-a.inference.fp32.eager.b8",
        "language-c.inference.fp32.eager.b8",
    ]


def test_the_grid_is_the_product_less_the_modes_that_a_workload_has_not() -> None:
    found = keys(Selection([grid("vision/*", modes=("inference", "training"), dtypes=("fp32", "bf16"))]))
    assert len(found) == 6
    assert not any("vision-b.training" in key for key in found)


def test_the_more_specific_batch_size_wins() -> None:
    assert keys(Selection([grid("vision/b")]), "cuda") == ["vision-b.inference.fp32.eager.b64"]
    assert keys(Selection([grid("vision/b")]), "mps") == ["vision-b.inference.fp32.eager.b8"]
    assert keys(Selection([grid("vision/b")], batch_size=3), "cuda") == ["vision-b.inference.fp32.eager.b3"]
    assert keys(Selection([grid("vision/b")], batch_size=0)) == ["vision-b.inference.fp32.eager.bauto"]


def test_overlapping_suites_measure_a_case_once() -> None:
    assert len(keys(Selection([grid("quick"), grid("vision/a"), grid("/x/mine.py")]))) == 3


def test_compile_modes_make_file_names() -> None:
    assert keys(Selection([grid("vision/b", backends=("inductor:max-autotune",))])) == [
        "vision-b.inference.fp32.inductor-max-autotune.b8"
    ]


def test_an_unknown_name_offers_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown suite or workload 'quik': did you mean quick\?"):
        keys(Selection([grid("quik")]))
    with pytest.raises(UsageError, match=r"'mian': did you mean main\?"):
        keys(Selection([grid("mian")], configured={"main": grid("/x/mine.py")}))


def test_a_workload_of_a_file_that_was_not_read_is_told_how_to_choose() -> None:
    configured = {"main": grid("/x/mine.py"), "more": grid("my/*.py", "more/suite.py")}
    advice = r"give --filter more/net in place of --suite"
    with pytest.raises(
        UsageError, match=rf"'more/net': .*; to choose a workload of my/\*.py, more/suite.py, {advice}"
    ):
        keys(Selection([grid("more/net")], configured=configured))


def test_a_folder_is_no_suite(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder: give the paths of the Python files in it"):
        keys(Selection([grid(str(tmp_path))]))


def test_what_takes_too_long_to_import_is_named(
    tmp_path: Path, torch_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchperf_ci.bench.selection.DESCRIBE_TIMEOUT", 0.0)
    (mine := tmp_path / "mine.py").touch()
    with pytest.raises(EnvironmentUnderTestError, match=f"importing torch and {mine} took longer than 0 s"):
        describe_environment(Settings(torch_python, "cpu", (str(mine),)))


def test_nothing_selected_is_an_error() -> None:
    with pytest.raises(UsageError, match="only the suite quick was searched, --suite all has more"):
        keys(Selection([grid("quick")], filters=["audio/*"]))
    with pytest.raises(
        UsageError, match=r"nothing to run: .* has only the mode inference: give --mode inference"
    ):
        keys(Selection([grid("vision/b", modes=("training",))]))
    with pytest.raises(UsageError, match=r"passes --filter b; it takes whole names such as 'vision/\*'"):
        keys(Selection([grid("vision/b")], filters=["b"]))
    with pytest.raises(UsageError, match=r"no selected workload passes --filter audio/\*,b"):
        selected_workloads(["quick"], ["audio/*", "b"], Config(), KNOWN)


def test_a_filter_that_passes_nothing_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert keys(Selection([grid("vision/b")], filters=["vision/*", "visoin/*"]))
    assert capsys.readouterr().err == (
        "⚠ no selected workload of these modes matches 'visoin/*'; see `torchperf list`\n"
    )


def test_a_suite_without_a_case_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert keys(Selection([grid("vision/b", "quick"), grid("vision/b", modes=("training",))]))
    assert capsys.readouterr().err == (
        "⚠ no workload of vision/b has the mode training: nothing of this suite is run\n"
    )


def test_more_threads_than_cpus_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Such as those that a container's CPU set or quota leaves."""
    assert settings_of_options(RunOptions(threads=1), Config()).threads == 1
    assert capsys.readouterr().err == ""
    assert settings_of_options(RunOptions(threads=9999), Config()).threads == 9999
    told = r"⚠ --threads 9999: CPUs that may be used here: [\d.]+, so threads will wait\n"
    assert re.fullmatch(told, capsys.readouterr().err)


@given(st.integers(1, 9))
def test_shards_are_disjoint_and_complete(of: int) -> None:
    whole = Selection([grid("*", modes=("inference", "training"), dtypes=("fp32", "bf16"))])
    parts = [keys(Selection(whole.suites, shard=(number, of))) for number in range(1, of + 1)]
    assert sorted(key for part in parts for key in part) == sorted(keys(whole))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
