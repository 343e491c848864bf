"""The models that are compiled ahead of time by tests, and those that cannot be, with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

import circlet
from circlet.embed import compile_model
from circlet.embed.compiled import Compiled
from tests.models.expectations import Expectation, read

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "examples", ROOT / "tests" / "models", *(sorted((ROOT.parent / "shared" / "models").glob("*"))))
LENGTHS = "shapes that are known only when it runs"
REFUSED = {
    "call_once_mul": LENGTHS,
    "cache_additive": LENGTHS,
    "cache_gru": LENGTHS,
    "cache_heads": LENGTHS,
    "cache_tokens": LENGTHS,
    "cnn_int16x8": "SOFTMAX",
    "complex_parts": "complex64",
    "computed_shapes": LENGTHS,
    "cond_shapes": LENGTHS,
    "cond_transposed": LENGTHS,
    "counter": LENGTHS,
    "grow_concat": LENGTHS,
    "grow_pad": LENGTHS,
    "hash_table": "elements of type string",
    "indexing": "SEGMENT_SUM",
    "k_means": "UNSORTED_SEGMENT_SUM",
    "list_dynamic": LENGTHS,
    "list_dynamic_update": LENGTHS,
    "non_zero": LENGTHS,
    "normalizations": "REVERSE_SEQUENCE",
    "shrink": LENGTHS,
    "spectrum": "RFFT2D",
    "string_gather": "elements of type string",
    "unique": LENGTHS,
    "variable_cond": LENGTHS,
    "variable_loop": LENGTHS,
    "volumes": "CONV_3D",
    "window": LENGTHS,
}
"""What is said of models that have no code for devices."""
WITHOUT_HALVES = ("riscv64", "wasm32", "wasm32-simd", "x86-64", "x86-64-v2")
"""The targets that have no conversions of float16, and so refuse `float16_carry`."""


def models() -> list[Path]:
    """The models with expectations."""
    return [each for folder in FOLDERS for each in sorted(folder.glob("*.tflite")) if each.with_suffix(".npz").exists()]


def accepted() -> list[ParameterSet]:
    """Those that are compiled, as parameters of tests."""
    return [pytest.param(each, id=f"{each.parent.name}-{each.stem}") for each in models() if each.stem not in REFUSED]


def compiled(path: Path, target: str, is_small: bool = False) -> Iterator[tuple[Compiled, list[Expectation]]]:
    """A model compiled for each signature and shapes that there are calls of, and these calls."""
    groups: dict[object, list[Expectation]] = {}
    for call in read(path.with_suffix(".npz")):
        kind = call.signature, *((name, value.shape) for name, value in call.inputs.items())
        groups.setdefault(kind, []).append(call)
    for calls in groups.values():
        shapes = {name: value.shape for name, value in calls[0].inputs.items()}
        yield compile_model(circlet.load(path), target, path.stem, calls[0].signature or None, shapes, is_small), calls
