"""Workloads that fail in every way that a worker must survive, or end with a status."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from torchperf_ci.suite import Task, workload

assert gc.isenabled(), "whatever the worker did while it started"
kept, forked, spawned = [], [], []


def _faulty(name, model, **more):
    def build(batch_size):
        return Task(model, (torch.ones(batch_size, 4),))

    return workload(f"faulty/{name}", "to go wrong", batch=2, modes=("inference",), **more)(build)


def _prints(x):
    print('{"ok": {"seconds": 0}}')
    sys.stderr.write("\x00\xff garbage \n" * 3)
    return x + 1


def _writes_to_every_descriptor(x):
    for fd in range(3, 4096):
        try:
            os.write(fd, b"garbage\n")
        except OSError:
            continue
    return x


def _allocates(x):
    kept.append(torch.ones(2**24))
    return x


def _segfaults(x):
    return ctypes.string_at(0)


def _gives_up(x):
    sys.exit("no data")


def _exits(x):
    os._exit(7)


def _kills_itself(x):
    os.kill(os.getpid(), signal.SIGKILL)
    return x


def _cannot_be_counted(x):
    if "Flop" in type(_get_current_dispatch_mode()).__name__:
        msg = "not while operators are counted"
        raise ValueError(msg)
    return x + 1


def _hangs_in_c(x):
    Path(os.environ["REACHED"]).touch()
    # PyDLL keeps the interpreter's lock, so nothing in this process can end the call.
    ctypes.PyDLL(None).sleep(3600)


def _forks(x):
    if not forked:
        forked.append(None)
        os.fork()
    return x + 1


def _forks_a_straggler(x):
    if not kept:
        kept.append(None)
        if os.fork() == 0:
            time.sleep(3600)
    return x


def _in_a_spawned_process():
    sys.exit(len(sys.argv) - 1)


def _spawns(x):
    if not spawned:
        process = multiprocessing.get_context("spawn").Process(target=_in_a_spawned_process)
        process.start()
        process.join()
        spawned.append(process.exitcode)
    assert spawned == [0]
    return x


def _raises(x):
    msg = "on purpose\nsecond line"
    raise ZeroDivisionError(msg)


def _names_a_file_that_is_not_utf8(x):
    msg = f"no weights in {os.fsdecode(bytes([0xE9]))}.pt"
    raise RuntimeError(msg)


def _runs_out_of_memory(x):
    return torch.empty(2**60)


def _of_no_kernel(x):
    return x.to(torch.uint16) @ x.to(torch.uint16).T


def _says_it_is_unsupported(x):
    msg = "\"my_op\" not implemented for 'Half'"
    raise NotImplementedError(msg)


def _leaks(x):
    kept.append(bytearray(2**20))
    return x + 1


def _fine(x):
    return x @ x.T


prints = _faulty("prints", _prints)
writes = _faulty("writes", _writes_to_every_descriptor)
allocates = _faulty("allocates", _allocates)
segfaults = _faulty("segfaults", _segfaults)
gives_up = _faulty("gives_up", _gives_up)
exits = _faulty("exits", _exits)
kills = _faulty("kills", _kills_itself)
uncounted = _faulty("uncounted", _cannot_be_counted)
hangs = _faulty("hangs", _hangs_in_c)
forks = _faulty("forks", _forks)
straggles = _faulty("straggles", _forks_a_straggler)
spawns = _faulty("spawns", _spawns)
raises = _faulty("raises", _raises)
odd_file = _faulty("odd_file", _names_a_file_that_is_not_utf8)
oom = _faulty("oom", _runs_out_of_memory)
unsupported = _faulty("unsupported", _of_no_kernel)
pretends = _faulty("pretends", _says_it_is_unsupported)
leaks = _faulty("leaks", _leaks)
fine = _faulty("fine", _fine)
if "ANCHOR" not in os.environ:
    newer = _faulty("newer", _fine)
