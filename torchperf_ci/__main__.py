"""``python -m torchperf_ci`` and the command ``torchperf``."""

from __future__ import annotations

import sys

from torchperf_ci.cli import main

if __name__ == "__main__":
    sys.exit(main())
