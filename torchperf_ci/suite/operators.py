"""Micro-benchmarks of single operators: a table of names, functions, and inputs for ``n`` samples.

The sizes in a name are those of one sample; a batch stacks samples along the first dimension. Functions have no side
effects, so values neither drift nor become denormal over thousands of steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import (
    Tensor,
    _foreach_add,
    _foreach_addcdiv,
    _foreach_addcmul,
    _foreach_lerp,
    _foreach_mul,
    _foreach_sqrt,
    rand,
    randint,
    randn,
)
from torch.nn import functional

from torchperf_ci.suite.workload import Task, Workload, per_device

Row = tuple[str, Callable[..., Any], Callable[[int], tuple[Any, ...]]]
"""A row of a table: the name, the function, and its inputs for a number of samples."""


def operator_workloads(*tables: tuple[Row, ...]) -> tuple[Workload, ...]:
    """Return the workloads for the rows of the tables."""
    return tuple(_workload(*row) for table in tables for row in table)


def _workload(name: str, function: Callable[..., Any], inputs: Callable[[int], tuple[Any, ...]]) -> Workload:
    def build(batch: int) -> Task:
        return Task(function, inputs(batch))

    return Workload(f"operators/{name}", "operator", build, per_device(1, 32), ("inference",))


def with_backward(function: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, ...]]:
    """Return a function that runs ``function`` and returns its gradients with respect to all floating-point inputs."""

    def forward_backward(*inputs: Tensor) -> tuple[Tensor, ...]:
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_(x.is_floating_point()) for x in inputs]
            output = function(*leaves)
            wanted = [leaf for leaf in leaves if leaf.requires_grad]
            return torch.autograd.grad(output, wanted, torch.ones_like(output))

    return forward_backward


def _hundred_adds(x: Tensor) -> Tensor:
    for _ in range(100):
        x = x + 1
    return x


def _foreach_sgd(
    parameters: list[Tensor], gradients: list[Tensor], momenta: list[Tensor]
) -> list[list[Tensor]]:
    """One SGD step with momentum 0.9, as in ``torch.optim`` over lists of tensors, but out of place."""
    momenta = list(_foreach_add(_foreach_mul(momenta, 0.9), gradients))
    return [list(_foreach_add(parameters, momenta, alpha=-1e-3)), momenta]


def _foreach_adamw(
    parameters: list[Tensor], gradients: list[Tensor], means: list[Tensor], squares: list[Tensor]
) -> list[list[Tensor]]:
    """The first step of AdamW, as in ``torch.optim`` over lists of tensors, but out of place."""
    parameters = list(_foreach_mul(parameters, 1 - 1e-5))
    means = list(_foreach_lerp(means, gradients, 0.1))
    squares = list(_foreach_addcmul(_foreach_mul(squares, 0.999), gradients, gradients, value=1e-3))
    scales = _foreach_add(_foreach_mul(_foreach_sqrt(squares), 1e-3**-0.5), 1e-6)
    return [list(_foreach_addcdiv(parameters, means, scales, value=-1e-3 / 0.1)), means, squares]


def _tensors(n: int, lists: int) -> tuple[list[Tensor], ...]:
    """Return lists of 64 n small matrices with positive elements."""
    return tuple([rand(64, 64) for _ in range(64 * n)] for _ in range(lists))


def _heads(n: int, heads: int, tokens: int) -> tuple[Tensor, ...]:
    return tuple(randn(3, n, heads, tokens, 64))


def _causal_attention(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)


def _scatter_add(target: Tensor, index: Tensor, source: Tensor) -> Tensor:
    return target.scatter_add(0, index.unsqueeze(1).expand_as(source), source)


def _group_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.group_norm(x, 32, weight, bias)


def _batch_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.batch_norm(x, None, None, weight, bias, training=True)


def _layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:], weight, bias)


_CONTRACTIONS: tuple[Row, ...] = (
    ("matmul_512x512x512", torch.matmul, lambda n: (randn(n, 512, 512), randn(512, 512))),
    ("matmul_8192x64x64", torch.matmul, lambda n: (randn(n, 8192, 64), randn(64, 64))),
    ("bmm_64x64x64x64", torch.bmm, lambda n: (randn(64 * n, 64, 64), randn(64 * n, 64, 64))),
    ("linear_128x768x3072", functional.linear, lambda n: (randn(n, 128, 768), randn(3072, 768), randn(3072))),
    ("linear_1x2048x2048", functional.linear, lambda n: (randn(n, 2048), randn(2048, 2048), randn(2048))),
    (
        "einsum_bhqd_bhkd_8x128x64",
        lambda a, b: torch.einsum("bhqd,bhkd->bhqk", a, b),
        lambda n: (randn(n, 8, 128, 64), randn(n, 8, 128, 64)),
    ),
    (
        "conv2d_3x3_64x56x56",
        lambda x, w: functional.conv2d(x, w, padding=1),
        lambda n: (randn(n, 64, 56, 56), randn(64, 64, 3, 3)),
    ),
    ("conv2d_1x1_256x28x28", functional.conv2d, lambda n: (randn(n, 256, 28, 28), randn(256, 256, 1, 1))),
    (
        "conv2d_depthwise_3x3_128x56x56",
        lambda x, w: functional.conv2d(x, w, padding=1, groups=128),
        lambda n: (randn(n, 128, 56, 56), randn(128, 1, 3, 3)),
    ),
    (
        "conv_transpose2d_4x4_128x16x16",
        lambda x, w: functional.conv_transpose2d(x, w, stride=2, padding=1),
        lambda n: (randn(n, 128, 16, 16), randn(128, 64, 4, 4)),
    ),
    (
        "conv1d_5_128x1024",
        lambda x, w: functional.conv1d(x, w, padding=2),
        lambda n: (randn(n, 128, 1024), randn(128, 128, 5)),
    ),
    ("sdpa_8x128x64", functional.scaled_dot_product_attention, lambda n: _heads(n, 8, 128)),
    ("sdpa_causal_8x128x64", _causal_attention, lambda n: _heads(n, 8, 128)),
    ("sdpa_long_1x2048x64", functional.scaled_dot_product_attention, lambda n: _heads(n, 1, 2048)),
)

_NORMALISATIONS: tuple[Row, ...] = (
    ("layer_norm_512x768", _layer_norm, lambda n: (randn(n, 512, 768), randn(768), randn(768))),
    (
        "rms_norm_512x768",
        lambda x, w: functional.rms_norm(x, (768,), w),
        lambda n: (randn(n, 512, 768), randn(768)),
    ),
    ("batch_norm_64x56x56", _batch_norm, lambda n: (randn(n, 64, 56, 56), randn(64), randn(64))),
    ("group_norm_64x56x56", _group_norm, lambda n: (randn(n, 64, 56, 56), randn(64), randn(64))),
    ("softmax_512x1024", lambda x: torch.softmax(x, -1), lambda n: (randn(n, 512, 1024),)),
    (
        "cross_entropy_128x8192",
        functional.cross_entropy,
        lambda n: (randn(128 * n, 8192), randint(8192, (128 * n,))),
    ),
)

_REDUCTIONS: tuple[Row, ...] = (
    ("sum_1048576", torch.sum, lambda n: (randn(n, 1048576),)),
    ("sum_columns_1024x1024", lambda x: x.sum(-2), lambda n: (randn(n, 1024, 1024),)),
    ("mean_rows_1024x1024", lambda x: x.mean(-1), lambda n: (randn(n, 1024, 1024),)),
    ("var_rows_1024x1024", lambda x: x.var(-1), lambda n: (randn(n, 1024, 1024),)),
    ("logsumexp_512x1024", lambda x: x.logsumexp(-1), lambda n: (randn(n, 512, 1024),)),
    ("argmax_1024x1024", lambda x: x.argmax(-1), lambda n: (randn(n, 1024, 1024),)),
    ("cumsum_512x1024", lambda x: x.cumsum(-1), lambda n: (randn(n, 512, 1024),)),
    (
        "max_pool2d_3x3_64x56x56",
        lambda x: functional.max_pool2d(x, 3, 2, 1),
        lambda n: (randn(n, 64, 56, 56),),
    ),
)

_INDEXING: tuple[Row, ...] = (
    (
        "gather_512x1024",
        lambda x, i: x.gather(-1, i),
        lambda n: (randn(n, 512, 1024), randint(1024, (n, 512, 1024))),
    ),
    (
        "index_select_8192x128",
        lambda x, i: x.index_select(0, i),
        lambda n: (randn(8192, 128), randint(8192, (8192 * n,))),
    ),
    (
        "scatter_add_8192x64",
        _scatter_add,
        lambda n: (randn(1024, 64), randint(1024, (8192 * n,)), randn(8192 * n, 64)),
    ),
    (
        "index_put_8192x64",
        lambda x, i, v: x.index_put((i,), v, accumulate=True),
        lambda n: (randn(1024, 64), randint(1024, (8192 * n,)), randn(8192 * n, 64)),
    ),
    (
        "masked_fill_1024x1024",
        lambda x, m: x.masked_fill(m, 0),
        lambda n: (randn(n, 1024, 1024), rand(n, 1024, 1024).gt(0.5)),
    ),
    (
        "embedding_20000x256_4096",
        lambda table, i: functional.embedding(i, table),
        lambda n: (randn(20000, 256), randint(20000, (n, 4096))),
    ),
    (
        "embedding_bag_20000x64_4096x16",
        lambda table, i: functional.embedding_bag(i, table, mode="sum"),
        lambda n: (randn(20000, 64), randint(20000, (4096 * n, 16))),
    ),
    ("sort_128x1024", lambda x: x.sort(-1), lambda n: (randn(n, 128, 1024),)),
    ("topk_50_64x8192", lambda x: x.topk(50, -1), lambda n: (randn(n, 64, 8192),)),
    ("unique_65536", torch.unique, lambda n: (randint(4096, (65536 * n,)),)),
)

_ELEMENTWISE: tuple[Row, ...] = (
    ("gelu_512x3072", functional.gelu, lambda n: (randn(n, 512, 3072),)),
    (
        "add_mul_broadcast_1024x1024",
        lambda x, scale, shift: x * scale + shift,
        lambda n: (randn(n, 1024, 1024), randn(1024), randn(1024, 1)),
    ),
    ("cast_int32_1024x1024", lambda x: x.int(), lambda n: (randn(n, 1024, 1024),)),
    ("hundred_adds_8", _hundred_adds, lambda n: (randn(n, 8),)),
    ("cat_8x128x1024", lambda *x: torch.cat(x, -1), lambda n: tuple(randn(8, n, 128, 1024))),
    (
        "transposed_copy_1024x1024",
        lambda x: x.transpose(-1, -2).contiguous(),
        lambda n: (randn(n, 1024, 1024),),
    ),
    (
        "interpolate_bilinear_16x64x64",
        lambda x: functional.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False),
        lambda n: (randn(n, 16, 64, 64),),
    ),
    ("rfft_64x4096", lambda x: torch.fft.rfft(x.float()).abs(), lambda n: (randn(n, 64, 4096),)),
)

_TRAINING: tuple[Row, ...] = (
    ("foreach_sgd_64x4096", _foreach_sgd, lambda n: _tensors(n, 3)),
    ("foreach_adamw_64x4096", _foreach_adamw, lambda n: _tensors(n, 4)),
    (
        "matmul_backward_256x256x256",
        with_backward(torch.matmul),
        lambda n: (randn(n, 256, 256), randn(256, 256)),
    ),
    (
        "conv2d_backward_3x3_32x28x28",
        with_backward(functional.conv2d),
        lambda n: (randn(n, 32, 28, 28), randn(32, 32, 3, 3)),
    ),
    (
        "layer_norm_backward_512x768",
        with_backward(_layer_norm),
        lambda n: (randn(n, 512, 768), randn(768), randn(768)),
    ),
    (
        "embedding_backward_8192x64_2048",
        with_backward(lambda table, i: functional.embedding(i, table)),
        lambda n: (randn(8192, 64), randint(8192, (n, 2048))),
    ),
    (
        "sdpa_backward_8x128x64",
        with_backward(functional.scaled_dot_product_attention),
        lambda n: _heads(n, 8, 128),
    ),
)

OPERATORS = operator_workloads(
    _CONTRACTIONS, _NORMALISATIONS, _REDUCTIONS, _INDEXING, _ELEMENTWISE, _TRAINING
)
