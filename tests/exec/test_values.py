"""What values an element type takes: those that it holds exactly, and Python's numbers as literals of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlet
from circlet.runtime.exec.values.rule import elements
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.quantize import Cast
from tests.schema.onnx.graphs import load

Array = npt.NDArray[Any]
GIVEN = [each for each in DType
         if each.element is not None and each not in (DType.STRING, DType.VARIANT, DType.RESOURCE, DType.BOOL)]
"""The types of numbers."""
INTEGERS = {each: (ml_dtypes.iinfo if each.numpy != each.element else np.iinfo)(each.element)
            for each in GIVEN if "int" in each.value}
COMPLEX = {DType.COMPLEX64: np.float32, DType.COMPLEX128: np.float64}


def taken(value: Any, dtype: DType) -> Array | None:
    """The elements that a type makes of a value; None where it refuses it."""
    try:
        array = elements(value, dtype, "x")
    except circlet.InputError:
        return None
    assert array.dtype == dtype.numpy
    assert dtype.element is not None
    return array.view(dtype.element)


def holds(number: Any, dtype: DType) -> bool:
    """Whether a type holds a number, by exact arithmetic."""
    if isinstance(number, complex):
        if dtype in COMPLEX:
            part = DType.of(COMPLEX[dtype])
            return holds(number.real, part) and holds(number.imag, part)
        return number.imag == 0 and holds(number.real, dtype)
    if dtype in INTEGERS:
        limits = INTEGERS[dtype]
        return math.isfinite(number) and number == int(number) and limits.min <= number <= limits.max
    with np.errstate(all="ignore"):
        made = complex(np.array([number]).astype(np.float64).astype(dtype.element)[0]).real
    if not (math.isfinite(number) and math.isfinite(made)):
        return made == number or (math.isnan(number) and math.isnan(made))
    return Fraction(made) == Fraction(number)


def python(number: Any) -> Any:
    """An element as one of Python's numbers."""
    kind = number.dtype.kind
    if kind in "iu" or "int" in number.dtype.name:
        return int(number)
    return complex(number) if kind == "c" else float(number)


NEAR = sorted({sign * ((1 << power) + step) for power in (*range(12), 15, 16, 23, 24, 25, 31, 32, 52, 53, 54, 62, 63)
               for step in (-1, 0, 1) for sign in (-1, 1)})


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    """An array of some type, of any bits or of numbers near powers of two."""
    dtype = draw(st.sampled_from(GIVEN))
    assert dtype.element is not None
    if draw(st.booleans()):
        content = draw(st.binary(min_size=dtype.numpy.itemsize, max_size=3 * dtype.numpy.itemsize))
        whole = len(content) // dtype.numpy.itemsize * dtype.numpy.itemsize
        return np.frombuffer(content[:whole], dtype.numpy).view(dtype.element)
    numbers = [each for each in draw(st.lists(st.sampled_from(NEAR), min_size=1, max_size=3))
               if dtype not in INTEGERS or INTEGERS[dtype].min <= each <= INTEGERS[dtype].max]
    with np.errstate(all="ignore"):
        kind = np.float64 if dtype not in INTEGERS else np.uint64 if dtype is DType.UINT64 else np.int64
        array: Array = np.array(numbers, kind).astype(dtype.element)
    return array


@given(arrays(), st.sampled_from(GIVEN))
@settings(max_examples=150, deadline=None)
def test_an_array_is_taken_if_the_type_holds_every_element(array: Array, dtype: DType) -> None:
    numbers = [python(each) for each in array]
    found = taken(array, dtype)
    assert (found is not None) == all(holds(each, dtype) for each in numbers)
    if found is not None:
        assert found.dtype == dtype.element
        for one, number in zip(found, numbers, strict=True):
            assert python(one) == number or (number != number and python(one) != python(one))


numbers = st.one_of(st.integers(-(1 << 64), 1 << 64), st.sampled_from(NEAR), st.floats(width=64), st.floats(width=16))


