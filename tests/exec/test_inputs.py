"""What a session takes as inputs, what it refuses and how; and that it never shares memory with its callers."""

from __future__ import annotations

import pickle
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlet
from circlet.runtime.exec.values.inputs import entry_of
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.controlflow import While
from circlet.runtime.ops.elementwise import Add, Sub
from circlet.runtime.ops.layout import Concatenation
from circlet.runtime.ops.shape import Reshape
from tests.exec import graphs as g
from tests.exec.graphs import ELISION, f32, i32

MATRIX = (DType.FLOAT32, (2, 3))


def identity(**inputs: tuple[DType, tuple[int, ...]]) -> Model:
    """A model that returns its inputs."""
    b = ModelBuilder()
    main = b.subgraph("main")
    main.output(*(main.input(name, *kind) for name, kind in inputs.items()))
    return b.build()


def session(dtype: DType, shape: tuple[int, ...] = ()) -> circlet.Session:
    """Takes one input, `x`, and returns it."""
    return circlet.Session(identity(x=(dtype, shape)))


TWO = {"a": MATRIX, "b": (DType.INT32, ())}
ZEROS = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(("inputs", "message"), [
    ({"a": ZEROS}, r"missing b \(the entry point takes a, b\)"),
    ({}, "missing a, b"),
    ({"a": ZEROS, "b": 1, "c": 2}, "unknown c"),
    ({"A": ZEROS, "b": 1}, "missing a; unknown A"),
    ({"a": ZEROS, "b": 1, 3: 2, None: 4}, "unknown 3, None"),
    ([ZEROS], r"expected 2 inputs \(a, b\) as a dict or a list, found 1"),
    ([ZEROS, 1, 2], "expected 2 inputs .*, found 3"),
    ([], "expected 2 inputs .*, found 0"),
    ((ZEROS,), "expected 2 inputs .*, found 1"),
    (np.zeros(2, np.float32), "expected 2 inputs .*, found ndarray"),
    ("ab", "expected 2 inputs .*, found str"),
    (b"ab", "expected 2 inputs .*, found bytes"),
    (None, "expected 2 inputs .*, found NoneType"),
    (7, "expected 2 inputs .*, found int"),
    ((each for each in (ZEROS, 1)), "expected 2 inputs .*, found generator"),
    ({1, 2}, "expected 2 inputs .*, found set"),
])
def test_the_inputs_must_be_those_of_the_entry_point(inputs: Any, message: str) -> None:
    runnable = circlet.Session(identity(**TWO))
    with pytest.raises(circlet.InputError, match=message):
        runnable.run(inputs)
    g.assert_equal(list(runnable.run([ZEROS, 1]).values()), [ZEROS, i32(1)])


@dataclass(frozen=True)
class Wrong:
    """A value that an input refuses, and what the message says about it."""

    dtype: DType
    shape: tuple[int, ...]
    value: Any
    message: str


def objects(*items: object) -> np.ndarray[Any, Any]:
    array = np.empty(len(items), object)
    array[:] = items
    return array


