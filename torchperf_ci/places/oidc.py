"""AWS credentials for a GitHub job without secrets: the job's OIDC token, exchanged by STS.

https://docs.github.com/actions/reference/security/oidc
https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html
"""

from __future__ import annotations

import os
import urllib.request
from http import HTTPStatus
from http.client import HTTPException
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from botocore.credentials import (
    AssumeRoleWithWebIdentityCredentialFetcher,
    CredentialProvider,
    RefreshableCredentials,
)
from botocore.exceptions import BotoCoreError, ClientError

from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import CredentialsError
from torchperf_ci.http_client import failure_reason, json_answer
from torchperf_ci.masking import without_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from types_boto3_sts import STSClient

    from torchperf_ci.places.place import PlaceAccess

AUDIENCE = "sts.amazonaws.com"
TIMEOUT = 15.0
"""Seconds to wait for one response."""
TOTAL = 60.0
"""Seconds to obtain the job's token, retries included."""
_TRY_AGAIN = {
    HTTPStatus.OK,
    HTTPStatus.TOO_MANY_REQUESTS,
    *(status for status in HTTPStatus if status >= 500),
}


class WebIdentity(CredentialProvider):
    """Provides botocore with credentials from the job's identity; botocore renews them before they expire."""

    METHOD = CANONICAL_NAME = "custom-github-oidc"

    def __init__(self, role: str, access: PlaceAccess) -> None:
        super().__init__()
        self._role, self._access = role, access

    def load(self) -> RefreshableCredentials:
        """Return the credentials. Raises :class:`CredentialsError`, also later when they are renewed."""
        return RefreshableCredentials.create_from_metadata(
            self._obtain(),
            refresh_using=self._obtain,
            method=self.METHOD,
            # botocore starts to renew 15 minutes before the end, so a short session would be renewed at every request.
            advisory_timeout=min(900, self._access.duration // 3),
            mandatory_timeout=min(600, self._access.duration // 6),
        )

    def _obtain(self) -> dict[str, str]:
        options = {"RoleSessionName": self._access.session_name, "DurationSeconds": self._access.duration}
        fetcher = AssumeRoleWithWebIdentityCredentialFetcher(self._client, self._token, self._role, options)
        try:
            credentials = fetcher.fetch_credentials()
        except (ClientError, BotoCoreError) as error:
            msg = (
                f"the role {self._role} cannot be assumed: {without_secrets(str(error))}; check the role, its longest "
                f"session, and that its trust policy admits this repository and the audience {AUDIENCE}"
            )
            raise CredentialsError(msg) from error
        for secret in (credentials["access_key"], credentials["secret_key"], credentials["token"]):
            self._access.mask(secret)
        return credentials

    def _token(self) -> str:
        token = job_token(os.environ)
        self._access.mask(token)
        return token

    def _client(self, _service: str, config: Config) -> STSClient:
        """Create the client with which botocore asks STS; it does not sign: the token is the proof of identity."""
        session = boto3.Session()
        times = Config(connect_timeout=TIMEOUT, read_timeout=TIMEOUT, retries={"mode": "standard"})
        return session.client(
            "sts",
            region_name=self._access.region or session.region_name or "us-east-1",
            endpoint_url=os.environ.get("AWS_ENDPOINT_URL_STS") or self._access.endpoint,
            config=config.merge(times),
        )


def job_token(environ: Mapping[str, str]) -> str:
    """Return this job's OIDC token for :data:`AUDIENCE`, valid for a few minutes. Raises :class:`CredentialsError`."""
    try:
        url = environ["ACTIONS_ID_TOKEN_REQUEST_URL"]
        request_token = environ["ACTIONS_ID_TOKEN_REQUEST_TOKEN"]
    except KeyError:
        msg = (
            "a role needs the job's OIDC token, and this job may not ask for one: give the job `permissions: "
            "id-token: write` (a pull request from a fork never has it), or leave the role out to use other credentials"
        )
        raise CredentialsError(msg) from None
    request = urllib.request.Request(  # noqa: S310  # the URL comes from the runner itself
        f"{url}{'&' if '?' in url else '?'}audience={AUDIENCE}",
        headers={"Authorization": f"Bearer {request_token}", "Accept": "application/json"},
    )
    problem, deadline = "", Deadline.after(TOTAL)
    for _ in deadline.tries(most=5):
        try:
            answer = json_answer(request, TIMEOUT, deadline)
        except (OSError, HTTPException) as error:
            problem = failure_reason(error)
            continue
        token = answer.body.get("value")
        if answer.status == HTTPStatus.OK and token and isinstance(token, str):
            return token
        problem = f"HTTP {answer.status}, without a token"
        if answer.status not in _TRY_AGAIN:
            break
    raise CredentialsError(f"GitHub gave this job no OIDC token: {problem}; run the job again")
