"""Filters, pickers, commands and the keyboard on the pages of the site."""

from __future__ import annotations

import json
import shlex
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from dashboard_nights import HOSTILE, NIGHTS, document, series_id
from process_table import wait_until
from watched_page import NOTE_TEXTS, Watched, comparison, identities

from torchperf_ci.options.measurement_commands import device

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page, Route


def options(page: Page, label: str) -> tuple[str, list[str]]:
    select = page.get_by_label(label)
    return select.input_value(), select.locator("option").all_inner_texts()


def test_a_document_that_could_not_be_loaded_is_loaded_later(watched: Watched) -> None:
    asked: list[str] = []

    def fail_once(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) > 1:
            route.continue_()
        else:
            route.abort()

    watched.page.route("**/data/regressions.json", fail_once)
    page = watched.open("regressions/")
    assert page.get_by_role("alert").inner_text() == "The server does not answer. Is it still running?"
    page.evaluate("dispatchEvent(new Event('popstate'))")
    page.locator("tbody").first.wait_for()
    assert len(asked) == 2
    watched.complaints.clear()  # that request failed, which the console tells


def test_a_page_that_cannot_be_drawn_has_not_the_title_of_the_one_before(
    watched: Watched, site: Path
) -> None:
    page = watched.open(f"series/?s={series_id(site, 'slow')}")
    page.route("**/data/series/**", lambda route: route.abort())
    page.get_by_label("Find series").fill("tiny")
    page.locator(".found button").first.click()
    page.get_by_role("alert").wait_for()
    assert page.title() == "Series · torchperf"
    watched.complaints.clear()


def test_a_chart_that_cannot_be_drawn_says_so(watched: Watched, site: Path) -> None:
    """Above the words on how to use it, the page was blank."""
    watched.page.route("**/vendor/*.js*", lambda route: route.abort())
    page = watched.open(f"series/?s={series_id(site, 'slow')}")
    assert "cannot be drawn, as uPlot was not loaded" in page.locator(".said").inner_text()
    watched.complaints.clear()


@pytest.mark.parametrize("body", ['{"changes": [', "<!doctype html><title>Log in</title>"])
def test_an_answer_that_is_no_document_is_told_in_words(watched: Watched, body: str) -> None:
    """The page said that JSON ended unexpectedly, or had an unexpected token."""
    watched.page.route("**/data/regressions.json", lambda route: route.fulfill(body=body))
    page = watched.open("regressions/")
    assert page.get_by_role("alert").inner_text() == (
        "The answer for regressions.json broke off, or is of something else, such as the login page of a proxy."
    )


def test_a_document_of_another_version_is_not_drawn(watched: Watched, site: Path) -> None:
    """A browser may keep an old page for a while when new documents are there, and drew nonsense."""
    newer = document(site, "regressions.json") | {"version": 99}
    watched.page.route("**/data/regressions.json", lambda route: route.fulfill(json=newer))
    page = watched.open("regressions/")
    assert "of different versions of torchperf" in page.get_by_role("alert").inner_text()


def test_a_filter_that_matches_nothing_can_be_taken_back(watched: Watched, site: Path) -> None:
    page = watched.open("regressions/?year=1999")
    assert options(page, "year") == ("1999", ["all", "2026", "1999"])
    page.get_by_label("year").select_option("")
    watched.drawn()
    assert page.url.endswith("regressions/")
    page = watched.open(f"series/?s={identities(site, 'slow')[0]}&from=7")
    assert options(page, "Time") == ("7", ["all", "30 days", "90 days", "a year", "7 days"])
    assert page.locator("table").last.locator("tbody tr").count() == 8
    page = watched.open(f"series/?s={identities(site, 'slow')[0]}&from=1e9")
    assert page.locator("table").last.locator("tbody tr").count() == NIGHTS
    assert "NaN" not in page.locator("main").inner_text()


def test_runs_that_no_filter_matches_say_which_to_give_up(watched: Watched) -> None:
    page = watched.open("run/?device=x&branch=main")
    assert "No run matches. Without the filter device = x, some do." in page.locator("main").inner_text()
    assert page.locator("table").count() == 0


