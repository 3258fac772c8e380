"""The shell scripts by themselves, when something that they need is missing."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from installable_project import write_project
from toolkits import found_python

ACTIONS = Path(__file__).parents[2] / "actions"
BASH = shutil.which("bash")


@pytest.fixture
def job(tmp_path: Path) -> dict[str, str]:
    """The environment of a step in which only the programs that a test puts into ``bin`` are on the PATH."""
    (tmp_path / "bin").mkdir()
    return {
        "PATH": str(tmp_path / "bin"),
        "RUNNER_OS": "Linux",
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }


def run(script: str, environ: dict[str, str], cwd: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [BASH, ACTIONS / script]
    return subprocess.run(command, env=environ, cwd=cwd, capture_output=True, text=True, timeout=120)


def program(environ: dict[str, str], name: str, script: str) -> None:
    file = Path(environ["PATH"]) / name
    file.write_text(f"#!{BASH}\n{script}\n")
    file.chmod(0o755)


def output(environ: dict[str, str]) -> str:
    return Path(environ["GITHUB_OUTPUT"]).read_text()


def test_the_first_python_that_works_is_found_by_its_absolute_path(job) -> None:
    program(job, "python3.13", "echo 'pyenv: python3.13: command not found' >&2; exit 127")
    program(job, "python3.12", "echo $PWD; exit 1")
    program(job, "python3", f'exec "{sys.executable}" "$@"')
    assert run("setup/find_python.sh", job).returncode == 0
    assert output(job) == f"python={sys.executable}\n"


def test_no_python_is_an_empty_answer(job) -> None:
    for name in ("python3", "python"):
        program(job, name, "echo /not/a/python; exit 1")
    assert run("setup/find_python.sh", job).returncode == 0
    assert output(job) == "python=\n"


@pytest.mark.parametrize(
    "fact",
    [
        "sys.version_info = (3, 9)",
        "sys.version_info = (3, 15)",
        "sys.implementation.name = 'pypy'",
        "import sysconfig; sysconfig.get_config_var = lambda name: name == 'Py_GIL_DISABLED'",
        "import ensurepip, os, venv; sys.platform, os.uname = 'darwin', lambda: os.uname_result([*'1234', 'x86_64'])",
    ],
)
def test_a_python_that_cannot_hold_the_toolkit_is_passed_by(job, fact) -> None:
    program(
        job,
        "python3",
        f'exec "{sys.executable}" -I -c "import sys; {fact}; exec(sys.argv.pop())" "${{@: -1}}"',
    )
    assert run("setup/find_python.sh", job).returncode == 0
    assert output(job) == "python=\n"


def test_windows_is_refused_with_a_sentence(job) -> None:
    done = run("setup/find_python.sh", {**job, "RUNNER_OS": "Windows"})
    assert done.returncode == 1
    assert done.stdout.startswith("::error title=torchperf::Windows runners are not supported")


@pytest.mark.parametrize("own_pip", [True, False])
def test_a_file_that_an_index_has_exchanged_is_not_installed(job, tmp_path, own_pip, linked_pip) -> None:
    python = sys.executable
    if not own_pip:
        bare = [python, "-m", "venv", "--without-pip", tmp_path / "bare"]
        subprocess.run(bare, check=True, timeout=60)
        program(job, "bare", f'exec {linked_pip} {tmp_path}/bare/bin/python "$@"')
        python = f"{job['PATH']}/bare"
    lines = (ACTIONS / "setup/requirements.txt").read_text().splitlines()
    first = next(line for line in lines if not line.startswith("#")).partition(" ")[0]
    with zipfile.ZipFile(tmp_path / f"{first.replace('==', '-')}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("attacker.py", "")
    environ = {**job, "PATH": os.environ["PATH"], "PYTHON": python}
    done = run("setup/install.sh", {**environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)})
    assert done.returncode == 1
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert "\n::error title=torchperf cannot be installed::pip failed" in f"\n{done.stdout}"
    assert not list(tmp_path.glob("torchperf-*/torchperf")), "no command is left"


def test_an_extra_that_is_none_is_told(job) -> None:
    environ = {**job, "PATH": os.environ["PATH"], "PYTHON": sys.executable, "TORCHPERF_NEEDS": "web"}
    done = run("setup/install.sh", environ)
    assert done.returncode == 1
    assert "::there is no extra 'web': give store, or none" in done.stdout


@pytest.fixture
def installing(job, toolkits, torch_environment) -> dict[str, str]:
    """A job whose runner keeps the wheels of earlier ones, reaches no package index, and has settings of uv."""
    keep = Path(job["RUNNER_TEMP"]) / "tool cache"
    keep.mkdir()
    none = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": ""}
    none |= {"UV_INDEX": "https://nowhere.invalid", "UV_LINK_MODE": "symlink"}
    found = {
        "PATH": os.environ["PATH"],
        "PYTHON": found_python(torch_environment),
        "RUNNER_TOOL_CACHE": str(keep),
    }
    for wheels in toolkits.parent.glob("torchperf-wheels-*"):
        shutil.copytree(wheels, keep / wheels.name, copy_function=os.link)
    return {**job, **none, **found}


@pytest.fixture
def index(toolkits) -> dict[str, str]:
    """What makes pip find the wheels."""
    return {"PIP_FIND_LINKS": " ".join(map(str, toolkits.parent.glob("torchperf-wheels-*")))}


PACKAGES = {"upload": {"boto3"}, "": {"boto3", "numpy"}, "store": {"boto3", "numpy", "chdb"}}


def check_contents(command: Path, needs: str) -> None:
    """It is called by what it has, and has what is needed and nothing else."""
    assert re.fullmatch(rf"torchperf-[0-9]+{needs and '-' + needs}", command.parent.name)
    site = next(command.parent.glob("venv/lib/python*/site-packages"))
    assert {name for name in PACKAGES["store"] if (site / name).exists()} == PACKAGES[needs]
    assert not list(command.parent.glob("uv*"))


def test_what_an_upload_needs_is_enough_to_upload(installing, index, tmp_path) -> None:
    command = installed({**installing, **index, "TORCHPERF_NEEDS": "upload"})
    check_contents(command, "upload")
    record = {
        "benchmark": {"name": "b"},
        "model": {"name": "m"},
        "metric": {"name": "x", "benchmark_values": [1]},
    }
    (tmp_path / "records.json").write_text(json.dumps([record]))
    commit = ("--repo-name", "octo/perf", "--head-branch", "main", "--head-sha", "1" * 40)
    call = [command, "upload", tmp_path / "records.json", "--to", tmp_path / "kept", *commit]
    shown = subprocess.run(call, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert "1 record in 1 object kept" in shown.stdout + shown.stderr
    measured = subprocess.run([command, "run"], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (measured.returncode, measured.stderr[:49]) == (
        2,
        "torchperf: error: run needs packages that are not",
    )


def test_a_later_step_takes_what_an_earlier_one_made_where_that_is_enough(installing) -> None:
    with_all = installed(installing)
    check_contents(with_all, "")
    assert installed({**installing, "TORCHPERF_NEEDS": "upload"}) == with_all
    check_contents(installed({**installing, "TORCHPERF_NEEDS": "store"}), "store")


def test_a_cache_that_another_user_has_left_is_no_obstacle(job, installing, index, tmp_path) -> None:
    """A job in a container is root's. A program that refuses stands in for the missing right to remove its cache."""
    (theirs,) = (wheels for wheels in tmp_path.glob("*/torchperf-wheels-*") if not [*wheels.glob("chdb*")])
    (theirs / "not known").touch()
    program(job, "rm", f'for last; do :; done\n[[ $last != {str(theirs)!r} ]] && exec /bin/rm "$@"')
    installed({**installing, **index, "PATH": f"{job['PATH']}:{installing['PATH']}"})
    assert [file.name for file in theirs.parent.glob("torchperf-wheels-*.*")] == [], (
        "nothing is left beside it"
    )


