"""A Python project that pip installs without an index, beside a wheel that stands for torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wheels import made_wheel

from torchperf_ci.init.starter_files import LIBRARIES

if TYPE_CHECKING:
    from pathlib import Path

PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "smallnet"
version = "1.0"
dependencies = ["torch>=2"]
"""
# Builds a wheel of the package with the standard library alone.
BACKEND = """
import zipfile
from pathlib import Path

WHEEL = "smallnet-1.0-py3-none-any.whl"
METADATA = "Metadata-Version: 2.1\\nName: smallnet\\nVersion: 1.0\\nRequires-Dist: torch>=2\\n"


def build_wheel(folder, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(Path(folder, WHEEL), "w") as wheel:
        wheel.write("smallnet/__init__.py")
        wheel.writestr("smallnet-1.0.dist-info/METADATA", METADATA)
        wheel.writestr("smallnet-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr("smallnet-1.0.dist-info/RECORD", "")
    return WHEEL
"""
PACKAGE = '''"""Of which two workloads are measured."""


def add(left, right):
    return left + right
'''


def write_project(folder: Path) -> None:
    """The project's files in ``folder``."""
    (folder / "smallnet").mkdir(parents=True)
    (folder / "smallnet/__init__.py").write_text(PACKAGE)
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (folder / "backend.py").write_text(BACKEND)


def torch_shelf(folder: Path, torch: Path) -> dict[str, str]:
    """pip's settings with which it finds the torch of the environment ``torch`` in ``folder``, and empty libraries."""
    folder.mkdir()
    (site,) = torch.glob("lib/python3*/site-packages")
    made_wheel(folder, "torch-2.13.0+cpu-py3-none-any", {"real_torch.pth": f"{site}\n"})
    for library in ("torchvision==0.28.0", *LIBRARIES.split()):
        made_wheel(folder, f"{library.replace('==', '-')}-py3-none-any", {})
    return {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": folder.as_uri(),
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
