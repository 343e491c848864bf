"""Layouts for any lengths, as functions that are made for them."""

from __future__ import annotations

import marshal
from dataclasses import replace

import numpy as np
import pytest

from circlet.runtime.errors import Place
from circlet.runtime.exec.frames.layout import Border, Buffer, Layout
from circlet.runtime.exec.frames.layout_code import layout_code
from circlet.runtime.exec.frames.open_layout import OpenLayout
from circlet.runtime.ir.terms import Assumption, Computed, Maximum, Quotient, Symbol, Terms
from circlet.runtime.ir.types import DType, Shape

N: Terms = ((1, (Symbol(0),)),)
M: Terms = ((1, (Symbol(1),)),)
HALF: Terms = ((1, (Quotient(N, ((2, ()),)),)),)
LARGER: Terms = ((3, (Maximum(HALF, M),)), (1, ()))
COUNT: Terms = ((1, (Computed(3, N),)),)
SIX: Terms = ((6, ()),)
LAYOUT = Layout(
    Place(0, "main", 0, ""), (0, 1), (2, 3, 4, 5, 6),
    (Border(0, DType.INT32, (N, SIX), 7), Border(1, DType.FLOAT32, (M,), 8), Border(2, DType.INT8, (HALF, LARGER), 8),
     Border(3, DType.INT64, (COUNT, N), 7), Border(4, DType.INT32, (((2, ()),),), None, numbers=(HALF, N)),
     Border(5, DType.INT64, (), None, numbers=(COUNT,)), Border(6, DType.FLOAT32, (SIX,), None)),
    (Buffer(7, ((24, (Symbol(0),)),)), Buffer(8, LARGER)),
    (Assumption(((1, (Symbol(0),)), (-1, (Symbol(1),))), "<", False),), (5,))
"""Inputs (n, 6) and (m,) where n >= m, and one length to begin with behind these; results of all kinds."""
OPEN = OpenLayout(layout_code(LAYOUT, (M, LARGER), (Assumption(HALF, "==", False),)))
FITTING = ((7, 6), (4,))


def test_what_lengths_decide() -> None:
    assert OPEN.fit(FITTING, (9,), True) == (
        (7, 4, 9), (168, 13), ((7, 6), (4,), (3, 13)), ((3, 7),), (4, 13))


def test_what_is_shown_of_what_lengths_decide() -> None:
    memory, known = [np.zeros(168, np.uint8), np.zeros(39, np.uint8)], {6: np.ones(6, np.float32)}
    sizes = OPEN.fit(FITTING, (9,), True)
    assert sizes is not None
    arrays, inputs, outputs = OPEN.show(sizes[2], sizes[3], memory, known)
    assert [(each.shape, each.dtype.str[1:]) for each in inputs] == [((7, 6), "i4"), ((4,), "f4")]
    assert [each.tolist() for each in outputs] == [[[0] * 13] * 3, [3, 7], [1] * 6]
    assert [each.dtype.str[1:] for each in outputs] == ["i1", "i4", "f4"]
    assert {number: each.base is memory[1] for number, each in arrays.items()} == {
        0: False, 1: True, 2: True, 3: False, 4: False, 6: False}
    assert arrays[3] is memory[0]
    assert arrays[6] is known[6]


def test_what_the_run_tells() -> None:
    memory = [np.zeros(168, np.uint8), np.zeros(39, np.uint8)]
    shown = {each: np.full((), each, np.float32) for each in (2, 4, 6)}
    told = OPEN.tell([7, 4, 9, 2], shown, memory)
    assert [told[position] is shown[tensor] for position, tensor in ((0, 2), (2, 4), (4, 6))] == [True] * 3
    assert (told[1].shape, told[1].dtype.str[1:], told[1].base is memory[0]) == ((2, 7), "i8", True)
    np.testing.assert_array_equal(told[3], np.array(2), strict=True)


def test_what_does_not_change() -> None:
    found = OPEN.is_open, OPEN.inputs, OPEN.outputs, OPEN.room, OPEN.buffers, OPEN.late, OPEN.known
    assert found == (True, (0, 1), (2, 3, 4, 5, 6), (5,), 2, (3, 5), ((6, np.dtype("f4"), (6,)),))


@pytest.mark.parametrize(("buffers", "alone"), [((7, 8, 8, 7), ()), ((7, 8, 8, 9), ((1, 2),)),
                                                ((7, 8, 9, 9), ()), ((7, 8, 9, 10), ((0, 2), (1, 3)))])
def test_results_that_nothing_lies_with(buffers: tuple[int, ...], alone: tuple[tuple[int, int], ...]) -> None:
    borders = [replace(each, buffer=buffer) for each, buffer in zip(LAYOUT.borders[:4], buffers, strict=True)]
    memory = [Buffer(each, ((24, (Symbol(0),)),)) for each in dict.fromkeys(buffers)]
    layout = replace(LAYOUT, borders=(*borders, *LAYOUT.borders[4:]), buffers=tuple(memory))
    assert OpenLayout(layout_code(layout)).alone == alone


@pytest.mark.parametrize("shapes", [
    ((7, 6),), ((7, 6), (4,), (1,)), ((7, 6), (4, 1)), ((7,), (4,)), ((7, 5), (4,)), ((0, 6), (0,)), ((7, 6), (0,)),
    ()])
def test_shapes_that_it_is_not_for(shapes: tuple[Shape, ...]) -> None:
    assert OPEN.fit(shapes, (9,), True) is None
    assert OPEN.fit(shapes, (9,), False) is None


@pytest.mark.parametrize("shapes", [((3, 6), (4,)), ((1, 6), (1,))])
def test_what_is_assumed_is_looked_at_if_asked(shapes: tuple[Shape, ...]) -> None:
    assert OPEN.fit(shapes, (9,), True) is None
    assert OPEN.fit(shapes, (9,), False) is not None


def test_code_is_kept_as_bytes() -> None:
    again = OpenLayout(marshal.loads(marshal.dumps(layout_code(LAYOUT))))
    assert again.fit(FITTING, (9,), True) == (*(OPEN.fit(FITTING, (9,), True) or ())[:4], ())
