"""The real server: the same bytes as the site, the query API, and client errors."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests
from dashboard_nights import HOSTILE, NIGHTS
from hypothesis import given, settings
from hypothesis import strategies as st
from watched_page import comparison, identities, watching

from torchperf_ci import cli
from torchperf_ci.web import endpoints, serve

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from playwright.sync_api import Browser

READER = {"TORCHPERF_READER_USERNAME": "reader", "TORCHPERF_READER_PASSWORD": "pa:ss ü"}
AUTH = ("reader", "pa:ss ü".encode())
SECONDS = 120


@pytest.fixture(scope="module")
def folder(nights: str, site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a store is that is only served, judged already for the site."""
    folder = tmp_path_factory.mktemp("served")
    shutil.copytree(nights.removeprefix("chdb://"), folder / "store", symlinks=True)
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """Where ``torchperf serve`` listens."""
    with served(folder) as url:
        yield url


@contextmanager
def served(folder: Path, *options: str, reader: Mapping[str, str] = READER) -> Iterator[str]:
    """Where ``torchperf serve`` listens meanwhile; SIGTERM ends it well."""
    command = [
        sys.executable,
        "-m",
        "torchperf_ci",
        "serve",
        "--store",
        "chdb://store",
        "--bind",
        "127.0.0.1:0",
        *options,
    ]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2]), **reader}
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        first = process.stderr.readline()
        try:
            found = re.search(r"the dashboard is at (http://\S+/)", first)
            assert found, first
            yield found[1]
        finally:
            process.send_signal(signal.SIGTERM)
            rest = process.stderr.read()
    assert (process.returncode, rest) == (0, "")


def get(url: str, path: str, **more: Any) -> requests.Response:
    return requests.get(f"{url}{path}", auth=AUTH, timeout=SECONDS, **more)


def ask(url: str, variables: Any, form: str = "JSONEachRow") -> requests.Response:
    question = {"format": form, "queryVariables": variables}
    return requests.post(f"{url}run/84649f4e-52c4", json=question, auth=AUTH, timeout=SECONDS)


WIKI = {
    "repo": "pytorch/pytorch",
    "benchmark": "nightly",
    "startTime": "2026-09-22T00:00:00",
    "stopTime": "2027-01-01T00:00:00",
    "models": ["slow"],
    "metrics": ["latency(ms)"],
    "device": "",
    "arch": "",
    "branch": "",
    "commit": "",
}


def test_each_kind_of_document_is_the_file_of_the_site(url: str, site: Path) -> None:
    kinds = ("index.json", "overview.json", "regressions.json", "series/*/2026.json", "run/*", "compare/*/*")
    for path in (site / "js/dom.js", *(min((site / "data").glob(kind)) for kind in kinds)):
        assert get(url, str(path.relative_to(site))).content == path.read_bytes()


def test_two_processes_on_one_store_answer_alike(url: str, folder: Path, site: Path) -> None:
    paths = sorted((site / "data").rglob("*.json"))[::7]
    with served(folder) as other:
        for each in (other, url, other):  # an embedded store changes hands in a second
            for path in paths:
                assert get(each, str(path.relative_to(site))).content == path.read_bytes()


