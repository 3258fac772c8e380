"""A command that ends when its terminal does, also if whatever runs the tests, such as nohup, ignores that."""

from __future__ import annotations

import sys

HEEDING_HANGUPS = (
    sys.executable,
    "-c",
    "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])",
)
"""To be put before the command."""
