from __future__ import annotations

import inspect
import re
from dataclasses import replace
from pathlib import Path

import pytest

from torchperf_ci.machine import doctor, examination
from torchperf_ci.machine.devices.cpu import Processor
from torchperf_ci.machine.devices.interface import GpuCondition, Throttling
from torchperf_ci.machine.doctor import diagnose
from torchperf_ci.machine.examination import BlockNoise, DeviceExercise, MachineState
from torchperf_ci.machine.host import Host, IdleState

GIB = 2**30
IDEAL = Host(
    Processor("Xeon", cores=48, threads=48),
    system="Linux",
    kernel="6.8.0",
    governors=("performance",),
    turbo=False,
    idle_states=(IdleState("C1", 2, disabled=False), IdleState("C6", 133, disabled=True)),
    isolated=(2, 3),
    tickless=(2, 3),
    memory_total=64 * GIB,
    memory_available=60 * GIB,
    load=0.5,
    cpu_pressure=0.0,
    steal=0.0,
)
COOL = GpuCondition(temperature=40, slowdown_temperature=87, persistence=True)
FACTS = MachineState(
    IDEAL,
    BlockNoise(cv=0.002, typical=0.02),
    condition=COOL,
    compiler="g++ 12",
    administrator=True,
)


def test_a_gpu_that_was_given_work_says_how_steady_it_was():
    def finding(**cv):
        noise = {kind: BlockNoise(value, 0.02) for kind, value in cv.items()}
        (found,) = (
            one
            for one in diagnose(replace(FACTS, exercise=DeviceExercise(noise, "1455")))
            if one.check == "gpu steadiness"
        )
        return found

    steady = finding(products=0.001, launches=0.01)
    assert steady.level == "ok"
    assert steady.state.endswith("equal blocks of launches vary by 1.0%; its clock was 1455 MHz")
    assert finding(products=0.001, launches=0.04).level == "warn"
    assert finding(products=0.3, launches=0.01).level == "bad"
    assert "gpu steadiness" not in {one.check for one in diagnose(FACTS)}


def with_host(**changes):
    return replace(FACTS, host=replace(IDEAL, **changes))


def with_gpu(**changes):
    return replace(FACTS, condition=replace(COOL, **changes))


def finding_of(name, facts):
    (found,) = (finding for finding in diagnose(facts) if finding.check == name)
    return found


def level_of(name, facts):
    return finding_of(name, facts).level


@pytest.mark.parametrize(
    ("check", "facts", "state"),
    [
        ("isolation", with_host(isolated=(2,)), "CPUs isolated: 1, free of the tick"),
        ("virtual machine", with_host(hypervisor=""), "no hypervisor is known"),
        ("gpu processes", with_gpu(processes=None), "not reported"),
        ("gpu processes", with_gpu(processes=()), "none"),
        ("heat", with_host(throttle_events=0), "cores were throttled 0 times since boot"),
        ("heat", with_host(throttle_events=None), "the machine does not count it"),
        ("virtual machine", with_host(hypervisor="QEMU", steal=None), "virtual (QEMU)"),
        ("other load", with_host(load=0.5, cpu_pressure=None), "load 0.50 on 48 CPUs"),
        ("isolation", FACTS, "CPUs isolated: 2, free of the tick"),
        ("isolation", with_host(tickless=(2,)), "CPUs isolated: 2, but not free of the tick (nohz_full)"),
    ],
)
def test_a_check_says_what_it_saw_and_not_0_for_what_nobody_counts(check, facts, state):
    assert finding_of(check, facts).state == state


def test_an_ideal_machine_has_nothing_to_find():
    findings = diagnose(FACTS)
    assert {finding.level for finding in findings} == {"ok"}
    assert len({finding.check for finding in findings}) == len(findings)


