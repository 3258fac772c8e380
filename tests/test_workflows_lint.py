"""Linters find nothing in any workflow, action or shell script of the project."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import copied
import pytest
import yaml
from workflow_linters import TOOLS, actionlint, findings, zizmor

from torchperf_ci.cli import main
from torchperf_ci.compare.command import MIN_BUDGET

if TYPE_CHECKING:
    from collections.abc import Iterable

PROJECT = Path(__file__).parents[1]
TEMPLATES = sorted((PROJECT / "workflows-templates").glob("*.yml"))
WORKFLOWS = [*sorted((PROJECT / ".github/workflows").glob("*.yml")), *TEMPLATES]
METADATA = [PROJECT / "action.yml", *sorted((PROJECT / "actions").glob("*/action.yml"))]
SCRIPTS = [PROJECT / ".ci/run", *sorted((PROJECT / "actions").glob("*/*.sh"))]

# What macOS lacks: its bash is 3.2, which goes on after a (( )) or [[ ]] that fails, its userland BSD.
NOT_PORTABLE = re.compile(
    r"\b(mapfile|readarray|coproc)\b|\bdeclare -[A-Zn]|\blocal -[An]|\$\{\w+(,,?|\^\^?|@\w)\}|&>>|\|&|;;&|"
    r"\breadlink -f|\brealpath\b|\bsed -[a-zE]*[ir]|\bdate -d|\bgrep -[a-zA-Z]*P|\bcp -[a-zA-Z]*[at]|\btimeout \d|"
    r"\bstat -c|\bmktemp --|\bsort -[a-zA-Z]*V|\bxargs -[a-zA-Z]*[rd]|\bhead -n -|\b(sha256sum|md5sum|nproc|tac)\b|"
    r"(^|[|&;]) *(\(\(.*\)\)|\[\[.*\]\])\s*(#.*)?$"
)


def load(file: Path) -> dict[str, Any]:
    return yaml.load(file.read_text(), yaml.CSafeLoader)


def steps_of(file: Path) -> list[dict[str, Any]]:
    content = load(file)
    holders = content["jobs"].values() if "jobs" in content else [content["runs"]]
    return [step for holder in holders for step in holder.get("steps", [])]


def uploads_of(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    """What each step that uploads an artifact is given."""
    steps = [step for job in workflow["jobs"].values() for step in job.get("steps", [])]
    return [step["with"] for step in steps if "upload-artifact" in step.get("uses", "")]


@cache
def shell_sources() -> dict[str, str]:
    """Each script, and each ``run`` of a step, by a name to find it again."""
    blocks = {
        f"{file.relative_to(PROJECT)}: {step.get('name')}": step["run"]
        for file in [*METADATA, *WORKFLOWS]
        for step in steps_of(file)
        if "run" in step
    }
    return {str(file.relative_to(PROJECT)): file.read_text() for file in SCRIPTS} | blocks


def written_down(folder: Path) -> list[Path]:
    """The workflows in the documentation, and the parts of some."""
    texts = [text for name, text in copied.workflows().items() if ".md: " in name]
    return pinned(folder, [*texts, *(text for _, text in copied.parts())])


def pinned(folder: Path, texts: Iterable[str]) -> list[Path]:
    """Each of the workflows as a file, with a commit that there is in the place of the version."""
    ours = re.compile(r"(OWNER/torchperf-ci\S*)@(COMMIT|v1)\b")
    files = []
    for number, text in enumerate(texts):
        files.append(folder / ".github/workflows" / f"example{number}.yml")
        files[-1].parent.mkdir(parents=True, exist_ok=True)
        files[-1].write_text(ours.sub(rf"\1@{'0' * 40}", text))
    return files


def test_zizmor_finds_nothing() -> None:
    assert zizmor("--pedantic", ".") == []


def test_zizmor_finds_nothing_in_what_people_copy(tmp_path) -> None:
    templates = pinned(tmp_path / "templates", [file.read_text() for file in TEMPLATES])
    assert zizmor("--pedantic", *templates) == []
    assert zizmor(*written_down(tmp_path)) == []


def test_actionlint_finds_nothing(tmp_path) -> None:
    examples = written_down(tmp_path)
    assert len(examples) > 8
    assert actionlint(*WORKFLOWS, *examples) == []


def test_what_is_of_the_same_repository_is_named_by_a_path() -> None:
    """GitHub refuses a workflow with a ``$/`` alone, and runs none of its jobs."""
    used = [
        line
        for file in [*METADATA, *WORKFLOWS]
        for line in file.read_text().splitlines()
        if "uses: $/" in line
    ]
    assert len(used) > 8
    assert [line for line in used if not re.search(r"uses: \$/[\w.]", line)] == []


def test_no_job_that_may_write_restores_a_cache() -> None:
    """The archive of a cache says where it is unpacked, and jobs that run what is measured can make one."""
    restoring = re.compile("actions/cache(/restore)?@")
    assert [str(file) for file in METADATA if restoring.search(file.read_text())] == []
    restorers = {
        f"{file.name}: {name}": job.get("permissions", {})
        for file in WORKFLOWS
        for name, job in load(file)["jobs"].items()
        if any(restoring.match(step.get("uses", "")) for step in job.get("steps", []))
    }
    assert restorers.keys() == {"benchmark.yml: plan", "benchmark.yml: bisect", "bisect.yml: bisect"}
    assert [*restorers.values()] == [{"contents": "read"}] * 3


@pytest.mark.parametrize("name", shell_sources())
def test_shellcheck_finds_nothing(name) -> None:
    assert findings(TOOLS / "shellcheck", "--shell=bash", "-", stdin=shell_sources()[name]) == []


@pytest.mark.parametrize("name", shell_sources())
def test_scripts_run_on_macos_too(name) -> None:
    code = [line for line in shell_sources()[name].splitlines() if not line.lstrip().startswith("#")]
    assert [line for line in code if NOT_PORTABLE.search(line)] == []


def test_the_gate_waits_for_every_job_and_takes_only_success() -> None:
    jobs = load(PROJECT / ".github/workflows/ci.yml")["jobs"]
    gate = jobs.pop("gate")
    assert sorted(gate["needs"]) == sorted(jobs)
    assert gate["if"] == "always()"


def test_the_tests_of_the_actions_keep_their_records_apart_from_those_of_nights() -> None:
    """``torchperf.yml`` names the branch of those, to which a job of a pull request may not push either."""
    steps = load(PROJECT / ".github/workflows/ci.yml")["jobs"]["actions"]["steps"]
    (road,) = [step["with"] for step in steps if step.get("uses") == "./"]
    assert road["upload-to"] == road["against"] == "${{ runner.temp }}/kept"


@pytest.mark.parametrize(("results", "passes"), [("success success", True), ("success skipped", False)])
def test_the_gate_fails_where_a_job_did_not_succeed(results, passes) -> None:
    (step,) = load(PROJECT / ".github/workflows/ci.yml")["jobs"]["gate"]["steps"]
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(command, env={"RESULTS": results}, timeout=60)
    assert (done.returncode == 0) is passes


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_every_job_has_a_deadline_and_grants_of_its_own(file) -> None:
    workflow = load(file)
    assert workflow["permissions"] == {}
    for name, job in workflow["jobs"].items():
        # A job that calls a workflow has the deadlines of that one's jobs.
        needed = {"permissions"} if "uses" in job else {"timeout-minutes", "permissions"}
        assert needed <= job.keys(), name


@pytest.mark.parametrize("name", copied.workflows())
def test_what_people_copy_ends_and_runs_once_at_a_time(name) -> None:
    workflow = yaml.safe_load(copied.workflows()[name])
    assert workflow["concurrency"].keys() == {"group", "cancel-in-progress"}
    for job in workflow["jobs"].values():
        assert "uses" in job or job["timeout-minutes"] <= 360


@pytest.mark.parametrize("name", copied.workflows())
def test_what_people_copy_to_a_runner_without_a_gpu_installs_no_libraries_of_gpus(name) -> None:
    for job in yaml.safe_load(copied.workflows()[name])["jobs"].values():
        steps = job.get("steps", [])
        scripts = [step.get("run") or step.get("with", {}).get("install", "") for step in steps]
        lines = "\n".join(scripts).splitlines()
        for line in lines:
            if "install" in line and "torch" in line and job["runs-on"].startswith("ubuntu"):
                assert re.search(r"--index-url https://download\.pytorch\.org/whl/(nightly/)?cpu$", line)


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.name)
def test_a_template_has_its_properties_and_says_what_to_edit(file) -> None:
    properties = json.loads(file.with_suffix(".properties.json").read_text())
    assert properties["name"] == load(file)["name"]
    assert properties["description"].endswith(".")
    placeholders = [line for line in file.read_text().splitlines() if "OWNER/" in line]
    assert placeholders
    assert all("# edit: " in line for line in placeholders)


def test_the_comment_follows_the_run_that_measures() -> None:
    measures, comments = (
        load(PROJECT / f"workflows-templates/pull-request{end}.yml") for end in ("", "-comment")
    )
    assert comments[True]["workflow_run"]["workflows"] == [measures["name"]]  # YAML 1.1 reads "on" so
    (uploaded,) = uploads_of(measures)
    wanted = comments["jobs"]["comment"]["steps"][0]["with"]["pattern"]
    assert wanted.replace("github.event.workflow_run.run_attempt", "github.run_attempt") == uploaded["name"]


def test_each_run_that_measured_has_its_own_place_in_the_queue_of_comments() -> None:
    """Of those that wait in a group GitHub keeps one, and pull requests from two forks may have the same commit."""
    group = load(PROJECT / "workflows-templates/pull-request-comment.yml")["concurrency"]["group"]
    assert group == "${{ github.workflow }}-${{ github.event.workflow_run.id }}"


@pytest.mark.parametrize("name", shell_sources())
def test_what_ends_an_output_of_many_lines_is_random(name) -> None:
    code = shell_sources()[name]
    ends = re.findall(r"(?:echo|printf) ['\"][\w-]+<<(.+?)(?:['\"]|\\n)", code)
    assert set(ends) <= {"$delimiter", "%s"}
    assert not ends or "delimiter=$(od -An -N16 -tx1 /dev/urandom" in code


def test_no_name_of_a_folder_in_an_artifact_becomes_an_output(tmp_path) -> None:
    steps = load(PROJECT / ".github/workflows/benchmark.yml")["jobs"]["report"]["steps"]
    (step,) = [step for step in steps if step.get("id") == "culprits"]
    folder, output = tmp_path / "culprits", tmp_path / "output"
    hostile = folder / "a\nend\npwned=1\nrest<<end\n"
    hostile.mkdir(parents=True)
    (hostile / "culprits.json").touch()
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    environ = {**os.environ, "CULPRITS": str(folder), "GITHUB_OUTPUT": str(output)}
    subprocess.run(command, env=environ, timeout=60, check=True)
    begin, *lines, end = output.read_text().splitlines()
    assert begin == f"files<<{end}"
    assert end not in lines
    assert len(end) == 32


def test_the_verdicts_of_a_night_that_bisects_are_stored_without_a_warning(
    tmp_path, monkeypatch, capsys
) -> None:
    """Beside them are those of each bisection, which are not stored."""
    steps = load(PROJECT / ".github/workflows/benchmark.yml")["jobs"]["check"]["steps"]
    (source,) = [step["env"]["TORCHPERF_DIR"] for step in steps if step["name"] == "Store the verdicts"]
    (tmp_path / "torchperf-verdicts/bisections").mkdir(parents=True)
    for name in ("verdicts.json", "bisections/h100.json"):
        shutil.copy(PROJECT / "docs/img/verdicts.json", tmp_path / "torchperf-verdicts" / name)
    monkeypatch.setenv("TORCHPERF_DIR", source.replace("${{ runner.temp }}", str(tmp_path)))
    monkeypatch.chdir(tmp_path)
    commit = ["--repo-name", "octo/perf", "--head-branch", "main", "--head-sha", "1" * 40]
    assert main(["upload", "--to", "kept", *commit]) == 0
    assert capsys.readouterr().err == f"1 file of verdicts or culprits kept at {tmp_path}/kept\n"


def test_every_artifact_can_be_uploaded_in_another_attempt() -> None:
    """Those of the first attempt are still there, and a name that is taken is refused."""
    examples = [yaml.safe_load(text) for _, text in copied.parts()]
    workflows = [load(file) for file in WORKFLOWS]
    uploads = [upload for workflow in [*workflows, *examples] for upload in uploads_of(workflow)]
    assert len(uploads) > 5
    for upload in uploads:
        assert upload.get("overwrite") is True or "github.run_attempt" in upload["name"], upload["name"]


def test_the_records_of_a_repository_whose_name_begins_with_a_dot_are_uploaded() -> None:
    """Their folder is called like it, and GitHub leaves out what is hidden unless it is asked not to."""
    examples = [yaml.safe_load(text) for _, text in copied.parts()]
    workflows = [*examples, load(PROJECT / ".github/workflows/benchmark.yml")]
    uploads = [upload for workflow in workflows for upload in uploads_of(workflow)]
    records = [upload for upload in uploads if "-records-" in upload["name"]]
    assert [upload["include-hidden-files"] for upload in records] == [True, True]


def test_the_builds_of_a_comparison_fit_into_its_job() -> None:
    job = load(PROJECT / "workflows-templates/pull-request.yml")["jobs"]["compare"]
    (compared,) = [step["with"] for step in job["steps"] if "actions/compare@" in step.get("uses", "")]
    assert 2 * compared["build-timeout"] + MIN_BUDGET < 60 * job["timeout-minutes"]


def test_a_shard_stops_measuring_in_time_to_upload_what_it_has() -> None:
    """The steps after it run where it has failed, but not where its job is cancelled, as GitHub does at its limit."""
    job = load(PROJECT / ".github/workflows/benchmark.yml")["jobs"]["measure"]
    (step,) = [step for step in job["steps"] if step.get("id") == "run"]
    assert step.get("timeout-minutes", job["timeout-minutes"]) + 20 < job["timeout-minutes"]


def test_a_bisection_starts_over_where_a_workflow_of_either_extension_has_changed() -> None:
    steps = load(PROJECT / ".github/workflows/benchmark.yml")["jobs"]["bisect"]["steps"]
    (how,) = [step["env"]["HOW"] for step in steps if step.get("id") == "search"]
    pattern = how.split("'")[1]
    assert all(fnmatch(f".github/workflows/nightly.{end}", pattern) for end in ("yml", "yaml"))


@pytest.mark.parametrize(("job", "name"), [("check", "Store the records"), ("report", "Store the culprits")])
@pytest.mark.parametrize(("status", "later"), [(4, 30), (3, 300)])
def test_a_night_does_not_wait_for_a_silent_place_until_its_job_is_out_of_time(
    tmp_path, job, name, status, later
) -> None:
    """It would neither be judged nor reported. A place that only refused some records has its time."""
    steps = load(PROJECT / ".github/workflows/benchmark.yml")["jobs"][job]["steps"]
    (script,) = (step["run"] for step in steps if step["name"] == name)
    for number in "123":
        (tmp_path / f"torchperf-records-{number}/v3/octo/perf/1/2").mkdir(parents=True)
    upload = tmp_path / "torchperf"
    upload.write_text(
        f'#!/bin/sh\necho "${{TORCHPERF_DEADLINE-300}}"; case $TORCHPERF_DIR in *-1/*) exit {status}; esac\n'
    )
    upload.chmod(0o755)
    environ = os.environ | {"TORCHPERF": str(upload), "RECORDS": str(tmp_path), "CULPRITS": str(tmp_path)}
    done = subprocess.run(["bash", "-ec", script], env=environ, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (status, f"300\n{later}\n{later}\n")


def test_a_night_plans_by_the_costs_of_its_own_configuration() -> None:
    """Two configurations have a workflow each, so the newest costs are always those of the other one's cases."""
    jobs = load(PROJECT / ".github/workflows/benchmark.yml")["jobs"]
    caches = [
        step["with"]
        for name in ("plan", "check")
        for step in jobs[name]["steps"]
        if "actions/cache/" in step.get("uses", "")
    ]
    restored, saved = caches
    assert restored["key"] == saved["key"]
    prefixes, keys = (
        {config: text.replace("${{ inputs.config }}", config) for config in ("", "gpu.yml")}
        for text in (restored["restore-keys"], saved["key"])
    )
    found = {(one, other) for one in prefixes for other in keys if keys[other].startswith(prefixes[one])}
    assert found == {("", ""), ("gpu.yml", "gpu.yml")}
