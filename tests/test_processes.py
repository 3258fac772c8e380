"""Started processes do not stay behind, neither after their end nor after their parent was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from process_table import mentioning, runs, wait_until

from torchperf_ci.processes import ProcessGroup

if TYPE_CHECKING:
    from pathlib import Path

FAMILY = """
echo $$ >>{pids}
sleep 600 & echo $! >>{pids}
python=$1
$python -c '
import os, time
if not os.fork():
    os.setsid()  # a daemon: neither of the group nor anybody'"'"'s child
    if not os.fork():
        print(os.getpid(), file=open("{pids}", "a"), flush=True)
        time.sleep(600)
' &
{then}
"""
WAITING = "wait; sleep 600"
ENDING = "while [ $(wc -l <{pids}) -lt 3 ]; do sleep 0.02; done"

STARTER = """
import sys
from torchperf_ci.processes import ProcessGroup
import os
group = ProcessGroup(sys.argv[1:], os.environ)
print("started", flush=True)
group.process.wait()
"""


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    return tmp_path / "pids"


def family(pids: Path, then: str = WAITING) -> list[str]:
    """A shell, its child in the background, and a daemon of its."""
    script = FAMILY.replace("{then}", then).replace("{pids}", str(pids))
    return ["sh", "-c", script, "sh", sys.executable]


def members(pids: Path) -> list[int]:
    """All three, once they are there."""
    wait_until(lambda: pids.exists() and len(pids.read_text().splitlines()) >= 3)
    found = [int(line) for line in pids.read_text().splitlines()]
    assert len(found) == 3
    return found


def test_the_end_is_that_of_its_children_and_of_daemons(pids: Path) -> None:
    group = ProcessGroup(family(pids), os.environ)
    found = members(pids)
    assert all(map(runs, found))
    group.end()
    wait_until(lambda: not any(map(runs, found)))
    assert group.process.wait(60) == -signal.SIGKILL


def test_a_daemon_may_be_left_to_serve_the_next_one(pids: Path) -> None:
    group = ProcessGroup(family(pids, ENDING), os.environ)
    assert group.process.wait(60) == 0
    *others, daemon = members(pids)
    group.end(daemons=False)
    wait_until(lambda: not any(map(runs, others)))
    assert runs(daemon)
    os.kill(daemon, signal.SIGKILL)


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_who_kills_the_parent_ends_them_too(pids: Path, by: signal.Signals) -> None:
    command = [sys.executable, "-c", STARTER, *family(pids)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == "started\n"
        found = members(pids)
        assert all(map(runs, found))
        parent.send_signal(by)
    wait_until(lambda: not any(map(runs, found)))


def test_what_has_ended_is_not_looked_for_again_and_others_are_left_alone(pids: Path) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:
        for _ in range(3):
            group = ProcessGroup(["true"], os.environ)
            group.process.wait()
            group.end()
        assert runs(stranger.pid)
        stranger.kill()
    assert not pids.exists()


KILLED_WHILE_STARTING = """
import os, signal, sys
from torchperf_ci.processes import ProcessGroup
ProcessGroup(sys.argv[1:], os.environ, preexec_fn=lambda: os.kill(os.getppid(), signal.SIGKILL))
"""


def test_a_program_whose_starter_is_killed_before_it_knows_the_group_ends_too() -> None:
    seconds = f"600.{os.getpid()}"  # by which it is found
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_STARTING, "sleep", seconds], check=False, timeout=60
    )
    assert killed.returncode == -signal.SIGKILL
    wait_until(lambda: not mentioning(seconds))


def test_the_guard_ends_with_whoever_has_it_and_says_nothing() -> None:
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", STARTER, "true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "started\n", "")