def test_a_filter_keeps_the_focus(watched: Watched, site: Path) -> None:
    page = watched.open("regressions/")
    device = page.get_by_label("device")
    device.focus()
    device.select_option("cuda")
    page.wait_for_url("**device=cuda**")
    watched.drawn()
    assert page.evaluate("document.activeElement.name") == "device"
    slow, tiny = identities(site, "slow")[0], identities(site, "tiny")[0]
    page = watched.open(f"series/?s={slow}&q=tiny latency")
    page.locator(f"button[name='{tiny}']").focus()
    page.keyboard.press("Enter")
    page.locator(".legend li").nth(1).wait_for()
    assert page.evaluate("document.activeElement.textContent") == "Remove"
    page.locator(".legend button").first.focus()
    page.keyboard.press("Enter")  # the button is gone afterwards
    page.locator(".figures").wait_for()
    assert page.evaluate("document.activeElement.id") == "main"


def test_series_of_a_chart_differ_by_more_than_their_color(watched: Watched, site: Path) -> None:
    ids = [one for model in ("slow", "tiny") for one in identities(site, model)]
    page = watched.page
    page.add_init_script(
        "window.dashes = new Set(); const set = CanvasRenderingContext2D.prototype.setLineDash;"
        "CanvasRenderingContext2D.prototype.setLineDash = "
        "function (dash) { dashes.add(String(dash)); set.call(this, dash); }"
    )
    watched.open(f"series/?s={','.join(ids)}")
    page.wait_for_selector(".canvas canvas")
    assert len({*page.locator(".swatch").all_inner_texts()}) == 4
    assert {"8,4", "2,3", "10,3,2,3"} <= {*page.evaluate("[...dashes]")}


def test_the_same_series_of_two_machines_is_told_apart(watched: Watched, site: Path) -> None:
    page = watched.open(f"series/?s={','.join(identities(site, 'slow'))}")
    for table in page.locator("table").all():
        told = set(table.locator("td[data-head=series]").all_inner_texts())
        assert {text.partition(", ")[2][:6] for text in told} == {"cuda ·", "cpu · "}
    (machine,) = page.locator("main > ul.quiet li").all_inner_texts()
    assert "cuda · NVIDIA H100 80GB HBM3, 2026-" in machine


def test_runs_of_machines_that_differ_are_not_said_to_be_alike(watched: Watched, site: Path) -> None:
    """Nothing was compared across the new driver of night 20, so nothing is within its noise, either."""
    index = json.loads((site / "data/index.json").read_text())
    of_cuda = [run for run in index["runs"] if run["device"] == "cuda"]
    head, base = of_cuda[NIGHTS - 1 - 20], of_cuda[NIGHTS - 20]
    page = watched.open(f"compare/?base={base['id']}&head={head['id']}")
    assert page.get_by_text("other conditions: driver: 550 → 560").count() == 1
    assert page.locator("h1").inner_text() == "None of 10 series can be compared"


def test_the_command_selects_exactly_its_case(watched: Watched) -> None:
    watched.open("")
    names = {"mode": "inference", "dtype": "", "backend": "eager", "device": "cpu"}
    for model in (HOSTILE, "a[b]*?'c", "smallnet/classifier", "$(x) `y`", "-x"):
        line = watched.page.evaluate(
            "async (names) => (await import('./js/dom.js')).measureAgain(names)", {"model": model, **names}
        )
        words = shlex.split(line)
        assert words[:3] == ["torchperf", "run", "--filter"]
        assert not words[3].startswith("-")
        assert words[4:] == ["--mode", "inference", "--backend", "eager", "--device", "cpu"]
        assert fnmatchcase(model, words[3])
        assert "*" not in model or not fnmatchcase(model.replace("*", "x"), words[3])
    other_tool = "(await import('./js/dom.js')).measureAgain({ model: 'sleep 1', mode: '' })"
    assert watched.page.evaluate(f"async () => {other_tool}") == ""


