"""The workflows of the documentation, copied from its text and run in a library's repository."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from act_runner import standing_in
from contents import contents
from copied import REPLACED, copied, workflows
from past_nights import remember, repeat
from seaweedfs import BUCKET, JUDGE, ROLE

from torchperf_ci.places import open_place
from torchperf_ci.store.migrations import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Act, Runner
    from oidc_issuer import Issuer
    from seaweedfs import S3Server

    Git = Callable[..., str]

TESTS = Path(__file__).parents[1]
LIBRARY = Path(__file__).parent / "library"
HARNESS = """
import json, pathlib, sys
record = {
    "benchmark": {"name": "Own harness"},
    "model": {"name": "blend"},
    "metric": {"name": "latency(ms)", "benchmark_values": [1.5, 1.75]},
}
folder = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
folder.mkdir()
(folder / "blend.json").write_text(json.dumps([record]))
"""


@dataclass(frozen=True)
class User:
    """Whoever copied a workflow into the repository at ``folder``."""

    runner: Runner
    folder: Path
    git: Git

    def commit(self, **files: str) -> str:
        """Commit what is there, with ``files`` by their names; the commit."""
        for name, text in files.items():
            (self.folder / f"{name}.py").write_text(text)
        self.git(self.folder, "add", "--all")
        self.git(self.folder, "commit", "--quiet", "--message", "A change")
        return self.git(self.folder, "rev-parse", "HEAD").strip()

    def run(self, text: str, trigger: str, *arguments: str, **environ: str) -> Act:
        """The workflow, which is committed where it is not yet, from its beginning to its end."""
        file = self.folder / ".github/workflows/copied.yml"
        if not file.exists():
            file.parent.mkdir(parents=True)
            file.write_text(text)
            self.commit()
        run = len(list(self.folder.parent.glob("run-*"))) + 1
        own = {
            "GITHUB_REPOSITORY": "octo/perf",
            "GITHUB_RUN_ID": str(1000 + run),
            "ORIGIN": str(self.folder),
            "PYTHONPATH": str(self.folder),  # as if it were installed
            "TORCH": str(self.runner.torch),
            "PROCESSES": "1",
            "LINKED_PIP": "1",
        }
        return replace(self.runner, caller=self.folder, folder=self.folder.parent / f"run-{run}").run(
            trigger,
            {
                "number": 7,
                "pull_request": {"number": 7},
                "repository": {"full_name": "octo/perf", "default_branch": "main"},
            },
            "copied",
            "--no-skip-checkout",
            *standing_in([text]),
            *(f"--env={name}={value}" for name, value in {**own, **environ}.items()),
            *arguments,
        )


@pytest.fixture
def user(runner: Runner, tmp_path: Path, git: Git) -> User:
    """A repository of a library with a workload and a harness of its own."""
    folder = tmp_path / "library"
    shutil.copytree(LIBRARY, folder)
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "config", "user.name", "a")
    git(folder, "config", "user.email", "a@localhost")
    made = User(runner, folder, git)
    made.commit(my_harness=HARNESS)
    return made


@pytest.fixture
def role(aws: S3Server, issuer: Issuer) -> dict[str, str]:
    """The environment of a job with ``id-token: write``, where the bucket is the tests' own."""
    return {
        **issuer.job(),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": aws.endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def kept(place: str) -> list[dict[str, Any]]:
    """All records that are there."""
    bodies = contents(open_place(place)).values()
    return [json.loads(line) for body in bodies for line in gzip.decompress(body).splitlines()]


def summary(act: Act, job: str) -> str:
    """All that a job has said on its page."""
    return "".join(event["content"] for event in act.commands(job, "summary"))


def test_every_workflow_that_people_copy_is_run_by_a_test() -> None:
    sources = "\n".join(file.read_text() for file in TESTS.rglob("*.py"))
    ran = set(re.findall(r'\bcopied\(\s*"([^"]+)"', sources))
    assert workflows().keys() == REPLACED.keys() == ran


def test_the_workflow_of_the_first_page_judges(user: User) -> None:
    """The first run has no past, not even a branch; after weeks of such runs something is slower, three times."""
    workflow, branch = copied("README.md: Benchmarks"), f"branch:benchmarks@{user.folder}"
    first = user.run(workflow, "schedule")
    assert first.results == {"measure": "success"}, first.log
    assert "are new; they are judged from the sixth run on" in summary(first, "measure")
    assert {record["model"]["name"] for record in kept(branch)} == {"caller/library"}
    (measured,) = contents(open_place(branch)).values()
    remember(user.folder, measured, user.git(user.folder, "rev-parse", "HEAD").strip())
    slow = user.commit(library=(user.folder / "library.py").read_text().replace("range(20)", "range(200)"))
    repeat(user.folder, measured, slow, times=2, slower=10)
    proven = user.run(workflow, "workflow_dispatch")
    assert proven.results == {"measure": "failure"}, proven.log
    titles = [event["kvPairs"].get("title", "") for event in proven.commands("measure", "error")]
    assert any(title.startswith("regressed: caller/library latency(ms)") for title in titles)


def test_the_workflow_that_keeps_records_in_a_bucket(user: User, role: dict[str, str]) -> None:
    done = user.run(copied("docs/actions.md: Benchmarks"), "schedule", **role)
    assert done.results == {"measure": "success"}, done.log
    (model,) = {record["model"]["name"] for record in kept(f"s3://{BUCKET}/granted/benchmarks")}
    assert model == "caller/library"
    warnings = "".join(event["raw"] for event in done.commands("measure", "warning"))
    assert "nothing is judged: s3://records/granted/benchmarks: s3:ListBucket was refused" in warnings
    shutil.rmtree(user.folder / ".github")
    judged = user.run(copied("docs/actions.md: Benchmarks").replace(ROLE, JUDGE), "schedule", **role)
    assert judged.results == {"measure": "success"}, judged.log
    assert "1 comparable run so far; it takes 5 to estimate the noise" in judged.log


def test_the_workflow_of_another_harness_sends_what_is_pushed_and_shows_what_is_proposed(
    user: User, role: dict[str, str]
) -> None:
    workflow, place = copied("docs/actions.md: Upload"), f"s3://{BUCKET}/granted/upload"
    proposed = user.run(workflow, "pull_request", **role)
    assert proposed.results == {"benchmark": "success"}, proposed.log
    assert kept(place) == []
    pushed = user.run(workflow, "push", **role)
    assert pushed.results == {"benchmark": "success"}, pushed.log
    assert [record["benchmark"]["name"] for record in kept(place)] == ["Own harness"]


def test_the_workflow_that_judges_by_a_store(user: User, tmp_path: Path) -> None:
    done = user.run(copied("docs/checking.md: Nightly"), "schedule", f"--var=STORE={tmp_path}/store")
    assert done.results == {"measure": "success"}, done.log
    assert "new" in summary(done, "measure")
    with open_store(f"chdb://{tmp_path}/store") as store:
        ((count,),) = store.rows("SELECT count() FROM torchperf_points")
    assert count > 3
