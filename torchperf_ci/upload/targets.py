"""The targets of ``--to``: an upload API, a store, or a place for files.

The API stores an object unless its key exists, and answers 409 otherwise. ``"same": true`` in that response means that
the content is equal; if a server does not say so, we only know what we sent ourselves.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from torchperf_ci.console import say
from torchperf_ci.deadline import Deadline
from torchperf_ci.document import counted
from torchperf_ci.errors import ConflictError, CredentialsError, NotDeliveredError, StoreError, UsageError
from torchperf_ci.http_client import (
    HttpAnswer,
    certificate_problem,
    failure_reason,
    json_answer,
    never_arrived,
)
from torchperf_ci.places import REMOTE_FORMS, REMOTE_PLACES, is_api, is_remote, is_store, open_place
from torchperf_ci.places.place import PlaceAccess, PutOutcome, PutResult, UploaderCredentials, outcome_of
from torchperf_ci.upload.payload import API_LIMIT
from torchperf_ci.upload.spool import SentRequests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_ci.store.ingest import IngestOutcome as Ingested


_ASCII = re.compile(r"[!-~]+")
_LOCAL = ("localhost", "127.0.0.1", "::1")


def checked_url(url: str) -> str:
    """Return ``url`` if it is safe to send a password there. Raises :class:`UsageError`."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")  # what a look-up does; it fails for two dots
        is_url = bool(_ASCII.fullmatch(url) and host and parts.port != 0)
    except ValueError:
        is_url = False
    if not is_url:
        msg = "the upload API's address is not a URL; give https://HOST/PATH, in which é is %C3%A9"
        raise UsageError(msg)
    if parts.username or parts.password or parts.query or parts.fragment:
        msg = "credentials do not belong in a URL: set UPLOADER_USERNAME and UPLOADER_PASSWORD; nor does ?…"
        raise UsageError(msg)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOCAL):
        raise UsageError(f"{url}: would send the password in the clear; give an https:// URL")
    return url


_SECONDS_A_REQUEST = 30.0
_TRY_AGAIN = {408, 425, 429, 500, 502, 503, 504}
_NOT_RUN = {429}
"""Statuses sent before the API runs: the request cannot have been stored."""
_ADVICE = {
    400: "the API does not understand the request; is this the URL of an upload API?",
    401: "it does not know the credentials that were sent; is this the URL of an upload API, or its dashboard's?",
    403: "it does not accept the credentials; check UPLOADER_USERNAME and UPLOADER_PASSWORD",
    **dict.fromkeys((301, 302, 307, 308, 404, 405), "there is no upload API at this URL"),
    413: "the content is too large for this API, or a proxy before it (nginx: client_max_body_size 6m)",
    422: "it refuses the records",
}
_TRUST = "correct it or the address; if an authority of your own issued it, name that one's in SSL_CERT_FILE"
_SENT_REQUESTS = "requests.jsonl"


class UploadApi:
    """An upload API, to which objects can be written but not read; ``name`` is its URL.

    Each request is noted in a journal in the folder ``spool``.
    """

    def __init__(self, url: str, access: PlaceAccess, spool: Path) -> None:
        self.name = checked_url(url)
        self._access = access
        self._journal = spool / _SENT_REQUESTS

    def put_all(self, bodies: Mapping[str, bytes]) -> dict[str, PutOutcome]:
        """Send each body, under one deadline; one that fails does not stop the others."""
        try:
            self._credentials = UploaderCredentials.of(os.environ, self._access.mask)
        except CredentialsError as error:
            return dict.fromkeys(bodies, error)
        self._tried = SentRequests(self._journal, self.name)
        self._deadline = Deadline.after(self._access.deadline)
        return {key: outcome_of(self._put, key, body) for key, body in bodies.items()}

    def _put(self, key: str, body: bytes) -> PutResult:
        request = self._request(key, body)
        problem = ""
        for _ in self._deadline.tries():
            if not self._deadline.left:
                break
            sent_before = self._tried.may_be_there(key, body)
            self._tried.note(key, body, "sending")
            try:
                answer = json_answer(request, min(_SECONDS_A_REQUEST, self._deadline.left), self._deadline)
            except (OSError, http.client.HTTPException) as error:
                # A try that the deadline cut short says less than the one before.
                if self._deadline.left or not problem:
                    problem = f"it cannot be reached ({failure_reason(error)})"
                # It never arrived: a later 409 is about someone else's object.
                if never_arrived(error) and not sent_before:
                    self._tried.note(key, body, "refused")
                if untrusted := certificate_problem(error):
                    msg = f"{key}: the certificate of {self.name} is not accepted: {untrusted}; {_TRUST}"
                    raise NotDeliveredError(msg) from error
                continue
            if answer.status == http.client.OK and "etag" not in answer.body:
                problem = "it answered 200, but not that it kept it; is this the URL of an upload API?"
                continue
            if answer.status not in _TRY_AGAIN:
                return self._settle(key, body, answer, sent_before=sent_before)
            problem = f"it answered {answer.status} {answer.message}".rstrip()
            if answer.status in _NOT_RUN and not sent_before:
                self._tried.note(key, body, "refused")
            time.sleep(min(answer.wait, self._deadline.left))
        why = problem or "the time was up before its turn"
        msg = f"{key}: {self.name} did not keep it within {self._access.deadline:g} s: {why}"
        raise NotDeliveredError(msg)

    def _settle(self, key: str, body: bytes, answer: HttpAnswer, *, sent_before: bool) -> PutResult:
        """Return or raise what a definite response means."""
        if answer.status == http.client.OK:
            self._tried.note(key, body, "kept")
            return "written"
        if answer.status == http.client.CONFLICT and answer.body.get("same", sent_before):
            self._tried.note(key, body, "kept")
            return "already there"
        self._tried.note(key, body, "refused")
        raise self._refusal(key, answer)

    def _refusal(self, key: str, answer: HttpAnswer) -> ConflictError | NotDeliveredError:
        if answer.status == http.client.CONFLICT:
            return ConflictError(
                f"{key}: {self.name} keeps something else under this key, which was not overwritten; "
                "give this upload a key of its own with --model"
            )
        kind = CredentialsError if answer.status in {401, 403} else NotDeliveredError
        advice = _ADVICE.get(answer.status, "look into its logs")
        message = f" ({answer.message})" if answer.message else ""
        return kind(f"{key}: {self.name} answered {answer.status}{message}: {advice}")

    def _request(self, key: str, body: bytes) -> urllib.request.Request:
        content = {
            "username": self._credentials.username,
            "password": self._credentials.password,
            "s3_path": key,
            "content": body.decode(),
        }
        request = json.dumps(content, ensure_ascii=False).encode()
        if len(request) >= API_LIMIT:
            msg = f"{key}: its request has {len(request)} bytes, and {self.name} takes less than {API_LIMIT}"
            raise NotDeliveredError(msg)
        headers = {"content-type": "application/json"}
        return urllib.request.Request(self.name, request, headers, method="POST")  # noqa: S310  # see checked_url


