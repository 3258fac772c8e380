"""Floating-point operations of one step, counted from the shapes of its matrix products and convolutions.

A multiply-add is 2 FLOPs. The count is of the operations that the model asks for, not of those that a kernel
executes: attention counts the same whether or not its kernel recomputes the scores or skips masked ones. So the
count is a constant of the workload, equal on every device. Elementwise operations, reductions and Fourier
transforms count 0, and complex products count like real ones, as in ``torch.utils.flop_counter``. This module adds
formulas for operators that torch counts as 0, and corrects products of sparse matrices and the gradients of grouped
convolutions and of attention. A step with an operator that does such work and has no formula has no count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from torchperf_ci.bench.worker.torch_environment import UnsupportedError, without_compiler

Shape = Sequence[int]
Formula = Callable[..., int]


def count_flops(step: Callable[[], object]) -> int:
    """Run ``step`` once, uncompiled, and return its FLOPs.

    Raises :class:`UnsupportedError` if an operator has no formula: the others' count would pass for that of the step.
    """
    counter: Any = FlopCounterMode(display=False, custom_mapping=_formulas())
    with _no_fused_encoder_layers(), counter, without_compiler(type(counter.mode)):
        step()
    return int(counter.get_total_flops())


@contextmanager
def _no_fused_encoder_layers() -> Iterator[None]:
    """Keep ``torch.nn`` from running a whole encoder layer as one operator, which would hide its matrix products."""
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(value=False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(value=enabled)


def _formulas() -> dict[Any, Formula]:
    """Return the formulas of those operators that this torch has."""
    formulas: dict[Any, Formula] = {}
    for name in (*_FORMULAS, *_WITHOUT_FORMULA):
        namespace, _, operator = name.rpartition("::")
        if known := getattr(getattr(torch.ops, namespace or "aten"), operator, None):
            formulas[known] = _FORMULAS.get(name) or partial(_refuse, name)
    return formulas


def _refuse(operator: str, *_: Any, **__: Any) -> int:
    raise UnsupportedError(f"{operator}, which it runs, has no known FLOP count")


def _product(*arguments: Any, **_: Any) -> int:
    """Product of the last two tensors, matrices or vectors. Zeros that a sparse one omits do not count.

    Each value of the left one is used for each column of the right one, and the other way round; ``addbmm`` also sums
    over its batch.
    """
    left, right = [tensor for tensor in arguments if isinstance(tensor, torch.Tensor)][-2:]
    if right.layout == torch.strided:
        return 2 * _stored(left) * (right.shape[-1] if right.dim() > 1 else 1)
    if left.layout == torch.strided:
        return 2 * _stored(right) * len(left)
    return _refuse("a product of two sparse matrices")


vars(_product).update(_get_raw=True)  # torch calls it with tensors in place of shapes


def _stored(matrix: torch.Tensor) -> int:
    if matrix.is_sparse:
        return matrix._nnz()  # noqa: SLF001
    return (matrix.values() if "sparse" in str(matrix.layout) else matrix).numel()


def _grouped_product(left: Shape, right: Shape, *_: Any, **__: Any) -> int:
    """Grouped products: groups divide the rows, columns or inner dimension, unless both sides are 3-D."""
    groups = left[0] if len(left) == len(right) == 3 else 1
    return 2 * groups * left[-2] * left[-1] * right[-1]


def _convolution_backward(gradient: Shape, input_: Shape, weight: Shape, *arguments: Any, **_: Any) -> int:
    """The gradient of the input and that of the weight each cost as much as the forward pass.

    Shapes are (batch, channels, …). ``arguments`` are bias sizes, stride, padding, dilation, transposed, output
    padding, groups and the mask of requested gradients. torch's own formula ignores the groups in the gradient
    of the weight.
    """
    transposed, mask = arguments[4], arguments[-1]
    forward = 2 * math.prod(weight) * input_[0] * math.prod((input_ if transposed else gradient)[2:])
    return int(forward * sum(mask[:2]))


def _linear_backward(_input: Shape, gradient: Shape, weight: Shape, mask: Sequence[bool], **_: Any) -> int:
    """Metal's gradients of a linear layer; ``mask`` says which of those of the input, weight and bias."""
    return 2 * math.prod(gradient) * weight[-1] * sum(mask[:2])


def _attention(query: Shape, key: Shape, value: Shape, *_: Any, **__: Any) -> int:
    """Two products: query times key, and scores times value. Shapes are (batch, heads, tokens, width)."""
    return 2 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def _attention_backward(_gradient: Shape, query: Shape, key: Shape, value: Shape, *_: Any, **__: Any) -> int:
    """Two products for each one of the forward pass. Scores that a kernel recomputes are not counted."""
    return 2 * _attention(query, key, value)


def _recurrent(steps: Shape, weights: Sequence[Shape], *_: Any, **__: Any) -> int:
    """Every weight matrix is applied once to every time step of every sequence. ``steps`` is (…, features)."""
    return 2 * math.prod(steps[:-1]) * sum(math.prod(weight) for weight in weights if len(weight) == 2)


