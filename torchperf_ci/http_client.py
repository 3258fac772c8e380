"""Send an HTTP request that contains a secret, and read its JSON response.

Redirects are not followed: they would send the secret elsewhere, and turn a POST into a GET.
"""

from __future__ import annotations

import socket
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchperf_ci.records.record import parsed_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from email.message import Message

    from torchperf_ci.deadline import Deadline

_ANSWER_LIMIT = 64 * 1024
_MESSAGE_LENGTH = 200
"""Most characters of a server's message that are shown to people."""


@dataclass(frozen=True)
class HttpAnswer:
    """The status, the body if it is a JSON object, and the seconds to wait before a retry."""

    status: int
    body: Mapping[str, object]
    wait: float = 0.0

    @property
    def message(self) -> str:
        """The server's message on one line."""
        return " ".join(str(self.body.get("message", "")).split())[:_MESSAGE_LENGTH]


def json_answer(request: urllib.request.Request, seconds: float, deadline: Deadline) -> HttpAnswer:
    """Return the response, whatever its status, even a redirect.

    Each network operation may take ``seconds``, and all of them until ``deadline``, also if a server sends a byte at a
    time. Raises :class:`OSError` or :class:`http.client.HTTPException` if there is no response.
    """
    return deadline.wait_for(lambda: _requested(request, seconds))


def _requested(request: urllib.request.Request, seconds: float) -> HttpAnswer:
    # A proxy would see the secret of an unencrypted request, which is for this machine only.
    direct = [urllib.request.ProxyHandler({})] if request.type == "http" else []
    try:
        with urllib.request.build_opener(_NoRedirect, *direct).open(request, timeout=seconds) as response:
            return _answer(response.status, response.headers, response.read(_ANSWER_LIMIT))
    except urllib.error.HTTPError as error:
        with error:
            return _answer(error.code, error.headers, error.read(_ANSWER_LIMIT))


def never_arrived(error: Exception) -> bool:
    """Whether the request failed before anything was sent."""
    inner = getattr(error, "reason", error)
    return isinstance(inner, ConnectionRefusedError | socket.gaierror) or certificate_problem(error) != ""


def certificate_problem(error: Exception) -> str:
    """Why the server's certificate was not accepted, which no retry mends; empty if that is not why it failed."""
    cause: BaseException | None = error
    while cause:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return cause.verify_message.rstrip(".")
        cause = cause.__cause__ or cause.__context__
    return ""


def failure_reason(error: Exception) -> str:
    """Return the innermost reason of an error in a few words."""
    inner = getattr(error, "reason", error)
    return getattr(inner, "strerror", None) or str(inner) or type(inner).__name__


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def _answer(status: int, headers: Message, content: bytes) -> HttpAnswer:
    body = parsed_json(content)
    wait = headers.get("retry-after") or ""
    seconds = float(wait) if wait.isdecimal() else 0.0
    return HttpAnswer(status, body if isinstance(body, dict) else {}, seconds)
