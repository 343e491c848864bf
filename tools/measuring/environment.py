"""What took part in a measurement: the machine and the packages."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("circlet", "numpy", "ai-edge-litert", "onnxruntime", "openvino", "onert", "llvmlite")


def environment() -> dict[str, str]:
    """The machine and the versions of packages."""
    found = {"python": platform.python_version(), "machine": platform.machine(), "processor": _processor()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
