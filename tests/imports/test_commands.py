"""Commands that accept a directory of records also accept the results of other tools."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from tool_files import MADE

from torchperf_ci import cli
from torchperf_ci.places.place import DirectoryPlace
from torchperf_ci.series.from_store import points_of_store
from torchperf_ci.store.migrations import open_existing

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = json.loads((MADE / "pytest_benchmark.json").read_text())
DAY = 86_400


def write_run(folder: Path, number: int, slower: float = 1.0, name: str = "results.json") -> Path:
    """What pytest-benchmark writes at the commit of that number, a day after the one before, within 1%."""
    run, noise = json.loads(json.dumps(SOURCE)), random.Random(number)
    run["commit_info"]["id"] = f"{number:040x}"
    run["datetime"] = f"2026-11-{number:02d}T03:00:00+00:00"
    for benchmark in run["benchmarks"]:
        factor = noise.gauss(1, 0.01) * (slower if "sort" in benchmark["name"] else 1)
        stats = benchmark["stats"]
        stats["data"] = [stats["median"] * factor * noise.gauss(1, 0.01) for _ in range(10)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(run))
    return folder


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of octo/example with a remote, in which the commands run."""
    remote, path = tmp_path / "octo/example.git", tmp_path / "checkout"
    who = {
        f"GIT_{role}_{what}": "a@example.org"
        for role in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    for line in (
        ["git", "init", "-q", "--bare", remote],
        ["git", "init", "-q", "-b", "main", path],
        ["git", "-C", path, "commit", "-q", "--allow-empty", "-m", "one"],
        ["git", "-C", path, "remote", "add", "origin", remote],
        ["git", "-C", path, "push", "-q", "origin", "main"],
    ):
        subprocess.run(list(map(str, line)), check=True, env={**os.environ, **who})
    for name, value in who.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(path)
    return path


def torchperf(*words: object) -> int:
    return cli.main([*map(str, words)])


def verdicts() -> dict[str, str]:
    with open("verdicts.json") as file:  # noqa: PTH123  # the file of the working directory
        found = json.load(file)["verdicts"]
    return {verdict["series"]["model"].rpartition("::")[2]: verdict["verdict"] for verdict in found}


SORTS = ["test_sort[100]", "test_sort[1000]"]


def test_a_branch_of_pytest_benchmarks_results_is_a_past_that_finds_a_slowdown(checkout: Path) -> None:
    """Eight commits are kept, the ninth is as they are, and what comes then is 20% slower."""
    for number in range(1, 9):
        results = write_run(checkout / "results", number, name=f"{number}.json")
    assert torchperf("upload", results, "--to", "branch:benchmarks") == 0
    quiet = write_run(checkout / "quiet", 9)
    assert torchperf("check", quiet, "--against", "branch:benchmarks") == 0
    assert set(verdicts().values()) == {"unchanged"}
    slow = checkout / "slow"
    for number in range(10, 13):
        write_run(slow, number, 1.2, f"{number}.json")
    assert torchperf("check", slow, "--against", "branch:benchmarks") == 1
    assert {name for name, verdict in verdicts().items() if verdict == "regressed"} == {*SORTS}


def test_what_is_uploaded_is_the_records_once_under_one_key(checkout: Path) -> None:
    results = write_run(checkout / "results", 1)
    for _ in range(2):
        assert torchperf("upload", results, "--to", checkout / "kept") == 0
    place = DirectoryPlace(checkout / "kept")
    (key,) = (key for key in place.keys() if key.startswith("v3/"))  # noqa: SIM118  # no dict
    records = [json.loads(line) for line in gzip.decompress(place.get(key)).splitlines()]
    assert [record["model"]["name"] for record in records] == [
        benchmark["fullname"] for benchmark in SOURCE["benchmarks"]
    ]
    for record in records:
        assert record["repo"] == "octo/example"
        assert record["head_sha"] == f"{1:040x}"
        assert record["head_branch"] == "main"
        assert record["schema_version"] == "v3"


def test_each_commit_in_a_directory_is_a_run_of_its_own(checkout: Path) -> None:
    for number in (1, 2):
        write_run(checkout / "results", number, name=f"{number}.json")
    assert torchperf("upload", checkout / "results", "--to", checkout / "kept") == 0
    keys = [key for key in DirectoryPlace(checkout / "kept").keys() if key.startswith("v3/")]  # noqa: SIM118
    assert len({key.split("/")[-3] for key in keys}) == 2


@pytest.mark.parametrize(("merge", "head"), [(f"{1:040x}", "ab" * 20), ("cd" * 20, f"{1:040x}")])
def test_the_checkout_of_a_job_is_the_jobs_commit(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, merge: str, head: str
) -> None:
    """Of a pull request it is a merge, which is on no branch, or its head, on a fork's branch."""
    event = checkout / "event.json"
    event.write_text(json.dumps({"pull_request": {"head": {"ref": "faster", "sha": head}}}))
    job = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_REPOSITORY": "octo/example",
        "GITHUB_REF": "refs/pull/7/merge",
        "GITHUB_SHA": merge,
        "GITHUB_RUN_ID": "71",
        "GITHUB_RUN_ATTEMPT": "1",
    }
    for name, value in job.items():
        monkeypatch.setenv(name, value)
    results = write_run(checkout / "results", 1)
    assert torchperf("upload", results, "--to", checkout / "kept") == 0
    place = DirectoryPlace(checkout / "kept")
    (key,) = (key for key in place.keys() if key.startswith("v3/"))  # noqa: SIM118  # no dict
    record = json.loads(gzip.decompress(place.get(key)).splitlines()[0])
    assert (record["head_sha"], record["head_branch"]) == (head, "faster")