@pytest.mark.parametrize(
    ("recorded", "torchs"), [("rocm", "cuda"), ("arm64-cpu", "cpu"), ("cuda", "cuda"), ("mps", "mps")]
)
def test_the_command_names_the_device_as_run_does(watched: Watched, recorded: str, torchs: str) -> None:
    """``run`` refused the names that the records of AMD's GPUs and of ARM's CPUs have."""
    names = {"model": "m", "mode": "inference", "dtype": "", "backend": "", "device": recorded}
    script = "async (names) => (await import('./js/dom.js')).measureAgain(names)"
    assert device(shlex.split(watched.open("").evaluate(script, names))[-1]) == torchs


def test_runs_are_found_by_data_type_and_backend(watched: Watched) -> None:
    page = watched.open("compare/")
    page.get_by_label("New run").fill("bf16 inductor h100")
    assert page.get_by_role("status").first.inner_text() == "40 runs match."
    tops = "[...document.querySelectorAll('input')].map((one) => one.getBoundingClientRect().top)"
    assert len(set(page.evaluate(tops))) == 1  # the field of the base was beside the middle of this list
    page.get_by_label("New run").fill("fp32 h100")
    assert page.get_by_role("status").first.inner_text().startswith("No run matches all of these words.")


def test_a_case_is_found_among_those_whose_names_contain_its_own(watched: Watched) -> None:
    """A run links to the failed case ``mm`` by its name, and the first 50 matches were of others."""
    items = [{"text": f"addmm_{number} bf16 cuda"} for number in range(60)] + [{"text": "mm bf16 cuda"}]
    script = "async (items) => (await import('./js/find.js')).search(items, 'mm bf16 cuda')"
    found = watched.open("").evaluate(script, items)
    assert (found["matches"][0], len(found["matches"]), found["total"]) == (items[-1], 50, 61)


def test_runs_that_cannot_be_compared_say_why(watched: Watched, site: Path) -> None:
    index = json.loads((site / "data/index.json").read_text())
    cuda, cpu = (
        next(run["id"] for run in index["runs"] if run["device"] == name) for name in ("cuda", "cpu")
    )
    page = watched.open(f"compare/?base={cuda}&head={cpu}")
    assert "Only runs of one benchmark on the same kind of machine" in page.locator(".problem").inner_text()
    assert not any(path.startswith("compare") for path in watched.documents)
    page = watched.open(f"compare/?base={cuda}&head=0000000000")
    assert page.locator(".problem").inner_text() == "The run 0000000000 in this address is not in the store."


def test_no_more_series_are_drawn_than_told(watched: Watched, site: Path) -> None:
    index = json.loads((site / "data/index.json").read_text())
    ids = [row[0] for row in index["series"]]
    assert len(ids) == 20
    slow = identities(site, "slow")[0]
    page = watched.open(f"series/?s={','.join(['0' * 10, *[one for one in ids if one != slow]])}&q=slow")
    assert page.locator(f"button[name='{slow}']").is_disabled()
    page = watched.open(f"series/?s={','.join([*ids, '0' * 10])}")
    assert "A chart has 20 series at most; 1 of this address are left out." in (
        page.locator(".problem").all_inner_texts()
    )


def test_what_starts_at_zero_has_no_relative_scale(watched: Watched, site: Path) -> None:
    """The document of ``tiny`` is changed on its way: it starts at zero, then it rises."""
    tiny, slow = identities(site, "tiny")[0], identities(site, "slow")[0]
    content = json.loads((site / f"data/series/{tiny}/2026.json").read_text())
    content["levels"] = []
    content["points"]["value"][0] = 0
    watched.page.route(f"**/series/{tiny}/2026.json", lambda route: route.fulfill(json=content))
    page = watched.open(f"series/?s={slow},{tiny}&scale=relative")
    page.wait_for_selector(".canvas canvas")
    assert page.locator(".note").inner_text() == (
        "tiny inference bf16 inductor latency(ms) is not drawn: its first level is not above zero, so nothing is "
        "relative to it."
    )