WRONG = [
    Wrong(DType.FLOAT32, (2,), np.array([0, 0.1]), r"expected element type float32, found float64 with 0.1 at \[1\], "
          r"which float32 does not hold: \.astype\('float32'\) would change it"),
    Wrong(DType.FLOAT32, (), np.float64(0.1), "expected element type float32, found float64 with 0.1, which float32"),
    Wrong(DType.FLOAT32, (2,), [np.float64(0.1), 1], "expected element type float32, found float64"),
    Wrong(DType.FLOAT32, (1, 2), [np.array([1, 0.1])], r"found float64 with 0.1 at \[0, 1\]"),
    Wrong(DType.FLOAT32, (2,), i32([1, 1 + (1 << 24)]), "expected element type float32, found int32 with 16777217 at"),
    Wrong(DType.INT32, (), np.int64(1 << 31), "expected element type int32, found int64 with 2147483648, which int32"),
    Wrong(DType.INT32, (2,), np.full(2, 1 << 31, np.uint32), "expected element type int32, found uint32 with 21474836"),
    Wrong(DType.INT32, (2,), np.full(2, 1 << 31, ">i8"), "expected element type int32, found >i8"),
    Wrong(DType.INT32, (1,), np.array([np.nan]), "expected element type int32, found float64 with nan at"),
    Wrong(DType.INT64, (), np.float64(1 << 63), "expected element type int64, found float64"),
    Wrong(DType.BFLOAT16, (), np.float32(0.1), "expected element type bfloat16, found float32 with 0.1"),
    Wrong(DType.BFLOAT16, (), 1e39, r"1e\+39 does not fit element type bfloat16"),
    Wrong(DType.FLOAT8_E4M3FN, (), 1000, "1000 does not fit element type float8_e4m3fn"),
    Wrong(DType.FLOAT8_E4M3FN, (), np.inf, "inf does not fit element type float8_e4m3fn"),
    Wrong(DType.INT4, (2,), [7, 8], r"\[7, 8\] does not fit element type int4"),
    Wrong(DType.MXFP4, (2,), [7, 8], "no array holds elements of type mxfp4"),
    Wrong(DType.FLOAT32, (2,), np.ma.array([1.0, 2.0], mask=[False, True]), "some elements are masked"),
    Wrong(DType.FLOAT32, (1, 2), [np.ma.array([1.0, 2.0], mask=[False, True])], "some elements are masked"),
    Wrong(DType.STRING, (2,), np.ma.array(["a", "b"], mask=[False, True]), "some elements are masked"),
    Wrong(DType.INT64, (2,), [(1 << 53) + 1, 1.0], "does not fit element type int64"),
    Wrong(DType.FLOAT32, (), np.complex64(1j), "expected element type float32, found complex64 with 1j"),
    Wrong(DType.BOOL, (2,), np.zeros(2, np.uint8), "expected element type bool, found uint8"),
    Wrong(DType.INT8, (2,), np.zeros(2, np.bool_), "expected element type int8, found bool"),
    Wrong(DType.INT32, (), 1.5, "1.5 does not fit element type int32"),
    Wrong(DType.INT32, (), 1 << 31, "2147483648 does not fit element type int32"),
    Wrong(DType.INT32, (), -(1 << 31) - 1, "-2147483649 does not fit element type int32"),
    Wrong(DType.INT32, (2,), [1, 1 << 40], r"\[1, 1099511627776\] does not fit element type int32"),
    Wrong(DType.INT64, (), 1 << 63, "9223372036854775808 does not fit element type int64"),
    Wrong(DType.INT64, (), 1 << 64, "expected element type int64, found object"),
    Wrong(DType.UINT8, (), -1, "-1 does not fit element type uint8"),
    Wrong(DType.UINT8, (), 256, "256 does not fit element type uint8"),
    Wrong(DType.INT32, (), True, "True does not fit element type int32"),
    Wrong(DType.FLOAT32, (), True, "True does not fit element type float32"),
    Wrong(DType.BOOL, (), 1, "1 does not fit element type bool"),
    Wrong(DType.FLOAT32, (), 1e39, r"1e\+39 does not fit element type float32"),
    Wrong(DType.FLOAT16, (), 70000, "70000 does not fit element type float16"),
    Wrong(DType.FLOAT32, (), 1j, "1j does not fit element type float32"),
    Wrong(DType.INT32, (100,), [1.5] * 100, r"\[1.5, 1.5, .*\.\.\. does not fit element type int32"),
    Wrong(DType.FLOAT32, (), None, "expected element type float32, found object"),
    Wrong(DType.FLOAT32, (2,), [1, None], "expected element type float32, found object"),
    Wrong(DType.FLOAT32, (), "1", "expected element type float32, found <U1"),
    Wrong(DType.INT32, (2,), ["1", "2"], "expected element type int32, found <U1"),
    Wrong(DType.FLOAT32, (2,), objects(1.0, 2.0), "expected element type float32, found object"),
    Wrong(DType.INT32, (), {"a": 1}, "expected element type int32, found object"),
    Wrong(DType.INT32, (), np.datetime64(1, "s"), "expected element type int32, found datetime64"),
    Wrong(DType.FLOAT32, (2, 2), [[1, 2], [3]], "inhomogeneous"),
    Wrong(DType.FLOAT32, (2,), f32([1, 2, 3]), r"expected shape \(2,\), found \(3,\)"),
    Wrong(DType.FLOAT32, (2, 3), f32([1, 2, 3]), r"expected shape \(2, 3\), found \(3,\)"),
    Wrong(DType.FLOAT32, (), f32([1]), r"expected shape \(\), found \(1,\)"),
    Wrong(DType.FLOAT32, (1,), f32(1), r"expected shape \(1,\), found \(\)"),
    Wrong(DType.FLOAT32, (2,), f32([]), r"expected shape \(2,\), found \(0,\)"),
    Wrong(DType.FLOAT32, (-1, 3), np.zeros((3, 2), np.float32), r"expected shape \(any, 3\), found \(3, 2\)"),
    Wrong(DType.FLOAT32, (-1,), f32([[1]]), r"expected shape \(any,\), found \(1, 1\)"),
    Wrong(DType.STRING, (), 1, "expected str or bytes elements, found int"),
    Wrong(DType.STRING, (2,), ["a", None], "expected str or bytes elements, found NoneType"),
    Wrong(DType.STRING, (2,), f32([1, 2]), "expected str or bytes elements, found float"),
    Wrong(DType.STRING, (2, 2), [["a", "b"], ["c"]], "expected str or bytes elements, found list"),
    Wrong(DType.STRING, (2,), [["a", "b"]], r"expected shape \(2,\), found \(1, 2\)"),
    Wrong(DType.STRING, (), "\ud800", "surrogates not allowed"),
]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: f"{case.dtype.value}-{case.message[:24]}")
def test_refused(case: Wrong) -> None:
    runnable = session(case.dtype, case.shape)
    for _ in range(2):
        with pytest.raises(circlet.InputError, match=f"^input 'x': .*{case.message}"):
            runnable.run({"x": case.value})
    element = case.dtype.element
    if element is not None:
        zero = np.full([max(dim, 1) for dim in case.shape], b"" if case.dtype is DType.STRING else 0, element)
        g.assert_equal(g.run(runnable, [zero]), [zero])


