"""Documents of a real store, checked against nights with known contents."""

from __future__ import annotations

import json
import random
import shutil
from itertools import accumulate, product
from math import exp
from typing import TYPE_CHECKING, Any

import pytest
from dashboard_nights import (
    DAY,
    HOSTILE,
    NIGHTS,
    START,
    STEP,
    document,
    night_records,
    put_culprit,
    put_nights,
    series_id,
    series_in,
    take_in,
)

from torchperf_ci import cli
from torchperf_ci.config import Config, Rule, default_policy
from torchperf_ci.culprits.culprit import Bisection, Culprit, culprits_json
from torchperf_ci.series.points import Point, Series
from torchperf_ci.stats.effect import Effect
from torchperf_ci.store.judged_files import add_judged_files
from torchperf_ci.store.migrations import open_store
from torchperf_ci.web.catalogue import GroupCatalogue, RunEntry
from torchperf_ci.web.changes import proven_culprits
from torchperf_ci.web.documents import Documents
from torchperf_ci.web.result_documents import series_document

if TYPE_CHECKING:
    from pathlib import Path


def model_and_metric(site: Path, series: str) -> tuple[str, str]:
    names = names_in(document(site, "index.json"), series)
    return names["model"], names["metric"]


def names_in(index: Any, series: str) -> dict[str, str]:
    row = next(row for row in index["series"] if row[0] == series)
    return {field: index["names"][field][row[1 + place]] for place, field in enumerate(index["fields"])}


def test_the_overview_says_what_is_wrong(site: Path) -> None:
    overview = document(site, "overview.json")
    assert overview["sentence"] == (
        "2 regressions are open; 2 of 8 cases failed in the newest runs; 2 cases did not run."
    )
    assert overview["time"] == START + (NIGHTS - 1) * DAY
    (cause,) = overview["causes"]
    assert (cause["time"], cause["count"], cause["worst"]["name"]["model"]) == (START + STEP * DAY, 2, "slow")
    assert set(cause["series"]) == {series_id(site, "slow", device=device) for device in ("cuda", "cpu")}
    assert len(cause["machines"]) == 2
    assert cause["worst"]["ratio"] == pytest.approx(1.08, rel=0.01)
    cuda = next(group for group in overview["groups"] if group["run"]["device"] == "cuda")
    assert cuda["counts"] == {"pass": 3, "oom": 1}
    assert (cuda["not_run"], cuda["open"], cuda["recovered"]) == (1, 1, 0)
    assert not cuda["too_new"]
    assert len(cuda["trend"]["day"]) == NIGHTS
    assert cuda["trend"]["n"][-2:] == [5, 3]
    breaks = {group["run"]["device"]: group["trend"]["breaks"] for group in overview["groups"]}
    assert breaks == {"cuda": [START + 20 * DAY], "cpu": []}


def test_what_check_proves_before_it_is_a_level_is_told(tmp_path: Path) -> None:
    """Or the overview would say that all is well while the nightly's job is red."""
    dsn, records = f"chdb://{tmp_path}/store", tmp_path / "records"
    put_nights(records, 0, NIGHTS - 3)
    for number in range(NIGHTS - 3, NIGHTS):
        night = [*night_records(number)]
        for record in night:
            if record["model"]["name"] == "tiny" and record["metric"]["name"] == "latency(ms)":
                values = record["metric"]["benchmark_values"]
                record["metric"]["benchmark_values"] = [1.2 * value for value in values]
        (records / f"{number}.json").write_text("\n".join(map(json.dumps, night)))
    take_in(dsn, records)
    with open_store(dsn) as store:
        documents = Documents(store, Config())
        overview, index = (json.loads(documents.document(path)) for path in ("overview.json", "index.json"))
    assert "2 series got worse too recently to count as regressed" in overview["sentence"]
    for group in overview["groups"]:
        assert group["newly_worse"] == [series_in(index, "tiny", device=group["run"]["device"])]


def test_a_change_that_does_not_matter_is_no_regression(nights: str, tmp_path: Path) -> None:
    """Of 8%, where what matters begins at 10%; in a copy, because the store keeps what was judged by which policy."""
    shutil.copytree(nights.removeprefix("chdb://"), tmp_path / "store", symlinks=True)
    policy = {**default_policy(), "latency(ms)": Rule("down", 0.1)}
    with open_store(f"chdb://{tmp_path}/store") as store:
        documents = Documents(store, Config(policy=policy))
        overview, told = (
            json.loads(documents.document(path)) for path in ("overview.json", "regressions.json")
        )
    assert overview["causes"] == []
    assert {change["word"] for change in told["changes"] if change["name"]["model"] == "slow"} == {"changed"}


