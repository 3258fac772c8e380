"""Errors in workflows that GitHub would refuse, but ``act`` does not check."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

PROJECT = Path(__file__).parents[2]
CALLED = PROJECT / ".github/workflows/benchmark.yml"
CALLERS = (PROJECT / ".github/workflows/nightly.yml", PROJECT / "workflows-templates/nightly.yml")
ON = True  # YAML 1.1 reads "on" so


def load(file: Path) -> dict[str, Any]:
    return yaml.safe_load(file.read_text())


def called() -> dict[str, Any]:
    """What the called workflow takes: ``inputs`` and ``secrets``."""
    return load(CALLED)[ON]["workflow_call"]


@pytest.fixture(params=CALLERS, ids=lambda file: str(file.relative_to(PROJECT)))
def night(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The job that calls."""
    return load(request.param)["jobs"]["night"]


def test_a_caller_grants_what_the_called_jobs_ask_for_and_no_more(night: dict[str, Any]) -> None:
    asked: dict[str, str] = {}
    for job in load(CALLED)["jobs"].values():
        for name, access in job["permissions"].items():
            asked[name] = max(asked.get(name, ""), access)  # "read" comes before "write"
    assert night["permissions"] == asked


def test_a_caller_gives_inputs_that_there_are_of_their_type(night: dict[str, Any]) -> None:
    assert night["uses"].partition("@")[0].endswith("/.github/workflows/benchmark.yml")
    types = {"string": str, "number": int, "boolean": bool}
    for name, value in night["with"].items():
        assert type(value) is types[called()["inputs"][name]["type"]], name


def test_the_documentation_has_every_input_and_secret() -> None:
    page = (PROJECT / "docs/nightly.md").read_text()
    documented = re.findall(r"^\| `([\w-]+)` \|.*\|$", page, re.MULTILINE)
    assert documented == list(called()["inputs"])
    assert [name for name in called()["secrets"] if f"`{name}`" not in page] == []


def test_each_command_that_installs_something_knows_the_kind_of_runner() -> None:
    """Otherwise a fleet of several kinds could be measured, but not bisected: each needs other wheels."""
    kind = {"RUNNER_KIND": "${{ matrix.runner }}", "DEVICE": "${{ matrix.device }}"}
    told: list[str] = []
    for step in (step for job in load(CALLED)["jobs"].values() for step in job["steps"]):
        env = step.get("env", {})
        words = " ".join(map(str, [*env.values(), *step.get("with", {}).values()]))
        names = re.findall(r"\{\{ inputs\.(install|anchor|build) \}\}", words)
        if names:
            assert {key: env.get(key) for key in kind} == kind, step["name"]
        told += names
    assert sorted(told) == ["anchor", "build", "install", "install"]


def test_no_input_is_required_and_each_says_its_default() -> None:
    for name, declared in called()["inputs"].items():
        assert "default" in declared, name
        assert "Default: " in declared["description"], name
    assert not any(declared.get("required") for declared in called()["secrets"].values())


def test_what_measures_can_write_nothing_and_what_can_write_measures_nothing() -> None:
    measures = ("$/actions/run", "$/actions/bisect")
    for name, job in load(CALLED)["jobs"].items():
        runs = any(step.get("uses") in measures or "INSTALL" in step.get("env", {}) for step in job["steps"])
        writes = "write" in job["permissions"].values()
        assert not (runs and writes), name
        assert runs is (name in ("measure", "bisect"))


def test_jobs_after_the_measuring_run_where_some_of_it_is_missing_and_never_where_it_is_cancelled() -> None:
    jobs = load(CALLED)["jobs"]
    assert jobs["measure"]["strategy"]["fail-fast"] is jobs["bisect"]["strategy"]["fail-fast"] is False
    for name in ("check", "bisect", "report"):
        assert jobs[name]["if"].startswith("${{ !cancelled() && "), name


def test_nothing_is_bisected_where_there_is_no_time_for_it() -> None:
    jobs = load(CALLED)["jobs"]
    (plan,) = [step for step in jobs["check"]["steps"] if step.get("id") == "bisections"]
    assert "&& inputs.bisect-budget > 0 &&" in plan["if"]
    assert "needs.check.outputs.count > 0" in jobs["bisect"]["if"]


def test_only_what_tells_of_a_judgement_may_fail_without_being_red() -> None:
    tolerated = [name for name, job in load(CALLED)["jobs"].items() if job.get("continue-on-error")]
    assert tolerated == ["bisect", "report"]
