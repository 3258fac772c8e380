from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchperf_ci.machine.devices.accelerator import visible_indices

UUIDS = ("GPU-8932f937", "GPU-8932aaaa", "GPU-1111bbbb")


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("1", [1]),
        ("2, 0", [2, 0]),
        ("GPU-1111bbbb,0", [2, 0]),
        ("GPU-11", [2]),
        ("GPU-8932", []),  # begins two
        ("1,-1,2", [1]),
        ("0,7,1", [0]),
        ("1,1", [1]),
        ("NoDevFiles", []),
    ],
)
def test_visible_devices(choice, expected):
    assert visible_indices(choice, UUIDS) == expected


@pytest.mark.parametrize("choice", ["", ",0", "MIG-1"])
def test_an_entry_that_names_nothing_does_not_mean_the_only_one(choice):
    assert visible_indices(choice, UUIDS[:1]) == []


@given(st.lists(st.sampled_from([*UUIDS, "0", "1", "2", "3", "x", ""])))
def test_a_list_never_shows_a_gpu_twice_or_one_that_is_not_there(entries):
    chosen = visible_indices(",".join(entries), UUIDS)
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= {0, 1, 2}
