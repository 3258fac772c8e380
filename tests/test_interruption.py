"""Ctrl-C and SIGTERM at any moment: one line, the usual exit code, and the command that resumes."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hangups import HEEDING_HANGUPS

from torchperf_ci.cli import COMMANDS, main
from torchperf_ci.interruption import Stopped, command_line, output_is_closed, stoppable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TextIO

AT_AN_IMPORT = """
import os, signal, sys

_, at, number, *argv = sys.argv

class Now:
    def find_spec(self, name, path=None, target=None):
        if name == at:
            os.kill(os.getpid(), int(number))

signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever runs the tests may ignore it
sys.meta_path.insert(0, Now())
sys.argv = ["/somewhere/torchperf", *argv]
from torchperf_ci.__main__ import main
sys.exit(main())
"""


def interrupted(
    at: str, by: signal.Signals, *argv: str, under: Sequence[str] = (), **environ: str
) -> subprocess.CompletedProcess[str]:
    """A call of the command, ``under`` another one, that gets a signal when it imports the module ``at``."""
    return subprocess.run(
        [*under, sys.executable, "-c", AT_AN_IMPORT, at, str(int(by)), *argv],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("at", ["argparse", "torchperf_ci.options.option"])
def test_before_the_command_line_is_read(at: str) -> None:
    done = interrupted(at, signal.SIGINT, "list", "--filter", "vision/*")
    assert done.stderr == (
        "torchperf: stopped by Ctrl-C; nothing was begun: /somewhere/torchperf list --filter 'vision/*'\n"
    )
    assert done.returncode == 130


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_while_a_command_is_imported(command: str) -> None:
    action = next(one.action for one in COMMANDS if one.name == command)
    done = interrupted(f"torchperf_ci.{action.partition(':')[0]}", signal.SIGINT, *command.split())
    assert done.stderr == (
        "torchperf: error: stopped by Ctrl-C; what was finished stays so; to do the rest: "
        f"/somewhere/torchperf {command}\n"
    )
    assert done.returncode == 130


def test_the_call_is_whole_and_safe_to_copy_and_has_no_password() -> None:
    environ = {"TORCHPERF_STORE": "clickhouse://me:secret@host/db", "TORCHPERF_BRANCH": "a b"}
    done = interrupted(
        "torchperf_ci.store.command", signal.SIGTERM, "query", "--repo", "$(touch x)", **environ
    )
    line = done.stderr.rpartition(": ")[2].strip()
    assert shlex.split(line) == [
        *("TORCHPERF_STORE=clickhouse://***host/db", "TORCHPERF_BRANCH=a b"),
        *("/somewhere/torchperf", "query", "--repo", "$(touch x)"),
    ]
    assert "stopped by SIGTERM" in done.stderr
    assert done.returncode == 143


@pytest.mark.parametrize(
    ("given", "continues"),
    [
        ("run", "run --resume --out records"),
        ("run --out records", "run --out records --resume"),
        ("run --out ./records/", "run --out ./records/ --resume"),
        ("run --out=records/", "run --out=records/ --resume --out records"),
    ],
)
def test_a_flag_that_was_given_is_not_repeated_however_its_value_was_spelled(
    given: str, continues: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["torchperf", *given.split()])
    assert command_line((), more=(("--resume",), ("--out", "records"))) == f"torchperf {continues}"


def test_a_call_under_nohup_does_not_notice_that_the_terminal_is_gone() -> None:
    completion = ("torchperf_ci.shell_completion", signal.SIGHUP, "completion", "fish")
    assert interrupted(*completion, under=HEEDING_HANGUPS).returncode == 129
    assert interrupted(*completion, under=["nohup"]).returncode == 0


def test_in_a_job_it_is_an_annotation_too() -> None:
    done = interrupted("torchperf_ci.plan.command", signal.SIGTERM, "plan", GITHUB_ACTIONS="true")
    assert "::error title=torchperf::stopped by SIGTERM; " in done.stderr


SLOW = """
import time
from torchperf_ci.suite import workload
time.sleep(60)
"""


@pytest.mark.parametrize("command", ["list", "run"])
def test_while_the_environment_under_test_is_asked(
    command: str, tmp_path: Path, torch_environment: Path
) -> None:
    (tmp_path / "suite.py").write_text(SLOW)
    python = str(torch_environment / "bin/python")
    call = [sys.executable, "-m", "torchperf_ci", command, "--suite", "suite.py", "--python", python]
    with subprocess.Popen(call, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        wait_for_a_child(process)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)
    assert said.splitlines()[-1:] == [
        f"torchperf: error: stopped by Ctrl-C; what was finished stays so; to do the rest: {shlex.join(call)}"
    ]
    assert process.returncode == 130


def wait_for_a_child(process: subprocess.Popen[str]) -> None:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None:
        if children.read_text().strip():
            return


def test_a_call_in_a_thread_has_no_signals_and_works() -> None:

    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(main(["plan", "--config", "/nonexistent"])))
    thread.start()
    thread.join()
    assert codes == [2]


STUCK = """
import hashlib, os, signal, sys, threading
from torchperf_ci import interruption

