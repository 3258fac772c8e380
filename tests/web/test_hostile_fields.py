"""What anybody can write into records and culprits, and a browser must not take for markup."""

from __future__ import annotations

import json
from math import inf
from typing import TYPE_CHECKING, Any

import pytest
from dashboard_nights import DAY, START
from hostile import all_at_once
from routed_pages import ADDRESS, route_pages
from watched_page import watching

from torchperf_ci.config import Config
from torchperf_ci.culprits.culprit import (
    Bisection,
    Culprit,
    OperatorCost,
    ProfileChange,
    SeriesEffect,
    write_culprits,
)
from torchperf_ci.places import open_place
from torchperf_ci.stats.effect import Effect
from torchperf_ci.store.ingest import ingest_place
from torchperf_ci.store.migrations import open_store
from torchperf_ci.web.documents import Documents

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

NIGHTS, STEP = 24, 16
SCRIPT = "javascript:alert(1)"
REVERSING = "\u202e"
"""All after it is shown from right to left."""
FIELDS = (
    *(
        "repo",
        "benchmark",
        "mode",
        "dtype",
        "backend",
        "metric",
        "branch",
        "fact",
        "change of a fact",
        "reason",
    ),
    *("author", "subject", "operator", "command", "machine", "what got slower"),
)


def hostile(field: str) -> str:
    return f"<b id=injected>{field} {REVERSING}{all_at_once} {'one_long_word' * 8}</b>"


def record(night: int, metric: str, value: float, **told: str) -> dict[str, Any]:
    facts = {"fingerprint_of": "driver,os", "driver": hostile("fact"), "os": "1"}
    if night == NIGHTS - 1:
        facts["os"] = hostile("change of a fact")
    return {
        "timestamp": START + night * DAY,
        "repo": hostile("repo"),
        "head_branch": hostile("branch"),
        "head_sha": f"{night:02}" * 20,
        "workflow_id": 1000 + night,
        "run_attempt": 1,
        "job_id": 1,
        "runners": [{"name": "cuda", "type": "H100", "extra_info": {**facts, "fingerprint": facts["os"]}}],
        "benchmark": {"name": hostile("benchmark"), "mode": hostile("mode"), "dtype": hostile("dtype")},
        "model": {"name": SCRIPT, "backend": hostile("backend")},
        "metric": {"name": metric, "benchmark_values": [value, value], "extra_info": told},
    }


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("hostile")
    records = folder / "records"
    records.mkdir()
    for night in range(NIGHTS):
        value = (10 if night < STEP else 12) + night % 3 / 100
        fails = {"status": "oom", "reason": hostile("reason")}
        lines = [
            record(night, hostile("metric"), value),
            record(night, "latency(ms)", value),
            record(night, "status", 0, **fails) if night == NIGHTS - 1 else record(night, "status", 1),
        ]
        if night == STEP:
            lines.append(
                {**record(night, "latency(ms)", value), "repo": "octo/models"}
            )  # then repositories are named
        (records / f"{night}.json").write_text("\n".join(map(json.dumps, lines)))
    put_culprit(records / "culprits.json")
    with open_store(f"chdb://{folder}/store") as store:
        ingest_place(store, open_place(str(records)))
        return dict(Documents(store, Config()).everything())


def put_culprit(path: Path) -> None:
    commit = f"{STEP:02}" * 20
    operator = OperatorCost(hostile("operator"), "operator", 1.0, 5.0, 1, 1)
    culprit = Culprit(
        *(commit, (commit,), 0.9996, Effect(1.2, 1.1, inf, 12), (SeriesEffect(hostile("what got slower")),)),
        author=hostile("author"),
        date="2026-10-22T00:00:00+00:00",
        subject=hostile("subject"),
        url=SCRIPT,
        inside=ProfileChange("slow", (operator,)),
    )
    found = Bisection(
        "found",
        f"{STEP - 1:02}" * 20,
        commit,
        repo=SCRIPT,
        machine=hostile("machine"),
        command=hostile("command"),
        culprits=(culprit,),
    )
    write_culprits(path, found)


def test_no_field_makes_an_element_or_a_script_or_leaves_the_screen(
    browser: Browser, documents: dict[str, bytes]
) -> None:
    index = json.loads(documents["index.json"])
    base, head = index["comparisons"][0]
    series = ",".join(row[0] for row in index["series"])
    first = index["series"][0][0]
    paths = (
        *("", "regressions/", f"series/?s={first}", f"series/?s={series}&q=javascript", "run/"),
        *(f"run/?id={head}", f"compare/?base={base}&head={head}", "compare/", "series/?q=javascript"),
    )
    seen = ""
    with watching(browser, ADDRESS, viewport={"width": 360, "height": 800}) as watched:
        route_pages(watched.page, documents.get)
        for path in paths:
            page = watched.open(path)
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
            assert page.locator("#injected, main script, main img").count() == 0, path
            assert REVERSING not in page.evaluate("document.body.innerText"), path
            told = page.evaluate(
                "[document.body, ...document.querySelectorAll('[title]')].map((one) => one.title || one.innerText)"
            )
            seen += "\n".join(told)
            urls = page.evaluate("[...document.querySelectorAll('a')].map((one) => one.href)")
            assert [url for url in urls if not url.startswith((ADDRESS, "https://github.com/"))] == [], path
    assert [field for field in FIELDS if f"<b id=injected>{field}" not in seen] == []
    assert SCRIPT in seen


def test_what_is_copied_is_the_field_itself(browser: Browser, documents: dict[str, bytes]) -> None:
    with watching(browser, ADDRESS) as watched:
        route_pages(watched.page, documents.get)
        page = watched.open("regressions/")
        button = page.locator("button[title*='injected']").first
        assert REVERSING in (button.get_attribute("title") or "")
        button.click()
        page.evaluate("document.querySelector('main').append(document.createElement('textarea'))")
        page.locator("textarea").focus()
        page.keyboard.press("Control+V")
        pasted = page.locator("textarea").input_value()
        assert pasted.split() == (button.get_attribute("title") or "").split()


def test_a_chart_of_two_repositories_names_them(browser: Browser, documents: dict[str, bytes]) -> None:
    """Its legend said the same of both."""
    index = json.loads(documents["index.json"])
    metric, repo = index["names"]["metric"].index("latency(ms)"), index["names"]["repo"].index("octo/models")
    chosen = [row for row in index["series"] if row[9] == metric]
    with watching(browser, ADDRESS) as watched:
        route_pages(watched.page, documents.get)
        page = watched.open(f"series/?s={','.join(row[0] for row in chosen)}")
        named = ["octo/models" in text for text in page.locator(".legend li").all_inner_texts()]
        assert named == [row[1] == repo for row in chosen]


def test_a_word_that_every_object_of_javascript_knows_is_a_word(
    browser: Browser, documents: dict[str, bytes]
) -> None:
    """The status of a case, and a commit, were told as ``function Object() { [native code] }``."""
    commit, word = f"{NIGHTS - 1:02}" * 20, b"constructor"
    told = {
        path: text.replace(b'"oom"', b'"%b"' % word).replace(commit.encode(), word)
        for path, text in documents.items()
    }
    head = json.loads(documents["index.json"])["comparisons"][0][1]
    with watching(browser, ADDRESS) as watched:
        route_pages(watched.page, told.get)
        page = watched.open(f"run/?id={head}")
        assert page.locator("h1").inner_text() == "1 constructor"
        assert "native code" not in page.locator("main").inner_text()
