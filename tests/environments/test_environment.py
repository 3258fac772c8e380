from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from process_table import mentioning, wait_until
from wheels import made_wheel

from torchperf_ci.environments import build_environment
from torchperf_ci.environments.build_environment import (
    BuildEnvironment,
    Builder,
    Interpreter,
    WheelRequirement,
    check_imports,
    open_environment,
    unused_code_note,
)
from torchperf_ci.environments.revisions import Revision
from torchperf_ci.errors import EnvironmentUnderTestError

BUILDER = Builder(sys.executable)


def imported(environment, statement: str) -> str:
    """What the environment's Python prints."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(environment.path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [environment.python, "-c", statement]
    return subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=60, check=True
    ).stdout.strip()


def first(checkout) -> Revision:
    return Revision(checkout.folder, checkout.first, "Say red")


def test_a_python_is_taken_as_it_is() -> None:
    with open_environment(Interpreter(Path(sys.executable)), BUILDER) as environment:
        assert (environment.python, environment.path) == (sys.executable, ())


def test_a_revision_is_imported_from_a_worktree_that_leaves_no_trace(checkout, temporary) -> None:
    before = checkout.state()
    with open_environment(first(checkout), BUILDER) as environment:
        assert environment.python == sys.executable
        assert imported(environment, "import colour; print(colour.NAME)") == "red"
        assert environment.description == f"{checkout.first[:10]} Say red"
        assert environment.path == (str(environment.worktree),)
        assert environment.worktree.parent == environment.folder
    assert checkout.state() == before
    assert list(temporary.iterdir()) == []


def test_packages_below_src_are_imported_as_well_if_a_sparse_checkout_lacks_them(
    checkout, temporary, git
) -> None:
    (checkout.folder / "src").mkdir()
    (checkout.folder / "src/shape.py").write_text("NAME = 'round'\n")
    git(checkout.folder, "add", "src")
    git(checkout.folder, "commit", "--quiet", "--message", "Add a shape")
    sha = git(checkout.folder, "rev-parse", "HEAD").strip()
    git(checkout.folder, "sparse-checkout", "set", "docs")
    with open_environment(Revision(checkout.folder, sha, ""), BUILDER) as environment:
        assert imported(environment, "import shape; print(shape.NAME)") == "round"


def without_git(worktree: Path) -> None:
    """Do to the worktree what some builds do, and fail."""
    (worktree / ".git").unlink()
    raise StopIteration


def test_an_exception_inside_leaves_no_trace_either_nor_a_worktree_without_git(checkout, temporary) -> None:
    before = checkout.state()
    with pytest.raises(StopIteration), open_environment(first(checkout), BUILDER) as environment:
        without_git(environment.worktree)
    assert checkout.state() == before
    assert list(temporary.iterdir()) == []


def test_a_build_runs_the_users_line_in_a_fresh_environment(checkout, temporary, quick) -> None:
    command = (
        'test "$(git rev-parse HEAD)" = {sha} && test "$PWD" = "$WORKTREE" && test {worktree} = "$WORKTREE" && '
        'test "$(command -v python)" = {env}/bin/python && test "$SHA" = {sha} && '
        'test "$VIRTUAL_ENV" = {env} && '  # as uv, for one, finds it
        "cp colour.py \"$(python -c 'import site; print(site.getsitepackages()[0])')\""
    )
    with open_environment(first(checkout), Builder(quick, command)) as environment:
        assert environment.path == ()
        assert imported(environment, "import colour; print(colour.NAME)") == "red"
        assert "colour" not in imported(environment, "import sys; print(*sys.path)")
    assert list(temporary.iterdir()) == []


def test_a_build_has_no_right_of_the_job_but_to_its_cache(
    checkout, temporary, quick, tmp_path, monkeypatch
) -> None:
    for name in ("GITHUB_ENV", "ACTIONS_RUNTIME_TOKEN"):
        monkeypatch.setenv(name, "given")
    told = tmp_path / "told"
    command = f'echo "${{GITHUB_ENV-none}} ${{ACTIONS_RUNTIME_TOKEN-none}}" >{told}'
    with open_environment(first(checkout), Builder(quick, command)):
        assert told.read_text() == "none given\n"


def test_a_build_that_fails_shows_the_end_of_its_log(checkout, temporary, quick) -> None:
    before = checkout.state()
    builder = Builder(quick, "seq 100; echo https://me:secret@host/x; exit 3")
    with pytest.raises(EnvironmentUnderTestError) as error, open_environment(first(checkout), builder):
        pass
    message = str(error.value)
    assert message.startswith(f"--build of {checkout.first[:10]} Say red ended with 3:\n")
    assert message.endswith("\n100\nhttps://***host/x")
    assert "\n50\n" not in message
    assert checkout.state() == before


def test_a_build_that_takes_too_long_is_ended_with_all_that_it_started(
    checkout, temporary, tmp_path, quick
) -> None:
    builder = Builder(quick, f"(sleep 600; touch {tmp_path}/late) & wait", seconds=0.5)
    with (
        pytest.raises(EnvironmentUnderTestError, match=r"did not finish within 0 s \(--build-timeout\)"),
        open_environment(first(checkout), builder),
    ):
        pass
    wait_until(lambda: not mentioning(str(tmp_path)))


def test_a_wheel_is_installed_into_an_environment_of_its_own(
    tmp_path, temporary, with_pip, monkeypatch
) -> None:
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "elsewhere"))
    wheel = made_wheel(tmp_path, "colour-1-py3-none-any", {"colour.py": "NAME = 'green'\n"})
    with open_environment(WheelRequirement(str(wheel)), Builder(with_pip)) as environment:
        assert imported(environment, "import colour; print(colour.NAME)") == "green"
        assert environment.description == wheel.name
    assert list(temporary.iterdir()) == []


def test_what_a_killed_pip_has_downloaded_is_removed(tmp_path, temporary, monkeypatch) -> None:
    monkeypatch.setenv("TMPDIR", str(temporary))
    python, pip = tmp_path / "python", tmp_path / "pip"
    python.write_text(f'#!/bin/sh\nmktemp; mkdir -p "$4/bin"; ln -s {pip} "$4/bin/python"')
    pip.write_text("#!/bin/sh\nmktemp; exec sleep 60")
    pip.chmod(0o755)
    python.chmod(0o755)
    with (
        pytest.raises(
            EnvironmentUnderTestError,
            match=r"pip install torch==2 did not finish within 1 s \(--build-timeout\):\n",
        ),
        open_environment(WheelRequirement("torch==2"), Builder(str(python), seconds=1)),
    ):
        pass
    assert list(temporary.iterdir()) == []


def test_a_requirement_is_never_an_option_of_pip(monkeypatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(EnvironmentUnderTestError, match="pip install --help== ended with 1"):
        build_environment._pip(Path(sys.executable), ["install"], ["--help=="], 60)


def test_a_python_that_makes_no_environment_is_told(tmp_path) -> None:
    with pytest.raises(EnvironmentUnderTestError, match="/bin/false -m venv ended with 1"):
        build_environment.make_venv("/bin/false", tmp_path / "env")


INTERRUPTED = """
import signal, sys, time
from pathlib import Path
from torchperf_ci.environments.build_environment import Builder, open_environment
from torchperf_ci.environments.revisions import Revision

