from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from torchperf_ci.bench import selection
from torchperf_ci.bench.case import Case, read_costs, write_costs
from torchperf_ci.bench.selection import Selection, select_cases
from torchperf_ci.bench.worker.protocol import DescribedWorkload, KnownWorkloads
from torchperf_ci.config import Config, Suite
from torchperf_ci.errors import JsonFileError
from torchperf_ci.options.measurement_commands import RunOptions

if TYPE_CHECKING:
    from pathlib import Path

COSTS = {"cuda": {"vision-a.inference.fp32.eager": 12.5}, "cpu": {}}


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    write_costs(tmp_path / "deep" / "costs.json", COSTS)
    assert read_costs(tmp_path / "deep" / "costs.json") == COSTS


def test_nothing_known_is_a_good_file(tmp_path: Path) -> None:
    write_costs(tmp_path / "costs.json", {})
    assert read_costs(tmp_path / "costs.json") == {}


def test_the_key_is_the_name_of_the_records_file_without_the_batch_size() -> None:
    case = Case("vision/a b", "inference", "bf16", "inductor:max-autotune", 64)
    assert case.cost_key == "vision-a-b.inference.bf16.inductor-max-autotune"
    assert case.key == f"{case.cost_key}.b64"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not valid JSON"),
        ("[1", "is not valid JSON"),
        ("[]", "is not an object"),
        ('{"version": 1}', "'costs' is a required property"),
        ('{"version": 2, "costs": {}}', "version 2 is newer than this torchperf"),
        ('{"version": 1, "costs": {"cpu": {"a": -1}}}', "$.costs.cpu.a: -1 is less than the minimum of 0"),
        ('{"version": 1, "costs": {"cpu": {"a": "1"}}}', "'1' is not of type 'number'"),
    ],
)
def test_a_file_that_is_none_is_refused(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text(content)
    with pytest.raises(JsonFileError) as error:
        read_costs(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JsonFileError, match="cannot be read: No such file"):
        read_costs(tmp_path / "costs.json")


def test_a_run_with_a_file_that_is_not_there_does_not_begin(tmp_path: Path) -> None:
    given = RunOptions()
    assert selection.selection_of(given, Config(), (), (), shard=(1, 2)).costs == {}
    with pytest.raises(JsonFileError, match="cannot be read"):
        selection.selection_of(given, Config(), (), (), (1, 2), str(tmp_path / "costs.json"))


def test_shards_are_split_by_the_costs_of_their_own_device() -> None:
    entries = {
        name: DescribedWorkload(name, "", ["inference"], {"inference": 1}, "torch")
        for name in ("a", "b", "c")
    }
    known = KnownWorkloads(entries, {})
    heavy = {
        "cuda": {
            Case("c", "inference", "fp32", "eager", 0).cost_key: 100.0,
            Case("a", "inference", "fp32", "eager", 0).cost_key: 1.0,
        }
    }
    selected = Selection([Suite(("*",))], shard=(1, 2), costs=heavy)
    assert [case.workload for case in select_cases(selected, known, "cuda")] == ["c"]
    assert [case.workload for case in select_cases(selected, known, "cpu")] == ["a", "c"]
