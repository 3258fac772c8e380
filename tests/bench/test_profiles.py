"""Profiles of real code, and of known changes to it."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import planted_changes
import pytest
from slowed_repository import MODEL, SOURCES

from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.bench.profiles import (
    Cost,
    Profile,
    ProfileKey,
    compare_profiles,
    profile_of,
    stable_name,
    take_profile,
)
from torchperf_ci.bench.worker.protocol import ProfiledSteps, ProfileLine
from torchperf_ci.bench.worker_client import WorkerFailure

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCKS = Case("smallnet/blocks", "inference", "fp32", "eager", 8)
CHANGES = (planted_changes.sync(), planted_changes.copy(), planted_changes.lost_fusion())
COMPILED = """
import torch
from torchperf_ci.suite import Task, workload

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8, 8))

    def forward(self, x):  # products alone, for which the compiler needs no other compiler
        x = x @ self.weight
        if {broken}:
            torch._dynamo.graph_break()
        return x @ self.weight

@workload("inside/net", "two products")
def net(batch_size):
    return Task(Net(), (torch.randn(batch_size, 8),), lambda out: out.sum())
"""


@pytest.fixture(scope="module")
def profiled(torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[Profile]]:
    """Takes profiles of smallnet with some changes in it."""
    scratch = tmp_path_factory.mktemp("scratch")

    def profiled(name: str, *changes: planted_changes.Edit, times: int = 2) -> list[Profile]:
        root = tmp_path_factory.mktemp("code") / name
        shutil.copytree(SOURCES, root)
        for change in changes:
            (root / MODEL).write_text(change.applied_to((root / MODEL).read_text()))
        suite = str(SOURCES / "benchmarks/suite.py")
        settings = Settings(torch_python, "cpu", (suite,), (str(root),), budget=0.1, timeout=120)
        return [
            take_profile(BLOCKS, settings, scratch / name, scratch / f"{name}.json.gz") for _ in range(times)
        ]

    profiled.scratch = scratch
    return profiled


@pytest.fixture(scope="module")
def before(profiled) -> list[Profile]:
    return profiled("before")


@pytest.fixture(scope="module")
def after(profiled) -> list[Profile]:
    """With a wait for each block, a copy, and a product torn from its sum."""
    return 2 * profiled("after", *CHANGES, times=1)


def test_planted_changes_are_named_with_how_often_they_are_called(before, after) -> None:
    found = {row.key.name: row for row in compare_profiles(before, after).moved}

    def counts(name: str) -> tuple[float, float]:
        row = found[name]
        return (row.old.count if row.old else 0, row.new.count if row.new else 0)

    assert counts("aten::item") == counts("aten::_local_scalar_dense") == (0, 12)
    assert counts("aten::isnan") == (0, 12)
    assert counts("aten::addmm") == (12, 0)
    assert counts("aten::mm") == (0, 12)
    gone, copies = counts("aten::clone")
    assert (gone, copies >= 24) == (0, True), "one for the copy, one for the torn product"
    assert found["aten::addmm"].in_time
    assert found["aten::addmm"].change_ms < 0 < found["aten::mm"].change_ms
    assert not {"aten::erf", "aten::native_layer_norm", "aten::cumsum"} & {
        name for name, row in found.items() if row.in_count
    }


def test_profiles_of_the_same_code_name_nothing(before, profiled) -> None:
    """By what is called; how seldom chance moves a time is seen where noise can be made: test_profile_changes.py."""
    changes = compare_profiles(before, 2 * profiled("again", times=1))
    assert [row.key for row in changes.rows if row.in_count] == []
    assert changes.graph_breaks == ()


def test_a_trace_can_be_opened_and_shows_steps(before, profiled) -> None:
    with gzip.open(profiled.scratch / "before.json.gz") as file:
        names = [event["name"] for event in json.load(file)["traceEvents"]]
    assert sum(name.startswith("ProfilerStep#") for name in names) >= 10
    assert names.count("aten::addmm") == 120


@pytest.fixture(scope="module")
def of_net(torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Profile]:
    """Profiles a compiled step, with a graph break in it or without."""

    def of_net(*, broken: bool, **case: str) -> Profile:
        scratch = tmp_path_factory.mktemp("compiled")
        (scratch / "suite.py").write_text(COMPILED.format(broken=broken))
        settings = Settings(torch_python, "cpu", (str(scratch / "suite.py"),), budget=0.1, timeout=240)
        return take_profile(
            replace(Case("inside/net", "inference", "fp32", "inductor", 4), **case), settings, scratch
        )

    return of_net


def test_a_new_graph_break_is_told_with_its_reason(of_net) -> None:
    old, new = of_net(broken=False), of_net(broken=True)
    changes = compare_profiles([old, old], [new, new])
    [reason] = changes.graph_breaks
    assert "graph_break" in reason
    assert "\n" not in reason
    regions = [row for row in changes.rows if "Torch-Compiled Region" in row.key.name]
    assert sum(row.new.count for row in regions) > sum(row.old.count for row in regions if row.old)


def test_a_training_step_has_phases(of_net) -> None:
    phases = {
        key.name
        for key in of_net(broken=False, mode="training", backend="eager").costs
        if key.kind == "phase"
    }
    assert phases == {"forward", "backward", "optimizer"}


def test_a_workload_that_is_not_there_is_told(of_net) -> None:
    with pytest.raises(WorkerFailure, match="there is no workload nobody/knows"):
        of_net(broken=False, workload="nobody/knows")


@pytest.mark.parametrize(
    ("name", "settled"),
    [
        ("aten::mm", "aten::mm"),
        ("triton_poi_fused_add_relu_0", "triton_poi_fused_add_relu"),
        ("triton_poi_fused_add_relu_17", "triton_poi_fused_add_relu"),
        ("triton_red_fused_native_layer_norm_2_0d1d2de3de", "triton_red_fused_native_layer_norm"),
        ("triton_tem_fused_mm_12", "triton_tem_fused_mm"),
        ("graph_0_cpp_fused_add_1", "cpp_fused_add"),
        ("cpp_fused__to_copy_add_3", "cpp_fused__to_copy_add"),
        ("Torch-Compiled Region: 0/0", "Torch-Compiled Region"),
        ("Torch-Compiled Region: 3/1", "Torch-Compiled Region"),
        (
            "## Call CompiledFxGraph fjnmgazi4rlmmscs35wejz4jcezdbh3yemwamoynpm66djtkzqoi ##",
            "## Call CompiledFxGraph … ##",
        ),
        ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)",
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >(int)",
        ),
        (
            "_ZN2at6native18elementwise_kernelILi128ELi2EEEvi",
            "_ZN2at6native18elementwise_kernelILi128ELi2EEEvi",
        ),
        ("k" * 600, "k" * 500),
    ],
)
def test_names_are_the_same_where_the_code_is(name: str, settled: str) -> None:
    assert stable_name(name) == settled


def test_kernels_that_differ_in_their_numbers_alone_are_one_row() -> None:
    names = {"triton_poi_fused_add_0": (0.5, 1), "triton_poi_fused_add_3": (0.25, 2)}
    lines = [ProfileLine("kernel", name, *cost) for name, cost in names.items()]
    found = profile_of(ProfiledSteps(lines, {}), {"forward": 0.5})
    assert found.costs == {ProfileKey("kernel", "triton_poi_fused_add"): Cost(0.75, 3)}


def test_reasons_are_short_and_the_same_in_every_process() -> None:
    long = (
        "Attempted to call function marked as skipped\n"
        "  Explanation: Dynamo does not know how to trace `print` at 0x7f00deadbeef.\n"
        "  Hint: Avoid calling the function.\n"
    )
    breaks = {long: 1, long.replace("deadbeef", "00000000"): 2, "inline in skipfiles: f": 1}
    found = profile_of(ProfiledSteps([], breaks), {}).graph_breaks
    assert found == {
        "Attempted to call function marked as skipped: Dynamo does not know how to trace `print` at 0x….": 3,
        "inline in skipfiles: f": 1,
    }
