from __future__ import annotations

import json

from torchperf_ci.machine.devices.xpu import Xpu

LIST = {
    "device_list": [{"device_id": 0, "device_name": "Intel(R) Data Center GPU Max 1550", "uuid": "u-0"}] * 2
}
DETAILS = {"memory_physical_size_byte": str(64 << 30), "driver_version": "I915_25.1"}


def test_identity_is_what_xpu_smi_says(tmp_path, monkeypatch):
    (tmp_path / "list").write_text(json.dumps(LIST))
    (tmp_path / "details").write_text(json.dumps(DETAILS))
    program = tmp_path / "xpu-smi"
    program.write_text(
        f'#!/bin/sh\nif [ "$2" = -d ]; then exec /bin/cat {tmp_path}/details; fi\nexec /bin/cat {tmp_path}/list\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    identity = Xpu().identity()
    assert (identity.name, identity.type) == ("xpu", "Intel(R) Data Center GPU Max 1550")
    assert (identity.gpu_count, identity.gpu_memory_mib, identity.driver) == (2, 65536, "I915_25.1")


def test_an_answer_that_is_not_json_is_none(tmp_path, monkeypatch):
    program = tmp_path / "xpu-smi"
    program.write_text("#!/bin/sh\necho Error: Level Zero Initialization Error\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Xpu().identity().type == "unknown Intel GPU"
