from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from torchperf_ci.bench.worker.session import WorkerSession
from torchperf_ci.bench.worker.torch_environment import steers, torch_environment
from torchperf_ci.machine.devices.interface import TorchGpu

SET = {
    "DNNL_DEFAULT_FPMATH_MODE": "BF16",
    "TORCHINDUCTOR_MAX_AUTOTUNE": "1",
    "OMP_PROC_BIND": "close",
    "LD_PRELOAD": "",
    "FBGEMM_ENABLE_INSTRUCTIONS": "AVX2",
    "GLIBC_TUNABLES": "glibc.malloc.mmap_max=0",
    "OPENBLAS_CORETYPE": "NEOVERSEN1",
    "TORCH_MKLDNN_MATMUL_MIN_DIM": "64",
}
UNTOLD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TORCHINDUCTOR_CACHE_DIR": "/somewhere/1234",
    "TORCHINDUCTOR_REDIS_URL": "redis://:s3cret@cache:6379",
    "DNNL_VERBOSE": "1",
    "GPU_API_TOKEN": "secret",
    "CUDA_LAUNCH_BLOCKING": "1",  # nothing on the CPU waits for it
}


@pytest.fixture
def comparable(monkeypatch):
    for name, value in {**SET, **UNTOLD}.items():
        monkeypatch.setenv(name, value)
    return torch_environment("cpu").comparable


def test_variables_that_steer_kernels_count(comparable):
    assert {name: comparable[name] for name in SET} == SET
    assert not set(UNTOLD) & set(comparable)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("NVIDIA_TF32_OVERRIDE", True),
        ("PYTORCH_CUDA_ALLOC_CONF", True),
        ("PYTORCH_HIP_ALLOC_CONF", True),
        ("PYTORCH_TUNABLEOP_ENABLED", True),
        ("PYTORCH_TUNABLEOP_FILENAME", False),
        ("PYTORCH_NO_CUDA_MEMORY_CACHING", True),
        ("CUBLAS_WORKSPACE_CONFIG", True),
        ("TORCH_LINALG_PREFER_CUSOLVER", True),
        ("TORCH_ROCM_FA_PREFER_CK", True),
        ("PYTORCH_MIOPEN_SUGGEST_NHWC", True),
        ("MIOPEN_FIND_MODE", True),
        ("MIOPEN_USER_DB_PATH", False),
        ("HSA_ENABLE_SDMA", True),
        ("TRITON_CACHE_DIR", False),
        ("PYTORCH_ENABLE_MPS_FALLBACK", True),
        ("ZE_AFFINITY_MASK", False),
        ("CUDA_VISIBLE_DEVICES", False),
    ],
)
def test_on_accelerators_more_of_them_count(name, told):
    assert steers(name, "cuda") == told


def test_of_preloaded_libraries_the_names_count(monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "/opt/conda/lib/libjemalloc.so:/usr/lib/libiomp5.so")
    assert torch_environment("cpu").comparable["LD_PRELOAD"] == "libjemalloc.so libiomp5.so"


def test_of_the_name_of_dynamos_profile_only_that_there_is_one_counts(monkeypatch):
    """It may be the number of the job: each run would begin a new series."""
    monkeypatch.setenv("TORCH_COMPILE_JOB_ID", "nightly-4711")
    assert torch_environment("cpu").comparable["TORCH_COMPILE_JOB_ID"] == "set"


def test_the_versions_of_what_workloads_require_are_told():
    told = WorkerSession().describe("cpu", []).environment.dependencies
    assert {"diffusers", "timm", "torchvision", "transformers"} <= told.keys()
    assert (
        "a-library-that-is-missing"
        not in torch_environment("cpu", ["a-library-that-is-missing"]).dependencies
    )


@pytest.mark.filterwarnings("ignore:Implicit None:DeprecationWarning")
def test_what_an_interrupted_installation_has_left_has_no_version_to_tell(tmp_path, monkeypatch):
    (tmp_path / "half_installed-1.0.dist-info").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert None not in torch_environment("cpu", ["half-installed"]).dependencies.values()


def test_python_itself_is_not_told_as_imported(tmp_path, monkeypatch):
    """A Python in the checkout, such as an environment of conda, is not the code of the commits."""
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    suite = tmp_path / "suite.py"
    suite.write_text(
        "import wave\nfrom torchperf_ci.suite import workload\nworkload('made/work', 'x')(lambda batch: None)\n"
    )
    names = {Path(file).name for file in WorkerSession().describe("cpu", [str(suite)]).imported}
    assert ("suite.py" in names, "wave.py" in names) == (True, False)


def test_an_apple_gpu_has_the_memory_that_metal_recommends(monkeypatch):
    """Half of which limits a batch size that is searched for: two workers of a pair must fit."""
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 10_922 << 20)
    assert torch_environment("mps").seen == TorchGpu(memory_mib=10_922, count=1)
