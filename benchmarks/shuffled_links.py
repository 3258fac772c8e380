"""Test `torchperf bisect` on a real C++ extension whose speed depends on the order in which it is linked.

    python benchmarks/shuffled_links.py offsets [DRAWS] [--out FILE]
    python benchmarks/shuffled_links.py bisect [TRIALS] [--first TRIAL] [--without]

``offsets`` builds one commit repeatedly, each time linked in another order, and compares each build with the first one,
and the first one with itself. ``bisect`` creates a repository of 24 commits, each of which adds code that is never
called, which moves the code after it; one of them makes 5% more iterations, or none does (``--without``). Then it runs
the command as users do. The trial's number seeds all draws, so a long series of trials can be run in parts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from statistics import median, stdev
from typing import TYPE_CHECKING

from report import print_table

from torchperf_ci import cli
from torchperf_ci.bench import user_command
from torchperf_ci.bench.case import Settings
from torchperf_ci.bench.user_command import InstalledBuild, measure_command_pair
from torchperf_ci.bisect.probes import read_command_output
from torchperf_ci.culprits.culprit import read_culprits
from torchperf_ci.environments.build_environment import Builder, open_environment
from torchperf_ci.environments.revisions import Revision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_ci.culprits.culprit import Bisection

SEED = 14
COMMITS = 24
PARTS = 16
ITERATIONS = 100
SLOWER = 5
QUADS = 2
"""A run is the least of thousands, so a pair needs few."""
PAIRS = 12
"""Of each two builds, where offsets are looked at."""
MASKS = (1, 2, 3, 4, 5, 6)

# Objects come from a cache, as with ccache; what is done anew is the link alone, in an order that the seed decides.
BUILD = r"""set -e
for source in *.cpp; do
  object=$OBJECTS/$(cksum <"$source" | tr ' ' -).o
  if ! test -e "$object"; then
    g++ -O1 -fno-if-conversion -fno-if-conversion2 -falign-functions=1 -fPIC -c "$source" -o "$object.new"
    mv "$object.new" "$object"
  fi
  echo "$object"
done >objects
awk -v seed="$SEED" 'BEGIN { srand(seed) } { print (seed ? rand() : 0) "\t" $0 }' objects | sort -s -n -k 1,1 |
  cut -f 2 >order
g++ -shared -Wl,-Bsymbolic -o "$ENV/kernel.so" $(cat order)
"""
MEASURE = f"""
import ctypes, sys, time
run = ctypes.CDLL(sys.prefix + "/kernel.so").run
def nanoseconds():
    start = time.perf_counter_ns()
    run({ITERATIONS})
    return time.perf_counter_ns() - start
print(min(nanoseconds() for _ in range(4000)))
"""
COMMAND = "{python} {worktree}/measure.py"
HEADER = (
    "trial",
    "slower since",
    "outcome",
    "named",
    "told effect (95%)",
    "on builds",
    "pairs",
    "builds",
    "seconds",
)


@dataclass(frozen=True)
class Trial:
    """``position`` is that of the commit which is slower, from 1 to 24; None where none is."""

    number: int
    position: int | None


def make_repository(folder: Path, trial: Trial) -> list[str]:
    """The SHAs of a repository in ``folder``, which has the first commit and 24 more."""
    random = Random(SEED * 1000 + trial.number)
    git = partial(_git, folder)
    folder.mkdir()
    git("init", "--quiet", "--initial-branch=main")
    (folder / "build.sh").write_text(BUILD)
    (folder / "measure.py").write_text(MEASURE)
    for part in range(PARTS):
        (folder / f"part{part:02}.cpp").write_text(_part(part))
    shas = []
    for position in range(COMMITS + 1):
        if position:
            with (folder / f"part{random.randrange(PARTS):02}.cpp").open("a") as source:
                source.write(_function(f"extra{position}", Random(random.random())))
        (folder / "run.cpp").write_text(
            _run(slower=trial.position is not None and position >= trial.position)
        )
        git("add", "--all")
        git("commit", "--quiet", "--message", f"Change {position}")
        shas.append(git("rev-parse", "HEAD"))
    return shas


def _git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    done = subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _part(number: int) -> str:
    return _function(f"part{number}", Random(number))


def _function(name: str, random: Random) -> str:
    """Branches that a processor can foresee, if others do not share its tables with them: that is a matter of place."""
    lines = [
        f"  if (k & {random.choice(MASKS)}) x += y ^ {random.randrange(1, 2**20)}u;"
        f" else y += {random.randrange(1, 2**20)}u;\n"
        '  asm volatile("" : "+r"(x), "+r"(y));\n'
        for _ in range(random.randint(2, 7))
    ]
    body = "".join(lines)
    return f'extern "C" unsigned {name}(unsigned x, unsigned k) {{\n  unsigned y = k;\n{body}  return x + y;\n}}\n'


def _run(*, slower: bool) -> str:
    names = [f"part{number}" for number in range(PARTS)]
    known = "".join(f'extern "C" unsigned {name}(unsigned, unsigned);\n' for name in names)
    calls = "".join(f"    x += {name}(x, k);\n" for name in names)
    more = f" + n / {100 // SLOWER}" if slower else ""
    return (
        f'{known}extern "C" unsigned run(unsigned n) {{\n  unsigned x = 1;\n'
        f"  for (unsigned k = 0; k < n{more}; ++k) {{\n{calls}  }}\n  return x;\n}}\n"
    )


def without_pip(folder: Path) -> str:
    """A Python that makes virtual environments in no time."""
    python = folder / "python"
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *"-m venv"*) exec {sys.executable} "$@" --without-pip ;; esac\n'
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    return str(python)


def offsets(draws: int, out: Path | None) -> None:
    """What builds of one commit differ by; what each pair read goes to ``out``, for docs/draw_build_luck.py."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        sha = make_repository(folder / "kernel", Trial(0, None))[0]
        builder = Builder(without_pip(folder), "sh build.sh")
        installed = []
        for draw in range(draws + 1):
            made = stack.enter_context(open_environment(Revision(folder / "kernel", sha, ""), builder, draw))
            settings = Settings(made.python, "cpu", cpus=tuple(sorted(os.sched_getaffinity(0)))[-1:])
            installed.append(InstalledBuild(settings, sha, made.worktree, folder / f"{draw}"))
        ratios = {
            draw: [_ratio(installed[0], installed[draw]) for _ in range(PAIRS)] for draw in range(draws + 1)
        }
    if out:
        out.write_text(json.dumps([[round(ratio, 5) for ratio in found] for found in ratios.values()]) + "\n")
    rows = [
        [
            f"{draw}" if draw else "0, itself",
            f"{median(found):+.2%}",
            f"{1.25 * stdev(found) / PAIRS**0.5:.2%}",
        ]
        for draw, found in ratios.items()
    ]
    spread = stdev([0.0, *(median(found) for draw, found in ratios.items() if draw)])
    rows.append(["standard deviation", f"{spread:.2%}", ""])
    print_table(
        f"One commit in {draws + 1} orders, {PAIRS} pairs each", ("build", "against 0", "error"), rows
    )


