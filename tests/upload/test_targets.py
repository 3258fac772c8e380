from __future__ import annotations

from pathlib import Path

import pytest

from torchperf_ci.errors import UsageError
from torchperf_ci.places import Access
from torchperf_ci.upload.targets import address, open_target


@pytest.mark.parametrize(
    ("to", "told"),
    [
        ("s3://bucket/prefix", "s3://bucket/prefix"),
        ("clickhouse://me:pa@ss@host/db", "clickhouse://me@host/db"),
        (
            "branch:perf@https://x:ghp_token@github.com/octo/perf",
            "branch:perf@https://x@github.com/octo/perf",
        ),
        ("branch:perf@git@github.com:octo/perf", "branch:perf@git@github.com:octo/perf"),
        ("chdb:///data/store", "chdb:///data/store"),
    ],
)
def test_an_address_holds_no_credential(to: str, told: str) -> None:
    assert address(to) == told


def test_a_path_is_the_same_from_everywhere() -> None:
    assert address("kept") == str(Path.cwd() / "kept")
    assert address("chdb://kept") == f"chdb://{Path.cwd()}/kept"


@pytest.mark.parametrize(
    "to", ["gs://bucket", "http://example.com", "https://a:b@example.com", "clickhouse://", "chdb://"]
)
def test_what_is_no_target_is_told_before_anything_is_read(to: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        open_target(to, Access(), tmp_path)


def test_what_is_no_target_says_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"foo://x@y.*https://.*s3://.*branch:.*chdb://.*clickhouse://.*directory"
    ):
        open_target("foo://x:secret@y", Access(), tmp_path)
