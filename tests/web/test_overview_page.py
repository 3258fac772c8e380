"""What the overview and the list of regressions show of machines whose summaries are made up."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from made_summaries import DAY, NIGHTS, START, run, summary
from routed_pages import ADDRESS, route_pages

from torchperf_ci.series.outcomes import results_of_runs
from torchperf_ci.series.points import Point, Series, SeriesGroup
from torchperf_ci.series.run_comparison import Trend
from torchperf_ci.web.catalogue import GroupCatalogue, SeriesSpan
from torchperf_ci.web.documents import as_json
from torchperf_ci.web.overview import GroupSummary, overview_document, regressions_document, summary_of_group
from torchperf_ci.web.result_documents import run_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext, Page

GROUPS = [SeriesGroup(repo, "nightly", "cuda", "H100") for repo in ("octo/models", "octo/other")]
NEWEST = START + (NIGHTS - 1) * DAY


def made(group: SeriesGroup, metric: str = "latency(ms)", unit: str = "ms", **changed: Any) -> GroupSummary:
    """A machine with one series and one regression of it."""
    series = Series(*group[:2], "model", "inference", "bf16", "inductor", *group[2:], metric)
    runs = [run(group, night) for night in range(NIGHTS)][::-1]
    found = summary(runs, [series])
    (entry,) = found.changes
    return replace(found, changes=[replace(entry, unit=unit, **changed)])


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context()
    yield context
    context.close()


def shown(
    context: BrowserContext, path: str, *summaries: GroupSummary, after: int = 0, width: int = 1280
) -> Page:
    """A new page, drawn from these summaries so many seconds after the newest.

    What an earlier page still asks is answered to that one.
    """
    page = context.new_page()
    page.set_viewport_size({"width": width, "height": 900})
    page.add_init_script(f"Date.now = () => {(NEWEST + after) * 1000}")
    documents = {
        "overview.json": as_json(overview_document(summaries, [])),
        "regressions.json": as_json(regressions_document(summaries, [])),
    }
    route_pages(page, documents.get)
    page.goto(ADDRESS + path)
    page.wait_for_selector("main:not([aria-busy]) > *")
    return page


@pytest.mark.parametrize(
    ("metric", "unit", "old", "new", "told"),
    [
        ("status", "", 1.0, 0.0, "✗ passes → fails"),
        ("graph_breaks", "", 0.0, 3.0, "✗ 0 → 3"),
        ("memory_leak(KiB/iter)", "KiB/iter", 0.0, 12.5, "✗ 0 KiB/iter → 12.50 KiB/iter"),
    ],
)
def test_a_change_without_a_ratio_is_told_by_its_levels(
    context: BrowserContext, metric: str, unit: str, old: float, new: float, told: str
) -> None:
    levels = {"old": old, "new": new, "ratio": None, "low": None, "high": None}
    page = shown(context, "", made(GROUPS[0], metric, unit, **levels))
    assert page.locator("td[data-head='worst change']").inner_text() == told
    with page.expect_download() as asked:
        page.get_by_role("button", name="JSON: Open").click()
    (row,) = json.loads(asked.value.path().read_text())
    assert (row["old"], row["new"], row["worst change"]) == (old, new, None)


def test_a_rate_that_falls_from_one_is_told_as_a_number(context: BrowserContext) -> None:
    """As on the terminal. It was passes → 0.9700."""
    levels = {"old": 1.0, "new": 0.97, "ratio": 0.97, "low": 0.96, "high": 0.98}
    page = shown(context, "regressions/", made(GROUPS[0], "pass_rate", "", **levels))
    ends = [page.locator(f"td[data-head={head}]").inner_text() for head in ("old", "new")]
    assert ends == ["1", "0.9700"]


def test_failures_are_the_worst_of_a_cause() -> None:
    levels = {"ratio": None, "low": None, "high": None}
    summaries = [
        made(GROUPS[0], "graph_breaks", "", old=0.0, new=3.0, **levels),
        made(GROUPS[0], "status", "", old=1.0, new=0.0, **levels),
        made(GROUPS[0]),
    ]
    (cause,) = overview_document(summaries, [])["causes"]  # type: ignore[misc]
    assert (cause["worst"]["name"]["metric"], cause["count"]) == ("status", 3)


def ended(last: int, before: int) -> GroupSummary:
    """A machine whose newest run is of night ``last``, ``before`` nights after its previous one."""
    found = made(GROUPS[1])
    runs = [run(GROUPS[1], night) for night in (last, last - before)]
    entry = replace(found.entry, run=runs[0], previous=runs[1].id, longest_gap=before * DAY)
    return replace(found, entry=entry)


@pytest.mark.parametrize(
    ("last", "before", "silent"),
    [(NIGHTS - 8, 1, False), (NIGHTS - 9, 1, True), (NIGHTS - 22, 7, False), (NIGHTS - 23, 7, True)],
)
def test_a_machine_that_has_stopped_reporting_is_told(
    context: BrowserContext, last: int, before: int, silent: bool
) -> None:
    """After a week, or after three of its own intervals if these are longer."""
    document = overview_document([made(GROUPS[0]), ended(last, before)], [])
    groups = json.loads(as_json(document))["groups"]
    assert {group["run"]["arch"]: group["silent"] for group in groups} == {
        GROUPS[0].arch: False,
        GROUPS[1].arch: silent,
    }
    assert ("1 machine has stopped reporting" in str(document["sentence"])) == silent
    if silent:
        page = shown(context, "", made(GROUPS[0]), ended(last, before))
        assert page.get_by_text("no run since 2026-").count() == 1


@pytest.mark.parametrize(("last", "count"), [(60, 1), (95, 0)])
def test_a_regression_of_a_series_that_is_no_longer_measured_is_not_open(last: int, count: int) -> None:
    """Such as one under a name that nothing has now."""
    runs = [run(GROUPS[1], night) for night in reversed(range(last + 1))]
    series = Series(*GROUPS[1][:2], "model", "inference", "bf16", "inductor", *GROUPS[1][2:], "graph_breaks")
    times = [each.time for each in reversed(runs)][:60]
    points = {
        series: [
            Point(value, (value,), time, run=each.name)
            for value, time, each in zip([0.0] * 30 + [2.0] * 30, times, reversed(runs), strict=False)
        ]
    }
    catalogue = GroupCatalogue([(series, SeriesSpan(times[0], times[-1], [2026]))], runs, {})
    newest = run_document(runs[0], None, results_of_runs(points), set(), set(), {series: 0})
    found = summary_of_group(catalogue, points, {}, newest)
    assert found.entry.open == count
    assert [change.ended for change in found.changes] == [None if count else times[-1]]


def test_machines_that_take_turns_at_random_report_at_the_longest_of_their_intervals() -> None:
    """Two nights in a row are no schedule."""
    runs = [run(GROUPS[1], night) for night in (30, 29, 22, 21, 17, 16, 0)]
    series = Series(*GROUPS[1][:2], "model", "inference", "bf16", "inductor", *GROUPS[1][2:], "latency(ms)")
    points = {series: [Point(1.0, (1.0,), each.time, run=each.name) for each in reversed(runs)]}
    newest = run_document(runs[0], None, results_of_runs(points), set(), set(), {series: 0})
    found = summary_of_group(GroupCatalogue([], runs, {}), points, {}, newest)
    assert found.entry.longest_gap == 7 * DAY


@pytest.mark.parametrize(
    ("found", "tone", "told"),
    [
        ({"counts": {"pass": 3, "unsupported": 2}}, "good", "3 cases passed in the newest runs."),
        ({"counts": {"no status": 3}}, "good", "no case failed in the newest runs."),
        ({"counts": {"pass": 3, "oom": 1}}, "warning", "1 of 4 cases failed in the newest runs."),
        ({"not_run": 2}, "warning", "2 cases did not run."),
        (
            {"newly_worse": ["0123456789"]},
            "warning",
            "1 series got worse too recently to count as regressed.",
        ),
        (
            {"newly_worse": [f"{number:010}" for number in range(1_200)]},
            "warning",
            "1,200 series got worse too recently to count as regressed.",
        ),
    ],
)
def test_a_tick_is_only_where_nothing_is_wrong(
    context: BrowserContext, found: dict[str, Any], tone: str, told: str
) -> None:
    alone = made(GROUPS[0])
    page = shown(context, "", replace(alone, entry=replace(alone.entry, open=0, **found), changes=[]))
    assert page.locator(f"h1.{tone}").inner_text() == f"No regression is open; {told}"
    words = "too few runs to judge" if "too_new" in found else "none open"
    assert page.locator(".card", has_text=f"● {words}").count() == 1
    worse = found.get("newly_worse", [])
    links = page.get_by_role("link", name="too recent").all()
    assert [link.get_attribute("href") for link in links] == [
        f"series/?s={'%2C'.join(worse[:20])}&from=30" for _ in worse[:1]
    ]
    assert [link.inner_text() for link in links] == [
        f"{len(worse):,} too recent to count{' (the first 20)' if worse[20:] else ''}" for _ in worse[:1]
    ]


@pytest.mark.parametrize(
    ("days", "gap", "tone"), [(6, 1, "good"), (9, 1, "warning"), (11, 4, "good"), (13, 4, "warning")]
)
def test_a_tick_is_not_where_nothing_has_reported_for_long(
    context: BrowserContext, days: int, gap: int, tone: str
) -> None:
    """If all nights have stopped, no machine is later than the others. The last interval is of one night."""
    alone = made(GROUPS[0])
    entry = replace(alone.entry, open=0, longest_gap=gap * DAY)
    page = shown(context, "", replace(alone, entry=entry, changes=[]), after=days * DAY)
    assert page.locator(f"h1.{tone}").count() == 1
    assert page.get_by_text(f"{days} days ago: nothing has reported since").count() == (tone == "warning")


def test_results_without_a_time_are_not_old(context: BrowserContext) -> None:
    """As those of a first try, straight from a run."""
    alone = made(GROUPS[0])
    first = replace(alone.entry, run=replace(alone.entry.run, time=0, end=0), previous=None, open=0)
    page = shown(context, "", replace(alone, entry=first, changes=[]))
    assert page.locator("h1.good").count() == 1
    assert page.get_by_text("Newest result: no date").count() == 1
    assert page.get_by_text("nothing has reported since").count() == 0
    page = shown(context, "", made(GROUPS[1]), replace(alone, entry=first, changes=[]))
    assert page.get_by_text("no run since").count() == 0


@pytest.mark.parametrize(("hours", "told"), [(-2, 1), (2, 0)])
def test_a_run_that_is_yet_to_come_is_told(context: BrowserContext, hours: int, told: int) -> None:
    """Its machine would make all others silent without a word."""
    page = shown(context, "", made(GROUPS[0]), after=hours * 3600)
    assert page.get_by_text("The newest run on cuda · H100 is of 2026-").count() == told


def test_several_repositories_are_named_and_filtered_by(context: BrowserContext) -> None:
    alone = shown(context, "", made(GROUPS[0]))
    assert "octo/models" not in alone.locator("main").inner_text()
    both = [made(group, last_commit=group.repo, first_commit=f"{group.repo}+") for group in GROUPS]
    page = shown(context, "", *both)
    for repo in ("octo/models", "octo/other"):
        assert page.locator(".card", has_text=f"{repo} nightly").count() == 1
        assert page.locator("tbody tr", has_text=f"{repo}, cuda").count() == 1
    series = page.locator(".card", has_text="octo/other").get_by_role("link", name="1 series")
    assert (series.get_attribute("href") or "").endswith(
        "?repo=octo%2Fother&device=cuda&arch=H100&benchmark=nightly"
    )
    page.locator(".card", has_text="octo/other").get_by_role("link", name="1 open").click()
    page.wait_for_selector("main:not([aria-busy]) tbody")
    assert page.get_by_label("repository").input_value() == "octo/other"
    (row,) = page.locator("tbody tr").all_inner_texts()
    assert "latency(ms), octo/other, cuda" in row


def test_several_benchmarks_are_named(context: BrowserContext) -> None:
    """The same model of two benchmarks was two rows that said the same."""
    groups = [SeriesGroup("octo/models", benchmark, "cuda", "H100") for benchmark in ("nightly", "weekly")]
    both = [made(group, first_commit=group.benchmark) for group in groups]
    for path, names in (("", "{}, cuda"), ("regressions/", "latency(ms), {}, cuda")):
        page = shown(context, path, *both)
        for group in groups:
            assert page.locator("tbody tr", has_text=names.format(group.benchmark)).count() == 1


def test_the_trend_is_broken_where_the_machine_changed(context: BrowserContext) -> None:
    found = made(GROUPS[0])
    page = shown(context, "", found)
    assert (page.locator(".trend polyline").count(), page.locator(".trend .break").count()) == (1, 0)
    days = [START + 20 * DAY, START + 89 * DAY]  # of the second, there is only one day
    page = shown(
        context, "", replace(found, entry=replace(found.entry, trend=replace(found.entry.trend, breaks=days)))
    )
    lines = [line.get_attribute("points") or "" for line in page.locator(".trend polyline").all()]
    assert [len(line.split()) - 1 for line in lines] == [20, 69, 1]
    assert page.locator(".trend .break").count() == 2
    assert "another machine since 2026-01-21, 2026-03-31" in (
        page.locator(".trend").get_attribute("aria-label") or ""
    )


def test_the_number_of_a_trend_is_against_the_same_machine(context: BrowserContext) -> None:
    """A faster CPU was told as a latency of −16%."""
    found = made(GROUPS[0])
    trend = replace(found.entry.trend, ratio=[*[1.0] * 80, *[0.8] * 5, *[0.84] * 5])
    page = shown(
        context,
        "",
        replace(found, entry=replace(found.entry, trend=replace(trend, breaks=[START + 80 * DAY]))),
    )
    assert page.locator("figcaption").inner_text() == (
        "+2.4% latency of 1 series, against the median of 10 days; dashed: another machine"
    )


def test_no_trend_says_whether_latencies_are_missing_or_days(context: BrowserContext) -> None:
    found = made(GROUPS[0])
    for day, told in (
        ([], "No run here has a latency(ms) and a time"),
        ([START], "it starts on the second day"),
    ):
        trend = Trend(day, [1.0 for _ in day], [1 for _ in day])
        page = shown(context, "", replace(found, entry=replace(found.entry, trend=trend)))
        assert told in page.locator(".card").inner_text()


def test_a_card_holds_what_it_says(context: BrowserContext) -> None:
    """On the narrowest screen, where the badge of a silent machine is wider than its column."""
    page = shown(context, "", made(GROUPS[0]), ended(NIGHTS - 9, 1), width=320)
    spill = "[...document.querySelectorAll('.card')].map((card) => card.scrollWidth - card.clientWidth)"
    assert page.evaluate(spill) == [0, 0]


def test_a_command_is_copied_from_a_server_without_tls(context: BrowserContext) -> None:
    """There, browsers have no ``navigator.clipboard``: the button said that it had copied."""
    page = shown(context, "")
    assert not page.evaluate("isSecureContext")
    page.get_by_role("button", name="Copy").nth(1).click()
    assert page.evaluate("document.activeElement.textContent") == "Copied"
    page.evaluate("document.querySelector('main').append(document.createElement('input'))")
    page.locator("input").focus()
    page.keyboard.press("Control+V")
    assert page.locator("input").input_value() == "torchperf ingest records"


def test_an_empty_store_says_how_to_get_results(context: BrowserContext) -> None:
    for path in ("", "regressions/"):
        page = shown(context, path)
        assert page.locator("h1").inner_text() == "There are no results yet", path