BUCKET = "torchperf-upload"
"""``_meta.bucket`` of rows that an uploader inserted directly; ``_meta.key`` is the same as in any other place."""


class StoreTarget:
    """A store at ``chdb://…`` or ``clickhouse://…``, else :class:`UsageError`."""

    def __init__(self, dsn: str, access: PlaceAccess) -> None:
        from torchperf_ci.store.dsn import StoreServer, parse_dsn  # most uploads go elsewhere

        location = parse_dsn(dsn)
        if isinstance(location, StoreServer):
            access.mask(location.password)
        self._dsn = dsn
        self._name = str(location)
        self._seconds = access.deadline

    def put_all(self, bodies: Mapping[str, bytes]) -> dict[str, PutOutcome]:
        """Ingest all bodies under their keys; each object is ingested as a whole or not at all."""
        from torchperf_ci.store.ingest import ingest_objects
        from torchperf_ci.store.migrations import open_store

        try:
            with open_store(self._dsn, Deadline.after(self._seconds)) as store:
                ingested = ingest_objects(store, BUCKET, bodies.items())
        except NotDeliveredError as error:
            return dict.fromkeys(bodies, error)
        except StoreError as error:
            return dict.fromkeys(bodies, NotDeliveredError(str(error)))
        if ingested.ahead:
            say(
                f"{counted(ingested.ahead, 'record')} dated in the future, the newest of the machine until "
                "then: see the clock there, and that times are in seconds"
            )
        return self._outcomes(bodies, ingested)

    def _outcomes(self, bodies: Mapping[str, bytes], ingested: Ingested) -> dict[str, PutOutcome]:
        outcomes: dict[str, PutOutcome] = dict.fromkeys(bodies, "already there")
        outcomes |= dict.fromkeys(ingested.new, "written")
        for key in (conflict.removeprefix(f"{BUCKET}/") for conflict in ingested.conflicts):
            msg = f"{key}: {self._name} keeps something else under this key, which was not overwritten"
            outcomes[key] = ConflictError(msg)
        for refused in ingested.refused:
            key = refused.file.removeprefix(f"{BUCKET}/")
            outcomes[key] = NotDeliveredError(f"{key}: {self._name} refuses a record: {refused.reasons[0]}")
        return outcomes


_FORMS = (
    f"an upload API (https://…), {REMOTE_FORMS}, chdb://PATH, clickhouse://USER@HOST/DATABASE or a directory, "
    "as ./NAME if it has a colon"
)
_PASSWORD = re.compile(r"(?<=://)([^/?#:@]*):(?!\d*(?:[/?#]|$)).*@", re.DOTALL)
"""From a colon that does not begin a port to the last @, since passwords are not always percent-encoded."""
_QUERY = re.compile(r"([?#&])(?!secure=(?:true|false)(?:&|$))([^=&]*=)?[^&]*")


class Target(Protocol):
    """A destination for objects."""

    def put_all(self, bodies: Mapping[str, bytes]) -> dict[str, PutOutcome]:
        """Send each body under its key, under one deadline; one that fails does not stop the others."""


def target_address(to: str) -> str:
    """Return ``to`` without its password, and with a path made absolute, for the spool and for people."""
    if is_store(to):
        from torchperf_ci.store.dsn import EmbeddedStore, parse_dsn

        if isinstance(location := parse_dsn(to), EmbeddedStore):
            return str(location)
    if is_remote(to):
        return _QUERY.sub(r"\1\2***", _PASSWORD.sub(r"\1@", to))
    return str(Path(to).absolute())


def open_target(to: str, access: PlaceAccess, spool: Path) -> Target:
    """Return the target for ``to`` without connecting. Raises :class:`UsageError` for an unknown kind of target."""
    if is_api(to):
        return UploadApi(to, access, spool)
    if is_store(to):
        return StoreTarget(to, access)
    if is_remote(to) and not to.startswith(tuple(REMOTE_PLACES)):
        scheme = to.partition(":")[0]  # the rest may contain a password
        raise UsageError(f"{scheme + ':'!r} begins nothing that records can be sent to: give {_FORMS}")
    return open_place(to, access)
