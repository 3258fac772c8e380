"""One HTTP POST of JSON that carries a password: never in the clear, never redirected, never without a deadline."""

from __future__ import annotations

import json
import socket
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from torchperf_ci.errors import UsageError

if TYPE_CHECKING:
    from email.message import Message

_LOCAL = ("localhost", "127.0.0.1", "::1")
_ANSWER_LIMIT = 64 * 1024
_TOLD = 200
"""Characters of a server's message that are repeated to people."""


@dataclass(frozen=True)
class Answer:
    """A status, what the body says where it is a JSON object, and the seconds after which to come back."""

    status: int
    body: dict[str, Any]
    wait: float = 0.0

    @property
    def message(self) -> str:
        """The server's own words, on one line."""
        return " ".join(str(self.body.get("message", "")).split())[:_TOLD]


def checked_url(url: str) -> str:
    """``url``, if a password may be sent there. Raises :class:`UsageError`."""
    try:
        parts = urlsplit(url)
    except ValueError:
        msg = "the upload API's address is no URL; give https://HOST/PATH"
        raise UsageError(msg) from None
    if parts.username or parts.password or parts.query or parts.fragment:
        msg = "credentials do not belong into a URL: set UPLOADER_USERNAME and UPLOADER_PASSWORD; nor does ?…"
        raise UsageError(msg)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOCAL):
        msg = f"{url}: would send the password in the clear; give an https:// URL"
        raise UsageError(msg)
    return url


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET elsewhere; so the redirect itself is the answer."""

    def redirect_request(self, *_: Any) -> None:
        return None


def post(url: str, content: bytes, seconds: float) -> Answer:
    """The answer, whatever its status. Each step of the exchange may take ``seconds``.

    Raises :class:`OSError` or :class:`http.client.HTTPException` where there is no answer.
    """
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, content, headers, method="POST")  # noqa: S310  # see checked_url
    # A proxy would see the password that goes to this machine in the clear.
    direct = [urllib.request.ProxyHandler({})] if url.startswith("http://") else []
    try:
        with urllib.request.build_opener(_NoRedirect, *direct).open(request, timeout=seconds) as response:
            return _answer(response.status, response.headers, response.read(_ANSWER_LIMIT))
    except urllib.error.HTTPError as error:
        with error:
            return _answer(error.code, error.headers, error.read(_ANSWER_LIMIT))


def never_arrived(error: Exception) -> bool:
    """Whether there was no connection to send anything over."""
    inner = getattr(error, "reason", error)
    return isinstance(inner, ConnectionRefusedError | socket.gaierror | ssl.SSLCertVerificationError)


def reason(error: Exception) -> str:
    """The innermost reason, in few words."""
    inner = getattr(error, "reason", error)
    return getattr(inner, "strerror", None) or str(inner) or type(inner).__name__


def _answer(status: int, headers: Message, content: bytes) -> Answer:
    try:
        body = json.loads(content)
    except ValueError:
        body = None
    wait = headers.get("retry-after") or ""
    return Answer(status, body if isinstance(body, dict) else {}, float(wait) if wait.isdecimal() else 0.0)
