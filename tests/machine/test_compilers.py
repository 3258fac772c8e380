from __future__ import annotations

import pytest

from torchperf_ci.machine.host import cxx_compiler


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)

    def install(name, answer, code=0):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\necho '{answer}'\nexit {code}\n")
        path.chmod(0o755)
        return path

    return install


@pytest.mark.usefixtures("program")
def test_no_compiler():
    assert cxx_compiler() == ""


def test_the_first_line_of_a_version(program):
    program("clang++", "clang version 21.1\nTarget: x86_64")
    assert cxx_compiler() == "clang version 21.1"


def test_the_users_choice_counts_first_even_with_arguments(program, monkeypatch):
    program("g++", "g++ 12")
    chosen = program("icpx", "icpx 2026")
    monkeypatch.setenv("CXX", f"{chosen} -O2")
    assert cxx_compiler() == "icpx 2026"


def test_a_compiler_that_fails_is_none(program):
    program("g++", "cannot run", code=1)
    assert cxx_compiler() == ""
