"""The results of the steps of ``caller/uploads.yml``, with real targets."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from contents import contents
from seaweedfs import BUCKET, ROLE, SECRET_KEY

from torchperf_ci.places import open_place
from torchperf_ci.store.migrations import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchperf_ci.places.place import RecordPlace

KEPT = {"uploaded": "2", "refused": "0", "spooled": "0"}
PASSWORD = "pa55word-of-the-uploader"
TARGETS = ["directory", "branch", "api", "s3", "oidc"]


@contextmanager
def receiving(place: Path) -> Iterator[str]:
    """The URL of an upload API, in a process of its own."""
    environ = {**os.environ, "UPLOADER_USERNAME": "someone", "UPLOADER_PASSWORD": PASSWORD}
    command = [sys.executable, "-m", "torchperf_ci", "receive", "--bind", "127.0.0.1:0", "--to", str(place)]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        yield process.stderr.readline().split()[2].rstrip(",")
        process.terminate()
        process.communicate(timeout=60)


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where the targets keep what they get, by the name of the step that sends it there."""
    bare, api = tmp_path_factory.mktemp("remote") / "bare.git", tmp_path_factory.mktemp("api")
    subprocess.run(["git", "init", "--quiet", "--bare", str(bare)], check=True, timeout=60)
    return {
        "branch": f"branch:perf-data@{bare}",
        "api": str(api),
        "s3": f"s3://{BUCKET}/by-key",
        "oidc": f"s3://{BUCKET}/granted/by-role",
    }


