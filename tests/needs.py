"""Marks of tests that need what circlet itself runs without."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from circlet.backends.platform import Feature, current

NATIVE = pytest.mark.skipif(not current().has(Feature.LLVM), reason=f"no LLVM: {current().lacks.get(Feature.LLVM)}")
ONNX = pytest.mark.skipif(find_spec("onnx") is None, reason="the package onnx is not installed")
OPENVINO = pytest.mark.skipif(find_spec("openvino") is None, reason="the package openvino is not installed")
