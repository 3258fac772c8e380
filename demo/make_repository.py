"""Make the repository that ``make demo`` bisects.

python demo/make_repository.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from planted_changes import quadratic
from slowed_repository import make_repository

COMMITS = 12
PLANTED = 7


def main() -> None:
    """Make it, and say what is hidden in it."""
    repository = make_repository(Path(sys.argv[1]), {PLANTED: quadratic()}, COMMITS)
    print(
        f"{repository.path} has {COMMITS} commits after the first one; "
        f"{repository.sha(PLANTED)[:10]} makes a step about 1.5 times as slow, and the others do nothing to it"
    )


if __name__ == "__main__":
    main()