def test_a_cache_that_another_job_has_made_meanwhile_is_left_to_it(job, installing, index) -> None:
    """It may be installing from it. A program makes that cache before this job begins to download its own."""
    keep = Path(installing["RUNNER_TOOL_CACHE"])
    theirs = [wheels / "of another" for wheels in keep.iterdir()]
    shutil.rmtree(keep)
    make = "".join(f"mkdir '{file.parent}'; touch '{file}'; " for file in theirs)
    program(job, "find", f'[[ $1 != {str(keep)!r} ]] || {{ {make}}}\nexec {shutil.which("find")} "$@"')
    installed({**installing, **index, "PATH": f"{job['PATH']}:{installing['PATH']}"})
    assert {*keep.glob("*/*")} == {*theirs}


def test_a_runner_that_is_kept_installs_by_its_pip_and_drops_old_wheels(installing, index, tmp_path) -> None:
    """Its user has a ``pip.conf``, and its tool cache has the wheels of older locks and of a job that was killed."""
    cache = Path(installing["RUNNER_TOOL_CACHE"])
    shutil.rmtree(cache)
    old, killed, filling, other = (
        cache / name
        for name in ("torchperf-wheels-1", "torchperf-wheels-1.left", "torchperf-wheels-2.now", "Python")
    )
    for folder in (old, killed, filling, other):
        folder.mkdir(parents=True)
    for folder in (old, killed, other):
        os.utime(folder, (0, 0))
    (tmp_path / "constraints.txt").write_text("rich==1\n")
    (tmp_path / "pip.conf").write_text(
        f"[global]\nrequire-virtualenv = true\nuser = true\nconstraint = {tmp_path}/constraints.txt\n"
    )
    installed({**installing, **index, "PIP_CONFIG_FILE": str(tmp_path / "pip.conf")})
    (made,) = {*cache.iterdir()} - {filling, other}
    assert [*made.glob("uv-*.whl")]
    assert {file.stat().st_mode & 0o044 for file in (made, *made.iterdir())} == {0o044}, "others can read it"


