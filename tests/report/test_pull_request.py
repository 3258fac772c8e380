from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from github_api import Fault, Pull

if TYPE_CHECKING:
    from github_api import GitHub
    from reporting_job import Job

SHA, OTHER = "a" * 40, "b" * 40
FORK = "stranger/perf"


def commented(github: GitHub) -> list[int]:
    """The pull requests that have a comment."""
    return [comment.on for comment in github.comments.values()]


def listed(number: int, repository: int = 1296269) -> dict[str, Any]:
    """A pull request as the event of a run has it."""
    return {"number": number, "base": {"repo": {"id": repository}}}


def test_one_of_a_fork_is_found_by_its_branch(job: Job, github: GitHub) -> None:
    """GitHub lists no pull request for the run, nor for the commit."""
    github.add(Pull(8, OTHER, FORK, "other", listed=False))
    github.add(Pull(7, SHA, FORK, listed=False))
    job.after_run()
    assert job.comment() == 0
    assert commented(github) == [7]
    (comment,) = github.comments.values()
    assert "https://github.example/octo/perf/actions/runs/71" in comment.body


def test_one_of_a_fork_that_was_deleted_meanwhile_is_that_of_its_owner(job: Job, github: GitHub) -> None:
    github.add(Pull(7, SHA, FORK, there=False))
    github.add(Pull(8, SHA, "another/perf", there=False))
    job.after_run(pull_requests=[listed(7), listed(8)])
    assert job.comment() == 0
    assert commented(github) == [7]
    # GitHub answers so, and does not describe it: github/rest-api-description#1811.
    assert {*github.problems} == {"$.head.repo: None is not of type 'object'"}
    github.problems.clear()


def test_one_that_is_listed_at_the_commit_is_found_there(job: Job, github: GitHub) -> None:
    github.add(Pull(7, SHA, branch="topic"))
    job.after_run(head_repository=None, head_branch=None)
    assert job.comment() == 0
    assert commented(github) == [7]


def test_one_of_the_same_repository_is_named_by_the_event(job: Job, github: GitHub) -> None:
    github.add(Pull(7, SHA))
    github.add(Pull(8, SHA))
    job.after_run(head_repository={"full_name": "Octo/perf"}, pull_requests=[listed(8)])
    assert job.comment() == 0
    assert commented(github) == [8]
    assert not [asked for asked in github.asked if "/commits/" in asked]


def test_the_number_of_another_repository_is_not_ours(job: Job, github: GitHub) -> None:
    """What a fork's run lists are the pull requests of its branch in the upstream repository."""
    github.add(Pull(7, SHA, FORK, listed=False))
    github.add(Pull(8, SHA, branch="unrelated"))
    github.pulls[8].listed = False
    job.after_run(pull_requests=[listed(8, repository=1)])
    assert job.comment() == 0
    assert commented(github) == [7]


def test_one_that_has_moved_on_gets_nothing(job: Job, github: GitHub, capsys: Any) -> None:
    github.add(Pull(7, OTHER, FORK, listed=False))
    job.after_run()
    assert job.comment() == 0
    assert commented(github) == []
    shown = capsys.readouterr().err
    assert f"#7 has moved on to {OTHER}" in shown
    assert "::notice title=No comment written::" in shown


def test_one_that_is_closed_gets_nothing(job: Job, github: GitHub, capsys: Any) -> None:
    github.add(Pull(7, SHA, FORK, listed=False, state="closed"))
    job.after_run()
    assert job.comment() == 0
    assert commented(github) == []
    assert "#7 is no longer open" in capsys.readouterr().err


def test_who_names_a_pull_request_cannot_name_another_one_than_was_measured(job: Job, github: GitHub) -> None:
    """A number from an artifact reaches nobody else's pull request, even where its head is the same commit."""
    github.add(Pull(7, SHA, FORK, listed=False))
    github.add(Pull(8, OTHER, FORK))
    github.add(Pull(9, SHA))
    job.after_run()
    assert job.comment("--pull-request", "8") == 0
    assert job.comment("--pull-request", "9") == 2
    assert commented(github) == []
    assert job.comment("--pull-request", "7") == 0
    assert commented(github) == [7]


def test_the_commit_alone_is_enough_outside_an_event(job: Job, github: GitHub) -> None:
    github.add(Pull(7, SHA))
    assert job.comment("--head-sha", SHA) == 0
    assert commented(github) == [7]


