"""What ``torchperf compare`` does with its options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_ci import config
from torchperf_ci.compare.builds import compare_builds
from torchperf_ci.compare.folders import compare_folders, holds_records
from torchperf_ci.compare.question import Policy
from torchperf_ci.environments.spec import names_commit
from torchperf_ci.errors import UsageError
from torchperf_ci.verdicts.headline import GREEN, sign
from torchperf_ci.verdicts.telling import tell

if TYPE_CHECKING:
    from torchperf_ci.config import Config
    from torchperf_ci.options import CompareOptions
    from torchperf_ci.verdicts.verdict import Judgement

DEFAULT_OUT = "verdicts.json"
INCONCLUSIVE = 5


def compare_command(options: CompareOptions) -> int:
    """Compare, tell people, and say with the exit code whether head is worse."""
    for flag, given in (("base", options.base), ("head", options.head)):
        if not given:
            msg = f"compare what? give a Python, a wheel, a revision or a directory of records with --{flag}"
            raise UsageError(msg)
    options = replace(options, out=options.out or DEFAULT_OUT)
    code = _exit_code(_compared(options, config.find(options.config)))
    return 0 if options.on_failure == "warn" else code


def _compared(options: CompareOptions, given: Config) -> Judgement:
    repo = Path(options.repo or ".")
    sides = {"base": options.base or "", "head": options.head or ""}
    records = [flag for flag, side in sides.items() if _are_records(side, repo)]
    out, json_output = Path(options.out or DEFAULT_OUT), options.json
    policy = Policy(given, options.min_effect)

    def publish(judgement: Judgement) -> Judgement:
        tell(judgement, out, json_output=json_output)
        return judgement

    if len(records) == 1:
        [flag] = records
        msg = f"--{flag} {sides[flag]} holds records, and records are only compared with records"
        raise UsageError(msg)
    if records:
        return publish(compare_folders(Path(sides["base"]), Path(sides["head"]), policy))
    return compare_builds(options, given, policy, publish)


def _are_records(given: str, repo: Path) -> bool:
    """A directory in a checkout, which anybody may have added, does not stand for a commit of the same name."""
    return holds_records(Path(given)) and not names_commit(given, repo)


def _exit_code(judgement: Judgement) -> int:
    """What the mark of the report says: 0 for ✅, 1 for ❌, 5 where something looks worse or too little was judged."""
    if judgement.red:
        return 1
    return 0 if sign([judgement]) == GREEN else INCONCLUSIVE
