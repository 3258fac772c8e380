"""The pages of the static site in a real browser: their contents, robustness, and isolation from other sites."""

from __future__ import annotations

import gzip
import hashlib
from typing import TYPE_CHECKING, Literal

import pytest
from dashboard_nights import HOSTILE, NIGHTS, document
from watched_page import Watched, comparison, identities

from torchperf_ci.web.command import PAGES

if TYPE_CHECKING:
    from pathlib import Path


def test_the_chart_library_is_the_published_one() -> None:
    """uPlot 1.6.32, as the package index of npm has it."""
    vendor = PAGES / "vendor"
    for line in (vendor / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == digest
    assert "1.6.32" in (vendor / "uPlot.iife.min.js").read_text()[:300]


def test_a_first_visit_is_light() -> None:
    """Less than 60 kB, compressed, without data; and there is no more script than a person reads in an hour."""
    of_all_pages = [
        *PAGES.glob("js/*.js"),
        *PAGES.glob("*.css"),
        *PAGES.glob("vendor/uPlot*.*s"),
        PAGES / "index.html",
    ]
    assert sum(len(gzip.compress(path.read_bytes())) for path in of_all_pages) < 60_000
    assert sum(path.read_text().count("\n") for path in PAGES.glob("js/*.js")) <= 1300


def test_the_overview_answers_first(watched: Watched) -> None:
    page = watched.open("")
    assert watched.documents == ["overview.json"]
    assert page.locator("h1").inner_text().endswith("2 cases did not run.")
    (cause,) = page.locator("tbody tr").all_inner_texts()
    assert "and 1 more" in cause
    assert page.locator(".card").count() == 2
    assert page.locator(".card").first.get_by_text("1 oom").is_visible()
    page.locator(".card").first.get_by_role("link", name="1 open").click()
    watched.drawn()
    assert page.locator("h1").inner_text() == "1 regression is open with these filters"
    assert "state=open" in page.url
    assert page.locator("table").last.locator("tbody tr").count() == 1


def test_a_culprit_is_named_wherever_its_change_is(watched: Watched, site: Path) -> None:
    evidence = "+8.0% (+7.0% or more), >99.9% sure, 12 pairs, issues that name it"
    for path in ("", "regressions/", f"series/?s={identities(site, 'slow')[0]}"):
        page = watched.open(path)
        assert evidence in page.locator("main").inner_text(), path
        link = page.get_by_role("link", name="3030303030").first
        assert link.get_attribute("href") == f"https://github.com/pytorch/pytorch/commit/{'30' * 20}"


def test_a_series_is_found_by_typing_drawn_and_walked(watched: Watched) -> None:
    page = watched.open("series/")
    page.get_by_label("Find series").fill("slow latency")
    assert page.locator(".found li").count() == 2
    page.locator(".found a").last.click()
    page.wait_for_selector(".canvas canvas")
    assert page.locator("h1").inner_text() == "slow inference bf16 inductor: latency(ms)"
    assert page.get_by_text("+8.", exact=False).first.is_visible()
    page.get_by_role("application", name="Chart of slow").focus()  # else screen readers keep the arrow keys
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    said = page.locator(".said").inner_text()
    assert said.startswith("2026-09-23 00:00: slow inference bf16 inductor latency(ms): ")
    assert "3 repetitions" in said
    address = page.url
    page.reload()
    page.wait_for_selector(".canvas canvas")
    assert page.url == address
    page.get_by_label("Find series").fill("slow nonsense")
    assert "No series matches all of these words" in page.locator("[role=status]").inner_text()


def test_going_back_draws_what_was_there(watched: Watched, site: Path) -> None:
    slow, tiny = identities(site, "slow")[0], identities(site, "tiny")[0]
    page = watched.open(f"series/?s={slow},{tiny}&scale=relative")
    page.wait_for_selector(".canvas canvas")
    assert page.locator(".legend li").count() == 2
    page.get_by_label("Time").select_option("30")
    page.wait_for_url("**from=30**")
    watched.drawn()
    assert page.get_by_label("Scale").input_value() == "relative"
    page.go_back()
    watched.drawn()
    assert page.get_by_label("Time").input_value() == ""
    assert page.locator(".legend li").count() == 2


def test_going_back_to_a_page_that_is_loaded_anew_shows_what_was_looked_at(watched: Watched) -> None:
    """The search was empty, and a long table at its top."""
    page = watched.open("series/")
    page.get_by_label("Find series").fill("tiny latency")
    page.locator(".found a").first.click()
    page.locator(".figures").wait_for()
    page.go_back()
    watched.drawn()
    assert page.get_by_label("Find series").input_value() == "tiny latency"
    page = watched.open("run/")
    page.locator("tbody a").nth(70).scroll_into_view_if_needed()
    top = page.evaluate("scrollY")
    assert top > 0
    page.locator("tbody a").nth(70).click()
    page.wait_for_url("**/run/?id=*")
    watched.drawn()
    page.go_back()
    watched.until(f"scrollY === {top}")


def test_a_card_leads_to_the_series_that_it_counts(watched: Watched, site: Path) -> None:
    """It led to a search, which also finds machines and benchmarks whose names contain its own."""
    index = document(site, "index.json")
    index["names"]["arch"] = ["H100 NVL" if name == HOSTILE else "H100" for name in index["names"]["arch"]]
    index["names"]["device"] = ["cuda"] * len(index["names"]["device"])
    watched.page.route("**/data/index.json", lambda route: route.fulfill(json=index))
    half = len(index["series"]) // 2
    page = watched.open("series/?device=cuda&arch=H100&benchmark=nightly")
    assert page.locator("h1").inner_text() == f"Find one of {half} series"
    page.get_by_role("link", name="slow").click()
    page.wait_for_url("**&q=slow")
    assert page.get_by_role("status").inner_text() == "2 series match."
    page.get_by_label("hardware").select_option("")
    page.get_by_text("4 series match.").wait_for()


def test_small_numbers_are_not_rounded_away(watched: Watched, site: Path) -> None:
    page = watched.open(f"series/?s={identities(site, 'tiny')[0]}")
    value = page.locator("table").last.locator("tbody tr").first.locator("td").nth(1).inner_text()
    assert value.startswith("0.004")
    assert value.endswith(" ms")
    assert len(value.split()[0]) >= len("0.0041")


def test_two_runs_are_chosen_and_compared(watched: Watched, site: Path) -> None:
    base, head = comparison(site)
    page = watched.open(f"compare/?base={base}&head={head}")
    assert page.get_by_text("not in the new run").first.is_visible()
    page.get_by_role("button", name="Show all").click()
    page.wait_for_url("**show=all**")
    watched.drawn()
    assert page.get_by_text("within noise").first.is_visible()
    other = watched.open(f"compare/?base={head}&head={base}")
    assert "torchperf serve compares any two runs" in other.locator(".problem").inner_text()
    watched.complaints.clear()  # that document is missing, which the console tells


def test_a_run_tells_its_failures_and_what_is_missing(watched: Watched, site: Path) -> None:
    page = watched.open(f"run/?id={comparison(site)[1]}")
    assert page.get_by_text("1 did not run").is_visible()
    reason = page.locator("table").first.locator("td[data-head=reason]").inner_text()
    assert "<b id=injected>" in reason
    assert page.get_by_role("heading", name="1 case that did not pass").is_visible()
    for case in ("failing", "gone"):
        page.get_by_role("link", name=f"{case} inference").first.click()
        watched.drawn()
        assert set(page.locator(".found a").all_inner_texts()) == {
            f"{case} inference bf16 inductor {metric}" for metric in ("latency(ms)", "status")
        }
        page.go_back()
        watched.drawn()
    runs = watched.open("run/")
    assert runs.locator("tbody tr").count() == 2 * NIGHTS


def test_runs_are_found_and_told_by_the_subjects_of_their_commits(watched: Watched) -> None:
    runs = watched.open("run/")
    named = runs.locator("tbody tr", has_text="3030303030 <b id=injected>")
    assert named.count() == 2  # one on each machine
    named.first.locator("a").first.click()
    watched.drawn()
    assert "commit 3030303030 <b id=injected>" in runs.locator("main").inner_text()
    picker = watched.open("compare/")
    picker.get_by_label("New run").fill("b id=injected 3030303030")
    assert picker.locator(".found li", has_text="H100").count() == 1  # where nothing else has these words


def test_a_series_says_that_newer_runs_have_no_value_of_it(watched: Watched, site: Path) -> None:
    page = watched.open(f"series/?s={identities(site, 'failing')[0]}")
    assert (
        "No value since 2026-10-30: 1 newer run on this machine has none."
        in page.locator(".note").inner_text()
    )
    assert page.locator(".figures dt").first.inner_text() == "on 2026-10-30"
    page.get_by_role("link", name="Does it still pass?").click()
    watched.drawn()
    assert page.locator(".figures dd").first.inner_text() == "fails"
    assert page.locator(".note").count() == 0
    failing = identities(site, "failing")
    notes = watched.open(f"series/?s={','.join(failing)}").locator(".note")  # not one above the other
    assert notes.inner_text().endswith("has none. This is true of all of these series.")
    notes = watched.open(f"series/?s={','.join((*failing, *identities(site, 'slow')))}").locator(".note")
    assert notes.inner_text().count("failing inference") == 2


def test_tables_go_along_as_csv_without_formulas(watched: Watched) -> None:
    page = watched.open("regressions/")
    with page.expect_download() as asked:
        page.get_by_role("button", name="CSV").last.click()
    text = asked.value.path().read_text()
    assert text.splitlines()[0].startswith("since,state,series,metric,change,95% interval,old,new")
    assert "\n=" not in text
    page.get_by_role("button", name="since").click()
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    page.get_by_label("device").select_option("cuda")
    page.wait_for_url("**device=cuda**")
    watched.drawn()
    assert page.locator("tbody tr").count() < 10


def test_headline_and_culprits_of_the_regressions_heed_the_filters(watched: Watched) -> None:
    page = watched.open("regressions/")
    assert page.locator("h1").inner_text() == "2 regressions are open"
    for query, headline, tables in (
        ("device=cpu", "1 regression is open with these filters", 2),
        ("state=recovered", "2 regressions are open", 0),
        ("year=1999", "No regression is open with these filters", 0),
    ):
        page = watched.open(f"regressions/?{query}")
        assert (page.locator("h1").inner_text(), page.locator("table").count()) == (headline, tables), query


def test_what_does_not_match_says_which_filter_to_give_up(watched: Watched, site: Path) -> None:
    page = watched.open("regressions/?device=cuda&year=1999")
    assert "Without the filter year = 1999, some do." in page.locator("main").inner_text()
    unknown = watched.open("series/?s=0000000000")
    assert "1 series in this address is not in the store" in unknown.locator(".problem").inner_text()
    slow = identities(site, "slow")[0]
    twice = watched.open(f"series/?s={slow},{slow}")
    assert (twice.locator(".legend").count(), twice.locator(".figures").count()) == (0, 1)


PATHS = ("", "series/?s={slow}", "compare/?base={base}&head={head}", "regressions/", "run/?id={head}")


@pytest.mark.parametrize("path", PATHS)
def test_every_page_is_accessible_fits_a_telephone_and_prints(
    watched: Watched, site: Path, axe: str, path: str
) -> None:
    base, head = comparison(site)
    watched.page.set_viewport_size({"width": 360, "height": 800})
    page = watched.open(path.format(slow=identities(site, "slow")[0], base=base, head=head))
    if "series" in path:
        page.wait_for_selector(".canvas canvas")
    page.evaluate(axe)
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        serious = [one for one in found["violations"] if one["impact"] in ("serious", "critical")]
        assert [(scheme, one["id"], one["nodes"][0]["html"]) for one in serious] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.set_viewport_size({"width": 703, "height": 1032})  # of A4 without its margins
    page.emulate_media(media="print")
    tables = "[...document.querySelectorAll('.scroll')].map((one) => one.scrollWidth - one.clientWidth)"
    assert all(cut <= 1 for cut in page.evaluate(tables))
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert all(head.is_visible() for head in page.locator("th:not(.tool) button").all())
    assert not any(tool.is_visible() for tool in page.locator(".title button, nav, select").all())


@pytest.mark.parametrize("attack", [f"'\"><img src=x onerror=alert(1)>{HOSTILE}", "javascript:alert(1)"])
def test_addresses_are_text(watched: Watched, attack: str) -> None:
    from urllib.parse import quote

    for path in ("series/?q={0}&s={0}", "regressions/?device={}", "run/?device={}", "compare/?device={}"):
        watched.open(path.format(quote(attack)))
    watched.open(f"run/?id={quote(attack, safe='')}")
    watched.complaints.clear()  # such a run is missing, which the console tells
