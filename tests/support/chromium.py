"""Debian's chromium without network access."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser


ADDRESS_BAR = ("WebUIOmniboxPopup", "WebUIOmniboxAimPopup")
ONE_PROCESS = ("--renderer-process-limit=1", "--disable-site-isolation-trials")
"""All pages of a context are drawn by one process: to start one took a third of a short test's CPU time."""
KEPT_OFF = ("HttpsUpgrades", "HttpsFirstBalancedModeAutoEnable", "PaintHolding", "PreconnectToSearch")
"""Features of the browser: the pages of each window's address bar, which took half of all CPU time, and what matters
here of Playwright's own list, which ours replaces."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a screen."""
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    assert path, "chromium is missing: `apt-get install chromium`"
    arguments = ["--no-sandbox", "--disable-background-networking", "--disable-gpu", *ONE_PROCESS]
    arguments += [f"--disable-features={','.join(ADDRESS_BAR + KEPT_OFF)}"]
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=arguments)
        yield running
        running.close()
