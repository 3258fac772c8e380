from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

import pytest

from torchperf_ci.options.storage_commands import UploadOptions
from torchperf_ci.upload.metadata import this_runner
from torchperf_ci.upload.payload import commit_key

if TYPE_CHECKING:
    from pathlib import Path

HL_SMI = """#!/bin/sh
[ "$*" = -q ] || exit 2
cat <<'END'
================ HL-SMI LOG ================
Driver Version                          : 1.22.1-fdba5e3
Attached AIPs                           : 2

[0] AIP (accel0) 0000:33:00.0
        Product Name                    : HL-325L
        Model Number                    : P0R14ES68
[1] AIP (accel1) 0000:4d:00.0
        Product Name                    : HL-325L
        Model Number                    : P0R14ES68
END
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in front of the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def test_a_gaudi_has_the_infrastructures_name_and_type(programs: Path) -> None:
    program(programs, "hl-smi", HL_SMI)
    entry = this_runner(UploadOptions())
    assert (entry["name"], entry["type"], entry["gpu_count"]) == ("hpu", "Intel Gaudi3 HL-325L", 2)
    assert entry["gpu_info"] == "Intel Gaudi3 HL-325L"


@pytest.mark.parametrize(
    "text", ["#!/bin/sh\necho no device >&2; exit 1\n", "#!/bin/sh\nprintf '\\377\\n'\n"]
)
def test_a_tool_that_finds_no_gaudi_leaves_the_cpu(programs: Path, text: str) -> None:
    program(programs, "hl-smi", text)
    assert this_runner(UploadOptions())["name"] in {"cpu", "arm64-cpu"}


def test_arm_has_no_type_and_is_known_by_its_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    entry = this_runner(UploadOptions())
    assert (entry["name"], entry["type"]) == ("arm64-cpu", "")
    assert str(entry["cpu_info"]).startswith("aarch64 ")
    assert this_runner(UploadOptions(device_type="m7g.metal"))["type"] == "m7g.metal"
    record = {"repo": "octo/perf", "head_branch": "main", "head_sha": "1f", "runners": [entry]}
    assert "/aarch64_" in commit_key(record), "no two kinds of machine share a key"
