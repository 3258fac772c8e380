"""What an issue says first: what happened, who did it and how sure that is, and what to do next."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torchperf_ci.actions import one_line
from torchperf_ci.culprits.markdown import links
from torchperf_ci.culprits.words import byline, count, details, name
from torchperf_ci.report.issues.causes.findings import failing
from torchperf_ci.report.issues.texts.reproducing import reproducing
from torchperf_ci.report.issues.texts.words import machines, plain, what_got_worse
from torchperf_ci.verdicts.again import code
from torchperf_ci.verdicts.rows import change
from torchperf_ci.verdicts.turn import turn_of

if TYPE_CHECKING:
    from torchperf_ci.culprits.culprit import Culprit
    from torchperf_ci.report.issues.causes.finding import Finding
    from torchperf_ci.report.issues.texts.context import Context

_DETAIL_LENGTH = 600
_WARNINGS = 5
_LOGIN = re.compile(r"[A-Za-z0-9](?:[\w-]{0,38})", re.ASCII)
_MEANT = "If this is meant: add the label `torchperf: expected`."
_CLOSES = "This issue closes itself when the numbers are back."


def said_first(finding: Finding, context: Context) -> list[str]:
    """Paragraphs of Markdown."""
    if finding.culprit:
        said = _of_culprit(finding, finding.culprit, context)
    else:
        said = _of_broken(finding) if finding.kind == "broken" else _without_culprit(finding)
    warnings = "\n>\n".join(f"> {plain(warning)}" for warning in finding.warnings[:_WARNINGS])
    return [*said, warnings] if warnings else said


def _of_culprit(finding: Finding, culprit: Culprit, context: Context) -> list[str]:
    mention = f" (@{context.author_login})" if _LOGIN.fullmatch(context.author_login or "") else ""
    pairs = f" in {count(culprit.effect.pairs, 'pair')} of measurements" if culprit.effect.pairs else ""
    against = "the commit before it" if culprit.commit else "the commit before them"
    measured = f"Measured against {against}: **{plain(change(culprit.effect))}**{pairs}"
    who = f"{plain(byline(culprit))}{links(culprit, context.server)}{mention}"
    return [
        f"{_what(finding)}.",
        f"**Culprit: {plain(name(culprit))}** {who}. {measured}.",
        *(plain(detail, _DETAIL_LENGTH) for detail in details(culprit)),
        f"**Next step:** fix or revert it. {_CLOSES} {_MEANT}",
    ]


def _without_culprit(finding: Finding) -> list[str]:
    location = finding.location
    credible = location.credible if location else ()
    if credible:
        step = "look at the suspects below"
    elif reproducing(finding).lines:
        step = "bisect it by the command below"
    elif ends := turn_of(finding.verdicts[0]).range:
        step = f"bisect it between {ends.good} and {ends.bad}"
    else:
        step = "find out between which commits it got worse, and bisect it"
    return [
        f"{_what(finding)}, and **no commit is proven** to have done it. {plain(finding.why)}",
        f"**Next step:** {step}. A culprit that is found later is named here. {_CLOSES} {_MEANT}",
    ]


def _what(finding: Finding) -> str:
    return f"**{plain(what_got_worse(finding.rows) or 'Something got slower')}**"


def _of_broken(finding: Finding) -> list[str]:
    runs = int(max(map(failing, finding.verdicts), default=0))
    since = f", in the last {count(runs, 'run')}" if runs else ""
    model, where = finding.rows[0].series.model, machines(finding.rows)
    return [
        f"**{plain(model)} fails** {plain(where)}{since}. Its last error:",
        code([one_line(finding.why)]),
        "**Next step:** run it by itself. This issue closes itself when it passes again.",
    ]
