"""An upload never prints or keeps a credential, nor sends one as a key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from oidc_issuer import REQUEST_TOKEN, Issuer
from scripted_http import scripted_server
from seaweedfs import BUCKET, GRANTED, ROLE, S3Server

from torchperf_ci import cli
from torchperf_ci.places import oidc, open_place
from torchperf_ci.places.place import PlaceAccess

if TYPE_CHECKING:
    from pathlib import Path

    from torchperf_ci.http_server import HttpServer

TOKEN = "ghs_token-of-the-job"
MASK = re.compile(r"^::add-mask::(.*)$", re.MULTILINE)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch, job: dict[str, str]) -> None:
    """In a job whose token nobody answers for."""
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:9")


def told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> tuple[list[str], str]:
    """What was masked, and everything that was printed or written, but for the masking itself."""
    out, err = capsys.readouterr()
    written = [
        f"{path}\n{path.read_bytes().decode('latin-1')}" for path in tmp_path.rglob("*") if path.is_file()
    ]
    return MASK.findall(err), "\n".join([out, MASK.sub("", err), *written])


def test_a_password(
    folder: Path, tmp_path: Path, api: HttpServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["upload", str(folder), "--to", api.url, "--job-id", "9"]) == 0
    masked, text = told(capsys, tmp_path)
    assert masked == ["pa55word-of-the-uploader"]
    assert not any(secret in text for secret in [*masked, TOKEN])


def test_a_password_in_an_endpoint(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--to", "s3://bucket", "--endpoint", "http://me:s3cret@127.0.0.1:1", "--job-id", "9")
    assert cli.main(["upload", str(folder), *given, "--deadline", "1"]) == 4
    _, text = told(capsys, tmp_path)
    assert "--endpoint http://***127.0.0.1:1 " in text
    assert "s3cret" not in text


def test_a_role(
    folder: Path,
    tmp_path: Path,
    no_credentials: S3Server,
    issuer: Issuer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in issuer.job().items():
        monkeypatch.setenv(name, value)
    issuer.issued.clear()
    given: list[str] = []
    obtain = oidc.WebIdentity._obtain

    def remembering(identity: oidc.WebIdentity) -> dict[str, str]:
        found = obtain(identity)
        given.extend(found[name] for name in ("access_key", "secret_key", "token"))
        return found

    monkeypatch.setattr(oidc.WebIdentity, "_obtain", remembering)
    call = ["upload", str(folder), "--role", ROLE, "--endpoint", no_credentials.endpoint, "--job-id", "9"]
    prefix = f"s3://{BUCKET}/{GRANTED}/{tmp_path.name}"
    assert cli.main([*call, "--to", prefix]) == 0
    assert cli.main([*call, "--to", f"s3://{BUCKET}/elsewhere"]) == 4
    masked, text = told(capsys, tmp_path)
    assert len(given) == 6
    assert set(masked) == {*given, *issuer.issued}
    assert "not allowed s3:PutObject" in text
    assert not any(secret in text for secret in [*masked, TOKEN, REQUEST_TOKEN])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", no_credentials.environment["AWS_ACCESS_KEY_ID"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", no_credentials.environment["AWS_SECRET_ACCESS_KEY"])
    kept = open_place(prefix, PlaceAccess(endpoint=no_credentials.endpoint))
    keys = [item.key for item in kept.listed()]
    assert len(keys) == 2
    assert not any(secret in " ".join(keys) for secret in masked)


def test_the_jobs_token(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:

    with scripted_server() as script:
        script.answers = [(403, b"")]
        monkeypatch.setenv("GITHUB_SERVER_URL", script.url)
        assert cli.main(["upload", str(folder), "--to", f"branch:x@{script.url}/o/r", "--job-id", "9"]) == 4
    assert script.authorizations[0]
    masked, text = told(capsys, tmp_path)
    assert masked[0] == TOKEN
    assert not any(secret in text for secret in masked)


def test_the_password_of_a_store(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        cli.main(["upload", str(folder), "--to", "clickhouse://me:pa55@127.0.0.1:9/db", "--job-id", "9"]) == 4
    )
    masked, text = told(capsys, tmp_path)
    assert masked == ["pa55"]
    assert "pa55" not in text
    assert "--to clickhouse://me@127.0.0.1:9/db" in text


def test_a_password_in_a_url_is_refused_and_not_repeated(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for to in ("https://me:pa55@example.com", "branch:x@https://me:pa55@example.com/o/r"):
        assert cli.main(["upload", str(folder), "--to", to, "--job-id", "9"]) == 2
    assert "pa55" not in told(capsys, tmp_path)[1]
