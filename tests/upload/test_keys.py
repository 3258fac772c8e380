from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchperf_ci.errors import UnsafeKeyError
from torchperf_ci.places.place import check_keys
from torchperf_ci.upload.payload import commit_key, file_key

RECORD = {
    "repo": "pytorch/pytorch",
    "head_branch": "refs/heads/release/2.7",
    "head_sha": "e2d141dbde55",
    "workflow_id": 71,
    "job_id": 9,
    "runners": [{"name": "cuda", "type": "NVIDIA H100 80GB HBM3"}],
}


def test_the_contracts_keys() -> None:
    assert file_key(RECORD, "results.json") == "v3/pytorch/pytorch/71/9/results.json"
    folder = "v3/pytorch/pytorch/release/2.7/e2d141dbde55/NVIDIA_H100_80GB_HBM3"
    assert commit_key(RECORD) == f"{folder}/benchmark_results.json"
    assert commit_key(RECORD, "llama 3") == f"{folder}/benchmark_results_llama_3.json"
    assert commit_key(RECORD, part=2) == f"{folder}/benchmark_results.part2.json"


def test_servicelab_has_ids_of_its_own() -> None:
    ids = {"workflow_id": 0, "job_id": 0, "servicelab_experiment_id": 5, "servicelab_trial_id": 6}
    assert file_key({**RECORD, **ids}, "r.json") == "v3/pytorch/pytorch/5/6/r.json"


def test_a_record_without_a_machine() -> None:
    assert "/unknown/" in commit_key({**RECORD, "runners": []})
    told = {"extra_info": {"arch": "Neoverse-V1"}}
    assert "/Neoverse-V1/" in commit_key({**RECORD, "runners": [{"type": ""}], "benchmark": told})


def test_files_that_differ_in_unsafe_characters_only_get_two_keys() -> None:
    keys = {file_key(RECORD, name) for name in ("my results.json", "my?results.json", "my_results.json")}
    assert len(keys) == 3
    assert all(key.endswith(".json") for key in keys)


def test_a_key_is_as_long_as_s3_takes_it_and_no_longer() -> None:
    longest = "/".join(["a" * 100] * 10) + "/" + "b" * 14
    assert len(longest) == 1024
    check_keys([longest])
    with pytest.raises(UnsafeKeyError, match="it is longer than 1024 characters"):
        check_keys([longest + "b"])


@given(st.text(min_size=1), st.text(), st.text(), st.text(), st.text())
def test_every_key_is_safe_everywhere(file: str, repo: str, branch: str, sha: str, hardware: str) -> None:
    record = {**RECORD, "repo": repo, "head_branch": branch, "head_sha": sha, "runners": [{"type": hardware}]}
    if len(repo) + len(branch) < 400:
        check_keys([file_key(record, file), commit_key(record, hardware)])


@given(st.text(min_size=1), st.text(min_size=1))
def test_two_files_never_share_a_key(one: str, other: str) -> None:
    assert (file_key(RECORD, one) == file_key(RECORD, other)) == (one == other)