@pytest.mark.parametrize(
    ("check", "facts", "level"),
    [
        ("governor", with_host(governors=()), "ok"),
        ("governor", with_host(governors=("powersave",)), "warn"),
        ("governor", with_host(governors=("performance", "powersave")), "warn"),
        ("turbo", with_host(turbo=None), "ok"),
        ("turbo", with_host(turbo=True), "warn"),
        ("smt", with_host(processor=Processor("Xeon", cores=48, threads=96)), "warn"),
        ("idle states", with_host(idle_states=(IdleState("C6", 133, disabled=False),)), "warn"),
        ("idle states", with_host(idle_states=()), "ok"),
        ("isolation", with_host(isolated=(), tickless=()), "warn"),
        ("isolation", with_host(tickless=()), "ok"),
        ("heat", with_host(throttle_events=7), "warn"),
        ("virtual machine", with_host(hypervisor="QEMU", steal=0.001), "warn"),
        ("virtual machine", with_host(hypervisor="QEMU", steal=None), "warn"),
        ("virtual machine", with_host(hypervisor="QEMU", steal=0.05), "bad"),
        ("cpu quota", with_host(cpu_quota=1.5), "warn"),
        ("other load", with_host(load=40.0), "warn"),
        ("other load", with_host(cpu_pressure=0.3), "bad"),
        ("other load", with_host(cpu_pressure=None), "ok"),
        ("memory", with_host(memory_available=GIB), "warn"),
        ("memory", with_host(memory_available=0), "ok"),
        ("swap", with_host(swap_used=GIB), "warn"),
        ("swap", with_host(swap_used=4096), "ok"),
        ("compiler", replace(FACTS, compiler=""), "bad"),
        ("gpu tools", with_gpu(problem="NVML Shared Library Not Found"), "bad"),
        ("gpu processes", with_gpu(processes=(4711,)), "bad"),
        ("gpu clock rights", replace(FACTS, administrator=False), "warn"),
        ("gpu persistence", with_gpu(persistence=False), "warn"),
        ("gpu throttling", replace(FACTS, throttling=Throttling(voiding=("hardware slowdown",))), "bad"),
        ("gpu throttling", replace(FACTS, throttling=Throttling(warning=("software power cap",))), "warn"),
        ("gpu throttling", replace(FACTS, throttling=Throttling(known=False)), "warn"),
        ("gpu temperature", with_gpu(temperature=80), "warn"),
        ("gpu temperature", with_gpu(temperature=80, slowdown_temperature=None), "warn"),
        ("gpu temperature", with_gpu(temperature=70, slowdown_temperature=None), "ok"),
        ("steadiness", replace(FACTS, noise=BlockNoise(0.03, 0.02)), "warn"),
        ("steadiness", replace(FACTS, noise=BlockNoise(0.30, 0.02)), "bad"),
    ],
)
def test_a_check_sees_what_is_wrong(check, facts, level):
    assert level_of(check, facts) == level


def test_every_complaint_says_what_to_do():
    worst = replace(
        with_host(
            governors=("powersave",),
            turbo=True,
            isolated=(),
            hypervisor="QEMU",
            cpu_quota=1.0,
            load=400.0,
            swap_used=GIB,
            throttle_events=1,
        ),
        condition=GpuCondition(temperature=90, persistence=False, processes=(1,)),
        noise=BlockNoise(0.5, 0.02),
        compiler="",
        administrator=False,
    )
    complaints = [finding for finding in diagnose(worst) if finding.level != "ok"]
    assert len(complaints) >= 14
    assert all(finding.do and finding.why and finding.state for finding in complaints)


SELDOM = {"gpu tools", "gpu steadiness"}
"""Said only where a GPU has no tools, or was given work."""


def test_every_check_is_asked():
    """A check that is written but left out of its table would never be seen to fail."""
    sources = "".join(inspect.getsource(module) for module in (doctor, examination))
    written = set(re.findall(r'inding\(\s*"([^"]+)"', sources))
    assert written == {finding.check for finding in diagnose(FACTS)} | SELDOM


def test_the_documentation_lists_every_check():
    page = (Path(__file__).parents[2] / "docs/runners.md").read_text()
    table = page.partition("| check |")[2].partition("\n## ")[0]
    documented = {row.split("|")[1].strip() for row in table.splitlines()[2:] if row.startswith("|")}
    assert documented == {finding.check for finding in diagnose(FACTS)} | SELDOM


def test_what_a_gpu_does_not_tell_is_not_judged():
    unknown = replace(FACTS, condition=GpuCondition())
    assert {finding.check for finding in doctor.gpu_findings(unknown)} == {
        "gpu processes",
        "gpu clock rights",
        "gpu throttling",
    }


def test_a_machine_without_a_gpu_has_no_gpu_findings():
    assert doctor.gpu_findings(replace(FACTS, condition=None)) == []


@pytest.mark.parametrize(
    ("cv", "words"),
    [
        (0.005, "this machine can resolve 3% without pairs"),
        (0.1, "this machine cannot resolve 3% without pairs, only 23%"),
    ],
)
def test_steadiness_is_said_in_plain_words(cv, words):
    assert words in examination.steadiness(replace(FACTS, noise=BlockNoise(cv, 0.02))).state
