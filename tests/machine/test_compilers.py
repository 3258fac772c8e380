from __future__ import annotations

import platform

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


@pytest.mark.parametrize(("system", "found"), [("Linux", "g++ 12"), ("Darwin", "clang version 21.1")])
def test_the_first_line_of_the_version_of_the_compiler_that_inductor_calls(
    program, monkeypatch, system, found
):
    program("clang++", "clang version 21.1\nTarget: x86_64")
    program("g++", "g++ 12")
    monkeypatch.setattr(platform, "system", lambda: system)
    assert cxx_compiler() == found


@pytest.mark.parametrize(("arguments", "found"), [("", "icpx 2026"), (" -O2", "")])
def test_the_users_choice_is_the_only_one_and_takes_no_arguments(program, monkeypatch, arguments, found):
    """Inductor would look for a program of this name."""
    program("g++", "g++ 12")
    chosen = program("icpx", "icpx 2026")
    monkeypatch.setenv("CXX", f"{chosen}{arguments}")
    assert cxx_compiler() == found


def test_a_compiler_that_fails_is_none(program):
    program("g++", "cannot run", code=1)
    assert cxx_compiler() == ""
