from __future__ import annotations

from pathlib import Path

import pytest

from torchperf_ci.errors import UsageError
from torchperf_ci.places.place import PlaceAccess
from torchperf_ci.upload.targets import open_target, target_address


@pytest.mark.parametrize(
    ("to", "told"),
    [
        ("s3://bucket/prefix", "s3://bucket/prefix"),
        ("clickhouse://me:pa@ss@host/db", "clickhouse://me@host/db"),
        ("clickhouse://me:pa ss wo\trd@host/db", "clickhouse://me@host/db"),
        ("clickhouse://me:pass\nword@host:8443/db?secure=true", "clickhouse://me@host:8443/db?secure=true"),
        ("https://host:8443/api@v2", "https://host:8443/api@v2"),
        ("https://host/api?token=s3cret&x=y", "https://host/api?token=***&x=***"),
        ("https://host/api?s3cret", "https://host/api?***"),
        (
            "branch:perf@https://x:a b@host/octo/perf?token=s3cret",
            "branch:perf@https://x@host/octo/perf?token=***",
        ),
        (
            "branch:perf@https://x:ghp_token@github.com/octo/perf",
            "branch:perf@https://x@github.com/octo/perf",
        ),
        ("branch:perf@git@github.com:octo/perf", "branch:perf@git@github.com:octo/perf"),
        ("chdb:///data/store", "chdb:///data/store"),
    ],
)
def test_an_address_holds_no_credential(to: str, told: str) -> None:
    assert target_address(to) == told


def test_a_path_is_the_same_from_everywhere() -> None:
    assert target_address("kept") == str(Path.cwd() / "kept")
    assert target_address("chdb://kept") == f"chdb://{Path.cwd()}/kept"


@pytest.mark.parametrize(
    "to",
    [
        *("gs://bucket", "http://example.com", "https://a:b@example.com", "clickhouse://", "chdb://"),
        *("https:///path", "https://host:port", "https://host/a b", "https://host/é", "https://host/\udcff"),
        *("https://[::1", "https://example.com/?token=s3cret", "https://example.com/#s3cret"),
        *("branch:perf@https://[::1/o/r", "branch:perf@https://[x/o/r", "clickhouse://[::1"),
    ],
)
def test_what_is_no_target_is_told_before_anything_is_read(to: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        open_target(to, PlaceAccess(), tmp_path)
    assert "s3cret" not in str(caught.value)


def test_what_is_no_target_says_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"'foo:' .*https://.*s3://.*branch:.*chdb://.*clickhouse://.*directory"
    ):
        open_target("foo://x:secret@y", PlaceAccess(), tmp_path)