def test_who_has_a_document_gets_nothing_twice(url: str) -> None:
    first = get(url, "data/index.json")
    assert first.headers["content-encoding"] == "gzip"
    again = get(url, "data/index.json", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert get(url, "data/index.json", headers={"If-None-Match": '"other"'}).status_code == 200


def test_the_query_of_the_wiki_is_answered(url: str) -> None:
    answer = ask(url, WIKI)
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert len(lines) == 2 * NIGHTS
    assert {line["model"] for line in lines} == {"slow"}
    assert ask(url, {**WIKI, "device": "cuda"}, "JSON").json()[0]["device"] == "cuda"
    assert ask(url, WIKI, "CSV").text.startswith('"timestamp","repo"')
    assert ask(url, WIKI, "Parquet").content.startswith(b"PAR1")
    assert ask(url, {**WIKI, "models": [HOSTILE]}, "JSON").json()[0]["model"] == HOSTILE
    assert len(ask(url, {**WIKI, "startTime": "1990-01-01", "models": []}, "JSON").json()) > 300
    many = ask(url, {**WIKI, "startTime": "1990-01-01", "models": [*map(str, range(999)), "slow"]})
    assert many.text == answer.text
    parameters = [(name, value) for name, value in WIKI.items() if isinstance(value, str)]
    by_get = get(url, "run/x", params=[*parameters, ("models", "slow"), ("metrics", "latency(ms)")])
    assert by_get.text == answer.text


def test_the_script_of_the_documentation_asks_this_server(url: str) -> None:
    """Only the address and who asks are others."""
    page = (Path(__file__).parents[2] / "docs/dashboard.md").read_text()
    script = page.partition("```python\n")[2].partition("```")[0]
    for old, new in (
        ("http://127.0.0.1:8000/", url),
        ('("reader", "password")', repr(AUTH)),
    ):
        assert old in script
        script = script.replace(old, new)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=SECONDS, check=True
    )
    assert done.stdout.splitlines().count("slow") == 2 * NIGHTS


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"repo": ""}, "Expected `str` of length >= 1 - at `$.queryVariables.repo`"),
        ({"repo": None}, "Expected `str`, got `null` - at `$.queryVariables.repo`"),
        ({"repo": "x" * 1001}, "Expected `str` of length <= 1000 - at `$.queryVariables.repo`"),
        ({"stopTime": "2020-01-01"}, "stopTime the later one"),
        ({"startTime": "yesterday"}, "startTime and stopTime must be times"),
        ({"startTime": "9" * 400, "stopTime": "9" * 401}, "stopTime the later one"),
        ({"models": "slow"}, "Expected `array | null`, got `str` - at `$.queryVariables.models`"),
        ({"models": ["slow"] * 1001}, "Expected `array` of length <= 1000 - at `$.queryVariables.models`"),
        ({"metrics": ["x" * 1001]}, "Expected `str` of length <= 1000 - at `$.queryVariables.metrics[0]`"),
        ({"modles": []}, "unknown field `modles` - at `$.queryVariables`"),
    ],
)
def test_a_question_that_is_none_is_told(url: str, changes: dict[str, Any], message: str) -> None:
    answer = ask(url, {**WIKI, **changes})
    assert answer.status_code == 400
    assert message in answer.json()["message"]
    assert 'a query is {"format": "JSONEachRow", ' in answer.json()["message"]


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.text(), max_size=3)
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(WIKI)), VALUES, max_size=4), st.text(max_size=12))
def test_no_question_is_a_bug(url: str, changes: dict[str, Any], form: str) -> None:
    body = json.dumps({"format": form or "JSON", "queryVariables": {**WIKI, **changes}})
    posted = requests.post(f"{url}run/x", data=body.encode("utf-8", "replace"), auth=AUTH, timeout=SECONDS)
    assert posted.status_code in (200, 400)
    texts = {name: str(value).encode("utf-8", "replace") for name, value in {**WIKI, **changes}.items()}
    assert get(url, "run/x", params=texts).status_code in (200, 400)


def test_what_is_no_question_is_told(url: str) -> None:
    for body in (b"{", b"[]", b'{"queryVariables": []}', b"[" * 100_000, b"\xff"):
        answer = requests.post(f"{url}run/x", data=body, auth=AUTH, timeout=SECONDS)
        assert answer.status_code == 400, body[:20]
        assert 'a query is {"format": "JSONEachRow", ' in answer.json()["message"]
    large = requests.post(
        f"{url}run/x", data=b" " * (endpoints.MAX_BODY_BYTES + 1), auth=AUTH, timeout=SECONDS
    )
    assert large.status_code == 413
    told = ask(url, WIKI, "XML").json()["message"]
    assert told.startswith("Invalid enum value 'XML' - at `$.format`; a query is")
    assert get(url, "data/run/0000000000.json").status_code == 404
    assert get(url, "data/%2e%2e/%2e%2e/etc/passwd").status_code == 404
    assert get(url, "nothing").status_code == 404


