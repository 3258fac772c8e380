from __future__ import annotations

from pathlib import Path

import pytest

from torchperf_ci.check.command import missing_jobs

ROOT = Path("records")
ALL = ["h100-core-1-of-2", "h100-core-2-of-2", "spr-core"]


def file_of(job: str) -> Path:
    return ROOT / f"torchperf-records-{job}" / "resnet.json"


def test_nothing_is_said_where_all_have_delivered() -> None:
    assert not missing_jobs(ROOT, map(file_of, ALL), ALL)


def test_who_has_delivered_nothing_is_named() -> None:
    assert missing_jobs(ROOT, [file_of(ALL[0])], ALL) == [
        "h100-core-2-of-2: nothing was measured",
        "spr-core: nothing was measured",
    ]


@pytest.mark.parametrize(
    "file",
    [
        ROOT / "torchperf-records-h100-core-1-of-20" / "resnet.json",
        ROOT / "more" / "torchperf-records-h100-core-1-of-2" / "resnet.json",
        Path("elsewhere/torchperf-records-h100-core-1-of-2/resnet.json"),
    ],
)
def test_only_the_jobs_own_folder_counts(file: Path) -> None:
    assert missing_jobs(ROOT, [file, file_of(ALL[1])], ALL[:2]) == ["h100-core-1-of-2: nothing was measured"]


def test_a_file_deep_in_the_folder_counts() -> None:
    assert not missing_jobs(ROOT, [file_of(ALL[0]).parent / "run-2" / "a.json.gz"], ALL[:1])


def test_a_single_artifact_lies_without_a_folder_of_its_own(tmp_path: Path) -> None:
    assert not missing_jobs(tmp_path, [tmp_path / "resnet.json"], ALL[:1])
    assert not missing_jobs(tmp_path, [tmp_path / "resnet.json"], ALL[:1] * 2), (
        "a name given twice is one job"
    )
    (tmp_path / f"torchperf-records-{ALL[1]}").mkdir()
    assert missing_jobs(tmp_path, [tmp_path / "resnet.json"], ALL[:1]) == [f"{ALL[0]}: nothing was measured"]


@pytest.mark.parametrize("root", [ROOT, Path("torchperf-records-h100") / "records"])
def test_of_several_nobody_knows_whose_such_records_are(root: Path) -> None:
    assert missing_jobs(root, [root / "resnet.json"], ALL) == [
        "which of the 3 expected jobs measured this is not known: no folder is torchperf-records-NAME"
    ]


def test_nobody_is_expected_where_nobody_is_named() -> None:
    assert not missing_jobs(ROOT, [ROOT / "resnet.json"], [])
