"""Measure when pages are drawn: ours, and those of asv and github-action-benchmark for the same numbers.

    pip install asv                      # in an environment of its own
    npm install --prefix PACKAGES chart.js@2.9.2 jquery@3.3.1 flot@0.8.3 flot-orderbars@1.0.0 \
        stupid-table-plugin@1.1.3 blueimp-md5@2.19.0 bootstrap@3.1.1
    python benchmarks/pages.py PACKAGES --asv PATH_OF_ASV --peer INDEX_HTML [--series 100 1000]
    python benchmarks/pages.py --server http://127.0.0.1:8000/

PACKAGES are what the peers' pages load from the internet; here they are served beside the pages, so no network is used.
INDEX_HTML is the page that github-action-benchmark writes. Last come our pages of 10,000 series, each of which has
regressed. With ``--server``, only the pages of a running `torchperf serve` are measured. Needs Debian's chromium.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).parents[1] / "tests/support"))
sys.path.append(str(Path(__file__).parents[1] / "tests/web"))

from chromium import chromium
from filled_store import DAYS, RUN, fill
from peer_pages import put_asv, put_peer
from report import print_table
from test_many_series import documents

from torchperf_ci import config
from torchperf_ci.store.migrations import open_store
from torchperf_ci.web.command import PAGES
from torchperf_ci.web.documents import Documents

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from playwright.sync_api import Browser, Response

ROUNDS = 5
PATIENCE = 240
DRAWN = "document.querySelector('main:not([aria-busy]) > *')"
CHART = "document.querySelector('.canvas canvas') && document.querySelector('table')"
FINDING = """async () => {
    const field = document.querySelector('input[type=search]')
    const began = performance.now()
    field.value = 'model17 latency'
    field.dispatchEvent(new Event('input'))
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)))
    return performance.now() - began
}"""
SORTING = """async () => {
    const began = performance.now()
    document.querySelector('th button').click()
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)))
    return performance.now() - began
}"""


@dataclass(frozen=True)
class View:
    """A page, and how to see that it is drawn; ``act`` then takes milliseconds."""

    name: str
    address: str
    drawn: str
    act: str = ""


@dataclass(frozen=True)
class Visit:
    """``painted``: anything at all; ``drawn``: the data. Seconds by the clock; ``processor`` is the page's own."""

    painted: float
    drawn: float
    processor: float
    requests: int
    size: int
    compressed: int
    acted: float | None