interruption.STUCK_SECONDS = 0.1
with interruption.stoppable(lambda stopped: print(stopped, file=sys.stderr, flush=True)):
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
"""


def test_in_the_middle_of_what_is_no_python() -> None:
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (143, "stopped by SIGTERM\n")


def interrupt_this() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    pytest.fail("it went on")


class InterruptsAtItsEnd:
    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


def interrupt_at_the_end_of_an_object() -> None:
    InterruptsAtItsEnd()
    time.sleep(60)


def interrupt_another_thread() -> None:
    """As the system may do while the main thread has to see to another signal."""
    threading.Timer(0.2, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM)).start()
    time.sleep(60)


@pytest.mark.parametrize("interrupt", [interrupt_at_the_end_of_an_object, interrupt_another_thread])
def test_in_a_finalizer_where_python_ignores_exceptions_and_in_another_thread(
    interrupt: Callable[[], None],
) -> None:
    with pytest.raises(Stopped) as stopped, stoppable(print):
        interrupt()
    assert stopped.value.exit_code == 143


def test_what_was_before_is_there_again() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    threads = threading.active_count()
    with pytest.raises(Stopped), stoppable(print):
        interrupt_this()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert threading.active_count() == threads
    assert signal.set_wakeup_fd(-1) == -1


def test_a_reader_that_has_seen_enough_ends_a_command_without_a_word() -> None:
    """The pipe's reader is gone before anything is written."""
    reading, writing = os.pipe()
    os.close(reading)
    done = printed_to(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_on_macos_too_a_reader_that_is_gone_is_noticed(monkeypatch) -> None:
    """There, what is polled for nothing is not even said to be closed."""

    class Poll:
        def __init__(self) -> None:
            self._poll = polls()

        def register(self, stream: TextIO, events: int) -> None:
            if events:
                self._poll.register(stream, events)

        def poll(self, *arguments: int) -> list[tuple[int, int]]:
            return self._poll.poll(*arguments)

    polls = select.poll
    monkeypatch.setattr(select, "poll", Poll)
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert not output_is_closed()
        os.close(reading)
        assert output_is_closed()


def test_an_output_that_cannot_be_written_is_told() -> None:
    done = printed_to(os.open("/dev/full", os.O_WRONLY))
    assert done.returncode == 2
    assert done.stderr == "torchperf: error: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_works_without_a_stream(closed: str) -> None:
    command = ["sh", "-c", f'"$@" {closed}', "sh", sys.executable, "-m", "torchperf_ci", "plan"]
    subprocess.run(command, cwd=Path(__file__).parents[1], check=True, timeout=60)


def printed_to(output: int) -> subprocess.CompletedProcess[str]:
    """A command that prints, to a file descriptor, which is closed then."""
    command = [sys.executable, "-m", "torchperf_ci", "completion", "fish"]
    with os.fdopen(output, "wb") as out:
        environ = {**os.environ, "PYTHONUNBUFFERED": ""}
        return subprocess.run(
            command, env=environ, stdout=out, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