def _ratio(base: InstalledBuild, head: InstalledBuild) -> float:
    [ratio] = measure_command_pair(
        COMMAND, base, head, lambda output: read_command_output(output, "", {})
    ).values()
    return ratio


def play(trial: Trial) -> list[str]:
    """Make the repository and bisect it; the row of the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shas = make_repository(folder / "kernel", trial)
        out, start = folder / "culprits.json", time.monotonic()
        ends = ("--good", shas[0], "--bad", shas[-1])
        built = ("--build", "sh build.sh", "--python", without_pip(folder))
        cli.main(
            [
                "bisect",
                "--repo",
                str(folder / "kernel"),
                *ends,
                *built,
                "--command",
                COMMAND,
                "--out",
                str(out),
            ]
        )
        location = read_culprits(out)
    return _row(trial, location, shas, time.monotonic() - start)


def _row(trial: Trial, location: Bisection, shas: Sequence[str], seconds: float) -> list[str]:
    guilty = shas[trial.position] if trial.position else ""
    named = [one.commit for one in location.culprits]
    found = "right" if named or not guilty else "unresolved"
    outcome = "wrong" if any(one != guilty for one in named) else found
    places = ", ".join(str(shas.index(one)) if one else "several" for one in named)
    effects = [one.effect for one in location.culprits]
    told = ", ".join(f"{one.ratio - 1:+.1%} ({one.low - 1:+.1%}…{one.high - 1:+.1%})" for one in effects)
    builds = ", ".join("{} and {}".format(*one.builds) for one in location.culprits if one.builds)
    cost = (str(location.runs), str(location.builds), f"{seconds:.0f}")
    since = str(trial.position or "never")
    return [str(trial.number), since, outcome, places or location.status, told, builds, *cost]


def main() -> None:
    """Show each result as it comes, and the table at the end."""
    parser = argparse.ArgumentParser(description="Builds that differ by luck.")
    parser.add_argument("what", choices=("offsets", "bisect"))
    parser.add_argument("count", type=int, nargs="?", default=20)
    parser.add_argument("--first", type=int, default=1, metavar="TRIAL")
    parser.add_argument("--without", action="store_true")
    parser.add_argument("--out", type=Path, metavar="FILE")
    given = parser.parse_args()
    user_command.QUADS = QUADS
    with tempfile.TemporaryDirectory() as objects:
        os.environ["OBJECTS"] = objects
        if given.what == "offsets":
            offsets(given.count, given.out)
            return
        rows = []
        for number in range(given.first, given.first + given.count):
            position = None if given.without else Random(SEED * 2000 + number).randint(1, COMMITS)
            rows.append(play(Trial(number, position)))
            print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    print_table(f"{len(rows)} bisections of {COMMITS} commits of a C++ extension", HEADER, rows)


if __name__ == "__main__":
    main()
