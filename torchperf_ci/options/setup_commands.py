"""The options of the commands that set up a repository or a shell: ``init`` and ``completion``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from torchperf_ci.options.option import option, switch


def action_reference(value: str) -> str:
    """A repository of torchperf-ci and a commit, tag or branch of it, as in OWNER/torchperf-ci@v1."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*/[A-Za-z0-9._-]+@[A-Za-z0-9][A-Za-z0-9._/-]*", value):
        raise ValueError
    return value


@dataclass(frozen=True)
class InitOptions:
    """Set up this repository: torchperf.yml, workflows and a working suite. Overwrites nothing.

    torchperf init --dry-run
    """

    uses: str | None = option(
        "Repository and ref of torchperf's actions in the workflows",
        action_reference,
        metavar="OWNER/NAME@REF",
        otherwise="the GitHub commit that this torchperf was installed from, else OWNER/torchperf-ci@v1",
    )
    dry_run: bool = switch("Print the files without writing them")


@dataclass(frozen=True)
class CompletionOptions:
    """Print a shell completion script for torchperf's commands, options and values.

    torchperf completion bash >> ~/.bashrc
    """

    shell: str | None = option("bash, zsh or fish", choices=("bash", "zsh", "fish"), positional=True)
