"""A report as one comment on the pull request."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from torchperf_ci import actions
from torchperf_ci.console import say
from torchperf_ci.deadline import Deadline
from torchperf_ci.report import comment
from torchperf_ci.report.destinations.outside import out, repository, server, why_silent, write
from torchperf_ci.report.github import asking
from torchperf_ci.report.measured import measured
from torchperf_ci.report.pull_request import NobodyWaitsError, find

if TYPE_CHECKING:
    from torchperf_ci.options import ReportOptions
    from torchperf_ci.report.told import Told

_SECONDS = 120.0
"""Most of them that GitHub may take in all."""


def tell(told: Told, options: ReportOptions) -> None:
    """Comment, or update the comment; where nothing was judged, only update it."""
    of, judged = measured(options, os.environ), not options.unjudged
    text = comment.body(told, of, server(os.environ)) if judged else comment.body_of_nothing(of)
    if why := why_silent(options, os.environ):
        write(out(options), {"comment.md": text})
        say(f"nothing is commented: {why}")
        return
    with asking(repository(options, os.environ), os.environ, Deadline.after(_SECONDS)) as ask:
        try:
            pulls = find(ask, of)
        except NobodyWaitsError as reason:
            say(f"nothing is commented: {reason}")
            actions.annotate([actions.Annotation("notice", str(reason), title="Nothing is commented")])
            return
        revised = None if judged else partial(comment.after_nothing, measured=of)
        urls = [url for pull in pulls if (url := comment.put(ask, pull.number, text, revised=revised))]
    say(f"commented: {', '.join(urls)}" if urls else "nothing is commented: there is no comment to update")
    actions.set_output("comment-url", "\n".join(urls))
