"""Requests to a running receiver, well-formed or byte by byte."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from serving_app import receiving_in

from torchperf_ci.places import open_place
from torchperf_ci.places.place import UploaderCredentials

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torchperf_ci.places.place import RecordPlace

PASSWORD = "pa55word-of-the-uploader"
ACCEPTED = UploaderCredentials("uploader", PASSWORD)


def body(value: float = 1.5, **fields: Any) -> bytes:
    """A good request, under a key of its own unless ``fields`` say which."""
    row = json.dumps({"metric": {"name": "latency(ms)", "benchmark_values": [value]}})
    good = {"username": "uploader", "password": PASSWORD, "s3_path": f"v3/{uuid4()}", "content": row}
    return json.dumps(good | fields).encode()


def kept(folder: Path) -> dict[str, str]:
    """What is kept below ``folder``, by key."""
    if not folder.exists():
        return {}
    place = open_place(str(folder))
    return {key: gzip.decompress(place.get(key)).decode() for key in list(place.keys())}


@contextmanager
def serving_in(place: RecordPlace, host: str = "127.0.0.1") -> Iterator[tuple[str, int]]:
    """The address of a server, which runs until the block ends."""
    with receiving_in(place, ACCEPTED, host) as server:
        yield server.address


def post(address: tuple[str, int], content: bytes, method: str = "POST", **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(*address, timeout=300)
    try:
        connection.request(method, "/", content, headers)
        answer = connection.getresponse()
        return answer.status, json.load(answer)
    finally:
        connection.close()


def say(address: tuple[str, int], *pieces: bytes) -> socket.socket:
    """A connection over which ``pieces`` were sent."""
    connection = socket.create_connection(address, timeout=300)
    for piece in pieces:
        connection.sendall(piece)
    return connection


def rest(connection: socket.socket) -> bytes:
    """All that still comes, until the server closes."""
    with connection, connection.makefile("rb") as file:
        return file.read()


def head(length: object, more: str = "") -> bytes:
    return (
        f"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n{more}\r\n".encode()
    )
