"""One HTTP request that carries a secret, and its JSON answer.

A redirect is not followed: it would carry the secret to somebody else, and make a GET of a POST.
"""

from __future__ import annotations

import json
import socket
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from email.message import Message

_ANSWER_LIMIT = 64 * 1024
_MESSAGE_LENGTH = 200
"""Characters of a server's message that are repeated to people."""


@dataclass(frozen=True)
class HttpAnswer:
    """A status, what the body says where it is a JSON object, and the seconds after which to come back."""

    status: int
    body: Mapping[str, object]
    wait: float = 0.0

    @property
    def message(self) -> str:
        """The server's own words, on one line."""
        return " ".join(str(self.body.get("message", "")).split())[:_MESSAGE_LENGTH]


def json_answer(request: urllib.request.Request, seconds: float) -> HttpAnswer:
    """The answer, whatever its status, a redirect among them. Each step of the exchange may take ``seconds``.

    Raises :class:`OSError` or :class:`http.client.HTTPException` where there is no answer.
    """
    # A proxy would see a secret that goes to this machine in the clear.
    direct = [urllib.request.ProxyHandler({})] if request.type == "http" else []
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


def failure_reason(error: Exception) -> str:
    """The innermost reason, in few words."""
    inner = getattr(error, "reason", error)
    return getattr(inner, "strerror", None) or str(inner) or type(inner).__name__


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def _answer(status: int, headers: Message, content: bytes) -> HttpAnswer:
    try:
        body = json.loads(content)
    except ValueError:
        body = None
    wait = headers.get("retry-after") or ""
    seconds = float(wait) if wait.isdecimal() else 0.0
    return HttpAnswer(status, body if isinstance(body, dict) else {}, seconds)
