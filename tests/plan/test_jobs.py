from __future__ import annotations

import json
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from torchperf_ci import config
from torchperf_ci.errors import UsageError
from torchperf_ci.options.measurement_commands import SUITES
from torchperf_ci.plan.jobs import MeasurementJob, jobs_of, matrix, repeated_workloads, unused_runners
from torchperf_ci.suite import registry

if TYPE_CHECKING:
    from pathlib import Path

RUNNERS = """
runners:
  h100: {labels: [linux.aws.h100, gpu], device: cuda, tune: true}
  spr: {device: cpu}
"""


def loaded(tmp_path: Path, text: str) -> config.Config:
    (tmp_path / "torchperf.yml").write_text(f"version: 1\n{dedent(text)}")
    return config.load_config(tmp_path / "torchperf.yml")


def test_a_job_a_suite_runner_and_shard(tmp_path: Path) -> None:
    given = loaded(tmp_path, f"{RUNNERS}suites:\n  core: {{shards: 2, runners: [h100]}}\n  edge: {{}}\n")
    of_h100 = ("h100", ("linux.aws.h100", "gpu"), "cuda", True)
    assert jobs_of(given) == [
        MeasurementJob("h100-core-1-of-2", *of_h100, "core", "1/2"),
        MeasurementJob("h100-core-2-of-2", *of_h100, "core", "2/2"),
        MeasurementJob("h100-edge", *of_h100, "edge", "1/1"),
        MeasurementJob("spr-edge", "spr", ("spr",), "cpu", False, "edge", "1/1"),
    ]


def test_a_runner_that_a_suite_names_twice_measures_it_once(tmp_path: Path) -> None:
    given = loaded(tmp_path, f"{RUNNERS}suites:\n  core: {{runners: [spr, spr]}}\n")
    assert [job.name for job in jobs_of(given)] == ["spr-core"]


def test_the_matrix_is_what_github_takes(tmp_path: Path) -> None:
    given = loaded(tmp_path, f"{RUNNERS}suites:\n  core: {{runners: [h100]}}\n")
    assert json.loads(json.dumps(matrix(jobs_of(given)))) == {
        "include": [
            {
                "name": "h100-core",
                "runner": "h100",
                "labels": ["linux.aws.h100", "gpu"],
                "device": "cuda",
                "tune": True,
                "suite": "core",
                "shard": "1/1",
            }
        ]
    }


def test_without_suites_every_runner_measures_the_models_that_cover_the_most(tmp_path: Path) -> None:
    assert [(job.name, job.suite) for job in jobs_of(loaded(tmp_path, RUNNERS))] == [
        ("h100-core", "core"),
        ("spr-core", "core"),
    ]


def test_without_runners_an_example_says_what_to_write_and_is_a_good_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no runners are configured") as error:
        jobs_of(config.Config())
    _, _, example = str(error.value).partition("for example:\n")
    (tmp_path / "torchperf.yml").write_text(dedent(example.lstrip("\n")))
    assert [job.name for job in jobs_of(config.load_config(tmp_path / "torchperf.yml"))] == [
        "cpu-core-1-of-2",
        "cpu-core-2-of-2",
    ]


@pytest.mark.parametrize("name", ["a, b", "", " a", "a\\nb", "a\\r", "a\\u2028b"])
def test_a_suite_that_cannot_be_asked_for_is_refused(name: str, tmp_path: Path) -> None:
    given = loaded(tmp_path, f'{RUNNERS}suites:\n  "{name}": {{}}\n')
    with pytest.raises(UsageError, match="cannot be given to `torchperf run --suite`"):
        jobs_of(given)


def test_a_built_in_suite_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    text = f"{RUNNERS}suites:\n  mine: {{workloads: [WORKLOADS]}}\n"
    with pytest.raises(
        UsageError, match=r"unknown suite in suites\.mine\.workloads 'cores': did you mean core or models\?"
    ):
        jobs_of(loaded(tmp_path, text.replace("WORKLOADS", "quick, cores")))
    assert jobs_of(
        loaded(tmp_path, text.replace("WORKLOADS", "core, vision/any, 'lang*', mine.py, torchbench:checkout"))
    )


def test_names_are_taken_as_they_are_where_they_can_be(tmp_path: Path) -> None:
    given = loaded(tmp_path, f'{RUNNERS}suites:\n  "$(id) {{x}}": {{runners: [spr]}}\n')
    assert [(job.name, job.suite) for job in jobs_of(given)] == [("spr-id-x", "$(id) {x}")]


def test_more_jobs_than_github_makes_are_refused(tmp_path: Path) -> None:
    most = loaded(tmp_path, f"{RUNNERS}suites:\n  core: {{shards: 127}}\n  edge: {{}}\n")
    assert len(jobs_of(most)) == 256
    many = loaded(tmp_path, f"{RUNNERS}suites:\n  core: {{shards: 128}}\n  edge: {{}}\n")
    with pytest.raises(UsageError) as error:
        jobs_of(many)
    assert "258 jobs exceed GitHub's limit of 256" in str(error.value)
    assert "fewer shards to suite 'core', which has the most" in str(error.value)


@pytest.mark.parametrize(
    ("suites", "unused"),
    [
        ("", []),
        ("suites: {core: {}}", []),
        ("suites: {core: {runners: [h100]}, edge: {}}", []),
        ("suites: {core: {runners: [h100]}}", ["spr"]),
    ],
)
def test_a_runner_that_no_suite_uses_is_known(suites: str, unused: list[str], tmp_path: Path) -> None:
    assert unused_runners(loaded(tmp_path, RUNNERS + suites)) == unused


@pytest.mark.parametrize(
    ("other", "repeated"),
    [
        ("{workloads: [core, quick], modes: [training, inference]}", ["quick"]),
        ("{workloads: [core]}", []),
        ("{workloads: [quick], modes: [training]}", []),
        ("{workloads: [quick], backends: [inductor]}", []),
        ("{workloads: [quick], runners: [h100]}", []),
    ],
)
def test_workloads_that_two_suites_measure_are_known(other: str, repeated: list[str], tmp_path: Path) -> None:
    suites = f"suites:\n  one: {{workloads: ['vision/*', quick], runners: [spr]}}\n  other: {other}\n"
    said = [f"the suites 'one' and 'other' both measure {name}" for name in repeated]
    assert [
        text.partition(": ")[0] for text in repeated_workloads(loaded(tmp_path, RUNNERS + suites))
    ] == said


def test_the_built_in_suites_are_those_of_the_suite_itself() -> None:
    assert SUITES == registry.SUITES