def test_amd_smi_is_installed_as_the_page_on_runners_says_where_every_later_action_finds_it(
    installing, tmp_path
) -> None:
    """A project that needs nothing stands in for the one that comes with ROCm."""
    page = (ACTIONS.parent / "docs/runners.md").read_text()
    (block,) = [part for part in re.findall(r"(?ms)^```yaml\n(.*?)^```", page) if "amd_smi" in part]
    setup, install = yaml.safe_load(block)
    rocm = tmp_path / "rocm"
    write_project(rocm)
    for file in (rocm / "pyproject.toml", rocm / "backend.py"):
        file.write_text(re.sub(r"(?m)^dependencies.*|Requires-Dist: torch>=2\\n", "", file.read_text()))
    command = installed({**installing, "TORCHPERF_NEEDS": setup.get("with", {}).get("extra", "")})
    toolkit = command.parent / "venv/bin/python"
    script = install["run"].replace("/opt/rocm/share/amd_smi", str(rocm))
    environ = {**installing, "TOOLKIT": str(toolkit)}
    done = subprocess.run(
        [BASH, "-e", "-c", script], env=environ, capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    subprocess.run([toolkit, "-I", "-c", "import smallnet"], check=True, timeout=60)
    assert [installed({**installing, "TORCHPERF_NEEDS": needs}) for needs in PACKAGES] == [command] * 3


def installed(environ: dict[str, str]) -> Path:
    """The command of a toolkit that fits."""
    done = run("setup/install.sh", environ)
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(re.findall(r"command=(.*)\n", output(environ))[-1])


@pytest.mark.parametrize("how", ["exchanged", "added", "missing"])
def test_a_cache_that_somebody_has_changed_is_not_believed(installing, how) -> None:
    """Without an index there is nothing in its place; and nothing of it is run."""
    for folder in Path(installing["RUNNER_TOOL_CACHE"]).iterdir():
        (installer,) = folder.glob("uv-*.whl")
        if how == "missing":
            next(folder.glob("rich-*.whl")).unlink()
            continue
        if how == "exchanged":
            installer.unlink()
        name = installer.name if how == "exchanged" else "attacker-1.0-py3-none-any.whl"
        with zipfile.ZipFile(folder / name, "w") as wheel:
            wheel.writestr("uv-1.data/scripts/uv", f"#!{BASH}\ntouch {installing['RUNNER_TEMP']}/pwned\n")
    done = run("setup/install.sh", installing)
    assert done.returncode == 1
    assert "::error title=torchperf cannot be installed::pip failed" in done.stdout
    assert not (Path(installing["RUNNER_TEMP"]) / "pwned").exists()
    assert not Path(installing["GITHUB_OUTPUT"]).exists()


@pytest.mark.parametrize(
    ("given", "config", "target"),
    [("", False, "s3://default"), ("kept", False, "kept"), ("", True, "not given")],
)
def test_a_default_target_holds_only_where_nobody_could_have_said_another(job, given, config, target) -> None:
    program(job, "torchperf", 'echo "${TORCHPERF_TO-not given}"')
    if config:
        Path(job["RUNNER_TEMP"], "torchperf.yml").touch()
    environ = {
        **job,
        "PATH": os.environ["PATH"],
        "TORCHPERF": f"{job['PATH']}/torchperf",
        "TORCHPERF_TO": given,
        "TORCHPERF_DEFAULT_TO": "s3://default",
        "GITHUB_JOB": "measure",
    }
    done = run("upload/upload.sh", environ, cwd=job["RUNNER_TEMP"])
    assert done.stdout == f"{target}\n"


def test_two_uploads_of_a_job_offer_two_artifacts(job) -> None:
    environ = {**job, "PATH": os.environ["PATH"], "TORCHPERF": "true", "GITHUB_JOB": "measure"}
    assert [run("upload/upload.sh", environ).returncode for _ in range(2)] == [0, 0]
    names = re.findall(r"artifact=(torchperf-spool-measure-[0-9a-f]{12})\n", output(job))
    assert len(set(names)) == 2


@pytest.mark.parametrize("script", ["bisect", "check", "compare", "run"])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_cancelled_step_lets_its_command_clean_up(job, script, how) -> None:
    """The runner signals the step's shell alone."""
    program(job, "torchperf", "trap 'touch cleaned; exit 3' TERM; touch begun; while :; do sleep 0.1; done")
    environ = {**job, "PATH": f"{job['PATH']}:{os.environ['PATH']}", "TORCHPERF": "torchperf"}
    # Whatever runs the tests may ignore it, and a shell cannot trap what it was started to ignore.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        step = subprocess.Popen(
            ["bash", ACTIONS / f"{script}/{script}.sh"],
            env=environ,
            cwd=job["RUNNER_TEMP"],
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        while not Path(job["RUNNER_TEMP"], "begun").exists():
            assert step.poll() is None
            time.sleep(0.05)
        step.send_signal(how)
        assert step.wait(60) == 3
    finally:
        with suppress(ProcessLookupError):
            os.killpg(step.pid, signal.SIGKILL)
        step.wait()
    assert Path(job["RUNNER_TEMP"], "cleaned").exists()
    if script != "run":  # of whose exit code no later step asks
        assert output(job).endswith("exit-code=3\n")


def test_a_script_takes_the_place_of_the_steps_shell() -> None:
    """Which is the one that the runner signals."""
    steps = [
        step["run"]
        for file in [ACTIONS.parent / "action.yml", *ACTIONS.glob("*/action.yml")]
        for step in yaml.safe_load(file.read_text())["runs"]["steps"]
        if "TORCHPERF" in step.get("env", {})
    ]
    assert len(steps) > 8
    assert [run for run in steps if not run.startswith("exec ")] == []


@pytest.mark.parametrize(
    ("on_failure", "code", "ends_with", "warns"),
    [
        ("", 1, 1, False),
        ("warn", 1, 0, False),
        ("warn", 2, 2, False),
        ("", 5, 0, True),
        ("warn", 5, 0, True),
    ],
)
def test_a_comparison_tells_what_it_found_whatever_it_ends_with(
    job, on_failure, code, ends_with, warns
) -> None:
    """The command ends with 0 where it is asked to warn, and so would hide what it found."""
    program(job, "torchperf", f"[[ $TORCHPERF_ON_FAILURE == warn ]] || exit {code}")
    environ = {
        **job,
        "TORCHPERF": f"{job['PATH']}/torchperf",
        "TORCHPERF_OUT": "verdicts.json",
        "TORCHPERF_ON_FAILURE": on_failure,
    }
    done = run("compare/compare.sh", environ)
    assert done.returncode == ends_with
    assert output(job) == f"exit-code={code}\n"
    assert ("::warning title=torchperf::The comparison is inconclusive" in done.stdout) is warns


def test_a_job_without_python_is_told_which_input_to_give(job) -> None:
    done = run("run/run.sh", {**job, "TORCHPERF": "true"})
    assert done.returncode == 2
    assert done.stdout.startswith("::error title=torchperf::No python on PATH")


@pytest.mark.parametrize(("fits", "given", "code"), [(True, "", 0), (False, "", 0), (True, "python3", 2)])
def test_what_is_measured_is_installed_into_a_fresh_environment_of_the_jobs_python(
    job, with_pip, fits, given, code
) -> None:
    """Also where the action is used twice in a job. If the job's is too old, the toolkit's takes its place."""
    steps = yaml.safe_load((ACTIONS.parent / "action.yml").read_text())["runs"]["steps"]
    (script,) = (step["run"] for step in steps if step.get("id") == "under-test")
    venv = Path(job["RUNNER_TEMP"], "torch")
    venv.mkdir()
    (venv / "left").touch()
    install = 'test ! -e "$VIRTUAL_ENV/left" && test "$(command -v pip)" = "$VIRTUAL_ENV/bin/pip"'
    for name in ("python", "python3"):
        program(job, name, f'exec {with_pip} "$@"' if fits else "exit 1")
    path, toolkits = f"{job['PATH']}:{os.environ['PATH']}", "/not/the/jobs" if fits else with_pip
    environ = {**job, "PATH": path, "PYTHON": toolkits, "VENV": str(venv), "INSTALL": install}
    command = [BASH, "-euo", "pipefail", "-c", script]
    done = subprocess.run(command, env={**environ, "GIVEN": given}, capture_output=True, timeout=120)
    assert done.returncode == code, done.stderr