@given(st.lists(numbers, max_size=3), st.sampled_from(GIVEN), st.booleans())
@settings(max_examples=100, deadline=None)
def test_numbers_of_python_are_literals(given: list[Any], dtype: DType, nested: bool) -> None:
    """Integers are exact; floats are rounded, but what is finite stays so."""
    found = taken([given] if nested else given, dtype)
    if found is None:
        assert given
        readable = all(-(1 << 63) <= each < 1 << 63 for each in given if isinstance(each, int))
        with np.errstate(all="ignore"):
            rounded = np.array([float(each) for each in given]).astype(dtype.element).astype(complex)
        overflows = any(math.isfinite(each) and not np.isfinite(one) for each, one in zip(given, rounded, strict=True))
        infinite = any(math.isinf(each) and one != each for each, one in zip(given, rounded, strict=True))
        mixed = any(abs(each) >= 1 << 53 for each in given if math.isfinite(each))
        assert (not all(holds(each, dtype) for each in given) or mixed) if dtype in INTEGERS else \
            overflows or infinite or not readable
        return
    for number, one in zip(given, found.reshape(-1), strict=True):
        if dtype in INTEGERS:
            assert python(one) == number
        elif math.isnan(number):
            assert python(one) != python(one)
        else:
            nearest = np.float64(number).astype(dtype.element)
            assert one == nearest or one == np.array(number).astype(dtype.element)


@pytest.mark.parametrize("dtype", [*GIVEN, DType.BOOL])
def test_nothing_is_lost_on_the_way_through(dtype: DType) -> None:
    b = ModelBuilder()
    main = b.subgraph()
    main.output(main.input("x", dtype, (-1,)))
    session = circlet.Session(b.build())
    value = np.array([0, 1, 1, 0]).astype(dtype.element)
    for each in (value, value.tolist() if dtype is not DType.BOOL else [False, True, True, False]):
        (found,) = session.run([each]).values()
        assert found.dtype == dtype.element == session.inputs["x"].dtype == session.outputs["x"].dtype
        assert found.tobytes() == value.tobytes()
        assert not np.shares_memory(found, value)


@pytest.mark.parametrize(("dtype", "raw", "expected"), [
    (DType.INT4, [0x21, 0x0F], [1, 2, -1]), (DType.UINT4, [0x21, 0x0F], [1, 2, 15]),
    (DType.INT2, [0b11100100, 1], [0, 1, -2, -1, 1]), (DType.FLOAT8_E4M3FN, [56, 0xC4], [1, -3]),
    (DType.BFLOAT16, [0, 0, 0x80, 0x3F], [0, 1]),
])
def test_constants_of_few_bits_are_results(dtype: DType, raw: list[int], expected: list[int]) -> None:
    data = np.array(raw, np.uint8).view(dtype.numpy)
    data.setflags(write=False)
    tensors = Tensor("x", DType.FLOAT32, ()), Tensor("c", dtype, (len(expected),), data=data)
    session = circlet.Session(Model((Subgraph("main", tensors, (0,), (1,), ()),)))
    for _ in range(2):
        found = session.run([0])["c"]
        assert found.dtype == dtype.element
        assert found.astype(float).tolist() == expected
        found[...] = 0


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_bfloat16_is_computed_with(backend: str) -> None:
    b = ModelBuilder()
    main = b.subgraph()
    x = main.input("x", DType.BFLOAT16, (-1,))
    wide = main.op(Cast(), x, outputs=[Tensor("w", DType.FLOAT32, (1,), (-1,))])[0]
    main.output(x, wide, main.constant(np.array([0.5, 3], ml_dtypes.bfloat16)))
    session = circlet.Session(b.build(), backend)
    for each in ([1, 2.5, -3], np.array([1, 2.5, -3], np.float32), np.array([1, 2.5, -3], ml_dtypes.bfloat16),
                 np.array([1, 2.5, -3])):
        x_back, w, constant = session.run([each]).values()
        assert x_back.dtype == constant.dtype == ml_dtypes.bfloat16
        assert w.dtype == np.float32
        assert x_back.tolist() == w.tolist() == [1, 2.5, -3]
        assert constant.tolist() == [0.5, 3]
    with pytest.raises(circlet.InputError, match=r"found float32 with 0\.1 at"):
        session.run([np.array([0.1], np.float32)])
    (found, _, _) = session.run([[0.1]]).values()
    assert found[0] == ml_dtypes.bfloat16(0.1)


