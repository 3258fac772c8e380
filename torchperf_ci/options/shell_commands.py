"""The options of the command that is for shells: ``completion``."""

from __future__ import annotations

from dataclasses import dataclass

from torchperf_ci.options.option import option


@dataclass(frozen=True)
class CompletionOptions:
    """The options of ``torchperf completion``."""

    shell: str | None = option("SHELL", "bash, zsh or fish", metavar="SHELL", choices=("bash", "zsh", "fish"))
