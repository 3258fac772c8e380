"""Pages of a store that changes while one looks: backfilled nights give other numbers to runs and series."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest
from dashboard_nights import DAY, START, night_records, put_nights
from routed_pages import ADDRESS, route_pages

from torchperf_ci.config import Config
from torchperf_ci.places import open_place
from torchperf_ci.store.ingest import ingest_place
from torchperf_ci.store.migrations import open_store
from torchperf_ci.web.documents import Documents

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from playwright.sync_api import Browser, Page

Documented = dict[str, bytes]
FIRST, MISSING, LAST = 4, 8, 12


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Documented, Documented]:
    """All documents before and after an earlier night with another model, one between, and a newer one are in."""
    folder = tmp_path_factory.mktemp("changing")
    records, found = folder / "records", []
    put_nights(records, FIRST, MISSING)
    put_nights(records, MISSING + 1, LAST)
    with open_store(f"chdb://{folder}/store") as store:
        for _ in range(2):
            ingest_place(store, open_place(str(records)))
            found.append(dict(Documents(store, Config()).everything()))
            for night in (FIRST - 1, MISSING, LAST):
                put_nights(records, night, night + 1)
            put_another_model(records)
    return found[0], found[1]


def put_another_model(records: Path) -> None:
    """One that comes before all others in the order of names."""
    lines = [{**one, "model": {"name": "another", "backend": "inductor"}} for one in night_records(FIRST - 1)]
    (records / "another.json").write_text("\n".join(map(json.dumps, lines[:2])))


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


def drawn(page: Page) -> None:
    page.wait_for_selector("main:not([aria-busy]) > *")


def series(documents: Mapping[str, bytes], model: str) -> str:
    index = json.loads(documents["index.json"])
    names = index["names"]
    place = {field: 1 + at for at, field in enumerate(index["fields"])}
    wanted = {"model": model, "metric": "latency(ms)", "device": "cuda"}
    return next(
        row[0]
        for row in index["series"]
        if all(names[field][row[place[field]]] == name for field, name in wanted.items())
    )


def nights_of(page: Page) -> list[int]:
    """The nights in the table of all runs by their commits, newest first; their dates are those of the commits."""
    commits = [int(text[:2]) for text in page.locator("td[data-head=commit]").all_inner_texts()]
    dates = [datetime.fromtimestamp(START + night * DAY, timezone.utc) for night in commits]
    shown = page.locator("td[data-head=time]").all_inner_texts()
    assert shown == [f"{date:%Y-%m-%d %H:%M}" for date in dates]
    return commits


def test_a_series_that_is_added_after_a_backfill_has_its_own_commits(
    page: Page, both: tuple[Documented, Documented]
) -> None:
    before, after = both
    now = dict(before)
    route_pages(page, now.get)
    page.goto(f"{ADDRESS}series/?s={series(before, 'slow')}&q=tiny+latency+cuda")
    drawn(page)
    assert nights_of(page) == [*range(LAST - 1, MISSING, -1), *range(MISSING - 1, FIRST - 1, -1)]
    now.update(after)
    page.get_by_role("button", name="Add").first.click()
    page.locator(".legend li").nth(1).wait_for()
    drawn(page)
    assert nights_of(page) == [night for night in range(LAST, FIRST - 2, -1) for _ in range(2)]


@pytest.mark.parametrize("kind", ["series", "run", "compare"])
def test_an_index_that_is_older_than_a_document_is_fetched_again(
    page: Page, both: tuple[Documented, Documented], kind: str
) -> None:
    before, after = both
    indexes = [before["index.json"]]
    index = json.loads(before["index.json"])
    cuda = [run["id"] for run in index["runs"] if run["device"] == "cuda"]
    base, head = next(pair for pair in index["comparisons"] if pair[1] in cuda)
    query = {
        "series": f"s={series(after, 'slow')}",
        "run": f"id={head}",
        "compare": f"base={base}&head={head}",
    }

    def document(path: str) -> bytes | None:
        return indexes.pop() if path == "index.json" and indexes else after.get(path)

    route_pages(page, document)
    page.goto(f"{ADDRESS}{kind}/?{query[kind]}&show=all")
    drawn(page)
    again = page.locator("main").inner_text()
    page.reload()
    drawn(page)
    assert (indexes, page.locator("main").inner_text()) == ([], again)
    assert page.locator(".problem").count() == 0


def test_documents_that_never_fit_are_told(page: Page, both: tuple[Documented, Documented]) -> None:
    before, after = both
    asked: list[str] = []

    def document(path: str) -> bytes | None:
        asked.append(path)
        return (before if path == "index.json" else after).get(path)

    route_pages(page, document)
    page.goto(f"{ADDRESS}series/?s={series(before, 'slow')}")
    drawn(page)
    assert (
        page.get_by_role("alert").inner_text() == "The results are changing at the moment. Reload this page."
    )
    assert asked.count("index.json") == 2