@dataclass(frozen=True)
class Foreign:
    """An array of another library, as numpy sees one."""

    data: Array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.data, dtype)


@dataclass(frozen=True)
class Exchanged:
    """An array that only DLPack hands over."""

    data: Array

    def __dlpack__(self, **options: Any) -> Any:
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.data.__dlpack_device__()


class Failing:
    """An array on a device that numpy cannot read, or that needs to be detached first."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        raise RuntimeError("use .cpu() first")


def float_session() -> circlet.Session:
    b = ModelBuilder()
    main = b.subgraph()
    main.output(main.input("x", DType.FLOAT32, (2,)))
    return circlet.Session(b.build())


@pytest.mark.parametrize("wrap", [Foreign, Exchanged, lambda data: np.ma.array(data, mask=False), memoryview,
                                  lambda data: list(map(np.array, data))],
                         ids=["array", "dlpack", "masked", "memoryview", "list"])
def test_objects_of_other_libraries_obey_the_rule_of_arrays(wrap: Any) -> None:
    session = float_session()
    for exact in (np.array([0.5, 2.0]), np.array([0.5, 2.0], np.float32)):
        (found,) = session.run([wrap(exact)]).values()
        assert found.dtype == np.float32
        assert found.tolist() == [0.5, 2.0]
    with pytest.raises(circlet.InputError, match=r"found float64 with 0\.1 at \[1\], which float32 does not hold"):
        session.run([wrap(np.array([0.5, 0.1]))])


def test_what_other_libraries_raise_is_an_input_error() -> None:
    with pytest.raises(circlet.InputError, match=r"input 'x': use \.cpu\(\) first"):
        float_session().run([Failing()])


def test_tensors_of_torch() -> None:
    torch = pytest.importorskip("torch")
    session = float_session()
    assert session.run([torch.tensor([0.5, 2.0], dtype=torch.float64)])["x"].tolist() == [0.5, 2.0]
    with pytest.raises(circlet.InputError, match="which float32 does not hold"):
        session.run([torch.tensor([0.1, 2.0], dtype=torch.float64)])
    with pytest.raises(circlet.InputError, match="grad"):
        session.run([torch.ones(2, requires_grad=True)])


def test_columns_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    session = float_session()
    assert session.run([pandas.Series([0.5, 2.0])])["x"].tolist() == [0.5, 2.0]
    with pytest.raises(circlet.InputError, match="which float32 does not hold"):
        session.run([pandas.Series([0.1, 2.0])])


HOLDERS = """seqs (seq(float) s, optional(float[2]) o, optional(seq(int64)) q, seq(string) t, string[N] w)
    => (seq(float) s2, optional(float[2]) o2, optional(seq(int64)) q2, seq(string) t2, string[N] w2, string first)
    { s2 = Identity(s)
      o2 = Identity(o)
      q2 = Identity(q)
      t2 = Identity(t)
      w2 = Identity(w)
      zero = Constant<value_int=0>()
      first = SequenceAt(t, zero) }"""
"""Passes on every kind of value that ONNX has."""


@pytest.fixture(scope="module")
def holders() -> circlet.Session:
    return circlet.Session(load(HOLDERS), backend="cpu")


def same(found: Any, expected: Any) -> None:
    """Compares lists, None and arrays."""
    if expected is None:
        assert found is None
    elif isinstance(expected, list):
        assert isinstance(found, list)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    else:
        np.testing.assert_array_equal(found, expected, strict=True)


TEXT = np.array(["é", ""], object)


@pytest.mark.parametrize(("o", "q"), [(None, None), (np.array([1, 2], np.float32), [np.int64(3), np.arange(2)]),
                                      (np.array([1, 2], np.float32), [])])
def test_sequences_optionals_and_text(holders: circlet.Session, o: Any, q: Any) -> None:
    s, t = [np.array([1, 2], np.float32), np.array([[3]], np.float32)], [np.array("ab", object), TEXT]
    found = holders.run({"s": s, "o": o, "q": q, "t": t, "w": TEXT})
    expected = [s, o, None if q is None else list(map(np.asarray, q)), t, TEXT, np.array("ab", object)]
    same(list(found.values()), expected)
    again = holders.run([*found.values()][:5])
    same(list(again.values()), expected)
    for each in found["s2"]:
        each[...] = 7
    same(list(holders.run({"s": s, "o": o, "q": q, "t": t, "w": TEXT}).values()), expected)


def test_elements_of_sequences_have_the_declared_type(holders: circlet.Session) -> None:
    found = holders.run({"s": [0.1, [1, 2], np.float64(0.5)], "o": [1, 2], "q": [3], "t": ["a", b"b"], "w": ["x"]})
    same(found["s2"], [np.array(0.1, np.float32), np.array([1, 2], np.float32), np.array(0.5, np.float32)])
    same(found["o2"], np.array([1, 2], np.float32))
    same(found["q2"], [np.array(3)])
    same(found["t2"], [np.array("a", object), np.array("b", object)])


@pytest.mark.parametrize(("name", "value", "message"), [
    ("s", None, "expected sequence of float32, as a list, found NoneType"),
    ("s", np.array([1], np.float32), "expected sequence of float32, as a list, found ndarray"),
    ("s", [np.array(0.1)], r"input 's\[0\]': expected element type float32, found float64 with 0.1"),
    ("s", [1, "a"], r"input 's\[1\]': expected element type float32, found <U1"),
    ("o", "a", "expected element type float32, found <U1"),
    ("q", 3, "expected sequence of int64, as a list, found int"),
    ("q", [3, 0.5], r"input 'q\[1\]': 0.5 does not fit element type int64"),
    ("t", [1], r"input 't\[0\]': expected str or bytes elements, found int"),
])
def test_refused_holders(holders: circlet.Session, name: str, value: Any, message: str) -> None:
    inputs: dict[str, Any] = {"s": [], "o": None, "q": None, "t": ["a"], "w": ["x"]}
    with pytest.raises(circlet.InputError, match=message):
        holders.run({**inputs, name: value})


def test_types_are_told(holders: circlet.Session) -> None:
    assert [str(each) for each in holders.inputs.values()] == [
        "s: sequence of float32", "o: optional float32", "q: optional sequence of int64", "t: sequence of string",
        "w: string[?]"]
    assert [each.type for each in holders.outputs.values()][-2:] == ["string", "string"]


def strings(model: Model, values: Sequence[Any]) -> list[Any]:
    (found,) = circlet.Session(model, backend="cpu").run([values]).values()
    return list(found)


def test_strings_are_text_in_onnx_and_bytes_elsewhere() -> None:
    b = ModelBuilder()
    main = b.subgraph()
    main.output(main.input("x", DType.STRING, (-1,)))
    text = load("strings (string[N] x) => (string[N] y) { y = Identity(x) }")
    assert strings(b.build(), ["é", b"\xff"]) == ["é".encode(), b"\xff"]
    assert strings(text, ["é", b"ab"]) == ["é", "ab"]
    assert strings(text, strings(text, [b"\xff", "a\0"])) == ["\udcff", "a\0"]
