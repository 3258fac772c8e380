"""What GitHub's refusals mean where issues are concerned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.errors import CredentialsError, NotDeliveredError, TorchperfError

if TYPE_CHECKING:
    from torchperf_ci.report.github import RefusedError

_MAY_NOT = (401, 403)
_GONE = (301, 404, 410)


class StaleError(Exception):
    """An issue is not any more as it was when somebody looked."""

    def __init__(self, number: int) -> None:
        super().__init__(f"#{number} has changed meanwhile")


class LockedError(Exception):
    """The conversation is locked; the issue itself can still be edited."""


def is_gone(error: RefusedError) -> bool:
    """Whether what was asked for is deleted, moved, or out of sight."""
    return error.status in _GONE


def explained(error: RefusedError, repository: str, what: str) -> TorchperfError:
    """An error that says what to do."""
    if error.status == 410:
        return NotDeliveredError(
            f"{repository} has issues switched off ({error}): switch them on under Settings → General → Features, or "
            "name another repository, with `issues: {repo: owner/name}` in torchperf.yml or with --repo"
        )
    if error.status in _MAY_NOT:
        return CredentialsError(
            f"the token in GITHUB_TOKEN may not {what} in {repository}: {error}; "
            "give the job `permissions: issues: write`"
        )
    if error.status == 404:
        return CredentialsError(
            f"{repository} is not there, or the token in GITHUB_TOKEN does not see it: {error}; "
            "it needs `permissions: issues: write`, and a job's own token sees no other private repository"
        )
    return NotDeliveredError(f"GitHub refuses to {what} in {repository}: {error}")
