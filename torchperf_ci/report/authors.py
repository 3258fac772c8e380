"""Who wrote a commit, as GitHub knows it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torchperf_ci.report.github import RefusedError

if TYPE_CHECKING:
    from torchperf_ci.culprits.culprit import Culprit
    from torchperf_ci.report.github import Asking

_LOGIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})")
"""A person's or an organisation's; an app's has brackets, and reads nothing."""


def author_login(ask: Asking, culprit: Culprit, server: str) -> str | None:
    """The login of a culprit's author; None where the commit is not on ``server``, or of nobody that it knows."""
    page = rf"{re.escape(server)}/([\w.-]+/[\w.-]+)/commit/([0-9a-f]+)"
    found = re.fullmatch(page, culprit.url or "", re.ASCII)
    if not found or found[2] != culprit.commit:
        return None
    try:
        author = ask(lambda: ask.github.get_repo(found[1]).get_commit(found[2]).author)
    except RefusedError:
        return None
    login = author.login if author else ""
    return login if _LOGIN.fullmatch(login) else None
