"""What is asked of every case."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torchperf_ci.series import policy

if TYPE_CHECKING:
    from torchperf_ci.config import Config


@dataclass(frozen=True)
class Policy:
    """What matters of a metric: the configuration's policy, but from ``min_effect`` on where that is given."""

    config: Config
    min_effect: float | None = None

    def rule(self, metric: str) -> policy.MetricRule:
        """The direction, the kind and the smallest change that matters."""
        found = policy.rule(metric, self.config.policy)
        return replace(found, min_effect=self.min_effect or found.min_effect)
