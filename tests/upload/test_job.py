"""Against a server that answers as GitHub's REST API does, which PyGithub really asks."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from serving import serving

from torchperf_ci import identity as module
from torchperf_ci.identity import JobIdentity, UnknownIdentityError, find_job

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "ghs_secret"


def listed(number: int, runner: str = "runner-7", attempt: int = 2, hour: int = 3) -> dict[str, Any]:
    return {
        "id": number,
        "name": f"measure ({number})",
        "runner_name": runner,
        "run_attempt": attempt,
        "started_at": f"2026-08-01T{hour:02}:00:00Z",
    }


class GitHub(ThreadingHTTPServer):
    """``jobs`` in pages of two; ``faults`` are statuses for the next requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.jobs: list[dict[str, Any]] = []
        self.faults: list[int] = []
        self.asked: list[tuple[str, str]] = []


class Handler(BaseHTTPRequestHandler):
    server: GitHub

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers["Authorization"]))
        path, _, query = self.path.partition("?")
        run = f"{self.server.url}/repos/octo/perf/actions/runs/71"
        if self.server.faults:
            self.answer(self.server.faults.pop(0), {"message": "not now"})
        elif path == "/repos/octo/perf/actions/runs/71":
            self.answer(200, {"id": 71, "url": run, "jobs_url": f"{run}/jobs"})
        elif path == "/repos/octo/perf/actions/runs/71/jobs":
            page = int(dict(part.split("=") for part in query.split("&")).get("page", "1"))
            link = f'<{run}/jobs?page={page + 1}>; rel="next"' if len(self.server.jobs) > 2 * page else ""
            found = self.server.jobs[2 * page - 2 : 2 * page]
            self.answer(200, {"total_count": len(self.server.jobs), "jobs": found}, link)
        else:
            self.answer(404, {"message": "Not Found"})

    def answer(self, status: int, body: object, link: str = "") -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        if link:
            self.send_header("Link", link)
        if status == 429:
            self.send_header("Retry-After", "3600")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_args: object) -> None:
        pass


@pytest.fixture
def github() -> Iterator[GitHub]:
    with serving(GitHub()) as server:
        yield server


@pytest.fixture
def asking(job: dict[str, str], github: GitHub) -> dict[str, str]:
    return {**job, "GITHUB_API_URL": github.url, "GITHUB_TOKEN": TOKEN}


def test_the_job_is_the_one_on_this_runner_in_this_attempt(asking: dict[str, str], github: GitHub) -> None:
    github.jobs = [
        listed(1, runner="other"),
        listed(2, attempt=1),
        listed(3, runner=""),
        listed(4),
        listed(5, "other"),
    ]
    assert find_job(asking, 71, 2) == JobIdentity(4, "measure (4)")
    assert all(authorization == f"token {TOKEN}" for _, authorization in github.asked)


def test_of_several_jobs_on_one_runner_it_is_the_latest(asking: dict[str, str], github: GitHub) -> None:
    github.jobs = [listed(1, hour=1), listed(2, hour=9), listed(3, hour=5)]
    assert find_job(asking, 71, 2).id == 2


def test_a_failure_that_passes_is_tried_again(
    asking: dict[str, str], github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    github.jobs, github.faults = [listed(4)], [502, 503]
    assert find_job(asking, 71, 2).id == 4


@pytest.mark.parametrize(
    ("faults", "reason"),
    [
        ([], "GitHub lists no job on the runner 'runner-7' in attempt 2 of this run"),
        ([403], "GitHub answered 403: not now"),
        ([404], "GitHub answered 404: not now"),
    ],
)
def test_what_is_not_told_has_a_reason(
    asking: dict[str, str], github: GitHub, faults: list[int], reason: str
) -> None:
    github.faults = faults
    with pytest.raises(UnknownIdentityError, match=reason) as error:
        find_job(asking, 71, 2)
    assert TOKEN not in str(error.value)


def test_another_run_has_other_jobs(asking: dict[str, str], github: GitHub) -> None:
    github.jobs = [listed(4)]
    with pytest.raises(UnknownIdentityError, match="GitHub answered 404"):
        find_job(asking, 72, 2)


def test_a_rate_limit_is_not_waited_for(
    asking: dict[str, str], github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyGithub by itself would sleep until the limit is lifted."""
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    github.faults = [429, 429, 429]
    with pytest.raises(UnknownIdentityError, match="GitHub answered 429"):
        find_job(asking, 71, 2)
    assert slept == []


def test_a_github_that_is_not_there_has_a_reason(
    asking: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_JOBS_SECONDS", 0.3)
    with pytest.raises(UnknownIdentityError, match="GitHub cannot be reached"):
        find_job({**asking, "GITHUB_API_URL": "http://127.0.0.1:9"}, 71, 2)


def test_a_list_without_end_is_left(
    asking: dict[str, str], github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_JOBS_SECONDS", -1.0)
    github.jobs = [listed(1), listed(2), listed(3)]
    with pytest.raises(UnknownIdentityError, match="took too long to list"):
        find_job(asking, 71, 2)


def test_without_a_token_nobody_is_asked(job: dict[str, str]) -> None:
    with pytest.raises(UnknownIdentityError, match="there is no GITHUB_TOKEN"):
        find_job(job, 71, 2)
