"""``docs/runners.md`` is true of the five kinds of runners: its configuration, scripts and verdicts of the doctor."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from torchperf_ci.config import load_config
from torchperf_ci.machine.devices.cpu import Processor
from torchperf_ci.machine.devices.interface import GpuCondition
from torchperf_ci.machine.doctor import diagnose, verdict
from torchperf_ci.machine.examination import BlockNoise, MachineState
from torchperf_ci.machine.host import Host, IdleState

PAGE = (Path(__file__).parents[2] / "docs/runners.md").read_text()
GIB = 2**30
STEADY = BlockNoise(cv=0.005, typical=0.02)

SERVER = Host(
    Processor("Intel(R) Xeon(R) Platinum 8488C", cores=48, threads=48),
    "Linux",
    "6.8.0",
    governors=("performance",),
    turbo=False,
    idle_states=(IdleState("C1", 1, disabled=False), IdleState("C6", 290, disabled=True)),
    isolated=(2, 3),
    tickless=(2, 3),
    memory_total=512 * GIB,
    memory_available=500 * GIB,
)
"""With all switches set as the page says."""
GRAVITON = Host(
    Processor("Neoverse-V1", cores=64, threads=64),
    "Linux",
    "6.8.0",
    isolated=(2, 3),
    tickless=(2, 3),
    memory_total=256 * GIB,
    memory_available=250 * GIB,
)
MAC = Host(Processor("Apple M2", cores=8, threads=8), "Darwin", "24.1.0", memory_total=16 * GIB)
H100, MI300 = (
    GpuCondition(temperature=35, slowdown_temperature=87, persistence=True),
    GpuCondition(temperature=40),
)


def said(host: Host, condition: GpuCondition | None = None, *, root: bool = False) -> str:
    """The doctor's sentence on a steady machine."""
    facts = MachineState(
        host,
        STEADY,
        condition,
        compiler="g++ 13.3.0",
        administrator=root,
    )
    return verdict(diagnose(facts))


def part(title: str) -> str:
    """The text below a heading, with its paragraphs on one line each."""
    (found,) = re.findall(rf"(?ms)^### {title}$(.*?)(?=^##+ |\Z)", PAGE)
    return re.sub(r"(?<!\n)\n(?!\n)", " ", found)


@pytest.mark.parametrize(
    ("title", "sentence"),
    [
        ("NVIDIA H100", said(SERVER, H100, root=True)),
        ("NVIDIA H100", said(SERVER, H100)),
        ("Intel Sapphire Rapids", said(SERVER)),
        ("AWS Graviton", said(GRAVITON)),
        ("Apple M2", said(MAC)),
    ],
)
def test_the_doctor_says_what_the_page_says_it_says(title: str, sentence: str) -> None:
    assert f"“{sentence}”" in part(title)


def test_an_mi300_is_told_the_same_as_an_h100() -> None:
    assert "As for H100" in part("AMD MI300")
    assert [said(SERVER, MI300, root=root) for root in (True, False)] == [
        said(SERVER, H100, root=root) for root in (True, False)
    ]


def test_a_virtual_machine_with_an_h100_is_told_so() -> None:
    assert "*virtual machine* joins the list" in part("NVIDIA H100")
    assert "gpu clock rights and virtual machine may" in said(replace(SERVER, hypervisor="QEMU"), H100)


def test_untuned_a_sapphire_rapids_is_warned_of_what_the_page_lists() -> None:
    raw = replace(
        SERVER,
        processor=replace(SERVER.processor, threads=96),
        governors=("powersave",),
        turbo=True,
        idle_states=(IdleState("C6", 290, disabled=False),),
        isolated=(),
    )
    (listed,) = re.findall(r"it warns of (.+?)\.", part("Intel Sapphire Rapids"))
    assert listed in said(raw)


def test_its_configuration_is_one(tmp_path: Path) -> None:
    (block,) = [
        block for block in re.findall(r"(?ms)^```yaml\n(.*?)^```", PAGE) if block.startswith("runners:")
    ]
    file = tmp_path / "torchperf.yml"
    file.write_text(f"version: 1\n{block}")
    kinds = load_config(file).runners
    assert {name: kind.device for name, kind in kinds.items()} == {
        "h100": "cuda",
        "mi300": "cuda",
        "spr": "cpu",
        "graviton": "cpu",
        "m2": "mps",
    }


def test_its_policy_is_json() -> None:
    (block,) = re.findall(r"(?ms)^```json\n(.*?)^```", PAGE)
    assert list(json.loads(block)) == ["StringEquals"]


def test_shellcheck_finds_nothing_in_its_scripts() -> None:
    scripts = re.findall(r"(?ms)^```bash\n(.*?)^```", PAGE)
    assert len(scripts) > 2
    for script in scripts:
        command = [Path(sys.executable).with_name("shellcheck"), "--shell=bash", "-"]
        done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=60)
        assert done.stdout == "", script


def test_the_script_for_a_quiet_machine_sets_all_that_tuning_sets_but_the_siblings(server: Path) -> None:
    """On a made-up machine, whose files stand in for those of the kernel."""
    (script,) = [
        text for text in re.findall(r"(?ms)^```bash\n(.*?)^```", PAGE) if "/usr/local/sbin/quiet" in text
    ]
    cpus = server / "sys/devices/system/cpu"
    for number in range(8):
        folder = cpus / f"cpufreq/policy{number}"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text("powersave\n")
    moved = script.replace("cd /sys/devices", f"cd {server}/sys/devices")
    assert moved.count("cd ") == moved.count(f"cd {server}/") == 1, "it must not touch this machine"
    subprocess.run(["bash", "-eu", "-c", moved], check=True, timeout=60)
    assert {path.read_text() for path in cpus.glob("cpufreq/policy*/*")} == {"performance\n"}
    assert (cpus / "intel_pstate/no_turbo").read_text() == "1\n"
    states = {path.parent.name: path.read_text() for path in cpus.glob("cpu0/cpuidle/state*/disable")}
    assert states == {"state0": "0\n", "state1": "0\n", "state2": "1\n"}
