"""What reaching a place may need beyond its address."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchperf_ci.errors import CredentialsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def _nothing(_secret: str) -> None:
    """Outside a job there is no log to keep secrets out of."""


@dataclass(frozen=True)
class Access:
    """Credentials and limits. The default is what the machine has by itself, or anonymous where it has nothing.

    ``mask`` is told each secret that is obtained, before it is used, so that a job's log never shows it.
    """

    deadline: float = 300.0
    """Most seconds that one call of a place may take, retries included."""

    region: str | None = None
    endpoint: str | None = None
    """URL of another S3 than that of AWS; else ``AWS_ENDPOINT_URL`` holds, as everywhere."""

    role: str | None = None
    """ARN of a role to assume with the job's OIDC token; needs ``id-token: write``."""

    session_name: str = "torchperf"
    duration: int = 3600
    """Seconds that the role's credentials last; 900 to the role's own maximum. They are renewed in time."""

    audience: str = "sts.amazonaws.com"

    git_token: str = field(default="", repr=False)
    """Token for the job's own GitHub server; else git finds credentials as it always does."""

    mask: Callable[[str], None] = field(default=_nothing, repr=False)


@dataclass(frozen=True)
class UploaderCredentials:
    """Name and password for an upload API."""

    username: str
    password: str = field(repr=False)

    @classmethod
    def of(cls, environ: Mapping[str, str], mask: Callable[[str], None]) -> UploaderCredentials:
        """From ``UPLOADER_USERNAME`` and ``UPLOADER_PASSWORD``; raises :class:`CredentialsError` without them."""
        username, password = environ.get("UPLOADER_USERNAME", ""), environ.get("UPLOADER_PASSWORD", "")
        if not (username and password):
            msg = "an upload API needs credentials: set UPLOADER_USERNAME and UPLOADER_PASSWORD"
            raise CredentialsError(msg)
        mask(password)
        return cls(username, password)