SAMPLE = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("value", [
    SAMPLE, np.asfortranarray(SAMPLE), np.repeat(SAMPLE, 2, 1)[:, ::2], SAMPLE[::-1].copy()[::-1],
    SAMPLE.astype(">f4"), SAMPLE.astype("<f4"), SAMPLE.tolist(), tuple(map(tuple, SAMPLE.tolist())),
    [[0, 1, 2], [3, 4, 5]], SAMPLE.data, list(SAMPLE),
    np.frombuffer(b"\0" + SAMPLE.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 3),
    np.broadcast_to(SAMPLE, (2, 2, 3))[1], SAMPLE.view(np.recarray),
], ids=["contiguous", "fortran", "strided", "reversed", "big_endian", "little_endian", "list", "tuple", "integers",
        "memoryview", "list_of_rows", "unaligned", "broadcast", "subclass"])
@pytest.mark.parametrize("read_only", [False, True])
def test_arrays_of_any_layout(value: Any, read_only: bool) -> None:
    if isinstance(value, np.ndarray):
        value = value[...]
        value.flags.writeable = value.flags.writeable and not read_only
    before = np.array(value, np.float32)
    g.assert_equal(g.run(session(*MATRIX), [value]), [SAMPLE])
    np.testing.assert_array_equal(np.asarray(value), before)


@pytest.mark.parametrize(("dtype", "value", "expected"), [
    (DType.INT32, 7, i32(7)), (DType.INT32, i32(7), i32(7)), (DType.INT32, np.int32(7), i32(7)),
    (DType.INT32, -(1 << 31), i32(-(1 << 31))), (DType.UINT8, 255, np.uint8(255)),
    (DType.UINT64, (1 << 64) - 1, np.uint64((1 << 64) - 1)), (DType.INT64, 1 << 62, np.int64(1 << 62)),
    (DType.BOOL, True, np.bool_(True)), (DType.FLOAT32, 0.1, f32(0.1)), (DType.FLOAT32, 3, f32(3)),
    (DType.FLOAT32, float("inf"), f32(np.inf)), (DType.FLOAT32, float("nan"), f32(np.nan)),
    (DType.INT32, 1.0, i32(1)), (DType.INT32, np.float16(-3), i32(-3)), (DType.FLOAT32, np.float64(0.5), f32(0.5)),
    (DType.FLOAT32, np.int64(1 << 40), f32(1 << 40)), (DType.FLOAT32, (1 << 24) + 1, f32(1 << 24)),
    (DType.FLOAT32, np.float64("nan"), f32(np.nan)), (DType.FLOAT32, np.complex128(3), f32(3)),
    (DType.COMPLEX64, np.int8(-3), np.complex64(-3)), (DType.COMPLEX64, 0.1, np.complex64(0.1)),
    (DType.FLOAT16, 65504, np.float16(65504)), (DType.FLOAT64, 1e300, np.float64(1e300)),
    (DType.COMPLEX64, 1 + 2j, np.complex64(1 + 2j)), (DType.COMPLEX64, 2, np.complex64(2)),
    (DType.STRING, "é", g.text("é".encode())), (DType.STRING, b"\0a\0", g.text(b"\0a\0")),
    (DType.STRING, np.str_("ab"), g.text(b"ab")), (DType.STRING, np.bytes_(b"ab"), g.text(b"ab")),
])
def test_scalars(dtype: DType, value: Any, expected: Any) -> None:
    g.assert_equal(g.run(session(dtype), [value]), [np.asarray(expected)])


