"""Pages of an empty store, charts with missing values, and what can be downloaded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from dashboard_nights import document, series_id
from routed_pages import ADDRESS, route_pages
from watched_page import NOTE_TEXTS, Watched, comparison, identities, watching

from torchperf_ci.config import Config
from torchperf_ci.store.migrations import open_store
from torchperf_ci.web.documents import Documents

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page


def test_every_page_of_an_empty_store_says_how_to_get_results(browser: Browser, tmp_path: Path) -> None:
    with open_store(f"chdb://{tmp_path}/store") as store:
        documents = dict(Documents(store, Config()).everything())
    with watching(browser, ADDRESS) as watched:
        route_pages(watched.page, documents.get)
        for path in ("", "series/", "compare/", "regressions/", "run/", "series/?s=0000000000&q=x"):
            page = watched.open(path)
            assert page.locator("h1").inner_text() == "There are no results yet", path
            assert page.locator("code").all_inner_texts()[1] == "torchperf ingest records"


def test_pages_opened_from_a_folder_say_what_serves_them(browser: Browser, site: Path) -> None:
    """A browser loads no modules from there; they were blank."""
    page = browser.new_page()
    page.goto((site / "series/index.html").as_uri())
    page.get_by_text("python3 -m http.server").wait_for()
    page.close()


def test_a_series_without_a_name_can_be_opened_and_a_long_one_hides_no_column(
    watched: Watched, site: Path
) -> None:
    """The first was a link without a text, which screen readers skip; the second pushed the rest off the screen."""
    index, run = document(site, "index.json"), comparison(site)[1]
    other = {"slow": "", "tiny": "x" * 300}
    index["names"]["model"] = [other.get(name, name) for name in index["names"]["model"]]
    index["names"] |= {field: [""] for field in ("mode", "dtype", "backend")}
    watched.page.route("**/data/index.json", lambda route: route.fulfill(json=index))
    for path in ("series/", f"run/?id={run}"):
        page = watched.open(path)
        assert page.get_by_text("without a name", exact=True).count() > 0, path
        assert page.evaluate("[...document.querySelectorAll('main a')].every((one) => one.innerText)"), path
        over = "[...document.querySelectorAll('.scroll')].map((one) => one.scrollWidth - one.clientWidth)"
        assert set(page.evaluate(over)) == {0}, path
    page.get_by_role("link", name="without a name").first.click()
    page.wait_for_selector(".canvas canvas")
    assert page.title() == "without a name: latency(ms) · Series · torchperf"
    assert watched.open("run/").title() == "Runs · torchperf"


def test_a_printed_comparison_of_long_values_is_as_wide_as_its_page(watched: Watched, site: Path) -> None:
    """Those of throughputs pushed its last columns off the paper."""
    base, head = comparison(site)
    index, content = document(site, "index.json"), document(site, f"compare/{base}/{head}.json")
    index["units"]["latency(ms)"] = "samples/s"
    for column in ("base", "head"):
        content["rows"][column] = [value and 1e6 + value for value in content["rows"][column]]
    watched.page.route("**/data/index.json", lambda route: route.fulfill(json=index))
    watched.page.route("**/data/compare/**", lambda route: route.fulfill(json=content))
    watched.page.set_viewport_size({"width": 703, "height": 1032})
    page = watched.open(f"compare/?base={base}&head={head}&show=all")
    page.emulate_media(media="print")
    assert page.locator(".scroll").evaluate("(table) => table.scrollWidth - table.clientWidth") <= 1


def test_half_a_screen_is_wide_enough_for_the_cause_of_a_regression(watched: Watched) -> None:
    """It was beyond the edge, where many systems show no scroll bar."""
    watched.page.set_viewport_size({"width": 768, "height": 900})
    page = watched.open("regressions/")
    assert page.locator(".scroll").last.evaluate("(table) => table.scrollWidth - table.clientWidth") == 0


def test_the_narrowest_screen_has_the_links_to_all_pages(watched: Watched) -> None:
    """The last one, to the page that was open, was beyond the edge."""
    watched.page.set_viewport_size({"width": 320, "height": 800})
    page = watched.open("run/")
    links = page.locator("nav a")
    assert max(link.evaluate("(one) => one.getBoundingClientRect().right") for link in links.all()) <= 320
    buttons = "[...document.querySelectorAll('button')].map((one) => one.getBoundingClientRect().height)"
    assert min(page.evaluate(buttons)) >= 24  # two rows of buttons that sort are one above the other there


def test_a_run_without_a_fingerprint_says_so(watched: Watched, site: Path) -> None:
    """Below the heading was nothing."""
    run = comparison(site)[1]
    content = {**document(site, f"run/{run}.json"), "machine": {}}
    watched.page.route(f"**/run/{run}.json", lambda route: route.fulfill(json=content))
    assert watched.open(f"run/?id={run}").get_by_text("Its fingerprint is not recorded.").is_visible()


WIDEST = """
() => {
  const canvas = document.querySelector(".canvas canvas");
  const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height - 60);
  const columns = new Set();
  for (let at = 0; at < data.length; at += 4) if (data[at + 2] - data[at] > 100) columns.add((at / 4) % width);
  const sorted = [...columns].sort((a, b) => a - b);
  const gaps = sorted.slice(1).map((column, place) => column - sorted[place]);
  return Math.max(...gaps) / (sorted[sorted.length - 1] - sorted[0]);
}
"""
"""The widest gap of what is drawn in the color of the series, as a share of its width."""


HAS_COLOR = """
(variable) => {
  const hex = getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const canvas = document.querySelector(".canvas canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  for (let at = 0; at < data.length; at += 4) {
    if (data[at] === red && data[at + 1] === green && data[at + 2] === blue) return true;
  }
  return false;
}
"""
"""Whether the chart has a pixel of a color of the style sheet."""


def drawn(watched: Watched, series: str, content: Any, *changes: Any) -> Page:
    """The chart of a series with this document, point by point, and with these changes only."""
    document = {**content, "levels": [], "changes": changes, "machine_changes": []}
    watched.page.route(f"**/series/{series}/*.json", lambda route: route.fulfill(json=document))
    page = watched.open(f"series/?s={series}")
    page.wait_for_selector(".canvas canvas")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page


def test_a_legend_has_the_colors_of_its_chart_where_the_system_chooses_colors(
    watched: Watched, site: Path
) -> None:
    """A canvas keeps its own, while those beside it were replaced: the legend of the bands was blank."""
    watched.page.emulate_media(forced_colors="active")
    slow, tiny = (series_id(site, model) for model in ("slow", "tiny"))
    shown = "(one) => { const { color, backgroundColor } = getComputedStyle(one); return [color, backgroundColor]; }"
    page = watched.open(f"series/?s={slow}")
    blue = "rgb(37, 99, 235)"
    assert [one.evaluate(shown)[1] for one in page.locator(".band").all()] == [blue, blue]
    page = watched.open(f"series/?s={slow},{tiny}")
    assert [one.evaluate(shown)[0] for one in page.locator(".swatch").all()] == [blue, "rgb(194, 65, 12)"]


def test_the_focus_of_a_chart_leaves_what_it_says_readable(watched: Watched, site: Path) -> None:
    """Its outline covered the top of the sentence about the run that the arrow keys reach."""
    page = watched.open(f"series/?s={series_id(site, 'slow')}")
    page.wait_for_selector(".canvas canvas")
    page.locator(".canvas").focus()
    beyond = """(one) => {
        const { outlineStyle, outlineWidth, outlineOffset } = getComputedStyle(one);
        return outlineStyle === "solid" ? parseFloat(outlineWidth) + parseFloat(outlineOffset) : NaN;
    }"""
    assert page.locator(".canvas").evaluate(beyond) == 0


def test_a_missing_value_is_a_gap_in_the_chart(watched: Watched, site: Path) -> None:
    slow = identities(site, "slow")[0]
    content = json.loads((site / f"data/series/{slow}/2026.json").read_text())
    assert drawn(watched, slow, content).evaluate(WIDEST) < 1 / 39
    points = content["points"]
    for place in range(10, 14):
        for column in ("value", "below", "above"):
            points[column][place] = None
        points["why"][place] = "oom: too large"
    page = drawn(watched, slow, content)
    assert 4 / 39 < page.evaluate(WIDEST) < 5.5 / 39
    page.locator(".canvas").focus()
    for key in ("Home", *["ArrowRight"] * 10):
        page.keyboard.press(key)
    assert "no value, oom: too large" in page.locator(".said").inner_text()


@pytest.mark.parametrize(("kind", "told"), [("outcome", "passes"), ("count", "0.0")])
def test_a_series_that_is_always_zero_is_drawn(watched: Watched, site: Path, kind: str, told: str) -> None:
    """A case that never passed, or never had a graph break, was an empty chart without numbers."""
    slow = identities(site, "slow")[0]
    content = json.loads((site / f"data/series/{slow}/2026.json").read_text())
    content["points"]["value"] = [0.0] * len(content["points"]["value"])
    watched.page.add_init_script(NOTE_TEXTS)
    assert told in drawn(watched, slow, {**content, "kind": kind}).evaluate("texts")


def test_the_spreads_of_thousands_of_runs_are_not_drawn_behind_a_short_series(
    watched: Watched, site: Path
) -> None:
    """Their number was that of the first series times the number of series; all were drawn where that one was new."""
    first = next(run for run in reversed(document(site, "index.json")["runs"]) if run["device"] == "cuda")
    repeats = {series_id(site, "tiny"): 1, series_id(site, "slow"): 1600}
    contents = {one: document(site, f"series/{one}/2026.json") | {"last": first["id"]} for one in repeats}
    for one, repeat in repeats.items():
        columns = contents[one]["points"].items()
        contents[one]["points"] = {name: column[:1] * repeat for name, column in columns}
    watched.page.route(
        "**/data/series/**", lambda route: route.fulfill(json=contents[route.request.url.split("/")[-2]])
    )
    watched.page.add_init_script(
        "window.spreads = 0; const stroke = CanvasRenderingContext2D.prototype.stroke;"
        "CanvasRenderingContext2D.prototype.stroke = "
        "function (...more) { spreads += this.globalAlpha < 0.4; stroke.apply(this, more); }"
    )
    page = watched.open(f"series/?s={','.join(repeats)}")
    page.wait_for_selector(".canvas canvas")
    assert page.evaluate("spreads") == 0


def test_a_run_with_two_results_of_a_series_is_one_run(watched: Watched, site: Path) -> None:
    """Such as one whose two jobs measured the same case."""
    slow = identities(site, "slow")[0]
    content = json.loads((site / f"data/series/{slow}/2026.json").read_text())
    content["points"] = {name: [*column, column[-1]] for name, column in content["points"].items()}
    content["points"]["run"][-1] = 0
    page = drawn(watched, slow, content)
    assert page.get_by_text("Every run").locator("xpath=../..").locator("tbody tr").count() == 41
    assert page.locator(".figures > div", has_text="runs").last.inner_text().split() == ["runs", "40"]


@pytest.mark.parametrize(("kind", "told"), [("ratio", "1"), ("outcome", "passes")])
def test_a_rate_of_one_is_a_pass_only_where_nothing_lies_between(
    watched: Watched, site: Path, kind: str, told: str
) -> None:
    index, slow = document(site, "index.json"), series_id(site, "slow")
    content = json.loads((site / f"data/series/{slow}/2026.json").read_text())
    content["points"]["value"] = [1.0] * len(content["points"]["value"])
    index["names"]["metric"] = ["pass_rate", *index["names"]["metric"][1:]]
    index["units"] = {"pass_rate": "", "status": ""}
    watched.page.route("**/data/index.json", lambda route: route.fulfill(json=index))
    page = drawn(watched, slow, {**content, "kind": kind})
    assert page.locator("td[data-head=value]").first.inner_text() == told


def test_the_time_axis_of_a_single_run_is_days_long(watched: Watched, site: Path) -> None:
    """It reached three years into the future."""
    slow, index = series_id(site, "slow"), document(site, "index.json")
    content = json.loads((site / f"data/series/{slow}/2026.json").read_text())
    content["points"] = {name: column[:1] for name, column in content["points"].items()}
    content["last"] = [run["id"] for run in index["runs"] if run["device"] == "cuda"][-1]
    watched.page.add_init_script(NOTE_TEXTS)
    texts = drawn(watched, slow, content).evaluate("texts")
    assert "09-22 00:00" in texts
    assert not any(text.startswith("20") for text in texts)


def test_the_time_axis_of_a_run_without_a_time_says_so(watched: Watched, site: Path) -> None:
    """Such as a first try, straight from a run: its label was "te", between hours of 1969 and of 1970."""
    slow, index = series_id(site, "slow"), document(site, "index.json")
    content = json.loads((site / f"data/series/{slow}/2026.json").read_text())
    content["points"] = {name: column[:1] for name, column in content["points"].items()}
    content["last"] = [run["id"] for run in index["runs"] if run["device"] == "cuda"][-1]
    index["runs"] = [{**run, "time": 0, "end": 0} for run in index["runs"]]
    content["points"]["after"] = [0]
    watched.page.route("**/data/index.json", lambda route: route.fulfill(json=index))
    watched.page.add_init_script(NOTE_TEXTS)
    texts = drawn(watched, slow, content).evaluate("texts")
    assert "no date" in texts
    assert not any(text == "te" or text.startswith(("12-31", "01-01")) for text in texts)


def test_an_axis_names_each_of_its_numbers(watched: Watched) -> None:
    """However small or large: microseconds in a metric of seconds were all 0."""
    axes = [
        ([0, 5, 10], 5, ["0", "5", "10"]),
        ([1000, 1002.5, 1005], 2.5, ["1,000.0", "1,002.5", "1,005.0"]),
        ([980_000, 1_000_000], 20_000, ["980,000", "1,000,000"]),
        ([0.0002, 0.0002002], 2e-7, ["0.0002000", "0.0002002"]),
        ([0, 2e-7, 4e-7], 2e-7, ["0", "2e-7", "4e-7"]),
        ([9e-13, 1e-12, 1.1e-12], 1e-13, ["9e-13", "1e-12", "1.1e-12"]),
        ([1e12, 1.25e12], 2.5e11, ["1e+12", "1.25e+12"]),
        ([-0.2, -1e-17, 0.2], 0.2, ["−0.2", "±0.0", "+0.2"]),
    ]
    page = watched.open("")
    text = "(text, sign) => (sign === '−' || values[0] < 0 ? sign : '') + text"
    script = (
        f"async ([values, step]) => (await import('./js/chart.js')).ticks((one) => one, {text})(values, step)"
    )
    assert [page.evaluate(script, axis[:2]) for axis in axes] == [told for *_, told in axes]


def test_a_number_is_written_as_on_the_terminal(watched: Watched) -> None:
    """A throughput of a million was 1.000e+6, beside one of 849,048."""
    numbers = {1_000_123.4: "1,000,123", 849_048.2: "849,048", 12.3456: "12.35", 3: "3", 3e30: "3.000e+30"}
    script = "async (all) => { const { number } = await import('./js/dom.js'); return all.map((one) => number(one)); }"
    assert watched.open("").evaluate(script, [*numbers]) == [*numbers.values()]


def test_a_change_that_rounds_to_zero_has_no_direction(watched: Watched) -> None:
    changes = {1.00001: "±0.00%", 0.99999: "±0.00%", 1.031: "+3.1%", 0.2: "−80.0%", 25.35: "+2,435%"}
    script = "async (ratios) => ratios.map((await import('./js/dom.js')).change)"
    assert watched.open("").evaluate(script, [*changes]) == [*changes.values()]


def test_a_change_whose_better_direction_is_unknown_is_not_red(watched: Watched, site: Path) -> None:
    slow = identities(site, "slow")[0]
    content = json.loads((site / f"data/series/{slow}/2026.json").read_text())
    (change,) = content["changes"]
    tones = {"regressed": "bad", "changed": "warning", "improved": "good"}
    for word in tones:
        page = drawn(watched, slow, content, {**change, "word": word, "culprits": []})
        seen = [name for name, tone in tones.items() if page.evaluate(HAS_COLOR, f"--{tone}")]
        assert seen == [word]


@pytest.mark.parametrize(
    ("kind", "told"), [("count", "judged by their differences"), ("ratio", "too few runs")]
)
def test_what_has_no_noise_is_not_said_to_have_too_few_runs(
    watched: Watched, site: Path, kind: str, told: str
) -> None:
    """A count's change stood below the sentence that none is judged yet."""
    slow = identities(site, "slow")[0]
    content = json.loads((site / f"data/series/{slow}/2026.json").read_text())
    page = drawn(watched, slow, {**content, "kind": kind, "noise": None, "detectable": None})
    assert told in page.locator(".chart + p").inner_text()


