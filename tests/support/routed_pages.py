"""The dashboard's pages in a browser, with documents from a function and without a server."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torchperf_ci.web.command import PAGES

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page, Route

ADDRESS = "http://routed.test/"


def route_pages(page: Page, document: Callable[[str], bytes | None]) -> None:
    """Answer what ``page`` asks of :data:`ADDRESS`; ``document`` gets a path below ``data/``, None is a 404."""

    def answer(route: Route) -> None:
        path = re.sub(r"\?.*", "", route.request.url.removeprefix(ADDRESS))
        if path.startswith("data/"):
            body = document(path.removeprefix("data/"))
            route.fulfill(
                body=body or b"", status=404 if body is None else 200, content_type="application/json"
            )
        else:
            file = PAGES / path
            route.fulfill(path=file / "index.html" if file.is_dir() else file)

    page.route("**/*", answer)
