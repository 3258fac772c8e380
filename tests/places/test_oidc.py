"""Credentials from the job's own identity, by a real STS that trusts an issuer of the tests."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from oidc_issuer import REQUEST_TOKEN
from seaweedfs import BUCKET, GRANTED, ROLE, S3Server

from torchperf_ci.errors import CredentialsError, NotDeliveredError
from torchperf_ci.places import oidc, open_place
from torchperf_ci.places.place import PlaceAccess

if TYPE_CHECKING:
    from oidc_issuer import Issuer

    from torchperf_ci.places.place import RecordPlace


@pytest.fixture
def identified(no_credentials: S3Server, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """A job with ``id-token: write`` and no other credentials."""
    for name, value in issuer.job().items():
        monkeypatch.setenv(name, value)
    issuer.issued.clear()
    return no_credentials


def granted(access: PlaceAccess) -> RecordPlace:
    return open_place(f"s3://{BUCKET}/{GRANTED}/{uuid4()}", access)


def test_a_role_may_do_what_is_granted_and_no_more(
    identified: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but the option says where the service is: a token for it is for no other service."""
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    access = PlaceAccess(role=ROLE, endpoint=identified.endpoint)
    place = granted(access)
    assert place.put("key", b"x") == "written"
    assert place.get("key") == b"x"
    with pytest.raises(NotDeliveredError, match=f"s3://{BUCKET}/elsewhere/key: .*not allowed s3:PutObject"):
        open_place(f"s3://{BUCKET}/elsewhere", access).put("key", b"x")


def test_a_token_for_another_audience_is_refused(
    identified: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "AUDIENCE", "somebody.else")
    place = granted(PlaceAccess(role=ROLE))
    with pytest.raises(CredentialsError, match=r"cannot be assumed.*audience"):
        place.put("key", b"x")
    outcomes = place.put_all({"a": b"1", "b": b"2"})
    assert all(isinstance(outcome, CredentialsError) for outcome in outcomes.values())


def test_the_password_in_the_address_of_sts_is_not_told(
    identified: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://me:s3cret@127.0.0.1:1")
    with pytest.raises(CredentialsError, match=r"cannot be assumed: .*http://\*\*\*127\.0\.0\.1:1") as caught:
        granted(PlaceAccess(role=ROLE)).put("key", b"x")
    assert "s3cret" not in str(caught.value)


def test_a_role_that_is_not_there(identified: S3Server) -> None:
    with pytest.raises(CredentialsError, match="Nobody cannot be assumed"):
        granted(PlaceAccess(role=f"{ROLE}Nobody")).put("key", b"x")


def test_every_secret_is_masked_and_none_is_shown(identified: S3Server, issuer: Issuer, capfd) -> None:
    masked: list[str] = []
    access = PlaceAccess(role=ROLE, mask=masked.append)
    place = granted(access)
    place.put("key", b"x")
    with pytest.raises(NotDeliveredError) as refused:
        open_place(f"s3://{BUCKET}/elsewhere", access).put("key", b"x")
    assert set(issuer.issued) < set(masked)
    assert len(masked) == 2 * (1 + 3)
    shown = " ".join([str(refused.value), repr(access), place.name, *capfd.readouterr()])
    assert not any(secret in shown for secret in [*masked, REQUEST_TOKEN])


def test_without_the_permission_the_error_names_it(
    no_credentials: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ACTIONS_ID_TOKEN_REQUEST_URL", raising=False)
    monkeypatch.delenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", raising=False)
    with pytest.raises(CredentialsError, match="id-token: write"):
        granted(PlaceAccess(role=ROLE)).put("key", b"x")


def test_the_token_is_asked_for_again_when_github_is_overloaded(issuer: Issuer) -> None:
    issuer.faults[:] = [503, 429]
    assert oidc.job_token(issuer.job()) == issuer.issued[-1]


def test_a_refused_request_for_the_token_is_not_repeated(issuer: Issuer) -> None:
    issuer.faults[:] = [403, 403]
    with pytest.raises(CredentialsError, match="HTTP 403"):
        oidc.job_token(issuer.job())
    assert issuer.faults.pop() == 403
    assert not issuer.faults


def test_the_request_token_does_not_follow_a_redirection(issuer: Issuer) -> None:
    issuer.faults[:] = [302]
    with pytest.raises(CredentialsError, match="HTTP 302"):
        oidc.job_token(issuer.job())


def test_credentials_that_run_out_on_the_way_are_renewed(
    identified: S3Server, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    obtain, first = oidc.WebIdentity._obtain, iter([True])

    def first_soon_over(identity: oidc.WebIdentity) -> dict[str, str]:
        given = obtain(identity)
        ending = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=5)
        return {**given, "expiry_time": ending.isoformat()} if next(first, False) else given

    monkeypatch.setattr(oidc.WebIdentity, "_obtain", first_soon_over)
    place = granted(PlaceAccess(role=ROLE, duration=900))
    place.put("a", b"1")
    assert len(issuer.issued) == 2
    place.put("b", b"2")
    assert len(issuer.issued) == 2


def test_a_session_of_the_longest_length_is_asked_for(
    identified: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    obtain, given = oidc.WebIdentity._obtain, []

    def kept(identity: oidc.WebIdentity) -> dict[str, str]:
        given.append(obtain(identity))
        return given[-1]

    monkeypatch.setattr(oidc.WebIdentity, "_obtain", kept)
    assert granted(PlaceAccess(role=ROLE, duration=18000)).put("key", b"x") == "written"
    ending = datetime.datetime.fromisoformat(given[0]["expiry_time"])
    assert ending - datetime.datetime.now(datetime.timezone.utc) > datetime.timedelta(hours=4)
