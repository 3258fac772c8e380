"""A workload's own whole step: placed, compiled in place, marked, counted, and compared with the eager one."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch import nn

from torchperf_ci.bench.worker import profiling
from torchperf_ci.bench.worker.session import WorkerSession
from torchperf_ci.bench.worker.step import StepRequest, build_step, compilation_counts
from torchperf_ci.bench.worker.torch_environment import UnsupportedError
from torchperf_ci.machine.devices import device as device_of
from torchperf_ci.suite import Task, Workload, workload

CPU = device_of("cpu")
pytestmark = pytest.mark.filterwarnings("default")  # a compiler's are its own


def two_models(wrong: float = 0.0) -> Workload:
    """``wrong`` is added to the output where it is compiled: what a compiler may get wrong."""

    class First(nn.Linear):
        def forward(self, x):
            return super().forward(x) + (wrong if torch.compiler.is_compiling() else 0.0)

    @workload("test/two", "two models", batch=4)
    def build(batch):
        first, second = First(8, 8), nn.Linear(8, 1)
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in (first, second)]

        def step(mark, x):
            loss = second(first(x)).float().square().mean()
            mark("forward")
            if loss.requires_grad:
                loss.backward()
                for optimizer in optimizers:
                    optimizer.step()
                    optimizer.zero_grad()
            mark("rest")
            return loss

        return Task(nn.ModuleList([first, second]), (torch.randn(batch, 8),), step=step)

    return build


def request(mode: str = "training", dtype: str = "fp32", backend: str = "eager") -> StepRequest:
    return StepRequest(mode, dtype, backend, 4)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_its_models_are_cast_and_its_optimizers_move_them(dtype: str) -> None:
    step = build_step(two_models(), request(dtype=dtype), CPU)
    assert isinstance(step.model, nn.Module)
    before = [parameter.clone() for parameter in step.model.parameters()]
    phases: list[str] = []
    step.phases(phases.append)
    assert phases == ["forward", "rest"]
    after = list(step.model.parameters())
    assert {parameter.dtype for parameter in after} == {
        {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype]
    }
    assert all(not torch.equal(old, new) for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_an_input_keeps_its_gradient_when_it_is_cast(dtype: str) -> None:
    @workload("test/of_input", "an attack on the input")
    def of_input(batch):
        def step(_mark, x):
            x.grad = None
            (x * x).sum().backward()
            return x.grad.sign()

        return Task(nn.Identity(), (torch.ones(batch, 2, requires_grad=True),), step=step)

    assert torch.equal(build_step(of_input, request(dtype=dtype), CPU).run().float(), torch.ones(4, 2))


def test_what_casts_nothing_is_not_measured_in_another_dtype() -> None:
    """Such as a model of TorchBench that is not called ``model``: it computes in fp32, whatever its records say."""

    @workload("test/hidden", "test")
    def hidden(batch: int) -> Task:
        model = nn.Linear(8, 8)
        return Task(nn.Identity(), step=lambda _mark: model(torch.ones(batch, 8)))

    assert build_step(hidden, request(), CPU).run().dtype == torch.float32
    with pytest.raises(UnsupportedError, match="as bf16 only if Task's model or inputs"):
        build_step(hidden, request(dtype="bf16"), CPU)


def test_in_inference_it_has_no_gradients() -> None:
    step = build_step(two_models(), request("inference"), CPU)
    assert not step.run().requires_grad
    assert not step.model.training


def session(entry: Workload, backend: str, monkeypatch: pytest.MonkeyPatch) -> WorkerSession:
    monkeypatch.setattr("torchperf_ci.bench.worker.session._workload", lambda *_: entry)
    found = WorkerSession()
    found.build(
        workload="",
        files=[],
        device="cpu",
        threads=1,
        mode="training",
        dtype="fp32",
        backend=backend,
        batch_size=4,
    )
    found.first_step()
    return found


@pytest.mark.parametrize(("wrong", "agrees"), [(0.0, True), (0.5, False)])
def test_what_its_first_step_has_left_is_compared(
    wrong: float, agrees: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = compilation_counts().graphs
    compiled = session(two_models(wrong), "aot_eager", monkeypatch)
    assert compiled.compilation().graphs == before + 2
    for _ in range(3):
        compiled._step.run()
    found = compiled.agreement()
    assert (found.agrees, found.reference) == (agrees, "fp64")
    assert found.compared == "results and parameters"
    assert compiled.compilation().graphs == before + 2


def test_a_model_that_is_made_only_once_is_refused_before_it_is_cast(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Linear(2, 2)

    @workload("test/once", "a model made on import")
    def once(_batch):
        return Task(model, (torch.ones(1, 2),), step=lambda _mark, x: model(x))

    with pytest.raises(ValueError, match="the same model at each call: make the model in the function"):
        session(once, "aot_eager", monkeypatch).agreement()
    assert model.weight.dtype == torch.float32


def test_what_was_kept_to_compare_is_not_in_the_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = session(two_models(), "aot_eager", monkeypatch)
    kept = [weakref.ref(tensor) for tensor in compiled._after_first]
    assert kept
    monkeypatch.setattr(profiling, "peak", lambda *_, **__: [tensor() for tensor in kept])
    assert compiled.peak() == [None] * len(kept)


def test_it_is_counted_on_a_model_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled graph has no operators to count, and a step that is taken once more has moved the parameters."""
    compiled = session(two_models(), "aot_eager", monkeypatch)
    before = [parameter.clone() for parameter in compiled._step.model.parameters()]
    forward, gradients = 2 * 4 * (64 + 8), 2 * 4 * (64 + 8) + 2 * 4 * 8  # none of the input's
    assert compiled.flops() == forward + gradients
    assert all(map(torch.equal, before, compiled._step.model.parameters()))


def test_only_its_author_knows_where_autocast_belongs() -> None:
    with pytest.raises(UnsupportedError, match="cannot be measured as amp"):
        build_step(two_models(), request(dtype="amp"), CPU)


def test_a_function_has_no_modules_that_could_be_compiled() -> None:
    entry = workload("test/f", "")(lambda batch: Task(torch.neg, step=lambda mark: None))
    build_step(entry, request(), CPU)
    with pytest.raises(UnsupportedError, match="compiled module by module"):
        build_step(entry, request(backend="aot_eager"), CPU)


def test_mode_and_device_reach_a_build_that_asks_for_them() -> None:
    asked = []

    @workload("test/asks", "")
    def build(batch, *, device, mode):
        asked.append((batch, mode, device))
        return Task(nn.Linear(1, 1), (torch.ones(batch, 1),), lambda out: out.mean())

    for mode in ("inference", "training"):
        build_step(build, request(mode), CPU)
    assert asked == [(4, "inference", "cpu"), (4, "training", "cpu")]


def test_what_needs_a_missing_package_is_unsupported_with_the_command_that_installs_it() -> None:
    entry = workload("test/needs", "", requires=("torch", "no-such-package"))(lambda _: pytest.fail("built"))
    with pytest.raises(
        UnsupportedError, match=r"needs no-such-package: .*python.* -m pip install no-such-package$"
    ):
        build_step(entry, request(), CPU)