def _recurrent_backward(steps: Shape, weights: Sequence[Shape], state: Shape) -> int:
    """Two products for each one of the forward pass, less the gradient of the initial state (cells, batch, width).

    Weights are ordered input, hidden, biases, …; ``cells`` is layers times directions.
    """
    matrices = [weight for weight in weights if len(weight) == 2]
    hidden = matrices[1 :: len(matrices) // state[0]]
    return 2 * _recurrent(steps, weights) - 2 * state[-2] * sum(math.prod(weight) for weight in hidden)


def _mkldnn_layer(steps: Shape, *arguments: Any, **_: Any) -> int:
    return _recurrent(steps, arguments[:4])


def _mkldnn_layer_backward(steps: Shape, *arguments: Any, **_: Any) -> int:
    return _recurrent_backward(steps, arguments[:4], (1, *arguments[4][-2:]))


def _cudnn_backward(steps: Shape, weights: Sequence[Shape], *arguments: Any, **_: Any) -> int:
    """Take the initial state from the arguments, which are the stride of the weights, their buffer and that state."""
    return _recurrent_backward(steps, weights, arguments[2])


def _mps_lstm(steps: Shape, _state: object, weights: Sequence[Shape], *_: Any, **__: Any) -> int:
    return _recurrent(steps, weights)


def _mps_lstm_backward(*arguments: Any, **_: Any) -> int:
    """The arguments are three gradients, two states, the steps, layer outputs, initial states and the weights."""
    steps, _outputs, states, weights = arguments[5:9]
    return _recurrent_backward(steps, weights, states[0])


def _cube(thirds: int, matrix: Shape, *_: Any, **__: Any) -> int:
    """So many thirds of n³ (LAPACK Working Note 41). All linear algebra formulas here count the leading term only."""
    return thirds * math.prod(matrix) * matrix[-1] // 3


def _solve(matrix: Shape, *_: Any, out_shape: Sequence[Shape], **__: Any) -> int:
    """An LU factorisation and two triangular solves."""
    return _cube(2, matrix) + _solve_factored(matrix, out_shape=out_shape[0])


def _solve_factored(matrix: Shape, *_: Any, out_shape: Shape, **__: Any) -> int:
    return 2 * _solve_triangular(matrix, out_shape=out_shape)


def _solve_triangular(matrix: Shape, *_: Any, out_shape: Shape, **__: Any) -> int:
    """The result has the shape of the right-hand sides, or a larger one if there are more matrices."""
    return matrix[-1] * math.prod(out_shape)


def _cholesky_solve(_right: Shape, factor: Shape, *_: Any, out_shape: Shape, **__: Any) -> int:
    return _solve_factored(factor, out_shape=out_shape)


def _bilinear(first: Shape, second: Shape, third: Shape, *expanded: Sequence[int], **_: Any) -> int:
    """The product of the first two, which has all dimensions. Each lacks the dimensions in which it is ``expanded``.

    The last of ``expanded`` are those that are summed over. The product with the third is left out as smaller.
    """
    sizes = dict[int, int]()
    for shape, lacks in zip((first, second, third), expanded, strict=False):
        sizes |= zip(sorted({*range(len(shape) + len(lacks))} - {*lacks}), shape, strict=True)
    return 2 * math.prod(sizes.values())


_ATTENTION_KERNELS = (
    *("flash_attention_for_cpu", "flash_attention", "efficient_attention"),
    *("cudnn_attention", "fused_attention_overrideable"),
)

# Formulas by the operator's name in ``torch.ops.aten``.
_FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(("dot", "vdot", "mm", "mv", "addmm", "addmv", "_sparse_addmm"), _product),
    **dict.fromkeys(("addbmm", "_addmm_activation", "_int_mm"), _product),
    "_grouped_mm": _grouped_product,
    "_trilinear": _bilinear,
    "convolution_backward": _convolution_backward,
    "linear_backward": _linear_backward,
    "_scaled_dot_product_attention_math_for_mps": _attention,
    **{f"_scaled_dot_product_{kernel}": _attention for kernel in _ATTENTION_KERNELS},
    **{f"_scaled_dot_product_{kernel}_backward": _attention_backward for kernel in _ATTENTION_KERNELS},
    "mkldnn_rnn_layer": _mkldnn_layer,
    "mkldnn_rnn_layer_backward": _mkldnn_layer_backward,
    "_cudnn_rnn": _recurrent,
    "_cudnn_rnn_backward": _cudnn_backward,
    "miopen_rnn": _recurrent,
    "miopen_rnn_backward": _cudnn_backward,
    "_lstm_mps": _mps_lstm,
    "lstm_mps_backward": _mps_lstm_backward,
    **dict.fromkeys(("linalg_lu_factor_ex", "linalg_lu"), partial(_cube, 2)),
    **dict.fromkeys(("_linalg_det", "_linalg_slogdet"), partial(_cube, 2)),
    "linalg_cholesky_ex": partial(_cube, 1),
    "linalg_inv_ex": partial(_cube, 6),
    "_linalg_solve_ex": _solve,
    "linalg_lu_solve": _solve_factored,
    "cholesky_solve": _cholesky_solve,
    "linalg_solve_triangular": _solve_triangular,
}
_WITHOUT_FORMULA = (
    *("linalg_qr", "geqrf", "linalg_householder_product", "ormqr", "linalg_lstsq", "linalg_pinv"),
    *("_linalg_eigh", "_linalg_svd", "linalg_eig", "linalg_eigvals", "linalg_matrix_exp", "cholesky_inverse"),
    *("linalg_ldl_factor_ex", "linalg_ldl_solve", "triangular_solve", "conv_tbc"),
    *("_sparse_mm_reduce_impl", "_sparse_sparse_matmul", "sparse_sampled_addmm", "sspaddmm"),
    *("mkldnn_linear", "_weight_int8pack_mm", "_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu"),
    *(f"quantized::linear{kind}" for kind in ("", "_relu", "_dynamic", "_relu_dynamic")),
    *(f"quantized::conv{dimensions}d{relu}" for dimensions in (1, 2, 3) for relu in ("", "_relu")),
)
