"""Entry point of ``python -m torchperf_ci`` and of the command ``torchperf``."""

from __future__ import annotations

import sys


def main() -> int:
    """Import and run the command line; handle a Ctrl-C that comes during the imports."""
    try:
        from torchperf_ci.cli import main as run

        return run()
    except KeyboardInterrupt:
        from torchperf_ci.interruption import command_line, program

        sys.stderr.write(f"torchperf: stopped by Ctrl-C; nothing was begun: {command_line((), program())}\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