def test_series_of_several_units_have_no_absolute_scale(watched: Watched, site: Path) -> None:
    latency, status = identities(site, "slow")[0], series_id(site, "slow", "status")
    page = watched.open(f"series/?s={latency}")
    assert page.get_by_label("Scale").count() == 1
    page = watched.open(f"series/?s={latency},{status}")
    assert page.get_by_label("Scale").count() == 0
    assert page.get_by_text("Units differ: each series is relative to its first level.").count() == 1


def test_an_outcome_is_announced_as_a_word(watched: Watched, site: Path) -> None:
    page = watched.open(f"series/?s={series_id(site, 'failing', 'status')}")
    page.wait_for_selector(".canvas canvas")
    page.locator(".canvas").focus()
    page.keyboard.press("End")
    assert ": fails, commit 3939393939" in page.locator(".said").inner_text()


def test_the_run_of_a_pull_request_is_not_how_things_are_now(watched: Watched, site: Path) -> None:
    """The newest run is moved to its branch: the failure there is in the table, and a hollow point of the chart."""
    watched.page.add_init_script(
        "window.filled = new Set(); const fill = CanvasRenderingContext2D.prototype.fill;"
        "CanvasRenderingContext2D.prototype.fill = "
        "function (...more) { filled.add(this.fillStyle); fill.apply(this, more); }"
    )
    series = series_id(site, "failing", "status")
    page = watched.open(f"series/?s={series}")
    page.wait_for_selector(".canvas canvas")
    assert page.evaluate("[...filled]") == ["#2563eb"]
    assert page.get_by_text("Hollow points").count() == 0
    index = json.loads((site / "data/index.json").read_text())
    index["runs"] = [
        {**run, "branch": "gh/ada/1"} if run["commit"] == "39" * 20 else run for run in index["runs"]
    ]
    watched.page.route("**/data/index.json", lambda route: route.fulfill(json=index))
    watched.open(f"series/?s={series}")
    page.wait_for_selector(".canvas canvas")
    assert page.evaluate("[...filled]") == ["#2563eb", "#ffffff"]
    assert page.get_by_text("Hollow points are of other branches").is_visible()
    assert page.locator(".figures dd").first.inner_text() == "passes"
    page.locator(".canvas").focus()
    page.keyboard.press("End")
    assert ": fails, commit 3939393939, branch gh/ada/1" in page.locator(".said").inner_text()
    page.keyboard.press("ArrowLeft")
    assert ": passes, commit 3838383838. " in page.locator(".said").inner_text()


