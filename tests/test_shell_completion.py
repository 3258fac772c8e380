"""What a real bash is offered when Tab is pressed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ASK = """
eval "$(torchperf completion bash)"
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
_python_argcomplete torchperf
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("torchperf ru", ["run "]),
        ("torchperf help ba", ["baseline "]),
        ("torchperf baseline ", ["update "]),
        ("torchperf run --bu", ["--budget "]),
        (
            "torchperf run --suite ",
            ["quick", "core", "models", "operators", "transformers", "all", "nightly", "mine.py"],
        ),
        ("torchperf run --dtype fp32,b", ["fp32,bf16 "]),
        ("torchperf query --metrics throu", [r"throughput\(samples/s\) "]),
        ("torchperf check ", ["mine.py", "torchperf.yml"]),
        ("CUDA_VISIBLE_DEVICES=0 torchperf run --bu", ["--budget "]),  # as zsh passes it
        ("cd torchperf && A=1 B=2 torchperf baseline ", ["update "]),
        ("torchperf report --repo torchperf --verd", ["--verdicts "]),
    ],
)
def test_bash_is_offered_what_may_follow(line: str, offered: list[str], tmp_path: Path) -> None:
    (tmp_path / "torchperf.yml").write_text("version: 1\nsuites:\n  nightly: {workloads: [core]}\n")
    (tmp_path / "mine.py").touch()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    assert shutil.which("torchperf", path=path)
    done = subprocess.run(
        ["bash", "-c", ASK, "bash", line],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert sorted(done.stdout.splitlines()) == sorted(offered), done.stderr
