from __future__ import annotations

import json
import platform

import chdb
import pytest

from torchperf_ci.machine.devices.cpu import Cpu
from torchperf_ci.machine.devices.nvidia import Cuda
from torchperf_ci.machine.host import runner_entry, take_fingerprint

COLUMN = (
    "runners Array(Tuple(name String, type String, cpu_info String, cpu_count UInt32, mem_info String, "
    "avail_mem_in_gb UInt32, gpu_info String, gpu_count UInt32, gpu_mem_info String, avail_gpu_mem_in_gb UInt32, "
    "extra_info Map(String, String)))"
)


@pytest.fixture(autouse=True)
def linux(monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Linux")


def through_the_database(entry):
    """What the column of the results table makes of the entry."""
    line = json.dumps({"runners": [entry]}).replace("\\", "\\\\").replace("'", "\\'")
    answer = chdb.query(f"SELECT runners FROM format(JSONEachRow, '{COLUMN}', '{line}')", "JSONEachRow")
    return json.loads(str(answer))["runners"][0]


def test_a_gpu_machine_comes_back_from_the_database_as_it_went_in(server, nvidia):
    nvidia.nvmlDeviceGetName.side_effect = lambda _: "NVIDIA 'H100'"
    entry = runner_entry(Cuda().identity(), take_fingerprint(Cuda(), {}, {}, root=server), server)
    assert through_the_database(entry) == entry
    assert entry["cpu_count"] == 4
    assert entry["avail_mem_in_gb"] == 64
    assert entry["gpu_count"] == 2
    assert entry["gpu_mem_info"] == "81559 MiB"
    assert entry["avail_gpu_mem_in_gb"] == 159


def test_a_cpu_machine_has_no_gpu(server):
    entry = runner_entry(Cpu(server).identity(), take_fingerprint(Cpu(server), {}, {}, root=server), server)
    assert through_the_database(entry) == entry
    assert (entry["gpu_info"], entry["gpu_count"], entry["avail_gpu_mem_in_gb"]) == ("", 0, 0)
