"""A workflow that uses test-infra's action, with another ``uses:`` line, and nothing else changed."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from act_runner import OURS, standing_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Runner

CALLER = Path(__file__).parent / "caller"
THEIRS = "pytorch/test-infra/.github/actions/upload-benchmark-results@main"


def test_the_job_stays_green_and_shows_every_good_record(
    runner: Runner, tmp_path: Path, git: Callable[..., str]
) -> None:
    workflow = (CALLER / "drop_in.yml").read_text()
    assert workflow.count(f"uses: {THEIRS}\n") == 3
    folder = tmp_path / "repository"
    shutil.copytree(CALLER / "harness", folder / "harness")
    (folder / ".github/workflows").mkdir(parents=True)
    owner, _, commit = OURS.partition("@")
    ours = workflow.replace(f"uses: {THEIRS}", f"uses: {owner}/actions/upload@{commit}")
    (folder / ".github/workflows/drop_in.yml").write_text(ours)
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "A harness")
    done = replace(runner, caller=folder, folder=tmp_path / "act").run(
        "push",
        {},
        "drop_in",
        f"--local-repository={OURS}={runner.project}",
        *(f"--platform={label}=-self-hosted" for label in ("linux.2xlarge", "macos-m1-stable")),
        *standing_in([ours]),
        "--env=GITHUB_REPOSITORY=octo/perf",
        f"--env=ORIGIN={folder}",
    )
    jobs = {"uploaded-linux.2xlarge", "uploaded-macos-m1-stable", "no-files-found"}
    assert done.results == dict.fromkeys(jobs, "success"), done.log
    for job in jobs - {"no-files-found"}:
        warnings = [event["raw"] for event in done.commands(job, "warning")]
        assert len([text for text in warnings if "metric is missing" in text]) == 3, done.log
        assert not done.commands(job, "error")
    keys = re.findall(r"v3/octo/perf/\d+/\d+/(\w+\.json) +(\d) +\d", done.log)
    assert sorted(keys) == sorted([("list.json", "1"), ("own_runners.json", "1"), ("rows.json", "2")] * 2)
    assert done.log.count("4 records in 3 objects would be sent to s3://ossci-benchmarks, 3 refused") >= 2
