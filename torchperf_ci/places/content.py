"""When two bodies are the same content."""

from __future__ import annotations

import gzip
import io
import zlib


def is_gzip(body: bytes) -> bool:
    """Whether ``body`` says that it is compressed."""
    return body.startswith(b"\x1f\x8b")


def same_content(body: bytes, kept: bytes) -> bool:
    """Whether what is ``kept`` holds the same bytes as ``body``, compressed or not.

    Two versions of zlib compress the same text differently, and what is resumed on another machine is still the same.
    """
    if body == kept:
        return True
    content = _content(body, -1)
    return content == _content(kept, len(content) + 1)


def _content(body: bytes, limit: int) -> bytes:
    """At most ``limit`` bytes of what ``body`` holds: what others have kept may unpack to any size."""
    if not is_gzip(body):
        return body
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as file:
            return file.read(limit)
    except (OSError, EOFError, zlib.error):
        return body
