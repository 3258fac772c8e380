"""The trace contains every file of a repository that was read, however it was reached, or says that it cannot know."""

from __future__ import annotations

import py_compile
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.bench.case import Case, Settings
from torchperf_ci.compare.affected import FilesRead, files_read

if TYPE_CHECKING:
    from collections.abc import Mapping

REACHED = (
    *("imported", "lazy", "fifth_step", "discovered/plugin", "executed", "evaluated", "by_path", "as_main"),
    *("as_data", "in_thread", "forked", "removed", "linked_to", "cached", "closed", "encoded", "in_backward"),
)
SUITE = """
import concurrent.futures, contextlib, ctypes, glob, importlib, importlib.util, multiprocessing, os, runpy
import stat, subprocess, sys, threading
from pathlib import Path

import torch
from torchperf_ci.suite import Task, workload

import imported

HERE = Path(imported.__file__).parent
steps = 0


class Reader(torch.autograd.Function):
    @staticmethod
    def forward(_, x):
        return x * 2

    @staticmethod
    def backward(_, gradient):
        import in_backward
        return gradient


def by_path(path):
    spec = importlib.util.spec_from_file_location("anything", path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def discover():
    for path in glob.glob(str(HERE / "discovered" / "*.py")):
        by_path(path)


def in_a_child():
    if pid := os.fork():
        return os.waitpid(pid, 0)
    import forked
    os._exit(0)


def close_every_file():
    for fd in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):
            if fd > 2 and stat.S_ISREG(os.fstat(fd).st_mode):
                os.close(fd)
    import closed


def reach():
    discover()
    exec((HERE / "executed.py").read_text())
    eval(compile(open(HERE / "evaluated.py", "rb").read(), "nobody", "exec"))
    by_path(HERE / "by_path.py")
    runpy.run_path(str(HERE / "as_main.py"), run_name="__main__")
    os.close(os.open(HERE / "as_data.py", os.O_RDONLY))
    worker = threading.Thread(target=importlib.import_module, args=("in_thread",))
    worker.start(), worker.join()
    in_a_child()
    import removed, cached
    del sys.modules["removed"], sys.modules["cached"]
    by_path(HERE / "link.py")
    close_every_file()
    open(os.fsencode(HERE / "encoded.py")).close()
    Reader.apply(torch.ones(2, requires_grad=True)).sum().backward()


def step(x):
    global steps
    steps += 1
    if steps == 1:
        import lazy
        subprocess.run(["c++", "--version"], check=True)
        with torch.enable_grad():
            reach()
    if steps == 5:
        import fifth_step
    return x + 1


def programs(x):
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as workers:
        workers.submit(os.getpid).result()
    os.system("true")
    subprocess.run([HERE / "c++"], check=True)
    return x + 1


def natively(x):
    ctypes.CDLL(None).system(b"true")
    return x + 1


def one(name, model):
    return workload(f"made/{name}", "to read files", modes=("inference",))(lambda _: Task(model, (torch.ones(1),)))


workloads = [one("reads", step), one("programs", programs), one("natively", natively)]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of modules, and a suite."""
    folder = tmp_path_factory.mktemp("repo")
    for name in (*REACHED, "never", "discovered/other"):
        path = folder / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"NAME = {name!r}\n")
    (folder / "discovered/other.py").unlink()
    (folder / "link.py").symlink_to("linked_to.py")
    py_compile.compile(
        str(folder / "cached.py"), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    compiler = folder / "c++"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    (folder / "suite.py").write_text(SUITE)
    return folder


@pytest.fixture(scope="module")
def traces(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, FilesRead]:
    """By workload."""
    suite = folder / "suite.py"
    settings = Settings(sys.executable, "cpu", (str(suite),), (str(folder),), budget=0.1, timeout=120)
    case = Case("made/reads", "inference", "fp32", "eager", 1)

    def traced(name: str) -> FilesRead:
        scratch = tmp_path_factory.mktemp("scratch")
        return files_read(replace(case, workload=f"made/{name}"), settings, scratch)

    return {name: traced(name) for name in ("reads", "programs", "natively")}


@pytest.mark.parametrize("name", REACHED)
def test_a_file_is_found_however_it_is_reached(folder: Path, traces, name: str) -> None:
    assert str(folder.resolve() / f"{name}.py") in traces["reads"].paths


def test_what_nothing_reaches_is_not_found_and_all_of_this_can_be_followed(traces) -> None:
    assert not [path for path in traces["reads"].paths if path.endswith("never.py")]
    assert traces["reads"].unknown == (), "a compiler of the system reads no Python"


def test_a_program_that_may_read_anything_is_noticed(folder: Path, traces) -> None:
    programs = {why.split()[2].rstrip(",") for why in traces["programs"].unknown}
    assert {"/bin/sh", "true"} & programs
    assert str(folder / "c++") in programs, "a compiler of the repository's own may be anything"
    assert any(Path(program).name.startswith("python") for program in programs)
    assert traces["natively"].unknown == ("a process was started that Python does not know of",)