def main() -> None:
    """The same year on all pages; then ours alone, of very much."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("packages", type=Path, nargs="?")
    parser.add_argument("--server", help="URL of the pages to measure instead of all others")
    parser.add_argument("--asv", default="asv", help="the program")
    parser.add_argument("--peer", type=Path, help="index.html of github-action-benchmark")
    parser.add_argument("--series", type=int, nargs="*", default=[100, RUN])
    parser.add_argument("--folder", help="where the pages are made, and taken from the next time")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        if options.server:
            with urllib.request.urlopen(f"{options.server}data/index.json", timeout=PATIENCE) as answer:
                views = our_views(options.server, json.load(answer))
            print_table("Pages of the server", HEAD, table_of(taken_in_turns(browser, views, options.rounds)))
            return
        folder = Path(options.folder or name)
        if options.series and not (folder / "ours").exists():
            put_site(folder / "ours")
        for count in options.series:
            compare(browser, folder, count, options)
        put_many(folder / "many")
        with serving(folder / "many") as address:
            views = [
                View("overview", address, DRAWN),
                View("find a series, typing", f"{address}series/", DRAWN, FINDING),
                View("regressions, sorting", f"{address}regressions/", DRAWN, SORTING),
                View("runs, sorting", f"{address}run/", DRAWN, SORTING),
            ]
            visits = taken_in_turns(browser, views, options.rounds)
        print_table("10,000 series on five machines, all of them regressed", HEAD, table_of(visits))


def put_many(folder: Path) -> None:
    """Our pages of 10,000 series, of which each has regressed."""
    shutil.copytree(PAGES, folder, dirs_exist_ok=True)
    for path, content in documents().items():
        put(folder / "data" / path, content)


def compare(browser: Browser, folder: Path, count: int, options: Any) -> None:
    """Print what each page of ``count`` series takes."""
    index = json.loads((folder / "ours/data/index.json").read_text())
    rows = numbers_of_site(folder / "ours", index, count)
    if not (folder / f"peer{count}").exists():
        put_asv(folder / f"asv{count}", rows, options.asv, options.packages)
        put_peer(folder / f"peer{count}", rows, options.peer, options.packages)
    first = f"time.{next(iter(rows))}"
    with serving(folder) as address:
        views = [
            *(our_views(f"{address}ours/", index) if count == RUN else ()),
            View(
                "asv: grid", f"{address}asv{count}/html/", "document.querySelector('.benchmark-plot canvas')"
            ),
            View(
                "asv: one benchmark",
                f"{address}asv{count}/html/#{first}",
                "document.querySelector('#main-graph canvas')",
            ),
            View(
                "asv: list",
                f"{address}asv{count}/html/#/summarylist",
                "document.querySelector('#summarylist-body tbody tr')",
            ),
            View(
                "github-action-benchmark",
                f"{address}peer{count}/",
                f"document.querySelectorAll('.chartjs-render-monitor').length >= {count}",
            ),
        ]
        visits = taken_in_turns(browser, views, options.rounds)
    print_table(f"A year of {count:,} series", HEAD, table_of(visits))


def our_views(address: str, index: Any) -> list[View]:
    """Each page as it is seen first, of the series with the most points."""
    some = [row[0] for row in index["series"][:: max(1, len(index["series"]) // 20)]][:20]
    latency = index["names"]["metric"].index("latency(ms)")
    one = next(row[0] for row in index["series"] if row[1 + index["fields"].index("metric")] == latency)
    return [
        View("overview", address, DRAWN),
        View("find a series, typing", f"{address}series/", DRAWN, FINDING),
        View("one series", f"{address}series/?s={one}", CHART, SORTING),
        View("20 series in one chart", f"{address}series/?s={','.join(some)}", CHART),
        View("regressions, sorting", f"{address}regressions/", DRAWN, SORTING),
        View("a run", f"{address}run/?id={index['runs'][0]['id']}", DRAWN),
        View(
            "two runs compared",
            f"{address}compare/?base={index['comparisons'][0][0]}&head={index['comparisons'][0][1]}",
            DRAWN,
        ),
    ]


def put_site(folder: Path) -> None:
    """A year of nights of 1,000 series, ours; of runs and comparisons the newest alone."""
    shutil.copytree(PAGES, folder)
    with tempfile.TemporaryDirectory() as store_folder, open_store(f"chdb://{store_folder}/store") as store:
        fill(store, RUN * DAYS)
        ours = Documents(store, config.Config())
        for path, content in ours.everything():
            if path.startswith("run/"):
                break
            put(folder / "data" / path, content)
        base, head = json.loads((folder / "data/index.json").read_text())["comparisons"][0]
        for path in (f"run/{head}.json", f"compare/{base}/{head}.json"):
            put(folder / "data" / path, ours.document(path))


def put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def numbers_of_site(site: Path, index: Any, count: int) -> dict[str, list[float]]:
    """The values of some of its series, by a name that every tool takes."""
    found = {}
    for row in index["series"][:count]:
        names = [index["names"][field][row[1 + place]] for place, field in enumerate(index["fields"])]
        document = json.loads((site / f"data/series/{row[0]}/2026.json").read_text())
        name = re.sub(r"\W+", "_", f"{names[index['fields'].index('model')]} {names[-1]}")
        found[name] = document["points"]["value"]
    return found


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a folder's web server, a process of its own."""
    command = [
        sys.executable,
        "-u",
        "-m",
        "http.server",
        "0",
        "--bind",
        "127.0.0.1",
        "--directory",
        str(folder),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        port = re.search(r"port (\d+)", process.stdout.readline())
        assert port
        try:
            yield f"http://127.0.0.1:{port[1]}/"
        finally:
            process.terminate()


def taken_in_turns(browser: Browser, views: Sequence[View], rounds: int) -> dict[str, list[Visit]]:
    """Every page once, and again; one that is never drawn is not asked again."""
    visits: dict[str, list[Visit]] = {view.name: [] for view in views}
    for turn in range(rounds):
        for view in views:
            if turn and not visits[view.name]:
                continue
            if found := visit(browser, view):
                visits[view.name].append(found)
    return visits


def visit(browser: Browser, view: View) -> Visit | None:
    """A page in a browser that has nothing in memory; None if it is not drawn in time."""
    from playwright.sync_api import Error

    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    answers: list[Response] = []

    def keep(answer: Response) -> None:
        answers.append(answer)

    page.on("response", keep)
    try:
        client = context.new_cdp_session(page)
        client.send("Performance.enable")
        page.goto(view.address, wait_until="commit", timeout=PATIENCE * 1000)
        drawn = f"() => ({view.drawn}) ? performance.now() : 0"
        told = page.wait_for_function(drawn, timeout=PATIENCE * 1000, polling=50).json_value()
        painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0")
        metrics = {one["name"]: one["value"] for one in client.send("Performance.getMetrics")["metrics"]}
        acted = page.evaluate(view.act) if view.act else None
        bodies = [answer.body() for answer in answers]
    except Error:
        return None
    finally:
        context.close()
    return Visit(
        painted / 1000,
        told / 1000,
        metrics["ProcessTime"],
        len(bodies),
        sum(map(len, bodies)),
        sum(len(gzip.compress(body)) for body in bodies),
        acted,
    )


HEAD = (
    "page",
    "first paint (s)",
    "drawn (s)",
    "CPU (s)",
    "requests",
    "kB",
    "kB with gzip",
    "then acts in (ms)",
)


def table_of(visits: Mapping[str, Sequence[Visit]]) -> list[Sequence[str]]:
    """Medians."""
    rows: list[Sequence[str]] = []
    for name, found in visits.items():
        if not found:
            rows.append([name, f"not within {PATIENCE} s", *[""] * (len(HEAD) - 2)])
            continue

        def middle(pick: str, found: Sequence[Visit] = found) -> float:
            return float(median(getattr(one, pick) for one in found))

        rows.append(
            [
                *(name, f"{middle('painted'):.2f}", f"{middle('drawn'):.2f}", f"{middle('processor'):.2f}"),
                *(
                    f"{found[0].requests}",
                    f"{found[0].size / 1000:,.0f}",
                    f"{found[0].compressed / 1000:,.0f}",
                ),
                f"{middle('acted'):.0f}" if found[0].acted is not None else "",
            ]
        )
    return rows


if __name__ == "__main__":
    main()
