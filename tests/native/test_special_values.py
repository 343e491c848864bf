"""NaN, infinities, zeros of both signs and subnormal numbers: both backends give the same, as IEEE 754 has it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules
from zlib import crc32

import numpy as np
import pytest

import circlet
import tests.ops
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, DType
from circlet.runtime.ops import comparison, elementwise, normalize, quantize
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.index import Where
from tests.native.against_cpu import Array, agree, applied, values
from tests.native.native_cases import model_of
from tests.native.test_unary import extremes
from tests.ops.cases import Case, T, as_t

TOLERANCES = {"float16": 1e-3, "float32": 1e-4, "float64": 1e-9, "complex64": 1e-4, "complex128": 1e-9}
TIES = frozenset({"REDUCE_MAX", "REDUCE_MIN", "MAX_POOL_2D"})
"""Operators that may give either of two zeros."""
SUMS = frozenset({"test_conv", "test_matmul", "test_recurrent", "test_normalize", "test_pool", "test_spectral",
                  "test_resize"})
"""The families whose zeros may be sums that cancelled or products that were too small, so that either sign is right."""
MIXED = frozenset({"RFFT2D"})
"""Operators that may make NaN of any infinity, as they add each number to others of every sign."""
FAMILIES = [each.name for each in iter_modules(tests.ops.__path__) if each.name.startswith("test_")]
KINDS = {
    "all": (np.nan, np.inf, -np.inf, 0.0, -0.0),
    "zeros": (0.0, -0.0),
    "infinities": (np.inf, -np.inf),
    "subnormal": (1e-40, -1e-40, 1e-45),
}


def expect_same(found: Array, wanted: Array, signs: bool, tolerance: float | None = None) -> None:
    """NaN and infinities are at the same places, zeros have the same signs, and other numbers are near."""
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    if found.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, wanted)
        return
    if found.dtype.kind == "c":
        found, wanted = (each.view(each.real.dtype) for each in (found, wanted))
    bound = max(TOLERANCES[found.dtype.name], tolerance or 0.0)
    finite = wanted[np.isfinite(wanted)]
    np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound * float(np.abs(finite).max(initial=0.01)))
    if signs:
        zeros = (found == 0) & (wanted == 0)
        np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(wanted[zeros]))


def _replaced(each: T, kind: str, random: np.random.Generator) -> T:
    array = each.array
    if array.dtype.kind != "f":
        return each
    chosen = random.choice(KINDS[kind], array.shape).astype(array.dtype)
    return replace(each, value=np.where(random.random(array.shape) < 0.3, chosen, array), shape=each.tensor.shape)


def with_numbers(case: Case, kind: str, inputs: Sequence[int]) -> Case:
    """The case with numbers of a kind among those of some inputs."""
    random = np.random.default_rng(crc32(f"{case.op} {case.id} {kind} {inputs}".encode()))
    return replace(case, inputs=[each if each is None or k not in inputs else _replaced(as_t(each), kind, random)
                                 for k, each in enumerate(case.inputs)])


def cases_of(family: str) -> list[Case]:
    """The cases of a family that have real inputs."""
    lists = (each for each in vars(import_module(f"tests.ops.{family}")).values() if isinstance(each, list))
    found = {id(case): case for each in lists for case in each
             if isinstance(case, Case) and case.error is None and any(
                 each is not None and as_t(each).array.dtype.kind == "f" for each in case.inputs)}
    return list(found.values())


def _compare_backends(case: Case, signs: bool) -> None:
    model, given = model_of(case)
    arrays = [each.array for each in given]
    native, cpu = (circlet.Session(model, backend) for backend in ("native", "cpu"))
    try:
        expected = cpu.invoke(0, arrays)
    except circlet.ExecutionError as error:
        with pytest.raises(circlet.ExecutionError, match=re.escape(error.message)):
            native.invoke(0, arrays)
        return
    for found, wanted in zip(native.invoke(0, arrays), expected, strict=True):
        expect_same(found, wanted, signs, case.tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_cases_of_every_float_operator(family: str, kind: str) -> None:
    differing = []
    for case in cases_of(family):
        positions = range(0 if case.op.name in MIXED and np.isinf(KINDS[kind]).any() else len(case.inputs))
        for inputs in (tuple(positions), *((k,) for k in positions)):
            try:
                _compare_backends(with_numbers(case, kind, inputs), family not in SUMS and case.op.name not in TIES)
            except AssertionError as error:
                differing.append(f"{case.op.name} {case.id!r}, inputs {inputs}: {error}")
    assert not differing, "\n".join(differing)


ON_TWO: Sequence[Op] = [
    *(make(activation) for make in (elementwise.Add, elementwise.Sub, elementwise.Mul, elementwise.Div)
      for activation in (Activation.NONE, Activation.RELU, Activation.RELU6, Activation.RELU_N1_TO_1)),
    elementwise.FloorMod(), elementwise.StablehloRemainder(), elementwise.Pow(), elementwise.Maximum(),
    elementwise.Minimum(), elementwise.SquaredDifference(), elementwise.Atan2(), elementwise.Prelu(),
    elementwise.AddN(), elementwise.StablehloDivide(), elementwise.StablehloMaximum(), elementwise.StablehloMinimum(),
    comparison.Equal(), comparison.NotEqual(), comparison.Less(), comparison.LessEqual(), comparison.Greater(),
    comparison.GreaterEqual(),
]


@pytest.mark.parametrize("dtype", [DType.FLOAT32, pytest.param(DType.FLOAT64, marks=pytest.mark.slow),
                                   pytest.param(DType.FLOAT16, marks=pytest.mark.slow)])
def test_every_pair_of_extreme_values(dtype: DType) -> None:
    """All operators on two numbers in one model."""
    x = np.unique(extremes(dtype))
    x = np.append(x, dtype.numpy.type(-0.0))
    x[np.isnan(x)] = np.nan  # numpy's sort of float16 can leave a signalling one, whose power of 0 is not decided
    grids = [each.reshape(-1).copy() for each in np.meshgrid(x, x)]
    b = ModelBuilder()
    main = b.subgraph("main")
    given = [main.input(name, dtype, each.shape) for name, each in zip("xy", grids, strict=True)]
    main.output(*(main.apply(op, *given) for op in ON_TWO))
    model = b.build()
    native, cpu = (circlet.Session(model, backend).invoke(0, grids) for backend in ("native", "cpu"))
    for found, wanted in zip(native, cpu, strict=True):
        expect_same(found, wanted, signs=True)


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize(("op", "x", "y", "expected"), [
    (elementwise.Pow(), [-np.inf, -0.0, 0.0, 4.0, np.nan], [0.5], [np.inf, 0.0, 0.0, 2.0, np.nan]),
    (elementwise.Add(Activation.RELU), [-0.0, 0.0, np.nan, -np.inf, -3.0], [-0.0], [-0.0, 0.0, np.nan, 0.0, 0.0]),
    (elementwise.Div(), [0.0, -1.0, np.inf, 1.0, -0.0], [0.0, -0.0, np.inf, np.inf, 5.0],
     [np.nan, np.inf, np.nan, 0.0, -0.0]),
    (elementwise.Maximum(), [np.nan, 1.0, 0.0, -0.0], [1.0, np.nan, -0.0, 0.0], [1.0, np.nan, -0.0, 0.0]),
    (elementwise.StablehloMaximum(), [np.nan, 1.0, 0.0, -0.0], [1.0, np.nan, -0.0, 0.0], [np.nan, np.nan, 0.0, -0.0]),
    (elementwise.StablehloMinimum(), [np.nan, 1.0, 0.0, -0.0], [1.0, np.nan, -0.0, 0.0], [np.nan, np.nan, 0.0, -0.0]),
], ids=lambda each: each.name if isinstance(each, Op) else "")
def test_defined_results(op: Op, x: list[float], y: list[float], expected: list[float], backend: str) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    arrays = [np.array(each, np.float32) for each in (x, y)]
    main.output(main.apply(op, *(main.input(name, DType.FLOAT32, each.shape)
                                 for name, each in zip("xy", arrays, strict=True))))
    (found,) = circlet.Session(b.build(), backend).invoke(0, arrays)
    expect_same(found, np.array(expected, np.float32), signs=True)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32], ids=["uint8", "uint32"])
def test_unsigned_integers_are_not_clamped_to_a_negative_bound(dtype: type[np.unsignedinteger]) -> None:
    x = np.array([0, 1, 2, 255], dtype)
    agree(applied(elementwise.Add(Activation.RELU_N1_TO_1)), x, np.zeros(1, dtype))


def _convolved(image: Array, filter: Array, op: Conv2D | DepthwiseConv2D) -> Array:
    """By the definition: only what lies inside the image counts. The filter is (o, h, w, c), or (1, h, w, c)."""
    tall, wide = op.windows(image.shape, filter.shape)
    apart = isinstance(op, DepthwiseConv2D)
    made = np.zeros((len(image), tall.count, wide.count, filter.shape[3] if apart else len(filter)), np.float32)
    for y, x, k, m in np.ndindex(tall.count, wide.count, tall.size, wide.size):
        row = y * tall.stride - tall.before + k * tall.dilation
        column = x * wide.stride - wide.before + m * wide.dilation
        if 0 <= row < tall.length and 0 <= column < wide.length:
            seen = image[:, row, column]
            with np.errstate(all="ignore"):
                made[:, y, x] += seen * filter[0, k, m] if apart else (seen[:, None] * filter[:, k, m]).sum(axis=-1)
    return made


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize("is_constant", [True, False], ids=["constant", "given"])
@pytest.mark.parametrize("op", [Conv2D(stride_w=1, stride_h=2, dilation_w_factor=2),
                                DepthwiseConv2D(stride_w=1, stride_h=2, dilation_w_factor=2)],
                         ids=lambda op: op.name)
def test_infinite_weights_over_padding_count_for_nothing(op: Conv2D | DepthwiseConv2D, is_constant: bool,
                                                         backend: str) -> None:
    image = values((2, 5, 6, 3), np.float32, 1)
    filter = values((1 if isinstance(op, DepthwiseConv2D) else 4, 3, 3, 3), np.float32, 2)
    for weight in (np.inf, 1.0):
        filter[0, 0, 2, 1] = weight
        b = ModelBuilder()
        main = b.subgraph("main")
        x = main.input("x", DType.FLOAT32, image.shape)
        weights = main.constant(filter) if is_constant else main.input("filter", DType.FLOAT32, filter.shape)
        rest = main.input("rest", DType.FLOAT32, ())
        main.output(main.apply(Add(), main.apply(op, x, weights), rest))
        given = [image, *([] if is_constant else [filter]), np.array(1, np.float32)]
        (found,) = circlet.Session(b.build(), backend).invoke(0, given)
        expect_same(found, _convolved(image, filter, op) + 1, signs=False)


@pytest.mark.parametrize(("op", "shape", "other"), [
    *((make(), (0, 3), [1, 0, -1]) for make in (elementwise.Div, elementwise.FloorDiv, elementwise.FloorMod,
                                                elementwise.Pow)),
    *((make(), (0,), [0]) for make in (elementwise.Div, elementwise.FloorDiv, elementwise.FloorMod)),
    (elementwise.Pow(), (2, 0), [-1]),
], ids=lambda each: each.name if isinstance(each, Op) else "")
@pytest.mark.parametrize("is_constant", [True, False], ids=["constant", "given"])
def test_empty_results_do_not_fail(op: Op, shape: tuple[int, ...], other: list[int], is_constant: bool) -> None:
    x, y = np.zeros(shape, np.int32), np.array(other, np.int32)
    if is_constant:
        agree(applied(op, y), x)
    else:
        agree(applied(op), x, y)


@pytest.mark.parametrize("shape", [(0,), (2, 0), (1, 2, 3, 0)], ids=str)
def test_empty_axes_are_normalised(shape: tuple[int, ...]) -> None:
    agree(applied(normalize.LocalResponseNormalization(1, 1.0, 1.0, 0.5)), np.zeros(shape, np.float32))


def test_segments_without_native_code_may_divide_by_zero() -> None:
    """What follows WHERE is compiled for a few lengths only; numpy's warnings are errors here."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x, y = main.input("x", DType.FLOAT32, (16,)), main.input("y", DType.FLOAT32, ())
    positive = main.apply(comparison.Greater(), x, y)
    (found,) = main.op(quantize.Cast(), main.apply(Where(), positive),
                       outputs=[Tensor("found", DType.FLOAT32, (), has_rank=False)])
    main.output(main.apply(elementwise.Div(), found, y))
    session = circlet.Session(b.build(), "native")
    for count in range(1, 15):
        given = np.where(np.arange(16) < count, 1, -1).astype(np.float32)
        (quotients,) = session.invoke(0, [given, np.array(0, np.float32)])
        np.testing.assert_array_equal(quotients[:, 0], [np.nan, *[np.inf] * (count - 1)])