@pytest.mark.parametrize("auth", [None, ("reader", "wrong"), ("", ""), ("réader", "x")])
def test_who_has_no_password_reads_nothing(url: str, auth: tuple[str, str] | None) -> None:
    given_auth = auth and (auth[0].encode(), auth[1].encode())
    for path in ("", "data/index.json", "run/x", "metrics", "readyz"):
        answer = requests.get(f"{url}{path}", auth=given_auth, timeout=SECONDS)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Basic")
    assert requests.get(f"{url}healthz", timeout=SECONDS).text == "alive\n"


def test_without_a_password_no_page_reads_it_through_a_name_of_its_own(folder: Path) -> None:
    def answered(url: str, *hosts: str) -> list[int]:
        headers = ({"Host": host} for host in hosts)
        return [requests.get(url, headers=head, timeout=SECONDS).status_code for head in headers]

    with served(folder, reader={}) as url:
        names = (
            "localhost:8000",
            "localhost",
            "127.0.0.1",
            "[::1]:8000",
            "evil.example",
            "localhost.evil.example",
        )
        assert answered(url, *names) == [200, 200, 200, 200, 403, 403]
    with served(folder, "--trusted-proxy", "127.0.0.1", reader={}) as url:
        assert answered(url, "perf.example.org") == [200]


def test_those_who_run_it_see_how_it_does(url: str) -> None:
    assert get(url, "readyz").text == "ready\n"
    get(url, "data/nothing.json")
    text = get(url, "metrics").text
    assert re.search(r'^torchperf_requests_total\{route="data",status="404"\} \d+$', text, re.MULTILINE)
    assert re.search(r'^torchperf_request_seconds_total\{route="data"\} [\d.]+$', text, re.MULTILINE)
    assert get(url, "").headers["x-content-type-options"] == "nosniff"


def test_browsers_ask_each_time_whether_a_page_has_changed(url: str) -> None:
    """Else they guess how long a script is current, and after an upgrade mix old ones with new ones."""
    for path in ("", "js/page.js", "data/index.json"):
        first = get(url, path)
        again = get(url, path, headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.headers["cache-control"]) == (304, "no-cache"), path
        assert first.headers["cache-control"] == "no-cache", path


def test_every_page_is_drawn_from_the_server(url: str, browser: Browser, site: Path) -> None:
    base, head = comparison(site)
    paths = {
        "": "2 regressions are open",
        f"series/?s={identities(site, 'slow')[0]}": "slow inference bf16 inductor",
        f"compare/?base={head}&head={base}": "Beyond noise: 1 better of 10 series",  # no site has this one
        "regressions/": "2 regressions are open",
        f"run/?id={head}": "3 passed, 1 oom",
    }
    reader = {"username": AUTH[0], "password": AUTH[1].decode()}
    with watching(browser, url, http_credentials=reader) as watched:
        for path, headline in paths.items():
            page = watched.open(path)
            assert page.locator("h1").inner_text().startswith(headline), path
            policy = page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content") or ""
            assert policy.startswith("default-src 'none'; script-src 'self';"), path
            assert (watched.complaints, watched.foreign) == ([], []), path


@pytest.mark.parametrize("password", ["", "\udcff"])
def test_a_password_with_which_nobody_could_log_in_is_told(
    password: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in zip(serve.READER, ("u", password), strict=True):
        monkeypatch.setenv(name, value)
    assert cli.main(["serve", "--store", f"chdb://{tmp_path}/store"]) == 2
    assert "set both of" in capsys.readouterr().err
