"""The number of the pull request that a commit came by, as far as its message names one."""

from __future__ import annotations

import re

_SQUASHED = re.compile(r"\(#([0-9]{1,9})\)\Z")
_MERGED = re.compile(r"\AMerge pull request #([0-9]{1,9}) from ")
_RESOLVED = re.compile(r"^Pull Request resolved: https://\S+/pull/([0-9]{1,9})\s*$", re.MULTILINE)


def pull_request(subject: str, body: str) -> int | None:
    """What GitHub put at the end of a squashed commit's ``subject`` or into a merge's, else PyTorch's trailer.

    In this order, because a cherry-pick keeps the trailer of the original. A number that is quoted, as in a revert's
    subject, is another commit's.
    """
    for pattern, text in ((_SQUASHED, subject), (_MERGED, subject), (_RESOLVED, body)):
        numbers = pattern.findall(text)
        if numbers:
            return int(numbers[-1])
    return None
