"""Debian's chromium without network access."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a screen."""
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    assert path, "chromium is missing: `apt-get install chromium`"
    arguments = ["--no-sandbox", "--disable-background-networking", "--disable-gpu"]
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=arguments)
        yield running
        running.close()
