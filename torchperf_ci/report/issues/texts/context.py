"""What the text of an issue needs to know beside the finding."""

from __future__ import annotations

from dataclasses import dataclass

from torchperf_ci.culprits.markdown import GITHUB


@dataclass(frozen=True)
class Context:
    """``night`` is an ISO date, ``run_url`` the page of the run that reports, ``server`` the GitHub it is on.

    ``author_login`` is that of the culprit's author where he or she is to be told; else nobody is.
    """

    night: str
    run_url: str = ""
    server: str = GITHUB
    author_login: str | None = None
