from __future__ import annotations

import json

import pytest

from torchperf_ci.machine import examination
from torchperf_ci.machine.devices.cpu import Cpu
from torchperf_ci.machine.doctor import diagnose, verdict
from torchperf_ci.machine.examination import DoctorFinding, machine_state


def finding(check, level):
    return DoctorFinding(check, level, "found", "why", "do")


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ([finding("turbo", "ok")], "This machine gives trustworthy numbers."),
        (
            [finding("turbo", "warn"), finding("smt", "warn"), finding("swap", "ok")],
            "Numbers from this machine are usable, and best in pairs: turbo and smt may make them noisy.",
        ),
        (
            [finding("turbo", "warn"), finding("compiler", "bad")],
            "Do not trust absolute numbers from this machine: first deal with compiler.",
        ),
    ],
)
def test_the_verdict_is_one_sentence(findings, expected):
    assert verdict(findings) == expected


@pytest.mark.parametrize(
    ("capabilities", "may"),
    [("000001ffffffffff", True), ("00000000a80425fb", False), ("0000000000000000", False)],
    ids=["root", "root in a container", "user"],
)
def test_whether_clocks_can_be_locked_is_a_capability(monkeypatch, capabilities, may):
    status = f"Name:\tpython\nCapPrm:\t000001ffffffffff\nCapEff:\t{capabilities}\nCapBnd:\t0"
    monkeypatch.setattr(examination, "text", lambda _path: status)
    assert machine_state(Cpu()).administrator == may


def test_this_machine_is_examined():
    state = machine_state(Cpu())
    assert state.condition is None
    findings = diagnose(state)
    assert {"steadiness", "governor", "compiler", "swap"} <= {finding.check for finding in findings}
    assert json.loads(json.dumps([vars(finding) for finding in findings]))
    assert verdict(findings).endswith(".")
