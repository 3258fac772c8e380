"""FLOPs are those computed by hand, and the same on every device."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from torchperf_ci.bench.worker import flops
from torchperf_ci.bench.worker.flops import count_flops
from torchperf_ci.bench.worker.torch_environment import UnsupportedError
from torchperf_ci.suite.registry import catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_ci.suite import Task, Workload

# torch has no kernel for these on the device that only knows shapes.
WITHOUT_META = {"operators/unique_65536"}
# What they compute has no formula.
UNKNOWN = {"operators/qr_16x128x64", "operators/svd_8x64x64", "operators/eigh_8x64x64"}

COUNTED = [
    entry
    for entry in catalogue().workloads.values()
    if not entry.requires and entry.name not in WITHOUT_META | UNKNOWN
]

# Batch, heads, queries, keys, width of queries and keys.
ATTENTION = 2 * 2 * 3 * 5 * 7 * (4 + 4)
# Sequences, steps, inputs, hidden; an LSTM has four gates.
LSTM = 2 * 3 * 6 * 4 * 5 * (7 + 5)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def attention_inputs(*, requires_grad: bool = False) -> list[torch.Tensor]:
    shapes = ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4))
    return [torch.randn(shape, requires_grad=requires_grad) for shape in shapes]


def forward_backward(function, *inputs: torch.Tensor) -> None:
    function(*inputs).sum().backward()


def test_linear_counts_two_for_each_multiply_add():
    layer, x = nn.Linear(4, 5), torch.randn(3, 4)
    assert count_flops(lambda: layer(x)) == 2 * 3 * 4 * 5


def test_linear_training_counts_both_gradients():
    layer, x = nn.Linear(4, 5), torch.randn(3, 4, requires_grad=True)
    assert count_flops(partial(forward_backward, layer, x)) == 3 * 2 * 3 * 4 * 5


@pytest.mark.parametrize(
    ("function", "shapes", "expected"),
    [
        (torch.mv, [(3, 4), (4,)], 2 * 3 * 4),
        (torch.addmv, [(3,), (3, 4), (4,)], 2 * 3 * 4),
        (torch.dot, [(4,), (4,)], 2 * 4),
        (torch.vdot, [(4,), (4,)], 2 * 4),
        (torch.addbmm, [(3, 5), (2, 3, 4), (2, 4, 5)], 2 * 2 * 3 * 4 * 5),
        (torch._addmm_activation, [(3, 5), (3, 4), (4, 5)], 2 * 3 * 4 * 5),
        (torch.linalg.inv, [(2, 6, 6)], 2 * 2 * 6**3),
        (torch.linalg.lu_factor, [(2, 6, 6)], 2 * 2 * 6**3 // 3),
        (torch.linalg.solve, [(6, 6), (6, 2)], 2 * 6**3 // 3 + 2 * 2 * 6**2),
        (partial(torch.linalg.solve_triangular, upper=True), [(6, 6), (6, 2)], 2 * 6**2),
        (torch.linalg.solve, [(3, 6, 6), (6, 2)], 3 * (2 * 6**3 // 3 + 2 * 2 * 6**2)),
        (partial(torch.linalg.solve_triangular, upper=True), [(3, 6, 6), (6, 2)], 3 * 2 * 6**2),
        (
            lambda x, y: torch.linalg.lu_solve(*torch.linalg.lu_factor(x), y),
            [(6, 6), (3, 6, 2)],
            144 + 3 * 144,
        ),
        (torch.cholesky_solve, [(3, 6, 2), (6, 6)], 3 * 2 * 2 * 6**2),
        (lambda x: torch.linalg.cholesky(x @ x.mT + torch.eye(6)), [(6, 6)], 2 * 6**3 + 6**3 // 3),
        (torch.linalg.lu, [(2, 6, 6)], 2 * 2 * 6**3 // 3),
        (torch.linalg.det, [(2, 6, 6)], 2 * 2 * 6**3 // 3),
        (torch.linalg.slogdet, [(2, 6, 6)], 2 * 2 * 6**3 // 3),
        (functional.bilinear, [(2, 3), (2, 4), (5, 3, 4)], 2 * 2 * 3 * 4 * 5),
        (torch.add, [(3, 4), (3, 4)], 0),
    ],
)
def test_an_operator_counts_what_the_textbook_says(function, shapes, expected):
    torch.manual_seed(0)
    inputs = [torch.randn(shape) for shape in shapes]
    assert count_flops(lambda: function(*inputs)) == expected


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
@pytest.mark.parametrize("sparse", [torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr])
@pytest.mark.parametrize(
    ("function", "columns"),
    [
        (lambda matrix: torch.sparse.mm(matrix, torch.ones(6, 5)), 5),
        (lambda matrix: torch.addmm(torch.ones(8, 5), matrix, torch.ones(6, 5)), 5),
        (lambda matrix: torch.ones(3, 8) @ matrix, 3),
        (lambda matrix: matrix @ torch.ones(6), 1),
    ],
)
def test_a_product_with_a_sparse_matrix_counts_the_values_that_it_has(sparse, function, columns):
    matrix = torch.zeros(8, 6)
    matrix[2, 1:5] = 1
    assert count_flops(lambda: function(sparse(matrix))) == 2 * 4 * columns


def test_a_product_of_eight_bits_counts_like_any_other():
    left, right = torch.ones(32, 16, dtype=torch.int8), torch.ones(16, 8, dtype=torch.int8)
    assert count_flops(lambda: torch._int_mm(left, right)) == 2 * 32 * 16 * 8


@pytest.mark.parametrize(
    "operator",
    [
        torch.svd_lowrank,
        lambda matrix: torch.sparse.mm(matrix.to_sparse(), matrix.mT.to_sparse()),
        lambda matrix: matrix.to_sparse() @ matrix.mT.to_sparse(),
        *(catalogue().workloads[name].build(1).model for name in sorted(UNKNOWN)),
    ],
)
def test_the_count_of_a_part_is_not_given_for_the_whole(operator):
    """Each also runs a product that has a formula."""
    with pytest.raises(UnsupportedError, match="no known FLOP count"):
        count_flops(lambda: operator(torch.ones(8, 8) @ torch.eye(8)))


@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION])
def test_attention_counts_alike_whatever_the_kernel(backend):
    inputs = attention_inputs()
    with sdpa_kernel(backend):
        assert count_flops(lambda: functional.scaled_dot_product_attention(*inputs)) == ATTENTION


@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION])
def test_attentions_gradient_counts_alike_whatever_the_kernel(backend):
    inputs = attention_inputs(requires_grad=True)
    step = partial(forward_backward, functional.scaled_dot_product_attention, *inputs)
    with sdpa_kernel(backend):
        assert count_flops(step) == 3 * ATTENTION


def test_grouped_queries_count_once_a_query_head():
    queries, keys = torch.randn(1, 8, 5, 4), torch.randn(1, 2, 7, 4)
    step = partial(functional.scaled_dot_product_attention, queries, keys, keys, enable_gqa=True)
    assert count_flops(step) == 2 * 8 * 5 * 7 * (4 + 4)


def test_an_encoder_layer_counts_its_products_in_inference():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).eval()
    x = torch.randn(2, 5, 8)
    products = 2 * 2 * 5 * (8 * 24 + 8 * 8 + 2 * 8 * 16)
    with torch.no_grad():
        assert count_flops(lambda: layer(x)) == products + 2 * 2 * 2 * 5 * 5 * (4 + 4)
    assert torch.backends.mha.get_fastpath_enabled()


def lstm(*, requires_grad: bool, **options: object) -> tuple[nn.LSTM, torch.Tensor]:
    return nn.LSTM(7, 5, batch_first=True, **options), torch.randn(3, 6, 7, requires_grad=requires_grad)


def test_an_lstm_counts_four_gates_a_step():
    layer, x = lstm(requires_grad=False)
    with torch.no_grad():
        assert count_flops(lambda: layer(x)) == LSTM


def test_an_lstms_gradient_leaves_out_the_initial_state():
    layer, x = lstm(requires_grad=True)
    step = partial(forward_backward, lambda x: layer(x)[0], x)
    assert count_flops(step) == 3 * LSTM - 2 * 3 * 4 * 5 * 5


@pytest.mark.parametrize("options", [{}, {"num_layers": 2}, {"bidirectional": True}], ids=str)
def test_an_lstm_counts_alike_fused_or_not(options, monkeypatch):
    layer, x = lstm(requires_grad=True, **options)
    step = partial(forward_backward, lambda x: layer(x)[0], x)
    fused = count_flops(step)
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    assert count_flops(step) == fused > 0


@pytest.mark.parametrize("hidden_weights", [[(20, 5)], [(20, 5), (3, 5)]], ids=["plain", "projected"])
def test_the_fused_recurrence_of_gpus_counts_like_the_plain_one(hidden_weights):
    steps, state = (3, 6, 7), (1, 3, 5)
    weights = [(20, 7), *hidden_weights, (20,), (20,)]
    forward = flops._recurrent(steps, weights, 4, None, state, state)
    backward = flops._cudnn_backward(steps, weights, 4, (295,), state, state, (3, 6, 5))
    products = 2 * 18 * (20 * 7 + sum(rows * columns for rows, columns in hidden_weights))
    assert forward == products
    assert backward == 2 * products - 2 * 3 * 20 * 5


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Conv2d(4, 6, 3, stride=2, padding=1, bias=False), (2, 4, 8, 8)),
        (nn.Conv2d(4, 8, 3, groups=4, bias=False), (2, 4, 8, 8)),
        (nn.Conv1d(4, 4, 5, groups=4, bias=False), (2, 4, 9)),
        (nn.ConvTranspose2d(4, 6, 4, stride=2, bias=False), (2, 4, 5, 5)),
        (nn.ConvTranspose2d(4, 6, 3, groups=2, bias=False), (2, 4, 5, 5)),
    ],
    ids=["strided", "grouped", "depthwise", "transposed", "grouped transposed"],
)
def test_a_convolutions_two_gradients_count_as_its_forward_each(layer, shape):
    x = torch.randn(shape, requires_grad=True)
    pixels = x[0, 0].numel() if layer.transposed else layer(x)[0, 0].numel()
    forward = 2 * shape[0] * pixels * layer.weight.numel()
    assert count_flops(lambda: layer(x)) == forward
    assert count_flops(partial(forward_backward, layer, x)) == 3 * forward
    assert count_flops(partial(forward_backward, layer, x.detach())) == 2 * forward


@pytest.mark.parametrize(
    ("left", "right", "offsets", "expected"),
    [
        ((16, 32), (2, 32, 48), [8, 16], 2 * 16 * 32 * 48),
        ((2, 16, 32), (2, 32, 48), None, 2 * 2 * 16 * 32 * 48),
        ((16, 32), (32, 48), [16, 32], 2 * 16 * 32 * 48),
        ((2, 16, 32), (32, 48), [16, 48], 2 * 16 * 32 * 48),
    ],
)
def test_a_grouped_product_shares_out_what_is_two_dimensional(left, right, offsets, expected):
    inputs = [torch.randn(shape, dtype=torch.bfloat16) for shape in (left, right)]
    ends = None if offsets is None else torch.tensor(offsets, dtype=torch.int32)
    assert count_flops(lambda: torch._grouped_mm(*inputs, offs=ends)) == expected


def test_operators_that_an_older_torch_lacks_are_left_out(monkeypatch):
    monkeypatch.setitem(flops._FORMULAS, "operator_of_another_torch", flops._product)
    left, right = torch.randn(2, 4)
    assert count_flops(lambda: torch.dot(left, right)) == 8


@pytest.mark.parametrize(("mask", "products"), [((True, True, True), 2), ((False, True, True), 1)])
def test_metals_gradients_of_a_linear_layer_count_like_the_others(mask, products):
    inputs, gradient, weight = (torch.empty(shape, device="meta") for shape in ((2, 3, 4), (2, 3, 5), (5, 4)))
    counted = count_flops(lambda: torch.ops.aten.linear_backward(inputs, gradient, weight, mask))
    assert counted == products * 2 * 2 * 3 * 4 * 5


def test_metals_lstm_counts_like_the_others():
    """The formulas, by the operators' own schemas: nothing here computes on Metal."""
    steps, state, weights = (
        [4, 7, 8],
        [2, 4, 16],
        [[64, 8], [64, 16], [64], [64], [64, 16], [64, 16], [64], [64]],
    )
    operators = torch.ops.aten._lstm_mps, torch.ops.aten.lstm_mps_backward
    told = {"input": steps, "hx": [state, state], "params": weights}
    forward, backward = (
        flops._FORMULAS[operator.__name__](
            *(told.get(argument.name) for argument in operator.default._schema.arguments)
        )
        for operator in operators
    )
    assert forward == flops._recurrent(steps, weights)
    assert backward == flops._recurrent_backward(steps, weights, state)


