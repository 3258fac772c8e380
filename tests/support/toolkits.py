"""The project as runners download it, and its toolkit as jobs install it, once for all tests."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from linked_pip import link_pip

PROJECT = Path(__file__).parents[2]
CALLED = ".github/workflows/benchmark.yml"
OURS = "OWNER/torchperf-ci@v1"
"""What a template uses before anybody has gone through its lines marked "edit"."""

# Each shell of a job reads this before it begins. The toolkit is there, as on a runner that keeps what it installs.
# A job that sets OWN_TOOLKIT installs its own. What a workflow leaves open is measured as briefly as it can be.
LINK = """\
export TORCHPERF_PROCESSES="${TORCHPERF_PROCESSES:-${PROCESSES:-}}"
export TORCHPERF_TARGET_CI="${TORCHPERF_TARGET_CI:-0.2}"
[[ -z ${ONE_MODE:-} ]] || export TORCHPERF_MODE="$ONE_MODE"
[[ -z ${ONE_WORKLOAD:-} ]] || export TORCHPERF_FILTER="$ONE_WORKLOAD"
[[ -z ${ONE_RUN:-} ]] || export TORCHPERF_MAX_RUNS=1
[[ -z ${ONE_PAIR:-} ]] || export TORCHPERF_BUDGET=0.1 # no second one begins
if [[ -n ${OWN_TOOLKIT:-} ]]; then
  PIP_FIND_LINKS=$(echo "$TOOLKITS"/torchperf-wheels-*)
  export PIP_NO_INDEX=1 PIP_FIND_LINKS
elif [[ -d ${RUNNER_TEMP:-} && ! -e $RUNNER_TEMP/toolkits ]]; then
  ln -s "$TOOLKITS" "$RUNNER_TEMP/toolkits"
  ln -s "$TOOLKITS"/torchperf-* "$RUNNER_TEMP"
fi
for other in ${OTHER_PYTHONS:-}; do # for which there is no torch here
  eval "$other() { return 127; }"
done
if [[ -n ${LINKED_PIP:-} ]]; then
  for interpreter in "${PYTHON:-python3}" ${VENV:+python}; do # as steps call it, by a name or a path
    eval "$interpreter() { '$TOOLKITS/pip/linked' '$(type -P "$interpreter")' \\"\\$@\\"; }"
  done
fi
"""


BRIEFLY = (
    ("torchperf_ci/bench/pairs.py", "BLOCK_SECONDS = 0.1\n", "BLOCK_SECONDS = 0.02\n"),
    ("torchperf_ci/bench/pairs.py", "QUADS = 10\n", "QUADS = 3\n"),
    (
        "torchperf_ci/bisect/culprit_profile.py",
        "_OLD_NEW_NEW_OLD = (0, 1, 1, 0)\n",
        "_OLD_NEW_NEW_OLD = (0, 1)\n",
    ),
)
"""How long a pair is measured, and a culprit profiled: what the tests plant is large, and most of their time went into
telling how large."""

MEASURES_PAIRS = ("torchperf_ci/bisect/laboratory.py", "torchperf_ci/compare/comparison_loop.py")
REPEATED = Path(__file__).with_name("repeated_pairs.py")
REPEATING = """
import os

if os.environ.get("REPEATED_PAIRS"):
    from torchperf_ci.repeated_pairs import repeating

    measure_pair = repeating(measure_pair)
"""
"""What lets a job ask for bisections and comparisons that start torch less often."""


def copy_project(copy: Path) -> None:
    """Put the files of the project that a runner downloads to use its actions into ``copy``.

    ``act`` does not know ``$/``, which is the same repository at the same commit. It copies all of these files for each
    step that uses an action, so the package is a link. tests/actions/test_scripts.py installs it as it is.
    """
    for name in ("actions", "workflows-templates"):
        shutil.copytree(PROJECT / name, copy / name)
    package, compiled = copy.with_name(f"{copy.name}-package"), shutil.ignore_patterns("__pycache__")
    (copy / "torchperf_ci").symlink_to(shutil.copytree(PROJECT / "torchperf_ci", package, ignore=compiled))
    for name in (".gitignore", "action.yml", "LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(PROJECT / name, copy)
    for name, usual, brief in BRIEFLY:
        text = (copy / name).read_text()
        assert text.count(usual) == 1, usual
        (copy / name).write_text(text.replace(usual, brief))
    shutil.copy(REPEATED, copy / "torchperf_ci")
    for name in MEASURES_PAIRS:
        with (copy / name).open("a") as module:
            module.write(REPEATING)
    called, (name, _, ref) = copy / CALLED, OURS.partition("@")
    called.parent.mkdir(parents=True)
    lines = (PROJECT / CALLED).read_text().splitlines()
    called.write_text(
        "\n".join(
            f"{line.replace('uses: $', f'uses: {name}')}@{ref}" if "uses: $/" in line else line
            for line in lines
        )
    )


def found_python(torch: Path) -> str:
    """The Python of the environment ``torch``, as a job finds it that has no other."""
    (python,) = torch.glob("bin/python3.*")
    return str(python)


def install_toolkits(project: Path, torch: Path, folder: Path) -> Path:
    """Install the toolkit in ``folder`` where no other process of these tests has done it yet; the script to link it.

    That is with and without what a store needs, both of one download, and for the Python that jobs find first, that of
    ``torch``.
    """
    folder.mkdir(exist_ok=True)
    script = folder / "link.sh"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if script.exists():
            return script
        environ = {**os.environ, "PATH": f"{torch}/bin:{os.environ['PATH']}", "PYTHON": found_python(torch)}
        environ |= {"RUNNER_TEMP": str(folder), "GITHUB_OUTPUT": str(folder / "output")}
        install = ["bash", str(project / "actions/setup/install.sh")]
        subprocess.run(install, env={**environ, "TORCHPERF_NEEDS": "store"}, check=True, timeout=600)
        (with_store,) = folder.glob("torchperf-*-store")
        aside = with_store.rename(folder / "aside")  # it would be enough for the other one, too
        (wheels,) = folder.glob("torchperf-wheels-*")
        environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
        subprocess.run(install, env=environ, check=True, timeout=600)
        aside.rename(with_store)
        assert len([*folder.glob("torchperf-*/torchperf")]) == 2
        (folder / "pip").mkdir()
        link_pip(folder / "pip")
        script.write_text(LINK)
    return script
