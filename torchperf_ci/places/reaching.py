"""The settings of git with which a remote is reached: those of a checkout, or a token."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from torchperf_ci.git import Setting

# What a checkout's own settings say about reaching its remotes: actions/checkout keeps the job's token there.
_REACHING = re.compile(r"(http|credential|url|ssh|protocol)\.|core\.(sshcommand|gitproxy)\n", re.IGNORECASE)


def reaching_settings(listing: bytes) -> list[Setting]:
    """Of ``git config --list -z`` of a checkout, what helps to reach its remotes."""
    entries = listing.decode(errors="surrogateescape").split("\0")
    parts = (entry.partition("\n") for entry in entries if _REACHING.match(entry))
    return [(key, value) for key, _, value in parts]


def token_settings(token: str, server: str) -> list[Setting]:
    """Show ``token`` to ``server`` (``https://github.com``), and to no other."""
    credentials = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    parts = urlsplit(server)
    key = f"http.{parts.scheme}://{parts.netloc}/.extraheader"
    return [
        (key, ""),
        (key, f"AUTHORIZATION: basic {credentials}"),
    ]  # the empty one forgets what is set elsewhere
