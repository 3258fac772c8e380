"""How somebody else makes the same comparison, in a clone of the repository."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torchperf_ci.environments.repository import Revision
from torchperf_ci.environments.spec import Wheel
from torchperf_ci.git import without_secrets
from torchperf_ci.verdicts.portable import portable
from torchperf_ci.verdicts.verdict import Again

if TYPE_CHECKING:
    from torchperf_ci.compare.sides import ComparedBuild
    from torchperf_ci.options import CompareOptions

_OPTIONS = ("config", "suite", "build", "device", "batch_size", "threads", "min_effect")
_RELEASE = re.compile(r"\d+(\.\d+)+(\.post\d+)?")


def again(options: CompareOptions, base: ComparedBuild, head: ComparedBuild) -> Again | None:
    """The same for a clone; None where a side is a build that nobody else has."""
    old, new = _named(base), _named(head)
    if not (old and new) or old == new:
        return None
    build = without_secrets(options.build) if options.build else None
    words, folder = portable({**vars(options), "build": build}, _OPTIONS)
    imported = isinstance(head.spec, Revision) and not build
    return Again(old, new, words, folder, head.torch if imported else "")


def _named(side: ComparedBuild) -> str:
    """What ``compare`` takes for a side elsewhere: a commit, or a release; empty where it is neither."""
    if isinstance(side.spec, Revision):
        return side.spec.sha
    if isinstance(side.spec, Wheel) and re.fullmatch(rf"torch=={_RELEASE.pattern}", side.spec.requirement):
        return side.spec.requirement
    version = side.torch.partition("+")[0]
    return f"torch=={version}" if _RELEASE.fullmatch(version) else ""
