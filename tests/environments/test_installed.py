from __future__ import annotations

import sys

import pytest
from wheels import made_wheel

from torchperf_ci.environments.build_environment import open_wheels
from torchperf_ci.environments.wheels import Distribution, changed_versions, installed_distributions
from torchperf_ci.errors import EnvironmentUnderTestError

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_what_is_installed_is_told_without_importing_it(tmp_path, with_pip) -> None:
    package = {
        "lamp/__init__.py": "raise ImportError('no driver')\n",
        "lamp/version.py": f"from typing import Optional\ngit_version: Optional[str] = '{COMMIT}'\n",
    }
    wheel = made_wheel(tmp_path, "Lamp_Light-2.0+cpu-py3-none-any", package, needs=["bulb"])
    made_wheel(tmp_path, "bulb-1-py3-none-any", {"bulb/version.py": "git_version = 'Unknown'\n"})
    with open_wheels([str(wheel)], "lamp", with_pip, 60, ["--find-links", str(tmp_path)]) as environment:
        found = installed_distributions(environment.python)
    assert found["lamp-light"] == Distribution("2.0+cpu", COMMIT, requested=True)
    assert found["bulb"] == Distribution("1", "", requested=False)


def test_a_real_torch_names_its_commit(torch_environment) -> None:
    torch = installed_distributions(str(torch_environment / "bin/python"))["torch"]
    assert torch.version.startswith("2.")
    assert len(torch.commit) == 40


@pytest.mark.parametrize("python", ["/bin/false", "/nonexistent/python", "/bin/echo"])
def test_a_python_that_cannot_tell_is_an_error(python) -> None:
    with pytest.raises(EnvironmentUnderTestError, match=f"{python} cannot tell what is installed"):
        installed_distributions(python)


def test_what_moved_is_told_with_both_versions() -> None:
    def told(**versions: str) -> dict[str, Distribution]:
        return {name: Distribution(version, "", requested=False) for name, version in versions.items()}

    old, new = (
        told(torch="1", triton="3.1", numpy="2", cub="1"),
        told(torch="2", triton="3.2", numpy="2", nccl="9"),
    )
    assert changed_versions(old, new) == {
        "cub": ("1", None),
        "nccl": (None, "9"),
        "torch": ("1", "2"),
        "triton": ("3.1", "3.2"),
    }
    assert changed_versions(old, old) == {}


def test_this_python_is_told_too() -> None:
    assert "pytest" in installed_distributions(sys.executable)


def test_whoever_tells_has_none_of_the_jobs_rights(tmp_path, monkeypatch) -> None:
    """A file in an environment may run when its Python starts."""
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    python = tmp_path / "python"
    told = '{"x": {"version": "\'${GITHUB_TOKEN-none}\'", "commit": "", "requested": true}}'
    python.write_text(f"#!/bin/sh\necho '{told}'\n")
    python.chmod(0o755)
    assert installed_distributions(str(python))["x"].version == "none"
