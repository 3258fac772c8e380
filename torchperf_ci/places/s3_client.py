"""The S3 client: whose credentials it uses, how often it tries, and when it gives up."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import boto3
import botocore.session
from botocore import UNSIGNED
from botocore.config import Config
from botocore.credentials import CredentialResolver
from botocore.exceptions import BotoCoreError

from torchperf_ci.errors import CredentialsError
from torchperf_ci.places.oidc import WebIdentity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from types_boto3_s3 import S3Client

    from torchperf_ci.deadline import Deadline
    from torchperf_ci.places.access import Access

WORKERS = 16
"""Requests at a time: they wait for the network most of the time."""
CONNECTIONS = 64
"""Connections that stay open: of WORKERS, or of a receiver, which puts for as many clients at a time."""
CONNECT_TIMEOUT = 5.0
READ_TIMEOUT = 30.0
ATTEMPTS = 5

_deadline: ContextVar[Deadline | None] = ContextVar("_deadline", default=None)


class OutOfTimeError(Exception):
    """The deadline passed before the next attempt."""


def make_client(access: Access) -> tuple[S3Client, bool]:
    """A client for any number of threads, and whether it is anonymous since no credentials were found.

    A role is assumed here. Raises :class:`CredentialsError`.
    """
    session = botocore.session.Session()
    if access.role:
        identity = WebIdentity(access.role, access)
        session.register_component("credential_provider", CredentialResolver([identity]))
    try:
        anonymous = session.get_credentials() is None
        client = boto3.Session(botocore_session=session).client(
            "s3", region_name=access.region, endpoint_url=access.endpoint, config=_config(anonymous=anonymous)
        )
    except (BotoCoreError, ValueError) as error:
        msg = f"S3 cannot be used with these settings: {error}; correct the AWS_* variables, profile or endpoint"
        raise CredentialsError(msg) from error
    client.meta.events.register("before-send.s3", _stop_when_late)
    return client, anonymous


def _config(*, anonymous: bool) -> Config:
    config = Config(
        connect_timeout=CONNECT_TIMEOUT,
        read_timeout=READ_TIMEOUT,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        max_pool_connections=CONNECTIONS,
    )
    return config.merge(Config(signature_version=UNSIGNED)) if anonymous else config


@contextmanager
def until(deadline: Deadline) -> Iterator[None]:
    """No attempt of a request, the first or a further one, is begun inside after ``deadline``."""
    token = _deadline.set(deadline)
    try:
        yield
    finally:
        _deadline.reset(token)


def _stop_when_late(**_event: Any) -> None:
    """Raise :class:`OutOfTimeError`, which botocore does not try again, between its own attempts."""
    deadline = _deadline.get()
    if deadline and not deadline.left:
        raise OutOfTimeError
