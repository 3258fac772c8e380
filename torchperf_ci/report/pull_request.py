"""Find the pull requests whose head is the measured commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_ci.errors import CredentialsError, NotDeliveredError, UsageError
from torchperf_ci.report.github import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from github.PullRequest import PullRequest

    from torchperf_ci.report.github import Asking
    from torchperf_ci.report.measured import Measured


class NobodyWaitsError(Exception):
    """The pull request has moved on or is closed: what was measured is of no use there any more."""


def find(ask: Asking, measured: Measured) -> Sequence[PullRequest]:
    """The open pull requests that ``measured`` is the head of: several where its branch is known, and has several.

    Raises :class:`NobodyWaitsError` where there is none any more, and :class:`UsageError` where there never was one, or
    there are several and nobody says of which branch.
    """
    if not measured.sha and not measured.pull_requests:
        msg = "comment on which pull request? give --pull-request, or --head-sha"
        raise UsageError(msg)
    candidates = {pull.number: pull for pull in _candidates(ask, measured)}
    open_ones = [pull for pull in candidates.values() if pull.state == "open"]
    found = [pull for pull in open_ones if measured.sha in ("", pull.head.sha)]
    if len(found) == 1 or (found and measured.repository and measured.branch):
        return found
    if found:
        names = " and ".join(f"#{pull.number}" for pull in found)
        msg = f"{measured.sha} is the head of the pull requests {names}: give one with --pull-request"
        raise UsageError(msg)
    if open_ones:
        heads = " and ".join(f"#{pull.number} to {pull.head.sha}" for pull in open_ones)
        msg = f"the measured {measured.sha} is no head any more, the pull request has moved on: {heads}"
        raise NobodyWaitsError(msg)
    if candidates:
        msg = f"the pull request {' and '.join(f'#{number}' for number in candidates)} is not open any more"
        raise NobodyWaitsError(msg)
    branch = f" on {measured.repository}:{measured.branch}" if measured.branch else ""
    msg = (
        f"{ask.name} has no pull request with the head {measured.sha}{branch}, or the token in GITHUB_TOKEN "
        "cannot see it (it needs pull-requests: read)"
    )
    raise UsageError(msg)


def _candidates(ask: Asking, measured: Measured) -> Iterable[PullRequest]:
    """Those that are named; else those of the commit and, for GitHub does not know forks' commits, of the branch."""
    repository = ask.repository
    if measured.pull_requests:
        return _from_there(measured, [_named(ask, number) for number in measured.pull_requests])
    found = _from_there(measured, _listed(ask, lambda: repository.get_commit(measured.sha).get_pulls()))
    if any(pull.head.sha == measured.sha for pull in found) or not (measured.repository and measured.branch):
        return found
    head = f"{measured.repository.partition('/')[0]}:{measured.branch}"
    listed = _listed(ask, lambda: repository.get_pulls(state="all", head=head))
    return [*found, *_from_there(measured, listed)]


def _from_there(measured: Measured, pulls: Iterable[PullRequest]) -> list[PullRequest]:
    """Those from where the commit was measured, as far as that is known: anybody can open another one with it."""
    return [
        pull
        for pull in pulls
        if measured.branch in ("", pull.head.ref)
        and measured.repository.lower() in ("", pull.head.repo.full_name.lower() if pull.head.repo else None)
    ]


def _named(ask: Asking, number: int) -> PullRequest:
    try:
        return ask(lambda: ask.repository.get_pull(number).complete())
    except RefusedError as error:
        msg = f"{ask.name} has no pull request #{number} that the token may see: {error}"
        raise UsageError(msg) from error


def _listed(ask: Asking, call: Callable[[], Iterable[PullRequest]]) -> list[PullRequest]:
    try:
        return ask.all(call)
    except RefusedError as error:
        if error.status == 403:
            msg = (
                f"the token in GITHUB_TOKEN may not list pull requests, it needs pull-requests: read: {error}"
            )
            raise CredentialsError(msg) from error
        if error.status in (404, 422):  # no such commit, or branch
            return []
        msg = f"pull requests cannot be listed: {error}"
        raise NotDeliveredError(msg) from error
