"""What the actions' files say of themselves: complete, alike, and the same in the documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from torchperf_ci.options import RUN_OPTIONS

PROJECT = Path(__file__).parents[2]
FILES = {
    "torchperf-ci": PROJECT / "action.yml",
    "torchperf-ci/actions/run": PROJECT / "actions/run/action.yml",
    "torchperf-ci/actions/setup": PROJECT / "actions/setup/action.yml",
}
ACTIONS: dict[str, dict[str, Any]] = {name: yaml.safe_load(file.read_text()) for name, file in FILES.items()}
MEASURING = [name for name, action in ACTIONS.items() if action["runs"]["steps"][-1]["id"] == "run"]
OPTIONS = {option.flag.removeprefix("--"): option for option in RUN_OPTIONS}
# Printing JSON would mix data into a job's log; a job reads the records instead.
NOT_FOR_A_JOB = {"json"}
# What an action fills in by itself, because a job has a better default than a command line.
DEFAULTS_OF_A_JOB = {
    "python": "the job's python, else its python3",
    "out": "a new one in the runner's temporary folder",
}


def step(action: str, name: str) -> dict[str, Any]:
    (found,) = (step for step in ACTIONS[action]["runs"]["steps"] if step["id"] == name)
    return found


def default_of(name: str) -> str:
    """In words; an option without a default is a switch that is off, or narrows nothing."""
    option = OPTIONS[name]
    return DEFAULTS_OF_A_JOB.get(name) or option.default or ("false" if option.is_switch else "all")


def test_the_run_action_has_an_input_for_each_option_of_the_command() -> None:
    assert list(ACTIONS["torchperf-ci/actions/run"]["inputs"]) == [
        name for name in OPTIONS if name not in NOT_FOR_A_JOB
    ]


def test_the_root_action_has_no_input_of_its_own() -> None:
    inputs = ACTIONS["torchperf-ci/actions/run"]["inputs"]
    assert ACTIONS["torchperf-ci"]["inputs"].items() <= inputs.items()


@pytest.mark.parametrize("action", MEASURING)
def test_each_input_reaches_the_command_as_its_variable_and_as_nothing_else(action) -> None:
    given = {name: value for name, value in step(action, "run")["env"].items() if name != "TORCHPERF"}
    assert given == {OPTIONS[name].env: f"${{{{ inputs.{name} }}}}" for name in ACTIONS[action]["inputs"]}


@pytest.mark.parametrize("action", MEASURING)
def test_each_input_says_the_commands_own_default_and_leaves_it_to_the_command(action) -> None:
    for name, declared in ACTIONS[action]["inputs"].items():
        assert declared["default"] == "", name
        assert declared["description"].endswith(f"Default: {default_of(name)}."), name


@pytest.mark.parametrize("action", ACTIONS)
def test_no_expression_reaches_a_shell(action) -> None:
    scripts = [step["run"] for step in ACTIONS[action]["runs"]["steps"] if "run" in step]
    assert scripts
    assert not [script for script in scripts if "${{" in script]


@pytest.mark.parametrize("action", MEASURING)
def test_the_toolkit_is_installed_in_the_same_steps_everywhere(action) -> None:
    folder = FILES[action].parent

    def resolved(step: dict[str, Any], base: Path) -> dict[str, Any]:
        def path(match: re.Match[str]) -> str:
            return str((base / match[1]).resolve())

        return {**step, "run": re.sub(r'"\$GITHUB_ACTION_PATH/(.+?)"', path, step.get("run", ""))}

    steps = [resolved(step, folder) for step in ACTIONS[action]["runs"]["steps"][:-1]]
    setup = [
        resolved(step, PROJECT / "actions/setup")
        for step in ACTIONS["torchperf-ci/actions/setup"]["runs"]["steps"]
    ]
    assert steps == setup


def test_the_documentation_lists_every_input_and_output() -> None:
    page = (PROJECT / "docs/actions.md").read_text()
    for name, action in ACTIONS.items():
        assert reference(name, action) in page, f"docs/actions.md should hold:\n\n{reference(name, action)}"


def reference(name: str, action: dict[str, Any]) -> str:
    """The action's part of the page."""
    parts = [f"### `{name}`", f"{action['description']}."]
    for kind in ("inputs", "outputs"):
        if entries := action.get(kind):
            rows = [f"| `{entry}` | {declared['description']} |" for entry, declared in entries.items()]
            parts.append("\n".join([f"| {kind[:-1]} | |", "| --- | --- |", *rows]))
    return "\n\n".join(parts) + "\n"
