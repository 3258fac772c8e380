#!/usr/bin/env python3
"""What release.yml asks before it publishes: is this tag this version, what is new in it, is everything packed?

python .ci/release.py notes v1.2.0           prints the tag's section of CHANGELOG.md
python .ci/release.py check v1.2.0 dist      ends with an error unless tag, version, changelog and files agree
python .ci/release.py contents dist          the same for the files alone
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

PROJECT = Path(__file__).parents[1]
PACKAGE = "torchperf_ci"
BESIDE = ("CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml")


def notes(changelog: str, tag: str) -> str:
    """The text below the heading of the tag's version; it has a date, so that an unfinished one is told."""
    heading = re.compile(rf"^## \[{re.escape(tag.removeprefix('v'))}\] - \d{{4}}-\d\d-\d\d$", re.MULTILINE)
    found = heading.search(changelog)
    if not found:
        sys.exit(
            f"CHANGELOG.md has no '## [{tag.removeprefix('v')}] - DATE': rename [Unreleased] before you tag"
        )
    rest = changelog[found.end() :]
    end = re.search(r"^(## |\[[^\]]+\]: )", rest, re.MULTILINE)
    return rest[: end.start() if end else None].strip() + "\n"


def version() -> str:
    """The package's own."""
    text = (PROJECT / PACKAGE / "__init__.py").read_text("utf-8")
    return re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)[0]


def missing(folder: Path) -> list[str]:
    """The files of the repository that the one wheel or the one sdist in ``folder`` should have, and has not."""
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    git = ("git", "ls-files", "-z", PACKAGE, "workflows-templates")
    tracked = subprocess.run(git, cwd=PROJECT, check=True, capture_output=True, text=True).stdout
    files = [name for name in tracked.split("\0") if name]
    with zipfile.ZipFile(wheel) as packed:
        in_wheel = set(packed.namelist())
    with tarfile.open(sdist) as unpacked:
        in_sdist = {name.partition("/")[2] for name in unpacked.getnames()}
    names = {Path(name).name for name in in_wheel}
    lost = [f"{wheel.name}: {name}" for name in files if name.startswith(PACKAGE) and name not in in_wheel]
    # Wherever in the package they lie.
    lost += [
        f"{wheel.name}: {name}" for name in files if "-templates/" in name and Path(name).name not in names
    ]
    return lost + [f"{sdist.name}: {name}" for name in (*files, *BESIDE) if name not in in_sdist]


def main() -> None:
    """Answer; an error is the exit code 1."""
    command, *rest = sys.argv[1:]
    if command == "notes":
        print(notes((PROJECT / "CHANGELOG.md").read_text("utf-8"), rest[0]), end="")
        return
    if command == "check":
        notes((PROJECT / "CHANGELOG.md").read_text("utf-8"), rest[0])
        if rest[0] != f"v{version()}":
            sys.exit(f"the tag is {rest[0]}, and torchperf_ci/__init__.py says {version()}")
    if lost := missing(Path(rest[-1])):
        sys.exit("\n".join(["not packed:", *lost]))


if __name__ == "__main__":
    main()
