from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchperf_ci.machine.devices.amd import Rocm
from torchperf_ci.machine.devices.cpu import Cpu
from torchperf_ci.machine.devices.nvidia import Cuda
from torchperf_ci.machine.host import Fingerprint, take_fingerprint
from torchperf_ci.machine.tuning import OF_ANOTHER, TuningReport
from torchperf_ci.series.points import differing_facts

CPU = "sys/devices/system/cpu"
FACTS = st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=5)


@pytest.fixture(autouse=True)
def linux(monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Linux")


def fingerprint(root, **changes):
    return take_fingerprint(Cpu(root), {"torch": "2.13.0"}, {"torch_threads": "1"}, root=root, **changes)


@given(FACTS, FACTS)
def test_digests_are_equal_where_the_comparable_facts_are(a, b):
    one, other = Fingerprint(a, {}), Fingerprint(b, {"x": "y"})
    assert (one.digest == other.digest) == (a == b)
    assert re.fullmatch("[0-9a-f]{12}", one.digest)
    assert Fingerprint(dict(reversed(a.items())), {}).digest == one.digest


def test_a_machine_is_described(server):
    found = fingerprint(server)
    assert found.comparable == {
        "device": "arm64-cpu" if platform.machine() in ("arm64", "aarch64") else "cpu",
        "device_type": "Xeon_Platinum_8488C_4c",
        "driver": "none",
        "gpu_clocks": "none",
        "cpu": "Intel(R) Xeon(R) Platinum 8488C",
        "cores": "4",
        "cpu_quota": "none",
        "smt": "on",
        "governor": "powersave",
        "turbo": "on",
        "huge_pages": "madvise",
        "cpus": "unpinned",
        "memory": "64 GiB",
        "system": "Linux 6.8",
        "tuning": "none",
        "torch_threads": "1",
    }
    assert found.observed["boot_id"].startswith("6f1c0d5e")
    assert found.observed["hypervisor"] == "none"
    assert (found.observed["load"], found.observed["cpu_pressure"]) == ("0.25", "0.015")
    assert found.observed["torch"] == "2.13.0"


@pytest.mark.parametrize(
    ("file", "content", "named"),
    [
        (f"{CPU}/intel_pstate/no_turbo", "1", "turbo: on → off"),
        (
            f"{CPU}/cpu0/cpufreq/scaling_governor",
            "performance",
            "governor: powersave → performance,powersave",
        ),
        (f"{CPU}/online", "0-3", "smt: on → off"),
        ("proc/sys/kernel/osrelease", "6.14.0-1", "system: Linux 6.8 → Linux 6.14"),
        ("proc/meminfo", f"MemTotal: {32 << 20} kB\n", "memory: 64 GiB → 32 GiB"),
    ],
)
def test_a_changed_machine_is_not_comparable(server, file, content, named):
    before = fingerprint(server)
    (server / file).write_text(content)
    after = fingerprint(server)
    assert after.digest != before.digest
    assert differing_facts(before.comparable, after.comparable) == [named]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("proc/loadavg", "9.0 9.0 9.0 1/300 4242"),
        ("proc/sys/kernel/random/boot_id", "another"),
        ("proc/sys/kernel/osrelease", "6.8.0-1099-aws"),
        ("proc/meminfo", f"MemTotal: {(64 << 20) - 300_000} kB\n"),
    ],
)
def test_what_changes_from_day_to_day_is_comparable(server, file, content):
    before = fingerprint(server)
    (server / file).write_text(content)
    assert fingerprint(server).digest == before.digest


def test_the_documentation_lists_every_comparable_fact(server, h100, amdsmi):
    page = (Path(__file__).parents[2] / "docs/runners.md").read_text()
    table = page.partition("| fact |")[2].partition("\n\n")[0]
    documented = set(re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in table.splitlines()[2:])))
    assert documented == {
        *(set(fingerprint(server).comparable) - {"torch_threads"}),
        *Cuda(h100.seen).identity().settings,
        *Rocm().identity().settings,
    }


def test_tuning_counts_and_its_refusals_are_recorded(server):
    tuning = TuningReport({"turbo": "off", "governor": "performance"}, {"smt": "Permission denied"})
    found = fingerprint(server, tuning=tuning)
    assert found.comparable["tuning"] == "governor=performance; turbo=off"
    assert found.observed["tuning_refused_smt"] == "Permission denied"
    assert fingerprint(server, tuning=OF_ANOTHER).comparable["tuning"] == "another run's"


def test_what_a_system_does_not_say_is_left_out(server):
    (server / "proc/pressure/cpu").unlink()
    assert "cpu_pressure" not in fingerprint(server).observed


def test_workers_that_are_pinned_are_not_compared_with_others(server):
    free, pinned = fingerprint(server), fingerprint(server, cpus=(2, 3))
    assert differing_facts(free.comparable, pinned.comparable) == ["cpus: unpinned → pinned"]
    assert pinned.observed["pinned_to"] == "2,3"
    assert pinned.digest == fingerprint(server, cpus=(1,)).digest


def test_another_limit_of_power_is_told_and_a_patch_of_the_driver_is_not(server, h100):
    def taken():
        return take_fingerprint(Cuda(h100.seen), {}, {}, root=server)

    before = taken()
    h100.driver = "580.200.01"
    assert taken().digest == before.digest
    h100.readings["nvmlDeviceGetEnforcedPowerLimit"] = 500_000
    assert differing_facts(before.comparable, taken().comparable) == ["gpu_power_limit: 700 W → 500 W"]


@pytest.mark.parametrize("tuning", [None, TuningReport({"governor": "performance"})])
def test_clocks_that_nothing_locked_are_free(server, nvidia, tuning):
    """All history of GPUs that were never tuned hangs on this word."""
    assert take_fingerprint(Cuda(), {}, {}, tuning, server).comparable["gpu_clocks"] == "free"


def test_a_gpu_and_its_state(server, nvidia):
    nvidia.nvmlDeviceGetCurrentClocksEventReasons.side_effect = lambda _: 0x24
    tuning = TuningReport({"gpu_clocks": "locked to the base clock"})
    found = take_fingerprint(Cuda(), {}, {}, tuning, server)
    assert found.comparable["device_type"] == "NVIDIA H100 80GB HBM3"
    assert (found.comparable["driver"], found.observed["driver_version"]) == ("580", "580.159.03")
    assert found.comparable["gpu_clocks"] == "locked to the base clock"
    assert found.observed["gpu_sm_mhz"] == "1980"
    assert found.observed["throttling"] == "software thermal slowdown, software power cap"


def test_the_facts_of_a_record_name_those_behind_the_digest(server):
    found = fingerprint(server)
    facts = found.facts()
    assert facts["fingerprint"] == found.digest
    assert {name: facts[name] for name in facts["fingerprint_of"].split(",")} == found.comparable
