"""The worker: runs in the environment under test, which needs torch and the standard library, nothing else."""

from __future__ import annotations