def test_a_series_has_its_levels_its_change_and_its_machines(site: Path) -> None:
    slow = document(site, f"series/{series_id(site, 'slow')}/2026.json")
    runs = [run["id"] for run in document(site, "index.json")["runs"] if run["device"] == "cuda"]
    assert slow["points"]["run"] == [0, *[1] * (len(runs) - 1)]
    assert slow["last"] == runs[0]
    assert set(slow["points"]["after"]) == {0}
    (change,) = slow["changes"]
    assert (change["word"], change["time"], change["recovered"]) == ("regressed", START + STEP * DAY, None)
    assert change["low"] < 1.08 < change["high"]
    assert (change["last_commit"], change["first_commit"]) == ("29" * 20, "30" * 20)
    assert slow["machine_changes"] == [{"time": START + 20 * DAY, "differs": ["driver: 550 → 560"]}]
    assert [level["value"] for level in slow["levels"]] == pytest.approx([50, 50, 54], rel=0.01)
    assert 0 < slow["noise"] < 0.01
    assert slow["noise"] < slow["detectable"] < 0.08
    assert (slow["direction"], slow["kind"], slow["min_effect"]) == ("down", "ratio", 0.03)


def test_a_series_is_as_sensitive_as_check_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two runs of each commit are one session, and what several jobs of a run measured is one value."""
    dsn = f"chdb://{tmp_path}/store"
    (tmp_path / "records").mkdir()
    for night, run in product(range(1, NIGHTS), range(2)):
        lines = [
            json.dumps(
                {
                    **one,
                    "timestamp": one["timestamp"] + 60 * run,
                    "workflow_id": 2 * night + run,
                    "job_id": job,
                }
            )
            for job in range(1 + night % 3)
            for one in night_records(night)
            if (one["model"]["name"], one["metric"]["name"]) == ("tiny", "latency(ms)")
            if one["runners"][0]["name"] == "cpu"
        ]
        (tmp_path / f"records/{night}-{run}.json").write_text("\n".join(lines))
    take_in(dsn, tmp_path / "records")
    with open_store(dsn) as store:
        documents = Documents(store, Config())
        (row,) = json.loads(documents.document("index.json"))["series"]
        told = json.loads(documents.document(f"series/{row[0]}/2026.json"))
    assert cli.main(["check", "--sensitivity", "--json", "--store", dsn]) == 0
    (said,) = json.loads(capsys.readouterr().out)["series"]
    assert said["noise"] == pytest.approx(told["noise"], rel=1e-5)
    assert said["detectable"] == pytest.approx(told["detectable"], rel=1e-5)


def test_a_direction_in_the_records_is_heeded() -> None:
    name = Series("r", "b", "m", "", "", "", "cuda", "H100", "tokens_lost(1)")
    run = RunEntry("0" * 10, "1.1", *name.group, "main", "a" * 40, START, START, "")
    points = [Point(9.0, (9.0,), START, info={"direction": "down"}, run=run.name)]
    assert series_document(name, points, GroupCatalogue([], [run], {}), 2026, {})["direction"] == "down"


def judged(levels: list[tuple[int, float, str]]) -> Any:
    """The document of a series: so many nights at a level with a driver, and so on."""
    name, noise = Series("r", "b", "m", "", "", "", "cuda", "H100", "latency(ms)"), random.Random(7)
    points: list[Point] = []
    for nights, level, driver in levels:
        for _ in range(nights):
            value, time, run = (
                level * exp(noise.gauss(0, 0.005)),
                START + len(points) * DAY,
                f"{len(points)}.1",
            )
            points.append(Point(value, (value,), time, "main", fingerprint={"driver": driver}, run=run))
    runs = [
        RunEntry(point.run, point.run, *name.group, "main", "", point.timestamp, point.timestamp, "")
        for point in reversed(points)
    ]
    return series_document(name, points, GroupCatalogue([], runs, {}), 2026, default_policy())


@pytest.mark.parametrize("nights", [5, 9, 10])
def test_a_new_level_is_no_noise(nights: int) -> None:
    """For a week, a regression widened the band in which it was drawn: five times."""
    before = [(10, 9.0, "550"), (20, 10.0, "560")]
    told = judged([*before, (nights, 10.8, "560")])
    assert [change["word"] for change in told["changes"]] == ["regressed"]
    assert told["noise"] < 2 * judged(before)["noise"]
    assert told["detectable"] < 2 * judged(before)["detectable"]


def test_a_regression_on_a_machine_that_is_gone_is_not_open_forever() -> None:
    """No night can show its recovery once the driver is another one."""
    before = [(15, 10.0, "550"), (15, 10.8, "550")]
    ended = [judged([*before, (nights, 10.8, "560")])["changes"][0]["ended"] for nights in (0, 35, 36)]
    assert ended == [None, None, START + 29 * DAY]


def test_a_small_number_keeps_its_digits_and_a_missing_one_its_reason(site: Path) -> None:
    tiny = document(site, f"series/{series_id(site, 'tiny')}/2026.json")
    assert tiny["points"]["value"][0] == pytest.approx(0.0041, rel=0.02)
    assert all(len(f"{value:g}") >= 5 for value in tiny["points"]["value"][:3])
    failing = document(site, f"series/{series_id(site, 'failing', 'status')}/2026.json")
    assert failing["points"]["value"][-1] == 0
    gone = document(site, f"series/{series_id(site, 'gone')}/2026.json")
    assert len(gone["points"]["run"]) == NIGHTS - 1


def test_a_case_that_is_gone_for_five_nights_is_told_each_night(tmp_path: Path) -> None:
    """And one that only a pull request has measured is not missed, nor is its run the newest of the machine."""
    dsn, records = f"chdb://{tmp_path}/store", tmp_path / "records"
    records.mkdir()
    for number in range(14):
        night = [one for one in night_records(number) if one["model"]["name"] != "gone" or number < 8]
        tried = [one | {"head_branch": "try", "workflow_id": 2000 + number} for one in night_records(number)]
        for one in tried:
            one["model"]["name"] += " tried"
        (records / f"{number}.json").write_text("\n".join(map(json.dumps, [*night, *tried])))
    take_in(dsn, records)
    with open_store(dsn) as store:
        documents = Documents(store, Config())
        missed = [
            [case["model"] for case in json.loads(documents.document(f"run/{run['id']}.json"))["not_run"]]
            for run in json.loads(documents.document("index.json"))["runs"]
            if run["device"] == "cuda" and run["branch"] == "main"
        ]
        groups = json.loads(documents.document("overview.json"))["groups"]
        previous = [
            json.loads(documents.document(f"run/{one['run']['id']}.json"))["previous"] for one in groups
        ]
    assert [one["run"]["branch"] for one in groups] == ["main", "main"]
    assert [one["previous"] for one in groups] == previous
    assert missed[::-1] == [*[[]] * 8, *[["gone"]] * 5, []]


def test_a_run_says_what_failed_why_and_what_did_not_run(site: Path) -> None:
    index = document(site, "index.json")
    newest = next(run for run in index["runs"] if run["device"] == "cuda")
    told = document(site, f"run/{newest['id']}.json")
    assert told["counts"] == {"pass": 3, "oom": 1}
    assert [case["model"] for case in told["not_run"]] == ["gone"]
    (failed,) = told["failed"]
    assert (failed["name"]["model"], failed["status"], failed["reason"]) == ("failing", "oom", HOSTILE)
    assert newest["url"] == f"https://github.com/pytorch/pytorch/actions/runs/{1000 + NIGHTS - 1}"
    previous = next(run for run in index["runs"] if run["id"] == told["previous"])
    assert previous["time"] == newest["time"] - DAY
    ids = [row[0] for row in index["series"]]
    cuda = [one for one in ids if names_in(index, one)["device"] == "cuda"]
    places = accumulate(told["series"])
    measured = [model_and_metric(site, cuda[place]) for place in places]
    assert sorted(measured) == sorted((model, "latency(ms)") for model in ("slow", "tiny", HOSTILE))
    assert model_and_metric(site, told["last"]) == measured[-1]
    slow = document(site, f"series/{series_id(site, 'slow')}/2026.json")["points"]
    place = measured.index(("slow", "latency(ms)"))
    for column in ("value", "below", "above", "n"):
        assert told["values"][column][place] == slow[column][-1]
    assert 0 < slow["below"][-1] == float(f"{slow['below'][-1]:.3g}") < slow["value"][-1] / 10
    assert 0 < slow["above"][-1] < slow["value"][-1] / 10
    assert told["machine"]["driver"] == "560"


def test_two_runs_are_compared_by_the_noise_of_each_series(nights: str, site: Path) -> None:
    runs = [run for run in document(site, "index.json")["runs"] if run["device"] == "cuda"]
    by_night = {(run["time"] - START) // DAY: run["id"] for run in runs}
    with open_store(nights) as store:
        documents = Documents(store, Config())
        compared = json.loads(documents.document(f"compare/{by_night[29]}/{by_night[31]}.json"))
        across = json.loads(documents.document(f"compare/{by_night[10]}/{by_night[31]}.json"))
    rows = compared["rows"]
    found = [
        (*model_and_metric(site, one), word) for one, word in zip(rows["series"], rows["word"], strict=True)
    ]
    words = {model: word for model, metric, word in found if metric != "status"}
    assert words == {
        **dict.fromkeys(["tiny", "failing", "gone", HOSTILE], "within noise"),
        "slow": "beyond noise",
    }
    assert (found[0][0], rows["worse"][0]) == ("slow", 1)
    (mean,) = compared["means"]
    assert (mean["metric"], mean["n"]) == ("latency(ms)", 5)
    assert across["differs"] == ["driver: 550 → 560"]
    assert {*across["rows"]["word"]} == {"not comparable"}
    assert across["means"] == []


def test_what_regressed_is_told_with_its_commits(site: Path) -> None:
    changes = document(site, "regressions.json")["changes"]
    slow = [entry for entry in changes if entry["name"]["model"] == "slow"]
    assert [entry["name"]["device"] for entry in slow] in (["cuda", "cpu"], ["cpu", "cuda"])
    assert {entry["word"] for entry in slow} == {"regressed"}


def test_a_culprit_that_was_proven_stands_at_its_change(nights: str, tmp_path: Path) -> None:
    """It is that of the bisection between the commits on both sides of the change, and of no other."""
    shutil.copytree(nights.removeprefix("chdb://"), tmp_path / "store", symlinks=True)
    culprit = Culprit(
        "30" * 20, ("30" * 20,), 0.998, Effect(1.08, 1.07, 1.09, 12), subject="Check <b>all</b> inputs"
    )
    found = Bisection("found", "29" * 20, "30" * 20, culprits=(culprit,))
    other = Bisection("found", "01" * 20, "02" * 20, culprits=(culprit,))
    with open_store(f"chdb://{tmp_path}/store") as store:
        add_judged_files(store, "b", {"judged/1": culprits_json(found), "judged/2": culprits_json(other)})
        documents = Documents(store, Config())
        changes = json.loads(documents.document("regressions.json"))["changes"]
    (told,) = next(one["culprits"] for one in changes if one["name"]["model"] == "slow")
    assert (told["commit"], told["posterior"], told["pairs"]) == ("30" * 20, 0.998, 12)
    assert told["subject"] == "Check <b>all</b> inputs"


def test_a_culprit_stands_with_its_evidence_wherever_the_change_does(site: Path) -> None:
    told = document(site, "regressions.json")
    (entry,) = told["culprits"]
    assert (entry["inside"], entry["series"], entry["author"]) == (
        ["aten::mm: +4 ms"],
        ["slow latency(ms)"],
        "Ada",
    )
    culprit = entry["culprit"]
    assert (culprit["subject"], culprit["pairs"], culprit["low"], culprit["high"]) == (
        HOSTILE,
        12,
        1.07,
        None,
    )
    assert culprit["issues"] == f"https://github.com/pytorch/pytorch/issues?q=is%3Aissue+{'30' * 20}"
    slow = document(site, f"series/{series_id(site, 'slow')}/2026.json")
    overview = document(site, "overview.json")
    assert slow["changes"][0]["culprits"] == overview["culprits"] == [culprit]
    assert overview["causes"][0]["worst"]["culprits"] == [culprit]
    open_changes = [one["culprits"] for one in told["changes"] if one["name"]["model"] == "slow"]
    assert open_changes == [[culprit], [culprit]]


@pytest.mark.parametrize(("torches", "named"), [(1, "own"), (NIGHTS, "torch")])
def test_runs_are_named_by_what_changes_and_culprits_are_of_either(
    torches: int, named: str, tmp_path: Path
) -> None:
    """A project that uses PyTorch looks for its own commits, and one that measures its nightlies for PyTorch's."""
    dsn, records = f"chdb://{tmp_path}/store", tmp_path / "records"
    records.mkdir()
    for number in range(NIGHTS):
        torch = {"dependencies": {"pytorch": {"sha": f"{min(number, torches - 1):02x}" * 20}}}
        lines = "\n".join(json.dumps({**record, **torch}) for record in night_records(number))
        (records / f"{number}.json").write_text(lines)
    put_culprit(records / "culprits.json")  # of the project's own commits
    take_in(dsn, records)
    with open_store(dsn) as store:
        documents = Documents(store, Config())
        index = json.loads(documents.document("index.json"))
        told = json.loads(documents.document(f"series/{series_in(index, 'slow')}/2026.json"))
    runs = index["runs"]
    own = {f"{number:02}" * 20 for number in range(NIGHTS)}
    pytorch = {f"{number:02x}" * 20 for number in range(NIGHTS)}
    assert {run["commit"] for run in runs} == (own if named == "own" else pytorch)
    (slow,) = told["changes"]
    assert (slow["own_commits"] is None, len(slow["culprits"])) == (named == "own", 1)


def test_issues_are_looked_for_where_they_are_opened(nights: str) -> None:
    with open_store(nights) as store:
        (entry,) = proven_culprits(store, "https://github.com/octo/perf")
    culprit = entry["culprit"]
    assert isinstance(culprit, dict)
    assert culprit["issues"].startswith("https://github.com/octo/perf/issues?q=")
