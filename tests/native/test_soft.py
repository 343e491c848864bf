"""Functions that stand for instructions have their results."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from llvmlite import ir

from circlet.backends.native.emit.emitter import POINTER, Emitter
from circlet.backends.native.emit.soft import SOFT, extended, truncated
from circlet.backends.native.load.llvm import host, link, object_code
from circlet.backends.native.lower.passes import Passes
from circlet.backends.native.lower.pieces import Piece
from tests.native.compiled import call_of

Floats = npt.NDArray[np.floating]
EXACT: dict[str, Callable[..., Floats]] = {
    "ceil": np.ceil, "floor": np.floor, "rint": np.rint, "trunc": np.trunc, "maximum": np.maximum}
KINDS = {np.float32: ir.FloatType(), np.float64: ir.DoubleType()}


def computed(name: str, kind: type[np.floating], *arguments: Floats) -> Floats:
    """What the code gives, element by element."""
    module = ir.Module("soft")
    module.triple, module.data_layout = host().triple, host().data_layout
    count = len(arguments)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER] * (count + 1)), "soft")
    e = Emitter(module, function, host())
    values = [e.builder.load(each, typ=KINDS[kind]) for each in function.args[:count]]
    e.builder.store(SOFT[name](e, *values), function.args[count])
    e.builder.ret_void()
    library = link([object_code(Piece(str(module), Passes.ALL), host())], "soft")
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (count + 1))(library.address)
    found = np.zeros(len(arguments[0]), kind)
    size = found.itemsize
    for k in range(len(found)):
        call(*(each.ctypes.data + k * size for each in arguments), found.ctypes.data + k * size)
    return found


def numbers(kind: type[np.floating], count: int, seed: int) -> Floats:
    """Any patterns, numbers near integers, and special ones."""
    random = np.random.default_rng(seed)
    some = np.array([0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, np.inf, -np.inf, np.nan, 1e30, -1e30, 1e-30], kind)
    patterns = random.integers(0, 256, count * np.dtype(kind).itemsize, np.uint8).view(kind)
    near = (random.integers(-2**25, 2**25, count) * 0.5).astype(kind)
    return np.concatenate([some, patterns, near, np.nextafter(near, kind(0))])


@pytest.mark.parametrize("kind", KINDS, ids=["float32", "float64"])
@pytest.mark.parametrize("name", ["ceil", "floor", "rint", "trunc"])
def test_integers(name: str, kind: type[np.floating]) -> None:
    x = numbers(kind, 2000, 0)
    with np.errstate(invalid="ignore"):
        found, expected = computed(name, kind, x), EXACT[name](x)
    np.testing.assert_array_equal(found, expected)
    is_number = ~np.isnan(x)
    np.testing.assert_array_equal(np.signbit(found)[is_number], np.signbit(expected)[is_number])


@pytest.mark.parametrize("kind", KINDS, ids=["float32", "float64"])
def test_maximum(kind: type[np.floating]) -> None:
    x, y = numbers(kind, 2000, 1), numbers(kind, 2000, 2)
    x, y = np.concatenate([x, x, y]), np.concatenate([y, x, -x])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(computed("maximum", kind, x, y), np.maximum(x, y))
    zeros = np.array([0.0, -0.0], kind)
    assert not np.signbit(computed("maximum", kind, zeros, zeros[::-1].copy())).any()


@pytest.mark.parametrize("kind", KINDS, ids=["float32", "float64"])
@pytest.mark.parametrize(("name", "expected"), [
    ("minnum", np.fmin), ("minimumnum", np.fmin), ("maxnum", np.fmax), ("maximumnum", np.fmax)])
def test_extremes_of_numbers(name: str, expected: Callable[..., Floats], kind: type[np.floating]) -> None:
    x, y = numbers(kind, 2000, 1), numbers(kind, 2000, 2)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(computed(name, kind, x, y), expected(x, y))


@pytest.mark.parametrize("kind", KINDS, ids=["float32", "float64"])
def test_square_roots(kind: type[np.floating]) -> None:
    info = np.finfo(kind)
    least = np.array([info.smallest_subnormal, info.tiny, info.max, 4, 2, 1, np.nextafter(kind(1), kind(0))], kind)
    with np.errstate(invalid="ignore", over="ignore"):
        x = np.concatenate([numbers(kind, 5000, 4), least, least * kind(3)])
        found, expected = computed("sqrt", kind, x), np.sqrt(x)
    np.testing.assert_array_equal(found, expected)
    assert not np.signbit(computed("sqrt", kind, np.zeros(1, kind))[0])


@pytest.mark.parametrize("kind", KINDS, ids=["float32", "float64"])
def test_fused_products(kind: type[np.floating]) -> None:
    random = np.random.default_rng(3)
    x, y, noise = (random.standard_normal(5000).astype(kind) for _ in range(3))
    z = np.where(random.integers(0, 2, 5000) == 0, noise, -x * y * (1 + noise * kind(1e-6))).astype(kind)
    found = computed("fma", kind, x, y, z)
    for a, b, c, one in zip(x, y, z, found, strict=True):
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        near = kind(float(exact)) if kind is np.float64 else _rounded(exact)
        assert one == near, (a, b, c)


def _rounded(exact: Fraction) -> np.float32:
    """The float32 nearest to a number, of two the even one."""
    guess = np.float32(float(exact))
    around = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    return min(around, key=lambda each: (abs(Fraction(float(each)) - exact), int(each.view(np.uint32)) & 1))


def test_halves_of_all_patterns() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)

    def write(e: Emitter, source: ir.Value, target: ir.Value) -> None:
        with e.loop(halves.size) as k:
            half = e.builder.load(e.address(source, ir.HalfType(), k), typ=ir.HalfType())
            e.builder.store(extended(e.builder, half), e.address(target, ir.FloatType(), k))

    found = np.zeros(halves.size, np.float32)
    call_of(write)(halves, found)
    expected = halves.astype(np.float32)
    is_number = ~np.isnan(expected)
    np.testing.assert_array_equal(found[is_number].view(np.uint32), expected[is_number].view(np.uint32))
    assert np.isnan(found[~is_number]).all()


def test_numbers_become_the_nearest_halves() -> None:
    """Any patterns, and numbers in the middle of two halves or next to that."""
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    middles = (halves[:-1] + halves[1:]) / 2
    near = [np.nextafter(middles, np.float32(to)) for to in (-np.inf, np.inf)]
    numbers_ = np.concatenate([halves, middles, *near, -middles, numbers(np.float32, 20000, 5).astype(np.float32)])

    def write(e: Emitter, source: ir.Value, target: ir.Value) -> None:
        with e.loop(numbers_.size) as k:
            x = e.builder.load(e.address(source, ir.FloatType(), k), typ=ir.FloatType())
            e.builder.store(truncated(e.builder, x), e.address(target, ir.HalfType(), k))

    found = np.zeros(numbers_.size, np.float16)
    call_of(write)(numbers_, found)
    with np.errstate(over="ignore"):
        expected = numbers_.astype(np.float16)
    is_number = ~np.isnan(expected)
    np.testing.assert_array_equal(found[is_number].view(np.uint16), expected[is_number].view(np.uint16))
    assert np.isnan(found[~is_number]).all()
