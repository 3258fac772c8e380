"""A page of the dashboard, and whatever a browser complains of while it is open."""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from playwright.sync_api import Error
from process_table import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

WIDE: ViewportSize = {"width": 1280, "height": 900}

NOTE_TEXTS = """
window.texts = [];
const fill = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...more) {
  texts.push(text);
  fill.call(this, text, ...more);
};
"""
"""Notes all texts that are drawn."""


class Watched:
    """A page, and whatever a browser complains of meanwhile."""

    def __init__(self, page: Page, address: str) -> None:
        self.page, self.address = page, address
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        self.documents: list[str] = []
        page.add_init_script(
            "addEventListener('securitypolicyviolation', (e) => console.error('policy ' + e.violatedDirective))"
        )
        page.on("console", lambda told: self.complaints.append(told.text) if told.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda asked: self._look_at(asked.url))

    def _look_at(self, url: str) -> None:
        if not url.startswith((self.address, "blob:")):
            self.foreign.append(url)
        if url.startswith(f"{self.address}data/"):
            self.documents.append(url.removeprefix(f"{self.address}data/"))

    def open(self, path: str) -> Page:
        """Go there, and wait until it is drawn."""
        self.page.goto(self.address + path)
        self.drawn()
        return self.page

    def drawn(self) -> None:
        self.page.wait_for_selector("main:not([aria-busy]) > *")

    def canvases_in_memory(self) -> int:
        """How many there are after a collection, which may leave some that a busy browser has just dropped."""
        inspector = self.page.context.new_cdp_session(self.page)
        canvas = inspector.send("Runtime.evaluate", {"expression": "HTMLCanvasElement.prototype"})["result"]
        found = inspector.send("Runtime.queryObjects", {"prototypeObjectId": canvas["objectId"]})["objects"]
        count = {"objectId": found["objectId"], "functionDeclaration": "function () { return this.length; }"}
        number: int = inspector.send("Runtime.callFunctionOn", count)["result"]["value"]
        inspector.detach()  # it would hold what it has found
        return number

    def until(self, expression: str) -> None:
        """Wait until it is true. Chromium cannot wait for it: the page's policy forbids to evaluate it twice."""

        def is_so() -> object:
            with suppress(Error):  # the page is just being loaded
                return self.page.evaluate(expression)
            return False

        wait_until(is_so)


@contextmanager
def watching(browser: Browser, address: str, **more: Any) -> Iterator[Watched]:
    """A new page; in the end nobody has complained, nothing hostile is an element, and nobody else was asked."""
    context = browser.new_context(**{"viewport": WIDE, **more}) if more else _plain_context(browser)
    found = Watched(context.new_page(), address)
    yield found
    assert found.complaints == []
    assert found.foreign == []
    assert found.page.locator("#injected, main script, main img").count() == 0
    (context if more else found.page).close()


@cache
def _plain_context(browser: Browser) -> BrowserContext:
    """One for all pages: ours keep nothing in a browser. A first page, which stays, keeps what draws them running."""
    context = browser.new_context(viewport=WIDE)
    context.new_page()
    return context


def identities(site: Path, model: str) -> list[str]:
    index = json.loads((site / "data" / "index.json").read_text())
    place = index["names"]["model"].index(model)
    metric = index["names"]["metric"].index("latency(ms)")
    return [row[0] for row in index["series"] if row[3] == place and row[9] == metric]


def comparison(site: Path) -> tuple[str, str]:
    base, head = json.loads((site / "data" / "index.json").read_text())["comparisons"][0]
    return base, head