def stop(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGTERM, stop)
with open_environment(Revision(Path(sys.argv[1]), sys.argv[2], ""), Builder(*sys.argv[3:])):
    print("open", flush=True)
    for _ in range(600):
        time.sleep(0.1)  # a signal just before a sleep waits for its end
"""


@pytest.mark.parametrize("command", ["true", "touch $READY; sleep 60"])
def test_an_interruption_leaves_no_trace(checkout, temporary, tmp_path, quick, command) -> None:
    """Whether it comes while the environment is used, or while it is built."""
    before, ready = checkout.state(), tmp_path / "ready"
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(checkout.folder), checkout.first, quick, command],
        env={**os.environ, "TMPDIR": str(temporary), "READY": str(ready)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        if command == "true":
            assert process.stdout.readline() == "open\n"
        while command != "true" and not ready.exists():
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert checkout.state() == before
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("suite", ["suite.py", "benchmarks/suite.py"])
def test_a_suite_at_the_top_of_the_checkout_may_not_import_its_packages(checkout, tmp_path, suite) -> None:
    """They would be the same for every commit; only what is next to the suite file belongs to it."""
    environment = BuildEnvironment("python", (), "a build", folder=tmp_path / "build")
    file = checkout.folder / suite
    check_imports([str(file.parent / "helper.py")], environment, checkout.folder, [str(file)])
    package = str(checkout.folder / "paint/__init__.py")
    with pytest.raises(EnvironmentUnderTestError, match="which is in the checkout"):
        check_imports([package], environment, checkout.folder, [str(file)])


def test_a_package_that_workloads_need_is_code_of_the_commit_that_contains_it(tmp_path) -> None:
    (tmp_path / "timm").mkdir()
    assert unused_code_note([], [str(tmp_path)], ["torch", "timm"]) == ""
    assert "imports no code of these commits" in unused_code_note([], [str(tmp_path)], ["torch"])