@pytest.mark.parametrize(("processes", "word", "code"), [(8, "regressed", 1), (1, "noisy", 5)])
def test_two_directories_of_results_are_compared(
    checkout: Path, capsys: pytest.CaptureFixture[str], processes: int, word: str, code: int
) -> None:
    """Rounds of one process lie close together, whatever the process is off by, so each file counts once."""
    for number in range(processes):
        base = write_run(checkout / "base", number + 1, name=f"{number}.json")
        slow = write_run(checkout / "slow", number + 9, 1.5, f"{number}.json")
    assert torchperf("compare", "--base", base, "--head", slow) == code
    assert {verdicts()[name] for name in SORTS} == {word}
    assert "rounds of one process count as one value" in capsys.readouterr().out


def test_a_baseline_of_another_tool_names_the_processor(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(checkout / "results", 1)
    assert torchperf("baseline", "update", "--reason", "first", checkout / "results") == 0
    assert "4 series of 1 run on AMD EPYC (" in capsys.readouterr().err


def test_more_repetitions_than_can_be_compared_with_each_other_are_compared(checkout: Path) -> None:
    noise = random.Random(17)
    for side in ("base", "head"):
        times = [noise.gauss(1, 0.01) for _ in range(20_000)]
        (checkout / side).mkdir()
        run = {"results": [{"command": "sort", "mean": 1.0, "times": times}]}
        (checkout / side / "hyperfine.json").write_text(json.dumps(run))
    assert torchperf("compare", "--base", checkout / "base", "--head", checkout / "head") == 0
    assert set(verdicts().values()) == {"unchanged"}


def test_history_finds_the_change(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(1, 21):
        write_run(checkout / "results", number, 1.3 if number > 10 else 1.0, f"{number}.json")
    assert torchperf("history", "--records", checkout / "results", "--json") == 0
    changed = {
        found["series"]["model"].rpartition("::")[2]: [change["index"] for change in found["change_points"]]
        for found in json.loads(capsys.readouterr().out)
        if found["change_points"]
    }
    assert changed == {key: [10] for key in SORTS}


def test_asvs_own_folder_is_taken_in_with_all_that_lies_in_it(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(MADE / "asv", checkout / "asv")
    dsn = f"chdb://{checkout}/store"
    assert torchperf("ingest", "asv", "--store", dsn) == 0
    capsys.readouterr()
    assert torchperf("query", "--store", dsn, "--format", "json", "--metrics", "track_length(tokens)") == 0
    (point,) = json.loads(capsys.readouterr().out)
    assert point["value"] == 42


CUSTOM = [{"name": "decode", "unit": "tokens/s", "value": 100.0}]


def test_what_else_asv_keeps_is_not_told_as_a_file_that_lacks_its_records(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["upload", str(MADE / "asv/ci"), "--to", "kept"]) == 0
    assert "no record" not in "".join(capsys.readouterr())


def test_a_direction_that_nobody_told_is_asked_for_and_then_counts(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dsn, noise = f"chdb://{checkout}/store", random.Random(17)
    for number in range(1, 11):
        folder = checkout / "past" / f"{number:02d}"
        folder.mkdir(parents=True)
        value = noise.gauss(100, 0.5)
        (folder / "custom.json").write_text(json.dumps([{**CUSTOM[0], "value": value}]))
    assert torchperf("ingest", "past", "--store", dsn) == 3
    assert "give --format customSmallerIsBetter" in capsys.readouterr().err
    assert torchperf("ingest", "past", "--store", dsn, "--format", "customBiggerIsBetter") == 0
    with open_existing(dsn) as store:
        (row,) = points_of_store(store).values()
    assert {point.info["direction"] for point in row} == {"up"}
    for number in range(3):
        (checkout / "new" / str(number)).mkdir(parents=True)
        (checkout / "new" / str(number) / "custom.json").write_text(
            json.dumps([{**CUSTOM[0], "value": 70.0 + number / 7}])
        )
    for against in ("past", "store"):
        given = ["--against", against, "--store", dsn, "--format", "customBiggerIsBetter"]
        assert torchperf("check", "new", *given) == 1
        assert verdicts() == {"decode": "regressed"}
    given = ["--against", "past", "--format", "customSmallerIsBetter"]
    assert torchperf("check", "new", *given) == 3
    assert "usually better: give --format customBiggerIsBetter" in capsys.readouterr().err