def test_the_arrow_keys_stay_where_the_chart_is_zoomed_to(watched: Watched, site: Path) -> None:
    """They left it for good: from beyond the edge, no key came back."""
    page = watched.open(f"series/?s={series_id(site, 'slow')}")
    page.wait_for_selector(".canvas canvas")
    place = page.locator(".u-over").bounding_box()
    assert place
    for share, act in ((0.4, page.mouse.down), (0.6, page.mouse.up)):
        page.mouse.move(place["x"] + place["width"] * share, place["y"] + 100, steps=3)
        act()
    page.locator(".canvas").focus()
    days = []
    for key in ("Home", "ArrowLeft", "ArrowRight", "End", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
        days.append(page.locator(".said").inner_text()[5:10])
    assert days == ["10-08", "10-08", "10-09", "10-15", "10-15", "10-14"]


def test_a_chart_that_another_replaced_is_forgotten(watched: Watched, site: Path) -> None:
    """Each chart that was ever drawn stayed in memory, and was drawn again with the newest one."""
    page = watched.open(f"series/?s={series_id(site, 'slow')}")
    for days in ("30", "90", "365"):
        page.get_by_label("Time").select_option(days)
        page.wait_for_url(f"**from={days}")
        watched.drawn()
    wait_until(lambda: watched.canvases_in_memory() == 1)


@pytest.mark.parametrize(
    "path",
    [
        f"compare/?base={quote(HOSTILE, safe='')}",
        f"compare/?head={quote(HOSTILE, safe='')}",
        "run/?id=..%2F%3Cb%20id%3Dinjected%3E",
    ],
)
def test_an_unknown_run_is_text(watched: Watched, path: str) -> None:
    page = watched.open(path)
    assert "is not in the store" in page.locator(".problem").inner_text()
    assert page.locator("tbody tr").count() > 0
    watched.complaints.clear()  # the console tells of the document that is missing


def test_all_series_of_a_comparison_are_shown_from_the_first_one_on(watched: Watched, site: Path) -> None:
    """The page jumped to the end of the table, because the button that has the focus was there."""
    base, head = comparison(site)
    watched.page.set_viewport_size({"width": 1280, "height": 300})
    page = watched.open(f"compare/?base={base}&head={head}")
    page.locator("button[name=show]").click()
    page.wait_for_url("**show=all**")
    watched.drawn()
    assert page.evaluate("document.activeElement.name") == "show"
    assert 0 < page.locator("tbody tr").first.evaluate("(row) => row.getBoundingClientRect().top") < 300


def test_the_rows_that_a_table_had_hidden_are_reached_next(watched: Watched) -> None:
    """The focus was lost with the button that shows them."""
    page = watched.open("")
    page.evaluate("""async () => {
        const [{ table }, { h }] = [await import("./js/table.js"), await import("./js/dom.js")];
        const column = { head: "name", value: (row) => row, cell: (row) => h("a", { href: "#" }, row) };
        document.querySelector("main").replaceChildren(table("t", "Four", [column], ["a", "b", "c", "d"], 2));
    }""")
    page.get_by_role("button", name="Show all").press("Enter")
    assert page.evaluate("document.activeElement.textContent") == "c"


def test_the_scale_of_a_comparison_is_computed_once(watched: Watched, site: Path) -> None:
    """It was for each row anew, which for 14,000 series took seven seconds."""
    base, head = comparison(site)
    watched.page.add_init_script(
        "window.logs = 0; const { log } = Math; Math.log = (x) => { logs += 1; return log(x); }"
    )
    page = watched.open(f"compare/?base={base}&head={head}&show=all")
    intervals = page.locator("svg.span").count()
    assert intervals > 1
    assert page.evaluate("logs") == 5 * intervals


def test_a_spread_fits_in_the_chart_or_ends_in_an_arrow(watched: Watched, site: Path) -> None:
    """Only values had their place there: a spread ended at the edge as if that were its end."""
    slow = series_id(site, "slow")
    content = document(site, f"series/{slow}/2026.json")
    above = content["points"]["above"]
    watched.page.add_init_script(NOTE_TEXTS)
    watched.page.route(f"**/series/{slow}/*.json", lambda route: route.fulfill(json=content))
    for far, arrows in ((3.5, 0), (35, 1)):
        above[4] = far
        page = watched.open(f"series/?s={slow}")
        watched.until("texts.includes('new driver')")
        texts = page.evaluate("texts")
        assert (texts.count("▴"), texts.count("▾")) == (arrows * texts.count("ms"), 0)
        assert "54" in texts
        assert "70" not in texts  # all others would be one flat line


def test_what_many_series_tell_of_one_moment_is_written_once(watched: Watched, site: Path) -> None:
    """Each wrote "new driver" at its own minute, one below the other."""
    ids = [series_id(site, model) for model in ("slow", "tiny")]
    content = document(site, f"series/{ids[1]}/2026.json")
    content["machine_changes"][0]["time"] += 60
    watched.page.add_init_script(NOTE_TEXTS)
    watched.page.route(f"**/series/{ids[1]}/*.json", lambda route: route.fulfill(json=content))
    page = watched.open(f"series/?s={','.join(ids)}")
    watched.until("texts.includes('new driver')")
    texts = page.evaluate("texts")
    assert texts.count("new driver") == texts.count(
        "ms"
    )  # which is written each time that the chart is drawn
