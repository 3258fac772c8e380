"""The client of an upload API: one POST with name, password, key and content for each object.

The API keeps what nobody has kept before and answers 409 otherwise. Only ``"same": true`` in that answer's body says
that the content is equal; of a server that does not say so, nothing but what we sent ourselves is known.
"""

from __future__ import annotations

import http.client
import json
import time
from typing import TYPE_CHECKING

from torchperf_ci.deadline import Deadline
from torchperf_ci.errors import ConflictError, CredentialsError, NotDeliveredError
from torchperf_ci.upload.payload import API_LIMIT
from torchperf_ci.upload.post import checked_url, never_arrived, post, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torchperf_ci.places.access import UploaderCredentials
    from torchperf_ci.places.base import Outcome, Put
    from torchperf_ci.upload.post import Answer
    from torchperf_ci.upload.tried import Tried

_SECONDS_A_REQUEST = 30.0
_TRY_AGAIN = {408, 425, 429, 500, 502, 503, 504}
_NOT_RUN = {429}
"""Answers in the API's place: nothing of the request can have been kept."""
_ADVICE = {
    400: "the API does not understand the request; is this the URL of an upload API?",
    401: "it got no credentials; set UPLOADER_USERNAME and UPLOADER_PASSWORD",
    403: "it does not accept the credentials; check UPLOADER_USERNAME and UPLOADER_PASSWORD",
    404: "there is no upload API at this URL",
    413: "the content is too large for this API; upload to its bucket instead",
    422: "it refuses the records",
}


class LambdaApi:
    """Where objects can be put and never read; ``name`` is its URL."""

    def __init__(
        self,
        url: str,
        credentials: Callable[[], UploaderCredentials],
        tried: Callable[[str], Tried],
        seconds: float,
    ) -> None:
        self.name = checked_url(url)
        self._credentials = credentials
        self._tried = tried
        self._seconds = seconds

    def put_all(self, bodies: Mapping[str, bytes]) -> dict[str, Outcome]:
        """Send each body, under one deadline; one that fails does not stop the others."""
        try:
            sender = _Sender(self.name, self._credentials(), self._tried(self.name), self._seconds)
        except CredentialsError as error:
            return dict.fromkeys(bodies, error)
        return {key: sender.outcome(key, body) for key, body in bodies.items()}


class _Sender:
    """One delivery, with its credentials, its memory and its deadline."""

    def __init__(self, url: str, credentials: UploaderCredentials, tried: Tried, seconds: float) -> None:
        self._url = url
        self._credentials = credentials
        self._tried = tried
        self._seconds = seconds
        self._deadline = Deadline.after(seconds)

    def outcome(self, key: str, body: bytes) -> Outcome:
        try:
            return self._put(key, body)
        except (ConflictError, NotDeliveredError) as error:
            return error

    def _put(self, key: str, body: bytes) -> Put:
        request = self._request(key, body)
        problem = "the time was up before its turn"
        for _ in self._deadline.tries():
            if not self._deadline.left:
                break
            sent_before = self._tried.may_be_there(key, body)
            self._tried.note(key, body, "sending")
            answer = self._ask(request)
            if isinstance(answer, Exception):
                problem = f"it cannot be reached ({reason(answer)})"
                self._forget(key, body, never_arrived(answer) and not sent_before)
                continue
            if answer.status not in _TRY_AGAIN:
                return self._settle(key, body, answer, sent_before=sent_before)
            problem = f"it answered {answer.status} {answer.message}".rstrip()
            self._forget(key, body, answer.status in _NOT_RUN and not sent_before)
            time.sleep(min(answer.wait, self._deadline.left))
        msg = f"{key}: {self._url} did not keep it within {self._seconds:g} s: {problem}"
        raise NotDeliveredError(msg)

    def _ask(self, request: bytes) -> Answer | OSError | http.client.HTTPException:
        try:
            return post(self._url, request, min(_SECONDS_A_REQUEST, self._deadline.left))
        except (OSError, http.client.HTTPException) as error:
            return error

    def _forget(self, key: str, body: bytes, unsent: bool) -> None:
        """Nothing of this was sent after all: a later 409 is about somebody else."""
        if unsent:
            self._tried.note(key, body, "refused")

    def _settle(self, key: str, body: bytes, answer: Answer, *, sent_before: bool) -> Put:
        """What a definite answer means."""
        if answer.status == http.client.OK:
            self._tried.note(key, body, "kept")
            return "written"
        if answer.status == http.client.CONFLICT and answer.body.get("same", sent_before):
            self._tried.note(key, body, "kept")
            return "already there"
        self._tried.note(key, body, "refused")
        raise self._refusal(key, answer)

    def _refusal(self, key: str, answer: Answer) -> ConflictError | NotDeliveredError:
        if answer.status == http.client.CONFLICT:
            return ConflictError(
                f"{key}: {self._url} keeps something else under this key, which was not overwritten; "
                "give this upload a key of its own with --model"
            )
        kind = CredentialsError if answer.status in {401, 403} else NotDeliveredError
        advice = _ADVICE.get(answer.status, "look into its logs")
        told = f" ({answer.message})" if answer.message else ""
        return kind(f"{key}: {self._url} answered {answer.status}{told}: {advice}")

    def _request(self, key: str, body: bytes) -> bytes:
        content = {
            "username": self._credentials.username,
            "password": self._credentials.password,
            "s3_path": key,
            "content": body.decode(),
        }
        request = json.dumps(content, ensure_ascii=False).encode()
        if len(request) >= API_LIMIT:
            msg = f"{key}: its request has {len(request)} bytes, and {self._url} takes less than {API_LIMIT}"
            raise NotDeliveredError(msg)
        return request