def downloaded(page: Page, button: str) -> tuple[str, bytes]:
    with page.expect_download() as asked:
        page.get_by_role("button", name=button).first.click()
    return asked.value.suggested_filename, asked.value.path().read_bytes()


def test_charts_and_tables_are_downloaded_as_pictures_and_json(watched: Watched, site: Path) -> None:
    page = watched.open("")
    name, svg = downloaded(page, "Trend as SVG")
    tags = [one.tag.partition("}")[2] for one in ElementTree.fromstring(svg).iter()]
    assert (name, tags[0], "polyline" in tags) == ("trend.svg", "svg", True)
    page = watched.open(f"series/?s={identities(site, 'slow')[0]}")
    page.wait_for_selector(".canvas canvas")
    name, png = downloaded(page, "PNG of the chart")
    assert (name, png[:8]) == ("chart.png", b"\x89PNG\r\n\x1a\n")
    assert len(png) > 5000
    name, rows = downloaded(page, "JSON: Every run")
    assert (name, len(json.loads(rows))) == ("points.json", 40)
    assert json.loads(rows)[0]["commit"].startswith("39" * 20)


def test_a_picture_of_several_series_names_them(watched: Watched, site: Path) -> None:
    """Nobody could tell afterwards which color was which."""
    watched.page.add_init_script(NOTE_TEXTS)
    page = watched.open(f"series/?s={','.join(series_id(site, model) for model in ('slow', 'tiny'))}")
    page.wait_for_selector(".canvas canvas")
    downloaded(page, "PNG of the chart")
    named = {f"{line} inference bf16 inductor latency(ms)" for line in ("━ slow", "╌ tiny")}
    assert named | {"2 series, cuda · NVIDIA H100 80GB HBM3"} <= {*page.evaluate("texts")}


PATHS = (
    "",
    "series/?s={slow}",
    "compare/?base={base}&head={head}&show=all",
    "regressions/",
    "run/?id={head}",
)


@pytest.mark.parametrize("path", PATHS)
def test_every_link_and_control_is_reached_by_keyboard(watched: Watched, site: Path, path: str) -> None:
    base, head = comparison(site)
    page = watched.page
    page.add_init_script(
        "window.reached = new Set(); addEventListener('focusin', (event) => reached.add(event.target))"
    )
    watched.open(path.format(slow=identities(site, "slow")[0], base=base, head=head))
    selected = "a, button, select, input, .canvas, .scroll"
    controls = f"[...document.querySelectorAll('{selected}')].filter((one) => one.checkVisibility())"
    for _ in range(page.evaluate(f"{controls}.length") + 5):
        page.keyboard.press("Tab")
    missed = page.evaluate(f"{controls}.filter((one) => !reached.has(one)).map((one) => one.outerHTML)")
    assert missed == []
