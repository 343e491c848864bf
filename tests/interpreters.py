"""The two interpreters that tests run one script on: LiteRT's and circlet's."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes as ml_dtypes  # LiteRT leaves tensors of bfloat16 out until somebody imports it
import numpy as np
import numpy.typing as npt
import pytest

import circlet.interpreter as ours

litert = pytest.importorskip("ai_edge_litert.interpreter")
BOTH = pytest.mark.parametrize("face", [litert, ours], ids=["litert", "circlet"])

FOLDER = Path(__file__).parent / "models"
CONTENT = (FOLDER / "cond.tflite").read_bytes()


def ones(*shape: int) -> npt.NDArray[np.float32]:
    return np.ones(shape, np.float32)


def create(face: ModuleType, model: str | Path | bytes, **options: Any) -> Any:
    """An interpreter that has LiteRT's kernels alone, no delegates."""
    kind = face.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    options = {"experimental_op_resolver_type": kind} | options
    if isinstance(model, bytes):
        return face.Interpreter(model_content=model, **options)
    return face.Interpreter(FOLDER / f"{model}.tflite" if isinstance(model, str) else model, **options)