def flops_on(device: str, entry: Workload, *modes: str) -> dict[str, tuple[int, int]]:
    """Those of the forward pass, and of the backward pass, which only ``training`` has, by mode."""
    torch.manual_seed(0)
    with torch.device(device):
        task: Task = entry.build(2)
    return {mode: flops_in(mode, task) for mode in modes}


def flops_in(mode: str, task: Task) -> tuple[int, int]:
    model = task.model.train(mode == "training") if isinstance(task.model, nn.Module) else task.model
    outputs: list[Any] = []
    with torch.set_grad_enabled(mode == "training"):
        forward = count_flops(lambda: outputs.append(model(*task.inputs)))
        backward = count_flops(lambda: task.loss(*outputs).backward()) if mode == "training" else 0
    return forward, backward


SIZED_BY_VALUES = {
    "operators/nonzero_1024x1024",
    "operators/repeat_interleave_65536x64",
    "operators/bincount_1048576_4096",
    "operators/unique_consecutive_1048576",
}
"""What they give is as large as the values say, which a tensor without values cannot; they compute nothing."""


@pytest.mark.parametrize("entry", COUNTED, ids=lambda entry: entry.name)
def test_a_workload_counts_alike_on_every_device(entry):
    """Elsewhere training's forward pass stands for inference: each operator there takes a multiple of the time."""
    here, mode = flops_on("cpu", entry, *entry.modes), max(entry.modes)
    there = (0, 0) if entry.name in SIZED_BY_VALUES else flops_on("meta", entry, mode)[mode]
    assert here == {mode: there if mode == "training" else (there[0], 0) for mode in entry.modes}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # 1.8 and 0.3 billion multiply-adds an image: He et al., Table 1; Sandler et al., Table 4.
        ("vision/resnet18", 2 * 1.81e9),
        ("vision/mobilenet_v2", 2 * 0.3e9),
    ],
)
def test_a_model_counts_what_its_paper_says(name, expected):
    forward, _ = flops_on("cpu", catalogue().workloads[name], "inference")["inference"]
    assert forward / 2 == pytest.approx(expected, rel=0.01)
