"""Layouts for any lengths, as functions that are made for them."""

from __future__ import annotations

import marshal

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


def test_what_the_run_tells() -> None:
    assert OPEN.told([7, 4, 9, 2]) == (((2, 7),), ((2,),))


def test_what_does_not_change() -> None:
    found = OPEN.is_open, OPEN.inputs, OPEN.outputs, OPEN.room, OPEN.buffers
    assert found == (True, (0, 1), (2, 3, 4, 5, 6), (5,), 2)
    of = np.dtype
    assert OPEN.early == (((0, of("i4"), 0), (1, of("f4"), 1), (2, of("i1"), 1)), ((4, of("i4"), (2,)),))
    assert OPEN.late == (((3, of("i8"), 0),), ((5, of("i8"), ()),))
    assert OPEN.known == ((6, of("f4"), (6,)),)


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
