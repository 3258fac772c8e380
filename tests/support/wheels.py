"""Wheels made by hand."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def made_wheel(folder: Path, stem: str, files: Mapping[str, str], needs: Sequence[str] = ()) -> Path:
    """A wheel named ``stem`` (``name-version-python-abi-platform``) of ``files``, which needs ``needs``."""
    name, version, tag = stem.split("-", 2)
    info = f"{name}-{version}.dist-info"
    needed = "".join(f"Requires-Dist: {need}\n" for need in needs)
    described = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}",
        "WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
        "RECORD": "",
    }
    wheel = folder / f"{stem}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in {**files, **{f"{info}/{k}": v for k, v in described.items()}}.items():
            archive.writestr(path, content)
    return wheel
