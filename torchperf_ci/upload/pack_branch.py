"""The command ``torchperf pack``, which packs old records on a data branch."""

from __future__ import annotations

import datetime
import os
from typing import TYPE_CHECKING

from torchperf_ci import actions, config
from torchperf_ci.console import say
from torchperf_ci.document import counted
from torchperf_ci.errors import UsageError
from torchperf_ci.places.branch import BranchPlace
from torchperf_ci.places.packs import QUARTER, month_before
from torchperf_ci.places.place import PlaceAccess

if TYPE_CHECKING:
    from torchperf_ci.options.keeping_commands import PackOptions


_BRANCH = "branch:"
_SECONDS = 3600.0
"""Most seconds for packing. Years of nightly records that were never packed take minutes."""


def pack_command(options: PackOptions) -> int:
    """Pack the data branch. If uploads go to another place this does nothing, so any nightly workflow can call it."""
    target = options.place or config.find(options.config).upload.destination or ""
    if options.place and not target.startswith(_BRANCH):
        msg = f"{target}: only a data branch is packed; give branch:NAME[@REMOTE]"
        raise UsageError(msg)
    if not target.startswith(_BRANCH):
        say("records are kept on no data branch: there is nothing to pack")
        return 0
    token = os.environ.get("GITHUB_TOKEN", "")
    access = PlaceAccess(deadline=_SECONDS, git_token=token, mask=actions.mask)
    first_kept = month_before(datetime.datetime.now(datetime.timezone.utc).date(), QUARTER)
    outcome = BranchPlace.at(target, access).pack(first_kept)
    if outcome.files:
        say(
            f"{counted(outcome.files, 'file')} from before {first_kept} packed into {', '.join(outcome.packs)}"
        )
    else:
        say(f"everything from before {first_kept} is packed")
    return 0