@pytest.fixture(scope="session")
def uploads(runner, places, s3_server, issuer) -> Any:
    """The workflow, when all is over."""
    bare = places["branch"].partition("@")[2]
    issuer.issued.clear()  # what other tests' jobs were given is masked in theirs
    with receiving(Path(places["api"])) as url:
        variables = {"API": url, "BARE": bare, "S3": s3_server.endpoint, "ROLE": ROLE}
        secrets = {"UPLOADER_PASSWORD": PASSWORD, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
        environ = {**issuer.job(), "AWS_EC2_METADATA_DISABLED": "true"}
        return runner.push(
            "uploads",
            *(f"--var={name}={value}" for name, value in variables.items()),
            *(f"--secret={name}={value}" for name, value in secrets.items()),
            *(f"--env={name}={value}" for name, value in environ.items()),
        )


def records(place: RecordPlace) -> dict[str, list[dict[str, Any]]]:
    """What is kept, by key."""
    found = {key: gzip.decompress(body).decode() for key, body in contents(place).items()}
    return {key: [json.loads(line) for line in text.splitlines()] for key, text in found.items()}


def counts(outputs: Mapping[str, str]) -> dict[str, str]:
    return {name: outputs.get(name, "") for name in KEPT}


def test_the_steps_end_as_they_should(uploads) -> None:
    assert uploads.results == {"upload": "success"}, (uploads.evidence / "act.log").read_text()
    failed = {name for name, step in uploads.steps("upload").items() if step["outcome"] == "failure"}
    assert failed == {
        *("missing-error", "old-schema", "hostile-path", "hostile-choice", "undelivered", "road"),
    }


def test_in_place_of_the_action_of_test_infra_it_shows_what_it_would_send_to_their_bucket(uploads) -> None:
    assert counts(uploads.steps("upload")["replacement"]["outputs"]) == {**KEPT, "uploaded": "0"}
    text = log(uploads)
    assert "2 records in 1 object would be sent to s3://ossci-benchmarks" in text
    assert re.search(r"name +Replaced\s", text)


@pytest.mark.parametrize("step", TARGETS)
@pytest.mark.usefixtures("aws")
def test_records_arrive_at_each_target(uploads, places, step) -> None:
    assert counts(uploads.steps("upload")[step]["outputs"]) == KEPT
    kept = records(open_place(places.get(step, str(uploads.evidence / "upload/kept"))))
    (received,) = [found for key, found in kept.items() if "later" not in key]
    own = json.loads((Path(__file__).parent / "caller/records/latency.json").read_text())
    assert [record["metric"] for record in received] == [record["metric"] for record in own]
    assert {record["job_id"] for record in received} == {9}


def test_records_are_taken_into_a_store(uploads) -> None:
    assert counts(uploads.steps("upload")["store"]["outputs"]) == KEPT
    with open_store(f"chdb://{uploads.evidence}/upload/store") as store:
        assert store.rows("SELECT count(), any(job_id) FROM torchperf_points") == [(2, 9)]


def test_hostile_text_is_data_in_the_records(uploads, hostile) -> None:
    ((_, received),) = records(open_place(str(uploads.evidence / "upload/kept"))).items()
    for record in received:
        assert record["name"] == record["benchmark"]["name"] == record["head_branch"] == hostile.text


def test_nothing_hostile_is_run_or_speaks_to_the_runner(uploads, hostile) -> None:
    assert (uploads.evidence / "upload/pwned").read_text() == ""
    assert (uploads.evidence / "upload" / hostile.name / "delivered").is_dir(), "the spool"
    lines = [event["raw"] for event in uploads.commands("upload", "error")]
    assert any("pwned" in line for line in lines)
    assert not [line for line in lines if not line.startswith("::error title=")]


def test_no_records_is_a_warning_unless_it_shall_be_an_error(uploads) -> None:
    warnings = [event["raw"] for event in uploads.commands("upload", "warning")]
    assert [line for line in warnings if "no-such-directory: there is no such directory" in line]
    assert counts(uploads.steps("upload")["missing"]["outputs"]) == {**KEPT, "uploaded": "0"}


def test_what_is_not_delivered_is_offered_as_an_artifact_and_resumed_from_it(uploads, places) -> None:
    steps = uploads.steps("upload")
    assert counts(steps["undelivered"]["outputs"]) == {"uploaded": "0", "refused": "0", "spooled": "2"}
    (artifact,) = (uploads.evidence / "artifacts").iterdir()
    assert list(artifact.glob("*.zip"))
    summaries = "".join(event["content"] for event in uploads.commands("upload", "summary"))
    assert f"artifact {artifact.name}" in summaries
    assert counts(steps["resumed"]["outputs"]) == KEPT
    assert len([key for key in records(open_place(places["api"])) if "later" in key]) == 1


def test_the_road_keeps_also_what_a_failing_run_has_measured(uploads) -> None:
    outputs = uploads.steps("upload")["road"]["outputs"]
    assert (outputs["passed"], outputs["failed"]) == ("1", "1")
    kept = [
        r
        for found in records(open_place(str(uploads.evidence / "upload/kept-by-road"))).values()
        for r in found
    ]
    assert {record["model"]["name"] for record in kept} == {"caller/add", "caller/mismatch"}
    assert outputs["uploaded"] == str(len(kept))


def test_the_road_judges_what_it_has_measured_and_is_no_past_of_its_own(uploads) -> None:
    outputs = uploads.steps("upload")["road"]["outputs"]
    assert (outputs["regressed"], outputs["broken"], outputs["candidates"]) == ("0", "0", "0")
    judged = json.loads((uploads.evidence / "upload/verdicts.json").read_text())["verdicts"]
    assert {verdict["verdict"] for verdict in judged} == {"new"}


def test_each_secret_is_masked_and_in_no_log_output_or_artifact(uploads, issuer) -> None:
    masked = {event["arg"] for event in uploads.commands("upload", "add-mask")}
    assert issuer.issued
    assert masked >= {PASSWORD, *issuer.issued}
    files = [path for path in uploads.evidence.rglob("*") if path.is_file() and path.name != "act.log"]
    shown = log(uploads) + "".join(path.read_text(errors="replace") for path in files)
    assert not [secret for secret in (*masked, SECRET_KEY) if secret in shown]


def log(uploads) -> str:
    """What the runner shows."""
    return "".join(event["msg"] for event in uploads.events if "raw_output" in event)
