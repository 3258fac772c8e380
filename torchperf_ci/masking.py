"""Mask credentials in what is shown or kept: commands, URLs, headers and the messages of other programs."""

from __future__ import annotations

import re

_SECRET = re.compile(
    # In a URL; a password may have spaces or slashes, although they should be percent-encoded.
    # Two slashes are one in what was taken for a path. A user alone may be a token on the web, but nowhere else.
    r"(?:(?<=://)|(?<=https:/)|(?<=http:/))[^/@\s:]+:(?!\s|\d+:?(?:[/\s]|$))(?:[^/\n]*|\S{1,200})@|"
    r"(?i:(?<=https://)|(?<=http://)|(?<=https:/)|(?<=http:/))[^/@\s]+@|"
    # In a header, the query of a URL, a variable or an option; `TOKEN=$HF_TOKEN` only says where it is.
    r"((?i:authorization: *(?:basic|token) |bearer |[?&][\w.-]{0,40}(?:token|password|secret|signature|sig|key)=|"
    r"--(?:[a-z]{1,20}-)?(?:token|password|secret)[= ])|(?:TOKEN|PASSWORD|SECRET|KEY)=)"
    r"(?![\"']?\$)(?:'[^'\n]*'|\"[^\"\n]*\"|[^\s&;])+"
)


def without_secrets(text: str) -> str:
    """Return ``text`` with the credentials in URLs, headers and commands masked."""
    return _SECRET.sub(r"\1***", text)
