"""Constants of compiled models take no more memory than in the file, and code calls no more than it must."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

import circlet
from circlet.embed.compiled import Compiled
from circlet.runtime.ir.model import ABSENT, Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from tests.embed.models import accepted, compiled

SCALE, ZERO_POINT = 4, 8
"""Bytes in a file of a scale and of a zero point."""
OF_COLUMN = 12
"""Bytes that results of a column of weights are scaled by at the most, where the model has one scale for all: the sum
of the weights, a multiplier and a shift."""
OF_OPERATOR = 48
"""Bytes of short tables of places, and of what aligns constants."""
TABLES = {"SOFTMAX": 2052, **dict.fromkeys((
    "ABS", "EXP", "GELU", "HARD_SWISH", "LEAKY_RELU", "LOG", "LOGISTIC", "RELU", "RELU_0_TO_1", "RELU6",
    "RELU_N1_TO_1", "RSQRT", "SQRT", "TANH", "QUANTIZE", "ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM"), 256)}
"""Bytes of the table of a function of 8 bits, and of the two tables of 513 points that softmax of 16 bits has."""
LARGE = 100_000
"""Bytes of constants from which on code, too, is little beside them."""
HOLDING = ("attention", "cnn", "conv", "dense", "embed", "gru", "int8", "lstm", "transformer")
"""Parts of the names of models with weights, and with scales."""
COPYING = {"memcpy", "memset"}
CALLING = ("elementwise_float", "float64_carry", "power_modulo_int64", "residual_int8")
"""Models with double precision, divisions of 64 bits, and copies that may overlap."""
BARE = ("cortex-m0", "cortex-m7", "riscv32imc", "riscv64-none-elf", "thumbv7em-none-eabihf", "thumbv8m.base-none-eabi",
        "riscv32-none-elf", "armv7-linux-gnueabihf", "aarch64", "x86-64")
"""Processors without some instructions, of which others have all."""
FEW = ("cortex-m0", "riscv32imc", "thumbv7em-none-eabihf")
"""Those that code is made for whenever tests run; the others are slow."""


def weighed() -> Iterator[ParameterSet]:
    """The models as parameters of tests, those without constants to speak of slow."""
    for each in accepted():
        has_some = any(kind in str(each.id) for kind in HOLDING)
        yield each if has_some else pytest.param(*each.values, id=each.id, marks=pytest.mark.slow)


def bytes_of(tensor: Tensor) -> int:
    """Of a constant and of its scales and zero points, in a file."""
    if tensor.data is None:
        return 0
    known = tensor.quantization
    size = -(-prod(tensor.shape) // 2) if tensor.dtype is DType.INT4 else tensor.data.nbytes
    return size + (0 if known is None else SCALE * len(known.scales) + ZERO_POINT * len(known.zero_points))


def in_file(model: Model) -> int:
    """Bytes of the constants that are read, each once."""
    found: dict[bytes, int] = {}
    for graph in model.subgraphs:
        read = {tensor for operator in graph.operators for tensor in operator.inputs}
        for each in (read | {*graph.outputs}) - {ABSENT}:
            tensor = graph.tensors[each]
            if tensor.data is not None:
                key = tensor.data.tobytes()
                found[key] = max(found.get(key, 0), bytes_of(tensor))
    return sum(found.values())


def further(model: Model) -> int:
    """Bytes of what a model does not have."""
    total = 0
    for graph in model.subgraphs:
        for operator in graph.operators:
            total += OF_OPERATOR + TABLES.get(operator.name, 0)
            weights = (graph.tensors[each] for each in operator.inputs if each != ABSENT)
            columns = -1 if operator.name == "DEPTHWISE_CONV_2D" else 0
            total += OF_COLUMN * sum(each.shape[columns] for each in weights
                                     if each.quantization is not None and each.is_constant and len(each.shape) > 1)
    return total


@pytest.mark.slow
@pytest.mark.parametrize("path", list(weighed()))
def test_small_code(path: Path) -> None:
    model = circlet.load(path)
    for found, _ in compiled(path, "cortex-m4", is_small=True):
        assert_no_constant_is_wider_than_in_the_file(model, found)
        assert {*found.contents.needed} <= COPYING


def assert_no_constant_is_wider_than_in_the_file(model: Model, found: Compiled) -> None:
    size, most = found.contents.data_bytes, in_file(model)
    assert size <= most + further(model)
    if size >= LARGE:
        assert size <= 1.02 * most
        assert found.contents.code_bytes <= 0.05 * size


@pytest.mark.parametrize("is_small", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("target", [pytest.param(each, marks=() if each in FEW else pytest.mark.slow) for each in BARE])
@pytest.mark.parametrize("path", [each for each in accepted() if Path(str(each.values[0])).stem in CALLING])
def test_calls(path: Path, target: str, is_small: bool) -> None:
    for found, _ in compiled(path, target, is_small):
        assert {*found.contents.needed} <= COPYING


@pytest.mark.slow
@pytest.mark.parametrize(("target", "filled"), [("aarch64-dotprod", 1.2), ("wasm32", 1.2), ("x86-64-v3", 1.05)])
@pytest.mark.parametrize("path", [each for each in accepted() if isinstance(each.id, str) and "real" in each.id])
def test_fast_code(path: Path, target: str, filled: float) -> None:
    """Columns of integers are filled up to whole vectors, those of real numbers to halves and quarters of them."""
    model = circlet.load(path)
    for found, _ in compiled(path, target):
        assert found.contents.data_bytes <= filled * in_file(model) + 2 * further(model)


@pytest.mark.parametrize("target", ["x86-64-v4", "aarch64"])
def test_loops_of_the_model_are_not_unrolled(target: str) -> None:
    """Where code is to be fast: it is not any faster, and was three times as large."""
    path = Path(__file__).parent.parent / "models" / "break_continue.tflite"
    fast, small = (sum(found.contents.code_bytes for found, _ in compiled(path, target, is_small))
                   for is_small in (False, True))
    assert fast <= 1.5 * small
