"""A compiled workload end to end, with torch's real compiler.

All but one are matrix products, forward and backward: whatever is elementwise becomes C++, which takes g++ some ten
seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.bench.process import ProcessOutcome, measure
from torchperf_ci.bench.results import CaseResult, RunSetting, metrics_of

if TYPE_CHECKING:
    from pathlib import Path

SUITE = """
import torch
from torchperf_ci.suite import Task, workload

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = (torch.nn.Linear(16, 16, bias=False) for _ in range(2))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        y = self.first(x)
        torch._dynamo.graph_break()
        return self.second(y)

@workload("compiled/breaks", "one graph break", batch=4)
def breaks(batch_size):
    return Task(Net(), (torch.randn(batch_size, 16),), lambda out: out.mean())

@workload("compiled/skipped", "left to eager", batch=4, modes=("inference",))
def skipped(batch_size):
    sin = torch.compiler.disable(torch.sin)
    return Task(lambda x: sin(x), (torch.randn(batch_size, 16),))

@workload("compiled/elementwise", "becomes C++", batch=4, modes=("inference",))
def elementwise(batch_size):
    return Task(torch.nn.GELU(), (torch.randn(batch_size, 16),))

class Wrong(torch.nn.Module):
    def forward(self, x):
        return x @ x.T if torch.compiler.is_compiling() else x @ (x.T + 1)

@workload("compiled/wrong", "computes something else when compiled", batch=4, modes=("inference",))
def wrong(batch_size):
    return Task(Wrong(), (torch.randn(batch_size, 16),))
"""


@pytest.fixture
def settings(torch_python: str, tmp_path: Path) -> Settings:
    suite = tmp_path / "suite.py"
    suite.write_text(SUITE)
    return Settings(torch_python, "cpu", (str(suite),), processes=2, target_ci=0.5, budget=0.1, timeout=240)


def outcome(case: Case, settings: Settings, scratch: Path, *, first: bool) -> ProcessOutcome:
    return measure(case, settings, scratch, first=first)


def test_the_first_process_compiles_cold_and_the_second_warm(settings: Settings, tmp_path: Path) -> None:
    case = Case("compiled/breaks", "training", "fp32", "inductor", 4)
    outcomes = [outcome(case, settings, tmp_path, first=number == 0) for number in range(2)]
    setting = RunSetting("nightly", settings, {}, {}, "")
    assert [(o.status, o.reason) for o in outcomes] == [("pass", "")] * 2
    found = {metric.name: metric.values for metric in metrics_of(CaseResult(case, outcomes), setting)}
    assert len(found["compile_time(s)"]) == len(found["warm_compile_time(s)"]) == 1
    assert found["accuracy"] == [1.0]
    assert min(found["graph_breaks"]) >= 1.0
    assert min(found["recompiles"]) >= 1.0
    cold, warm = (o.answers.compilation for o in outcomes)
    assert warm.cache_misses == 0
    assert cold.cache_misses > 0
    assert any("calls" in reason for reason in cold.recompile_reasons)


def test_a_cold_process_precompiles_the_headers_and_leaves_them_to_nobody(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setenv("TORCHINDUCTOR_VEC_ISA_OK", "0")  # to know which vectors this CPU has takes ten builds
    case = Case("compiled/elementwise", "inference", "fp32", "inductor", 4)
    assert outcome(case, settings, tmp_path / "scratch", first=True).status == "pass"
    assert [*tmp_path.glob("scratch/*/cache/precompiled_headers/*.gch")]
    assert [*temporary.iterdir()] == []


def test_a_step_that_the_compiler_leaves_alone_is_not_measured_as_compiled(
    settings: Settings, tmp_path: Path
) -> None:
    case = Case("compiled/skipped", "inference", "fp32", "inductor", 4)
    found = outcome(case, settings, tmp_path, first=True)
    assert (found.status, found.answers.sample) == ("unsupported", None)
    assert "no graph to compile" in found.reason


def test_a_wrong_result_is_inaccurate_and_not_fast(settings: Settings, tmp_path: Path) -> None:
    case = Case("compiled/wrong", "inference", "fp32", "inductor", 4)
    found = outcome(case, settings, tmp_path, first=True)
    assert found.status == "inaccurate"
    assert "outputs of the compiled step" in found.reason
    assert found.answers.sample is None
