from __future__ import annotations

from pathlib import Path

import pytest

from torchperf_ci.errors import UsageError
from torchperf_ci.store.dsn import PASSWORD, EmbeddedStore, StoreServer, parse_dsn

SECRET = "pa55word-of-the-store"


@pytest.mark.parametrize(
    ("dsn", "path"),
    [
        ("chdb:///data/store", Path("/data/store")),
        ("chdb://.torchperf/store", Path.cwd() / ".torchperf/store"),
    ],
)
def test_a_path_is_absolute_only_with_a_third_slash(
    dsn: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(
        path.anchor if path.is_relative_to("/data") else Path(str(path).removesuffix("/.torchperf/store"))
    )
    assert parse_dsn(dsn, {}) == EmbeddedStore(path)


@pytest.mark.parametrize(
    ("dsn", "server"),
    [
        ("clickhouse://host", StoreServer("host", 8123, "default", "benchmark", False)),
        ("clickhouse://ann@host/perf", StoreServer("host", 8123, "ann", "perf", False)),
        ("clickhouse://ann@host:9000/perf", StoreServer("host", 9000, "ann", "perf", False)),
        ("clickhouse://host/perf?secure=true", StoreServer("host", 8443, "default", "perf", True)),
        ("clickhouse://host:8443/perf", StoreServer("host", 8443, "default", "perf", True)),
        ("clickhouse://host:443", StoreServer("host", 443, "default", "benchmark", True)),
        ("clickhouse://host:8443/perf?secure=false", StoreServer("host", 8443, "default", "perf", False)),
        ("clickhouse://[::1]:1234/perf", StoreServer("::1", 1234, "default", "perf", False)),
        ("clickhouse://host/my%20perf", StoreServer("host", 8123, "default", "my perf", False)),
        ("clickhouse://a%40b:p%3Aw@host", StoreServer("host", 8123, "a@b", "benchmark", False, "p:w")),
    ],
)
def test_a_server(dsn: str, server: StoreServer) -> None:
    assert parse_dsn(dsn, {}) == server


def test_the_password_comes_from_the_environment_unless_it_stands_in_the_address() -> None:
    environ = {PASSWORD: SECRET}
    assert parse_dsn("clickhouse://ann@host", environ) == StoreServer(
        "host", 8123, "ann", "benchmark", False, SECRET
    )
    assert parse_dsn("clickhouse://ann:other@host", environ).password == "other"  # type: ignore[union-attr]


def test_no_text_of_a_server_holds_its_password() -> None:
    server = parse_dsn(f"clickhouse://ann:{SECRET}@host/perf", {})
    assert str(server) == "clickhouse://host:8123/perf"
    assert SECRET not in repr(server)


@pytest.mark.parametrize("name", ["\udcff", "a\0b"])
def test_a_path_that_the_engine_cannot_open_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="has to be UTF-8"):
        parse_dsn(f"chdb:///data/{name}/store", {})


def test_a_path_may_begin_with_the_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """No shell expands it after `chdb://`: the store was made in a directory called `~`."""
    monkeypatch.setenv("HOME", "/home/ada")
    assert str(parse_dsn("chdb://~/perf", {})) == "chdb:///home/ada/perf"


@pytest.mark.parametrize(
    ("dsn", "complaint"),
    [
        ("postgres://host", "a store that begins with 'postgres' is not known"),
        (".torchperf/store", r"is not known \(did you mean chdb://.torchperf/store\?\)"),
        ("chdb://", "names no directory"),
        ("clickhouse:///perf", "names no host"),
        (f"clickhouse://ann:{SECRET}@host:port/perf", "cannot be read"),
        (f"clickhouse://ann:{SECRET}@host:99999/perf", "cannot be read"),
        (f"clickhouse://ann:{SECRET}@host/perf?secure=yes", "secure=true or secure=false"),
        (f"clickhouse://ann:{SECRET}@host/perf?compress=1", "secure=true or secure=false"),
        (f"clickhouse://ann:{SECRET}@host/perf?secure", "secure=true or secure=false"),
        (f"clickhouse://ann:{SECRET}@[host/perf", "cannot be read"),
        (f"clickhouse://an\udcff:{SECRET}@host/perf", "have to be UTF-8"),
        (f"clickhouse://ann:{SECRET}/x@host/perf", "%2F"),
        (f"clickhouse://ann:{SECRET}#x@host/perf", "cannot be read"),
        (f"clickhouse://host/perf?token={SECRET}", "secure=true or secure=false"),
        (f"clickhouse://host/perf?secure=true&password={SECRET}", "secure=true or secure=false"),
        (f"clickhouse:ann:{SECRET}@host", "a store without a kind is not known; give"),
    ],
)
def test_what_is_no_address_says_what_is_one(dsn: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as caught:
        parse_dsn(dsn, {})
    assert "clickhouse://USER@HOST" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_password_that_cannot_be_sent_is_refused() -> None:
    with pytest.raises(UsageError, match=f"{PASSWORD} have to be UTF-8"):
        parse_dsn("clickhouse://ann@host/perf", {PASSWORD: "\udcff"})
