from __future__ import annotations

import pytest
import torch

from torchperf_ci.bench.worker.correctness import check_dtype
from torchperf_ci.bench.worker.torch_environment import UnsupportedError

HALF, SINGLE, WHOLE = torch.ones(4, dtype=torch.bfloat16), torch.ones(4), torch.arange(4)


@pytest.mark.parametrize(
    ("step", "dtype"),
    [
        (lambda: HALF + HALF, "bf16"),
        (lambda: HALF.float().exp().bfloat16(), "bf16"),  # in places in another one
        (lambda: WHOLE + 1, "bf16"),  # no floating numbers
        (lambda: SINGLE + HALF, "fp32"),
        (SINGLE.bfloat16, "amp"),
        (lambda: 3.0, "fp32"),  # no operator at all
    ],
)
def test_a_function_that_computes_as_it_is_called(step, dtype):
    check_dtype(step, dtype, "cpu")


def test_a_function_that_holds_tensors_of_its_own_computes_in_their_dtype():
    with pytest.raises(UnsupportedError, match="ran in float32, none in bf16"):
        check_dtype(lambda: HALF + SINGLE, "bf16", "cpu")


def test_a_function_that_stays_on_the_cpu_is_none_of_a_gpu():
    with pytest.raises(UnsupportedError, match="ran on cpu, none on cuda"):
        check_dtype(lambda: HALF + HALF, "bf16", "cuda")
