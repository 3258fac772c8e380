"""Micro-benchmarks of widely used operators that no model of the suite uses: a table like that of the others.

A row combines operators that are used together or cost about the same. Random number generators are left out, because
two builds may draw different numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, rand, randint, randn
from torch.nn import functional

from torchperf_ci.suite.operators import Row, operator_workloads, with_backward


def _all_of(*functions: Callable[[Tensor], Tensor]) -> Callable[[Tensor], list[Tensor]]:
    return lambda x: [function(x) for function in functions]


def _logic(a: Tensor, b: Tensor) -> list[Tensor]:
    return [a.logical_not(), a.logical_or(b), a.logical_xor(b), a | b, a ^ b]


def _rotary(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate pairs of numbers by angles with complex numbers in fp32, as rotary position embeddings do."""
    turns = torch.polar(torch.ones_like(angles.float()), angles.float())
    return torch.view_as_real(torch.view_as_complex(x.float()) * turns).flatten(-2)


def _near_one(*size: int) -> Tensor:
    """Return random numbers close enough to 1 that a product of thousands neither overflows nor becomes denormal."""
    return rand(size) * 0.2 + 0.9


def _positive_definite(n: int, size: int) -> Tensor:
    x = randn(n, size, size)
    return x @ x.transpose(-1, -2) + size * torch.eye(size)


_ELEMENTWISE: tuple[Row, ...] = (
    ("maximum_2048x2048", torch.maximum, lambda n: tuple(randn(2, n, 2048, 2048))),
    (
        "rounding_1024x1024",
        _all_of(torch.floor, torch.ceil, torch.round, torch.trunc, torch.sign, lambda x: torch.fmod(x, 0.5)),
        lambda n: (randn(n, 1024, 1024),),
    ),
    (
        "logarithms_512x1024",
        _all_of(torch.log1p, torch.log2, torch.log10, torch.expm1, torch.erf),
        lambda n: (rand(n, 512, 1024) + 0.5,),
    ),
    (
        "trigonometry_512x1024",
        _all_of(torch.asin, torch.acos, torch.atan, torch.tan, lambda x: torch.atan2(x, x + 1)),
        lambda n: (rand(n, 512, 1024),),
    ),
    (
        "hyperbolic_512x1024",
        _all_of(torch.sinh, torch.cosh, torch.asinh, lambda x: (x / 2).atanh(), lambda x: (x + 1.5).acosh()),
        lambda n: (rand(n, 512, 1024),),
    ),
    ("logic_2048x2048", _logic, lambda n: tuple(rand(2, n, 2048, 2048).gt(0.5))),
    (
        "nonfinite_1024x1024",
        _all_of(torch.isnan, torch.isinf, torch.nan_to_num),
        lambda n: (randn(n, 1024, 1024),),
    ),
    ("rotary_complex_2048x32x32", _rotary, lambda n: (randn(n, 2048, 32, 32, 2), rand(2048, 1, 32))),
)

_REDUCTIONS: tuple[Row, ...] = (
    ("min_rows_1024x1024", lambda x: x.min(-1), lambda n: (randn(n, 1024, 1024),)),
    ("std_rows_1024x1024", lambda x: x.std(-1), lambda n: (randn(n, 1024, 1024),)),
    ("prod_rows_4096x4096", lambda x: x.prod(-1), lambda n: (_near_one(n, 4096, 4096),)),
    ("cumprod_2048x1024", lambda x: x.cumprod(-1), lambda n: (_near_one(n, 2048, 1024),)),
)

_INDEXING: tuple[Row, ...] = (
    ("nonzero_1024x1024", torch.nonzero, lambda n: (rand(n, 1024, 1024).gt(0.5),)),
    (
        "masked_scatter_4096x256",
        lambda x, mask, source: x.masked_scatter(mask, source),
        lambda n: (randn(n, 4096, 256), rand(n, 4096, 1).gt(0.5), randn(n, 4096, 256)),
    ),
    (
        "scatter_reduce_amax_65536x64",
        lambda x, i, source: x.scatter_reduce(0, i.unsqueeze(1).expand_as(source), source, "amax"),
        lambda n: (randn(1024, 64), randint(1024, (65536 * n,)), randn(65536 * n, 64)),
    ),
    (
        "repeat_interleave_65536x64",
        lambda x, counts: x.repeat_interleave(counts, 0),
        lambda n: (randn(65536 * n, 64), randint(1, 4, (65536 * n,))),
    ),
    ("bucketize_262144_1024", torch.bucketize, lambda n: (rand(n, 262144), torch.linspace(0, 1, 1024))),
    ("isin_65536_1024", torch.isin, lambda n: (randint(65536, (65536 * n,)), randint(65536, (1024,)))),
    (
        "bincount_1048576_4096",
        lambda i: torch.bincount(i, minlength=4096),
        lambda n: (randint(4096, (1048576 * n,)),),
    ),
    (
        "unique_consecutive_1048576",
        torch.unique_consecutive,
        lambda n: (randint(65536, (1048576 * n,)).sort().values,),
    ),
)

_LAYERS: tuple[Row, ...] = (
    (
        "max_pool3d_2_16x16x64x64",
        lambda x: functional.max_pool3d(x, 2),
        lambda n: (randn(n, 16, 16, 64, 64),),
    ),
    (
        "reflection_pad2d_3_64x256x256",
        lambda x: functional.pad(x, (3, 3, 3, 3), "reflect"),
        lambda n: (randn(n, 64, 256, 256),),
    ),
    (
        "interpolate_bicubic_16x64x64",
        lambda x: functional.interpolate(x, scale_factor=2.0, mode="bicubic", align_corners=False),
        lambda n: (randn(n, 16, 64, 64),),
    ),
    (
        "unfold_fold_3x3_64x56x56",
        lambda x: functional.fold(functional.unfold(x, 3, padding=1), (56, 56), 3, padding=1),
        lambda n: (randn(n, 64, 56, 56),),
    ),
    (
        "cdist_l1_512x512x64",
        lambda x, y: torch.cdist(x.float(), y.float(), 1),
        lambda n: tuple(randn(2, n, 512, 64)),
    ),
    ("mse_loss_backward_1048576", with_backward(functional.mse_loss), lambda n: tuple(randn(2, n, 1048576))),
    ("log_sigmoid_backward_1048576", with_backward(functional.logsigmoid), lambda n: (randn(n, 1048576),)),
)

# LAPACK has no half precision.
_FACTORISATIONS: tuple[Row, ...] = (
    (
        "cholesky_16x128x128",
        lambda x: torch.linalg.cholesky(x.float()),
        lambda n: (_positive_definite(16 * n, 128),),
    ),
    (
        "solve_16x128x128",
        lambda x, y: torch.linalg.solve(x.float(), y.float()),
        lambda n: (_positive_definite(16 * n, 128), randn(16 * n, 128, 1)),
    ),
    ("qr_16x128x64", lambda x: torch.linalg.qr(x.float()).R.abs(), lambda n: (randn(16 * n, 128, 64),)),
    ("svd_8x64x64", lambda x: torch.linalg.svd(x.float()).S, lambda n: (randn(8 * n, 64, 64),)),
    (
        "eigh_8x64x64",
        lambda x: torch.linalg.eigh(x.float()).eigenvalues,
        lambda n: (_positive_definite(8 * n, 64),),
    ),
)

UNCOVERED_OPERATORS = operator_workloads(_ELEMENTWISE, _REDUCTIONS, _INDEXING, _LAYERS, _FACTORISATIONS)
