"""The pages with ten thousand series and as many changes of level, from generated documents."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from made_summaries import DAY, MACHINES, NIGHTS, START, run, summary
from routed_pages import ADDRESS, route_pages

from torchperf_ci.series.points import Series, SeriesGroup
from torchperf_ci.web.catalogue import GroupCatalogue, SeriesSpan
from torchperf_ci.web.documents import as_json
from torchperf_ci.web.overview import index_document, overview_document, regressions_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

MODELS = 250
METRICS = ("latency(ms)", "throughput(samples/s)", "peak_memory(MiB)", "status")


def documents() -> dict[str, bytes]:
    """What every page begins with, by its path below ``data/``."""
    groups = [SeriesGroup("octo/models", "nightly", "cuda", arch) for arch in MACHINES]
    runs = {group: [run(group, night) for night in range(NIGHTS)][::-1] for group in groups}
    series = [
        Series("octo/models", "nightly", f"model-{number:04}", mode, "bf16", "inductor", "cuda", arch, metric)
        for arch, number, mode, metric in product(MACHINES, range(MODELS), ("inference", "training"), METRICS)
    ]
    span = SeriesSpan(START, START + NIGHTS * DAY, [2025])
    summaries = [summary(runs[group], [one for one in series if one.group == group]) for group in groups]
    known = [
        GroupCatalogue([(one, span) for one in series if one.group == group], runs[group], {})
        for group in groups
    ]
    return {
        "index.json": as_json(index_document(known, {})),
        "overview.json": as_json(overview_document(summaries, [])),
        "regressions.json": as_json(regressions_document(summaries, [])),
    }


@pytest.mark.parametrize(
    ("nights", "told"),
    [
        ((0, 1), "2 regressions are open;"),
        ((0, 299), "open, 1 of them less"),
        ((299, 299), "open, less than a"),
    ],
)
def test_the_overview_says_how_new_its_regressions_are(nights: tuple[int, int], told: str) -> None:
    group = SeriesGroup("octo/models", "nightly", "cuda", "H100")
    runs = [run(group, night) for night in range(NIGHTS)][::-1]
    names = [
        Series("r", "b", f"model-{night}", "", "", "", "cuda", "H100", "latency(ms)") for night in nights
    ]
    summaries = [
        summary(runs, [name], START + night * DAY) for name, night in zip(names, nights, strict=True)
    ]
    assert told in str(overview_document(summaries, [])["sentence"])


@pytest.fixture(scope="module")
def many(browser: Browser) -> Iterator[Page]:
    """A browser in front of pages that have these documents."""
    found = documents()
    context = browser.new_context()
    page = context.new_page()
    route_pages(page, found.get)
    yield page
    context.close()


def test_ten_thousand_series_are_found_by_typing(many: Page) -> None:
    many.goto(f"{ADDRESS}series/")
    many.wait_for_selector("main:not([aria-busy]) > *")
    assert many.locator("h1").inner_text() == "Find one of 10,000 series"
    assert many.locator("tbody tr").count() == 50
    many.get_by_label("Find series").fill("xeon 0042 training latency")
    assert many.get_by_role("status").inner_text() == "1 series matches."
    many.get_by_label("Find series").fill("training")
    assert many.get_by_role("status").inner_text() == "5,000 series match; the first 50."
    assert many.locator(".found li").count() == 50


@pytest.mark.parametrize(("path", "rows"), [("", 1), ("regressions/", 200), ("run/", 200)])
def test_no_page_shows_all_of_very_much(many: Page, path: str, rows: int) -> None:
    """Regressions of one range of commits are one row of the overview."""
    many.goto(ADDRESS + path)
    many.wait_for_selector("main:not([aria-busy]) > *")
    assert many.locator("tbody tr").count() == rows