def test_a_commit_and_its_branch_are_enough_for_a_fork(job: Job, github: GitHub) -> None:
    github.add(Pull(7, OTHER, FORK, listed=False))
    job.after_run(sha=SHA, head_branch="elsewhere")
    assert job.comment("--head-sha", OTHER, "--head-repository", FORK, "--head-branch", "topic") == 0
    assert commented(github) == [7]


def test_a_number_alone_is_enough_by_hand(job: Job, github: GitHub) -> None:
    github.add(Pull(7, SHA))
    assert job.comment("--pull-request", "7") == 0
    assert commented(github) == [7]


@pytest.mark.parametrize(
    "strangers",
    [Pull(8, SHA, "mallory/perf"), Pull(8, SHA, branch="topic"), Pull(8, SHA, FORK, "elsewhere")],
    ids=["another fork", "another repository", "another branch"],
)
def test_anybody_elses_with_the_same_head_gets_nothing_and_hinders_nobody(
    job: Job, github: GitHub, strangers: Pull
) -> None:
    github.add(strangers)
    github.add(Pull(7, SHA, FORK, listed=False))
    job.after_run()
    assert job.comment() == 0
    assert commented(github) == [7]


def test_one_branch_with_two_pull_requests_gets_a_comment_on_each(job: Job, github: GitHub) -> None:
    """To two bases; GitHub does not say which of them was measured."""
    for number in (7, 8):
        github.add(Pull(number, SHA, FORK))
    github.add(Pull(6, SHA, FORK, state="closed"))
    job.after_run()
    assert job.comment() == 0
    assert commented(github) == [7, 8]
    assert [line.partition("#")[0][-2:] for line in job.output.splitlines() if "#" in line] == ["/7", "/8"]


def test_one_that_is_locked_keeps_no_comment_from_another_of_its_branch(
    job: Job, github: GitHub, capsys: Any
) -> None:
    github.add(Pull(7, SHA, FORK, locked=True))
    github.add(Pull(8, SHA, FORK))
    job.after_run()
    assert job.comment() == 4
    assert commented(github) == [8]
    assert "/pull/8#" in job.output
    assert "the conversation of octo/perf#7 is locked" in capsys.readouterr().err


def test_two_with_the_same_head_are_told(job: Job, github: GitHub, capsys: Any) -> None:
    github.add(Pull(7, SHA))
    github.add(Pull(8, SHA))
    assert job.comment("--head-sha", SHA) == 2
    assert "the pull requests #7 and #8: give one with --pull-request" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--head-sha", SHA], f"octo/perf has no pull request with the head {SHA}"),
        (
            ["--pull-request", "9"],
            "octo/perf has no pull request #9 that the token may see: GitHub answered 404",
        ),
        ([], "comment on which pull request? give --pull-request"),
        (["--repo", "octo", "--pull-request", "9"], "'octo' is not an owner/name"),
        (["--head-sha", "abc"], "--head-sha cannot be 'abc'"),
    ],
)
def test_what_is_not_found_is_told(job: Job, arguments: list[str], told: str, capsys: Any) -> None:
    assert job.comment(*arguments) == 2
    assert told in capsys.readouterr().err


def test_a_commit_that_github_does_not_know_is_looked_up_by_its_branch(job: Job, github: GitHub) -> None:
    github.add(Pull(7, SHA, FORK, listed=False))
    job.after_run()
    github.faults = [Fault("GET", 422, f"No commit found for SHA: {SHA}")]
    assert job.comment() == 0
    assert commented(github) == [7]


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (403, "GitHub answered 403: refused; give the job `permissions: pull-requests: read`"),
        (409, "GitHub refuses to list pull requests: GitHub answered 409"),
    ],
)
def test_a_token_that_may_not_look_is_told(
    job: Job, github: GitHub, status: int, told: str, capsys: Any
) -> None:
    job.after_run()
    github.faults = [Fault("GET", status, "refused")]
    assert job.comment() == 4
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("event", ["no json", '{"workflow_run": {}}', '{"pull_request": {"head": null}}'])
def test_an_event_that_is_none_is_told(job: Job, event: str, capsys: Any, monkeypatch: Any) -> None:
    (job.folder / "event").write_text(event)
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(job.folder / "event"))
    assert job.comment() == 2
    assert "give --pull-request and --head-sha" in capsys.readouterr().err
