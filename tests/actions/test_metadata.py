"""The metadata of the actions: complete, consistent, and in agreement with the commands that they call."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from torchperf_ci.options import options_of
from torchperf_ci.options.analysis_commands import CheckOptions, PlanOptions, ReportOptions, WatchOptions
from torchperf_ci.options.comparison_commands import BisectOptions, CompareOptions
from torchperf_ci.options.measurement_commands import RunOptions
from torchperf_ci.options.storage_commands import IngestOptions, SiteOptions, UploadOptions

if TYPE_CHECKING:
    from torchperf_ci.options import Option

PROJECT = Path(__file__).parents[2]
ROOT, PLAN, RUN, UPLOAD, CHECK, COMPARE, BISECT, REPORT, SITE, WATCH, SETUP = (
    "action.yml",
    "actions/plan/action.yml",
    "actions/run/action.yml",
    "actions/upload/action.yml",
    "actions/check/action.yml",
    "actions/compare/action.yml",
    "actions/bisect/action.yml",
    "actions/report/action.yml",
    "actions/site/action.yml",
    "actions/watch/action.yml",
    "actions/setup/action.yml",
)
ACTIONS: dict[str, dict[str, Any]] = {
    file: yaml.load((PROJECT / file).read_text(), yaml.CSafeLoader)
    for file in (ROOT, PLAN, RUN, UPLOAD, CHECK, COMPARE, BISECT, REPORT, SITE, WATCH, SETUP)
}
# Printing JSON would mix data into a job's log; a job reads the records instead. For the others an action has another
# name, or decides by itself.
NOT_FOR_A_JOB = {"json", "benchmark-results"}
NAMES = {"DIR": "benchmark-results-dir", "NEW_DIR": "dir"}


def by_input(command: Any) -> dict[str, Option]:
    named = {NAMES.get(option.flag, option.flag.removeprefix("--")): option for option in options_of(command)}
    return {name: option for name, option in named.items() if name not in NOT_FOR_A_JOB}


OPTIONS = {
    PLAN: by_input(PlanOptions),
    RUN: by_input(RunOptions),
    UPLOAD: by_input(UploadOptions),
    CHECK: by_input(CheckOptions),
    COMPARE: by_input(CompareOptions),
    # It shows its plan in any case.
    BISECT: {name: option for name, option in by_input(BisectOptions).items() if name != "dry-run"},
    REPORT: by_input(ReportOptions),
    WATCH: by_input(WatchOptions),
}
TOKEN = {"github-token": "${{ github.token }}"}
# What the action of test-infra has beyond the command's options, and what it defaults to.
OF_TEST_INFRA = {**TOKEN, "schema-version": "v3", "venv": ""}
GIVEN = {
    CHECK: TOKEN,
    UPLOAD: {**OF_TEST_INFRA, "dry-run": "true", "if-no-files-found": "warn", "on-failure": "warn-invalid"},
    REPORT: TOKEN,
    WATCH: TOKEN,
}
# What an action fills in by itself, because a job has a better default than a command line.
DEFAULTS_OF_A_JOB = {
    (PLAN, "out"): "a new one in the runner's temporary folder",
    (RUN, "python"): "the job's python, else its python3",
    (RUN, "out"): "a new one in the runner's temporary folder",
    (UPLOAD, "benchmark-results-dir"): "none, allowed only with resume",
    (
        UPLOAD,
        "to",
    ): "the config's upload; without a config, the bucket of the PyTorch benchmark infrastructure, "
    "s3://ossci-benchmarks",
    (UPLOAD, "role"): "the config's, else the job's own credentials",
    (UPLOAD, "spool"): "one in the runner's temporary folder",
    (UPLOAD, "if-no-files-found"): "warn",
    (UPLOAD, "on-failure"): "warn-invalid",
    (UPLOAD, "dry-run"): "true",
    (CHECK, "dir"): "none, allowed only with sensitivity or calibrate",
    (CHECK, "out"): "a new one in the runner's temporary folder",
    (COMPARE, "base"): "none; it is required",
    (COMPARE, "head"): "none; it is required",
    (COMPARE, "repo"): 'the working directory, "."',
    (COMPARE, "python"): "the job's python, else its python3",
    (COMPARE, "out"): "a new one in the runner's temporary folder",
    (BISECT, "repo"): 'the working directory, "."',
    (BISECT, "workload"): "all",
    (BISECT, "builder"): "command with build, else worktree",
    (BISECT, "python"): "the job's python, else its python3",
    (BISECT, "state"): "torchperf-bisect/state.jsonl in the runner's temporary folder",
    (BISECT, "out"): "a new one in the runner's temporary folder",
    (REPORT, "pull-request"): "the job's, also in a workflow_run after the run that measured",
    (REPORT, "head-sha"): "the job's, or the measuring run's",
    (REPORT, "head-repository"): "the job's, or the measuring run's",
    (REPORT, "head-branch"): "the job's, or the measuring run's",
}


def step(action: str, name: str) -> dict[str, Any]:
    (found,) = (step for step in ACTIONS[action]["runs"]["steps"] if step.get("id") == name)
    return found


def default_of(action: str, name: str) -> str:
    """In words; an option without a default is a switch that is off, or narrows nothing, or adds nothing."""
    option = OPTIONS[action][name]
    nothing = "false" if option.is_switch else {RUN: "all", COMPARE: "all"}.get(action, "none")
    return DEFAULTS_OF_A_JOB.get((action, name)) or option.default or option.otherwise or nothing


@pytest.mark.parametrize(
    ("action", "more"),
    [
        *((action, {}) for action in (PLAN, RUN, COMPARE, BISECT)),
        (CHECK, TOKEN),
        (UPLOAD, OF_TEST_INFRA),
        (REPORT, TOKEN),
        (WATCH, TOKEN),
    ],
)
def test_an_action_has_an_input_for_each_option_of_its_command(action, more) -> None:
    assert set(ACTIONS[action]["inputs"]) == OPTIONS[action].keys() | more.keys()


@pytest.mark.parametrize("action", [PLAN, RUN, UPLOAD, CHECK, COMPARE, BISECT, REPORT, WATCH])
def test_each_input_reaches_the_command_as_its_variable(action) -> None:
    name = Path(action).parent.name
    inputs = {key: value for key, value in step(action, name)["env"].items() if "inputs." in value}
    token = {"GITHUB_TOKEN": "${{ inputs.github-token }}"} if action in GIVEN else {}
    assert (
        inputs
        == {option.env: f"${{{{ inputs.{name} }}}}" for name, option in OPTIONS[action].items()} | token
    )


@pytest.mark.parametrize("action", [PLAN, RUN, UPLOAD, CHECK, COMPARE, BISECT, REPORT, WATCH])
def test_each_input_says_its_default_and_leaves_it_to_the_command(action) -> None:
    given = GIVEN.get(action, {})
    for name, declared in ACTIONS[action]["inputs"].items():
        assert declared["default"] == given.get(name, ""), name
        if name in OPTIONS[action]:
            assert declared["description"].endswith(f"Default: {default_of(action, name)}."), name


def test_an_upload_takes_what_the_action_of_test_infra_takes() -> None:
    theirs = {"benchmark-results-dir", "benchmark-name", "dry-run", "schema-version", "github-token", "venv"}
    assert theirs | {"if-no-files-found"} <= ACTIONS[UPLOAD]["inputs"].keys()


def test_the_root_action_has_the_inputs_and_outputs_of_the_others() -> None:
    inputs, uploads = ACTIONS[ROOT]["inputs"], ACTIONS[UPLOAD]["inputs"]
    own = {
        name: inputs[name]
        for name in ("install", "python", "on-failure", "upload-to", "against", "github-token")
    }
    known = {**ACTIONS[CHECK]["inputs"], **uploads, **ACTIONS[RUN]["inputs"], **own}
    assert inputs.items() <= known.items()
    shown = ("verdicts", "regressed", "broken", "candidates", "judged", "unjudged")
    judged = {
        name: {
            **ACTIONS[CHECK]["outputs"][name],
            "description": ACTIONS[ROOT]["outputs"][name]["description"],
        }
        for name in shown
    }
    assert ACTIONS[ROOT]["outputs"] == {
        **ACTIONS[RUN]["outputs"],
        **ACTIONS[UPLOAD]["outputs"],
        **judged,
    }


def test_the_root_action_hands_each_input_on() -> None:
    inputs = ACTIONS[ROOT]["inputs"].keys()
    runs, uploads, checks = (step(ROOT, name)["env"] for name in ("run", "upload", "check"))
    of_run = {name for name in inputs if name in OPTIONS[RUN]}
    assert {key: value for key, value in runs.items() if "inputs." in value} == {
        **{OPTIONS[RUN][name].env: f"${{{{ inputs.{name} }}}}" for name in of_run},
        OPTIONS[RUN]["python"].env: "${{ inputs.python || steps.under-test.outputs.python }}",
    }
    assert {key: value for key, value in uploads.items() if "inputs." in value} == {
        "GITHUB_TOKEN": "${{ inputs.github-token }}",
        "TORCHPERF_TO": "${{ inputs.upload-to }}",
        **{
            OPTIONS[UPLOAD][name].env: f"${{{{ inputs.{name} }}}}"
            for name in ("config", "on-failure", "role", "region")
        },
    }
    assert {key: value for key, value in checks.items() if "inputs." in value} == {
        "GITHUB_TOKEN": "${{ inputs.github-token }}",
        "TORCHPERF_UPLOAD_TO": "${{ inputs.upload-to }}",
        OPTIONS[CHECK]["policy"].env: "${{ inputs.config }}",
        **{
            OPTIONS[CHECK][name].env: f"${{{{ inputs.{name} }}}}"
            for name in ("against", "store", "role", "region", "on-failure")
        },
    }
    assert inputs == of_run | {"install", "upload-to", "role", "region", "github-token", "against", "store"}


def test_the_root_action_uploads_and_judges_whatever_a_run_has_saved() -> None:
    """Also one that ends with exit code 2 in the middle, such as on a full disk, or is killed."""
    upload, check = (step(ROOT, name)["if"] for name in ("upload", "check"))
    assert upload == "${{ !cancelled() && steps.run.outputs.records-dir != '' }}"
    assert check == upload.replace("&&", "&& inputs.against != 'none' &&")


@pytest.mark.parametrize("action", [ROOT, CHECK])
def test_what_a_store_needs_is_installed_for_every_past_that_is_read_by_way_of_one(action) -> None:
    needs = step(action, "toolkit")["env"]["TORCHPERF_NEEDS"]
    for past in (
        "inputs.against == 'store'",
        *(f"startsWith(inputs.against, '{x}')" for x in ("branch:", "s3://", "chdb://", "clickhouse://")),
    ):
        assert past in needs


def test_what_a_store_needs_is_installed_where_uploads_are_the_past() -> None:
    needs = step(ROOT, "toolkit")["env"]["TORCHPERF_NEEDS"]
    assert all(
        f"startsWith(inputs.upload-to, '{x}')" in needs
        for x in ("branch:", "s3://", "chdb://", "clickhouse://")
    )


@pytest.mark.parametrize("action", ACTIONS)
def test_no_expression_reaches_a_shell(action) -> None:
    scripts = [step["run"] for step in ACTIONS[action]["runs"]["steps"] if "run" in step]
    assert scripts
    assert not [script for script in scripts if "${{" in script]


def test_what_a_site_is_given_reaches_both_commands_as_its_variable() -> None:
    known = {option.env for command in (IngestOptions, SiteOptions) for option in options_of(command)}
    inputs = {key: value for key, value in step(SITE, "site")["env"].items() if "inputs." in value}
    token = inputs.pop("GITHUB_TOKEN")
    assert inputs.keys() <= known
    given = {*inputs.values(), token}
    assert given == {f"${{{{ inputs.{name} }}}}" for name in ACTIONS[SITE]["inputs"]}
    assert {declared["default"] for declared in ACTIONS[SITE]["inputs"].values()} == {"", *TOKEN.values()}


@pytest.mark.parametrize("action", [ROOT, PLAN, RUN, UPLOAD, COMPARE, BISECT, REPORT, SITE, WATCH])
def test_the_toolkit_is_installed_in_the_same_steps_everywhere(action) -> None:
    names = ("host", "fetched", "toolkit")
    assert [shared(action, name) for name in names] == [shared(SETUP, name) for name in names]


def test_records_are_uploaded_and_offered_in_the_same_steps_everywhere() -> None:
    offer = ACTIONS[UPLOAD]["runs"]["steps"][-1]
    assert ACTIONS[ROOT]["runs"]["steps"][-1] == offer
    assert offer["if"].startswith("always() && "), (
        "a job that is cancelled during the upload offers its spool, too"
    )
    road, alone = shared(ROOT, "upload"), shared(UPLOAD, "upload")
    assert road["run"] == alone["run"]
    assert road["env"]["TORCHPERF_MATRIX"] == alone["env"]["TORCHPERF_MATRIX"] == "${{ toJSON(matrix) }}"


def shared(action: str, name: str) -> dict[str, Any]:
    """A step with the path of its script resolved, without what only some actions install or do."""
    folder = (PROJECT / action).parent

    def path(match: re.Match[str]) -> str:
        return str((folder / match[1]).resolve())

    found = step(action, name)
    env = {key: value for key, value in found.get("env", {}).items() if key != "TORCHPERF_NEEDS"}
    return {**found, "env": env, "run": re.sub(r'"\$GITHUB_ACTION_PATH/(.+?)"', path, found.get("run", ""))}