@pytest.mark.parametrize("value", [
    ["a\0", "bc"], [b"a\0", b"bc"], ("a\0", b"bc"), objects("a\0", b"bc"), objects(b"a\0", np.str_("bc")),
])
def test_strings_keep_their_bytes(value: Any) -> None:
    g.assert_equal(g.run(session(DType.STRING, (2,)), [value]), [g.text([b"a\0", b"bc"])])


@pytest.mark.parametrize("value", [np.array(["ab", "c"]), np.array([b"ab", b"c"]), ["ab", "c"]])
def test_arrays_of_strings(value: Any) -> None:
    g.assert_equal(g.run(session(DType.STRING, (-1,)), [value]), [g.text([b"ab", b"c"])])


def test_any_order_of_names() -> None:
    runnable = circlet.Session(identity(**TWO))
    assert list(runnable.run({"b": 3, "a": ZEROS})) == ["a", "b"]


def outputs_of_all_kinds() -> Model:
    """Returns an input, a constant, a sum, the sum again and the input again."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (3,))
    total = g.plus(main, x, 1.0)
    main.output(x, main.constant(f32([7, 8, 9])), total, total, x)
    return b.build()


def loop_of_all_kinds() -> Model:
    """A loop that adds, swaps, keeps and replaces what it carries."""
    def body(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        return [g.plus(s, v[0]), v[2], v[1], v[3], s.constant(f32([7, 8, 9])), s.apply(Add(), v[5], v[3])]

    return g.while_model(g.at_most(1), body, [i32(0), *[f32([1, 2, 3])] * 5])


def constant_through_a_loop() -> Model:
    """A loop that returns a reshaped constant as it is."""
    b = ModelBuilder()
    main = b.subgraph("main")
    kinds = [(DType.INT32, ()), (DType.FLOAT32, (3,))]
    op = While(g.define(b, "cond", g.at_most(1), kinds),
               g.define(b, "body", lambda s, v: [g.plus(s, v[0]), v[1]], kinds))
    value = main.apply(Reshape(), main.constant(f32([[7, 8, 9]])), main.constant([3]))
    main.output(*main.op(op, main.input("x", DType.INT32), value, count=2), value)
    return b.build()


@pytest.mark.parametrize("elide", ELISION)
@pytest.mark.parametrize(("make", "inputs"), [
    (constant_through_a_loop, [i32(0)]),
    (outputs_of_all_kinds, [f32([1, 2, 3])]),
    (loop_of_all_kinds, [i32(0), *(f32([k, k + 1, k + 2]) for k in range(5))]),
    (loop_of_all_kinds, [i32(5), *(f32([k, k + 1, k + 2]) for k in range(5))]),
    (lambda: identity(x=(DType.FLOAT32, (-1,))), [f32([1, 2])]),
], ids=["constant", "outputs", "loop", "no_turn", "unknown_length"])
def test_results_belong_to_the_caller(make: Any, inputs: list[Any], elide: bool) -> None:
    runnable = circlet.Session(make(), copy_elision=elide)
    given = [each.copy() for each in inputs]
    first = g.run(runnable, given)
    kept = [each.copy() for each in first]
    for k, one in enumerate(first):
        assert one.flags.writeable
        assert not any(np.shares_memory(one, other) for other in (*given, *first[:k]))
    second = g.run(runnable, given)
    g.assert_equal(first, kept)
    for each in second:
        each.fill(99)
    g.run(runnable, [each + each.dtype.type(1) for each in given])
    g.assert_equal(first, kept)
    g.assert_equal(g.run(runnable, given), kept)
    g.assert_equal(given, inputs)


def doubling() -> Model:
    """Joins a vector with itself in each of two turns, then adds one."""
    def body(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
        return [g.plus(s, v[0]), s.apply(Concatenation(axis=0), v[1], v[1])]

    return g.while_model(g.at_most(1), body, [i32([0]), f32([1])], loose=True)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=30))
@settings(max_examples=20, deadline=None)
def test_lengths_in_any_alternation(lengths: list[int]) -> None:
    """More lengths than a session keeps frames for."""
    for runnable in (circlet.Session(identity(x=(DType.FLOAT32, (-1,)))), circlet.Session(doubling())):
        for length in lengths:
            x = np.arange(length, dtype=np.float32)
            if len(runnable.model.subgraphs) == 1:
                g.assert_equal(g.run(runnable, [x]), [x])
            else:
                g.assert_equal(g.run(runnable, [i32([0]), x])[1:], [np.tile(x, 4)])


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0), (0, 0)])
def test_inputs_without_elements(shape: tuple[int, ...]) -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (-1,) * len(shape))
    main.output(g.plus(main, x, 1.0), x)
    empty = np.zeros(shape, np.float32)
    runnable = circlet.Session(b.build())
    for value in (empty, np.ones([dim + 1 for dim in shape], np.float32), empty):
        g.assert_equal(g.run(runnable, [value]), [value + np.float32(1), value])


def test_a_refused_input_is_named_as_the_signature_does() -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("serving_default_x:0", DType.FLOAT32, (2,))
    main.output(x)
    b.signature("serve", main, {"x": x}, {"y": x})
    runnable = circlet.Session(b.build())
    for run in (runnable.run, runnable.signature("serve").run, runnable.signature().run):
        with pytest.raises(circlet.InputError, match=re.escape("input 'x': expected shape (2,), found (3,)")):
            run({"x": f32([1, 2, 3])})
        g.assert_equal(list(run({"x": f32([1, 2])}).values()), [f32([1, 2])])
    with pytest.raises(circlet.InputError, match=r"no signature 'other'; the model has \['serve'\]"):
        runnable.signature("other")


def test_an_input_is_not_kept_alive() -> None:
    runnable, value = session(*MATRIX), SAMPLE.copy()
    before = sys.getrefcount(value)
    runnable.run([value])
    assert sys.getrefcount(value) == before


def test_types_of_other_processes_are_the_declared_ones() -> None:
    sent = pickle.loads(pickle.dumps(SAMPLE))
    assert sent.dtype is not SAMPLE.dtype
    model = identity(x=MATRIX)
    entry = entry_of(model, 0, None)
    ready = entry.ready({"x": sent})
    assert ready is not None
    assert ready[0] is sent
    assert entry.ready({"x": SAMPLE.astype(">f4")}) is None
    runnable = circlet.Session(model)
    for value in (sent, SAMPLE, sent):
        g.assert_equal(g.run(runnable, [value]), [SAMPLE])


@pytest.mark.parametrize("inputs", [{"x": f32(1)}, {"x": f32(1), "y": f32(2), "z": f32(3)}, {"x": f32(1), "z": f32(2)}])
def test_names_are_checked_where_arrays_need_no_other_check(inputs: dict[str, Any]) -> None:
    builder = ModelBuilder()
    main = builder.subgraph("main")
    x, y = main.input("x", DType.FLOAT32), main.input("y", DType.FLOAT32)
    main.output(main.apply(Sub(), x, y))
    builder.signature("main", main, {"y": y, "x": x}, {"z": Value(0, main.build().outputs[0])})
    session = circlet.Session(builder.build())
    assert session.run({"y": f32(2), "x": f32(5)})["z"] == 3
    with pytest.raises(circlet.InputError, match="inputs: "):
        session.run(inputs)


def test_two_names_of_one_input_are_both_wanted() -> None:
    builder = ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", DType.FLOAT32)
    main.output(main.apply(Sub(), x, x))
    builder.signature("main", main, {"a": x, "b": x}, {"z": Value(0, main.build().outputs[0])})
    session = circlet.Session(builder.build())
    assert session.run({"a": f32(2), "b": f32(2)})["z"] == 0
    for inputs in ({"a": f32(2)}, {"b": f32(2)}, {"a": f32(2), "c": f32(2)}):
        with pytest.raises(circlet.InputError, match="inputs: "):
            session.run(inputs)


def test_outputs_that_are_one_tensor_keep_their_places() -> None:
    builder = ModelBuilder()
    main = builder.subgraph("main")
    x, y = main.input("x", DType.FLOAT32), main.input("y", DType.FLOAT32)
    main.output(x, y, x, x)
    builder.signature("main", main, {"x": x, "y": y}, {"a": x, "b": y, "c": x, "d": x, "e": y})
    found = circlet.Session(builder.build()).run([f32(1), f32(2)])
    assert list(found.items()) == [("a", 1), ("b", 2), ("e", 2), ("c", 1), ("d", 1)]
