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
    "complex_parts": "complex64",
    "hash_table": "elements of type string",
    "list_dynamic_update": LENGTHS,
    "string_gather": "elements of type string",
}
"""What is said of models that have no code for devices."""
CAPACITY = 128
"""Room for lengths that nothing bounds: more than in any of the calls."""
TOO_LARGE = ("bigadd", "bigscatter", "mobilenet_v2", "mobilenet_v2_int8")
"""Models with inputs and expectations that the emulated boards of Cortex-M have no memory for."""
LONG = ("cache_additive", "cache_heads", "cache_tokens", "cnn_batch", "cnn_int8_float_border", "cnn_uint8_border",
        "lstm_stacked", "mobilenet_v2", "mobilenet_v2_int8", "ocr_dr", "okay_nabu", "transformer_loop")
"""Models that take long to compile: their tests are slow."""


def models() -> list[Path]:
    """The models with expectations."""
    return [each for folder in FOLDERS for each in sorted(folder.glob("*.tflite")) if each.with_suffix(".npz").exists()]


def accepted() -> list[ParameterSet]:
    """Those that are compiled, as parameters of tests."""
    return [
        pytest.param(each, id=f"{each.parent.name}-{each.stem}", marks=pytest.mark.slow if each.stem in LONG else ())
        for each in models() if each.stem not in REFUSED]


def compiled(path: Path, target: str, is_small: bool = False) -> Iterator[tuple[Compiled, list[Expectation]]]:
    """A model compiled for the shapes that there are calls of, and these calls."""
    for key, shapes, calls in wanted(path):
        yield compile_model(circlet.load(path), target, path.stem, key, shapes, is_small, capacity=CAPACITY), calls


def wanted(path: Path) -> Iterator[tuple[str | None, dict[str, tuple[int, ...]], list[Expectation]]]:
    """What to compile for the calls that there are of a model: signature, shapes, and these calls; all signatures
    together where each has one set of shapes, so that calls share a state."""
    calls = read(path.with_suffix(".npz"))
    groups: dict[object, list[Expectation]] = {}
    for call in calls:
        groups.setdefault((call.signature, *_shapes(call).items()), []).append(call)
    shapes = {name: shape for call in calls for name, shape in _shapes(call).items()}
    are_alike = len(groups) == len({call.signature for call in calls}) and all(
        shapes[name] == shape for call in calls for name, shape in _shapes(call).items())
    if are_alike and len(groups) > 1:
        yield None, shapes, calls
        return
    for some in groups.values():
        yield some[0].signature or None, _shapes(some[0]), some


def _shapes(call: Expectation) -> dict[str, tuple[int, ...]]:
    return {name: value.shape for name, value in call.inputs.items()}
