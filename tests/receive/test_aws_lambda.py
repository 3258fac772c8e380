"""The receiver as a function of AWS Lambda."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from upload_requests import ACCEPTED, body, kept

from torchperf_ci.errors import UsageError
from torchperf_ci.receive import aws_lambda
from torchperf_ci.receive.aws_lambda import handler

if TYPE_CHECKING:
    from pathlib import Path

KEY = "v3/octo/perf/main/1f/H100/benchmark_results.json"


@pytest.fixture
def function(monkeypatch, tmp_path) -> Path:
    """The environment of a function that keeps in a directory, which is returned."""
    monkeypatch.setenv("UPLOADER_USERNAME", ACCEPTED.username)
    monkeypatch.setenv("UPLOADER_PASSWORD", ACCEPTED.password)
    monkeypatch.setenv("TORCHPERF_TO", str(tmp_path / "kept"))
    aws_lambda._set_up.cache_clear()
    yield tmp_path / "kept"
    aws_lambda._set_up.cache_clear()


def event(text: str | None, *, is_base64: bool = False) -> dict[str, Any]:
    """An event of a function URL, payload format 2.0, as AWS documents it."""
    shown = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": "/",
        "rawQueryString": "",
        "headers": {"content-type": "application/json", "host": "x.lambda-url.us-east-1.on.aws"},
        "requestContext": {
            "http": {"method": "POST", "path": "/", "protocol": "HTTP/1.1", "sourceIp": "192.0.2.7"},
            "stage": "$default",
        },
        "isBase64Encoded": is_base64,
    }
    return shown if text is None else shown | {"body": text}


@pytest.mark.parametrize("is_base64", [False, True])
def test_the_function_answers_an_event(function, is_base64) -> None:
    sent = body(s3_path=KEY)
    text = base64.b64encode(sent).decode() if is_base64 else sent.decode()
    answer = handler(event(text, is_base64=is_base64), None)
    assert answer["statusCode"] == 200
    assert type(answer["statusCode"]) is int
    assert answer["headers"] == {"content-type": "application/json"}
    assert answer["isBase64Encoded"] is False
    assert json.loads(answer["body"])["message"] == f"kept as {KEY}"
    assert json.loads(json.dumps(answer)) == answer
    assert kept(function) == {KEY: json.loads(sent)["content"]}


@pytest.mark.parametrize(
    "broken", [event(None), event(""), event("{"), event("not Base64!", is_base64=True), {"body": None}, {}]
)
@pytest.mark.usefixtures("function")
def test_an_event_without_a_request_is_a_400(broken) -> None:
    assert handler(broken, None)["statusCode"] == 400


@pytest.mark.parametrize("name", ["UPLOADER_USERNAME", "UPLOADER_PASSWORD", "TORCHPERF_TO"])
@pytest.mark.usefixtures("function")
def test_a_function_that_is_not_set_up_fails_as_a_function(monkeypatch, name) -> None:
    monkeypatch.delenv(name)
    with pytest.raises(UsageError, match=name):
        handler(event(body().decode()), None)


@pytest.mark.usefixtures("function")
def test_the_function_logs_who_got_which_answer(capsys) -> None:
    handler(event(body(s3_path=KEY).decode()), None)
    handler(event(body(password="wrong-word").decode()), None)
    handler({}, None)
    out, err = capsys.readouterr()
    assert [line.split(" ", 1)[1] for line in err.splitlines()] == [
        f"192.0.2.7 200 kept as {KEY}",
        "192.0.2.7 403 username or password is wrong",
        "- 400 the body is empty",
    ]
    assert not out


@pytest.mark.usefixtures("function")
def test_the_function_needs_no_more_than_what_the_documentation_has_one_deploy() -> None:
    code = (
        "import json, sys\n"
        "from torchperf_ci.places import open_place\n"
        "from torchperf_ci.receive.aws_lambda import handler\n"
        "open_place('s3://bucket')\n"
        "for event, status in zip(json.load(sys.stdin), (200, 422), strict=True):\n"
        "    assert handler(event, None)['statusCode'] == status\n"
        "print(*sys.modules)"
    )
    text = json.dumps([event(body(**more).decode()) for more in ({}, {"content": '{"metric": 1}'})])
    done = subprocess.run(
        [sys.executable, "-c", code], input=text, capture_output=True, text=True, timeout=60, check=True
    )
    roots = {name.partition(".")[0] for name in done.stdout.split()}
    assert {"boto3", "msgspec"} <= roots
    others = {
        "chdb",
        "clickhouse_connect",
        "github",
        "jsonschema",
        "numpy",
        "pynvml",
        "rich",
        "starlette",
        "yaml",
    }
    assert roots.isdisjoint(others)
