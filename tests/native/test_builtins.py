"""Functions that stand where processors have no instructions give what the instructions do, on this processor."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from math import copysign
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from llvmlite import ir

from circlet.backends.native.aot.builtins.body import Body, Function, Kind
from circlet.backends.native.aot.builtins.conversions import CONVERSIONS
from circlet.backends.native.aot.builtins.integers import INTEGERS
from circlet.backends.native.aot.builtins.memory import memory
from circlet.backends.native.aot.builtins.reals import REALS
from circlet.backends.native.load.llvm import Library, host, link, object_code
from circlet.backends.native.lower.passes import Passes
from circlet.backends.native.lower.pieces import Piece
from circlet.runtime.records import replace

Array = npt.NDArray[Any]
COUNT = 3000
OF_C: dict[object, type] = {32: ctypes.c_int32, 64: ctypes.c_int64, ir.FloatType(): ctypes.c_float,
                            ir.DoubleType(): ctypes.c_double}
REAL: dict[str, type[np.floating]] = {"sf": np.float32, "df": np.float64}
INTEGER: dict[str, type[np.integer]] = {"si": np.int32, "di": np.int64}


class Two(ctypes.Structure):
    """A quotient and a remainder."""

    _fields_ = (("quotient", ctypes.c_int64), ("rest", ctypes.c_int64))


class Called:
    """A function of these in this process, under a name that no other has."""

    def __init__(self, function: Function, word: int = 32, is_small: bool = True) -> None:
        module = ir.Module("builtins")
        module.triple, module.data_layout = host().triple, host().data_layout
        Body(module, replace(function, name="tried"), word, is_small).function.linkage = "external"
        self._library: Library = link([object_code(Piece(str(module), Passes.NONE), host())], "tried", ["memcpy"])
        result = _of_c(function.results[0]) if len(function.results) == 1 else Two
        kinds = [_of_c(each) for each in function.arguments]
        self.call = ctypes.CFUNCTYPE(result, *kinds)(self._library.address)

    def __call__(self, *arguments: Array) -> list[float]:
        return [self.call(*some) for some in zip(*(each.tolist() for each in arguments), strict=True)]


def _of_c(kind: Kind) -> type:
    return OF_C[kind]


def whole(kind: type[np.integer], seed: int) -> Array:
    """Any integers, of any length."""
    random = np.random.default_rng(seed)
    bits = np.dtype(kind).itemsize * 8
    some = random.integers(0, 256, COUNT * bits // 8, np.uint8).view(kind)
    some >>= random.integers(0, bits, COUNT).astype(kind)
    ends = [0, 1, -1, 2, 255, 65535, 65536, np.iinfo(kind).max, np.iinfo(kind).min, np.iinfo(kind).min + 1]
    return np.concatenate([some, *(np.full(10, end, kind) for end in ends), np.array(ends * 10, kind)])


def real(kind: type[np.floating], seed: int) -> Array:
    """Any patterns, numbers that are near each other, and special ones."""
    random = np.random.default_rng(seed)
    special = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, np.finfo(kind).max, -np.finfo(kind).tiny,
               float(np.finfo(kind).smallest_subnormal), 2147483648.0, -2147483648.0, 4294967295.0, 9.3e18, -9.3e18]
    patterns = random.integers(0, 256, COUNT * np.dtype(kind).itemsize, np.uint8).view(kind)
    near = (random.standard_normal(COUNT) * 4.0 ** random.integers(-3, 18, COUNT)).astype(kind)
    exact = random.integers(-64, 64, COUNT).astype(kind)
    tiny = (random.standard_normal(COUNT) * float(np.finfo(kind).tiny)).astype(kind)
    ends = np.array(special, kind)
    rows, columns = np.meshgrid(ends, ends)
    return np.concatenate([patterns, near, exact, tiny, (rows if seed % 2 else columns).reshape(-1)])


KNOWN = {**INTEGERS, **REALS, **CONVERSIONS}
QUOTIENTS = [f"__{name}{kind}3" for name in ("udiv", "umod", "div", "mod") for kind in INTEGER]


@pytest.mark.parametrize("word", [32, 64])
@pytest.mark.parametrize("name", QUOTIENTS)
def test_quotients(name: str, word: int) -> None:
    kind = INTEGER[name[-3:-1]]
    x, y = whole(kind, 1), whole(kind, 2)
    x, y = np.concatenate([x, np.repeat(x[-100:], 100)]), np.concatenate([y, np.tile(y[-100:], 100)])
    x, y = x[y != 0], y[y != 0]
    fits = (y != -1) | (x != np.iinfo(kind).min)
    x, y = x[fits], y[fits]
    unsigned = np.dtype(kind.__name__.replace("int", "uint"))
    one, other = (x.view(unsigned), y.view(unsigned)) if "u" in name else (x, y)
    rest = np.fmod(one, other)
    expected = rest if "mod" in name else (one - rest) // other
    assert Called(KNOWN[name], word)(x, y) == expected.view(kind).tolist()


def test_quotients_with_remainders() -> None:
    x, y = np.array([7, -7, 7, -7, 2**63 - 1], np.int64), np.array([2, 2, -2, -2, 10**10], np.int64)
    found = Called(KNOWN["__aeabi_ldivmod"])(x, y)
    assert [(each.quotient, each.rest) for each in found] == [  # type: ignore[attr-defined]
        (3, 1), (-3, -1), (-3, 1), (3, -1), divmod(2**63 - 1, 10**10)]


OTHERS = ["__mulsi3", "__muldi3", "__clzsi2", "__aeabi_lmul", "__ashldi3", "__lshrdi3", "__ashrdi3"]


@pytest.mark.parametrize("name", ["__mulsi3", "__muldi3", "__aeabi_lmul"])
def test_products(name: str) -> None:
    kind = np.int32 if "si" in name else np.int64
    x, y = whole(kind, 3), whole(kind, 4)
    assert Called(KNOWN[name])(x, y) == (x * y).tolist()


def test_leading_zeros() -> None:
    x = whole(np.int32, 5)
    assert Called(KNOWN["__clzsi2"])(x) == [32 - int(each & 0xFFFFFFFF).bit_length() for each in x.tolist()]


def test_shifts() -> None:
    x = whole(np.int64, 6)
    count = np.arange(len(x), dtype=np.int32) % 64
    assert Called(KNOWN["__ashldi3"])(x, count) == (x << count).tolist()
    assert Called(KNOWN["__ashrdi3"])(x, count) == (x >> count).tolist()
    unsigned = x.view(np.uint64) >> count.view(np.uint32)
    assert Called(KNOWN["__lshrdi3"])(x, count) == unsigned.view(np.int64).tolist()


OF_ARITHMETIC: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
ARITHMETIC = [f"__{name}{kind}3" for name in OF_ARITHMETIC for kind in REAL]


@pytest.mark.parametrize("is_small", [True, False])
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic(name: str, is_small: bool) -> None:
    kind = REAL[name[-3:-1]]
    x, y = real(kind, 7), real(kind, 8)
    with np.errstate(all="ignore"):
        expected = OF_ARITHMETIC[name[2:5]](x, y)
    same(Called(KNOWN[name], is_small=is_small)(x, y), expected)


def same(found: list[float], expected: Array) -> None:
    """The same numbers, with the same signs of zeros."""
    array = np.array(found, expected.dtype)
    np.testing.assert_array_equal(array, expected)
    for one, other in zip(found, expected.tolist(), strict=True):
        assert other != 0 or copysign(1, one) == copysign(1, other)


COMPARISONS = [f"__{name}{kind}2" for name in ("eq", "ne", "lt", "le", "gt", "ge", "unord") for kind in REAL]


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons(name: str) -> None:
    """By the sign of what they give, as compilers read it."""
    kind, test = REAL[name[-3:-1]], name[2:-3]
    x, y = real(kind, 9), real(kind, 10)
    x, y = np.concatenate([x, x]), np.concatenate([y, x])
    found = np.array(Called(KNOWN[name])(x, y))
    unordered = np.isnan(x) | np.isnan(y)
    tests: dict[str, tuple[Array, Array]] = {
        "eq": (found == 0, x == y), "ne": (found == 0, x == y), "lt": (found < 0, x < y), "le": (found <= 0, x <= y),
        "gt": (found > 0, x > y), "ge": (found >= 0, x >= y), "unord": (found != 0, unordered)}
    np.testing.assert_array_equal(*tests[test])


@pytest.mark.parametrize(("name", "test"), [
    ("__aeabi_fcmpeq", np.equal), ("__aeabi_fcmplt", np.less), ("__aeabi_dcmple", np.less_equal),
    ("__aeabi_dcmpgt", np.greater), ("__aeabi_fcmpge", np.greater_equal)])
def test_comparisons_of_arm(name: str, test: Callable[[Array, Array], Array]) -> None:
    kind = np.float32 if name[8] == "f" else np.float64
    x, y = real(kind, 11), real(kind, 12)
    assert Called(KNOWN[name])(x, y) == test(x, y).astype(int).tolist()


TO_REAL = [f"__float{sign}{integer}{kind}" for sign in ("", "un") for integer in INTEGER for kind in REAL]
TO_INTEGER = [f"__fix{sign}{kind}{integer}" for sign in ("", "uns") for integer in INTEGER for kind in REAL]
TO_OTHER = ["__extendsfdf2", "__truncdfsf2"]


@pytest.mark.parametrize("name", TO_REAL)
def test_integers_as_real_numbers(name: str) -> None:
    x = whole(INTEGER[name[-4:-2]], 13)
    given = x.view(np.dtype(x.dtype.name.replace("int", "uint"))) if "un" in name else x
    same(Called(KNOWN[name])(x), given.astype(REAL[name[-2:]]))


@pytest.mark.parametrize("name", TO_INTEGER)
def test_real_numbers_as_integers(name: str) -> None:
    integer = INTEGER[name[-2:]]
    x = real(REAL[name[-4:-2]], 14)
    kind = np.dtype(integer.__name__.replace("int", "uint")) if "uns" in name else np.dtype(integer)
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    expected = [0 if each != each else least if each <= least else most if each >= most else int(each)
                for each in x.tolist()]
    assert Called(KNOWN[name])(x) == np.array(expected, kind).view(integer).tolist()


@pytest.mark.parametrize("name", TO_OTHER)
def test_the_other_width(name: str) -> None:
    given: Array = real(np.float32, 15)
    to: type[np.floating] = np.float64
    with np.errstate(all="ignore"):
        if name == "__truncdfsf2":
            single, to = given.astype(np.float64), np.float32
            given = np.concatenate([real(np.float64, 16), single, single * (1 + 2.0**-24)])
        same(Called(KNOWN[name])(given), given.astype(to))


@pytest.mark.parametrize("first", [0, 1, 8, 24, 40])
@pytest.mark.parametrize("second", [0, 3, 16, 32, 40])
@pytest.mark.parametrize("count", [0, 1, 7, 16, 40])
def test_copies(first: int, second: int, count: int) -> None:
    """Places that overlap in either order, that do not, and that are one; in whole words and not."""
    found = np.arange(96, dtype=np.uint64).view(np.uint8)[:96]
    expected = found.copy()
    expected[first:first + count] = expected[second:second + count].copy()
    move = Called(memory(64)["memmove"], 64)
    begin = found.ctypes.data
    assert move.call(begin + first, begin + second, count) == begin + first
    np.testing.assert_array_equal(found, expected)


def test_every_function_is_tried() -> None:
    """Those that Arm has other names for are the same ones."""
    tried = {*QUOTIENTS, *OTHERS, *ARITHMETIC, *COMPARISONS, *TO_REAL, *TO_INTEGER, *TO_OTHER}
    assert tried >= {each for each in KNOWN if not each.startswith("__aeabi_")}
