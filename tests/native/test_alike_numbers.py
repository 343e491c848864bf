"""Operators on numbers that the run computes, in registers, and combinations of all elements."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import elementwise, reduce
from circlet.runtime.ops.controlflow import CallSubgraph
from tests.exec import graphs as g
from tests.native.test_alike import X, numbers, stack, written
from tests.native.test_alike_constants import soft
from tests.native.test_budget import compare

Combination = Callable[[], reduce.Reduction]
BOTH = np.array([0, 1], np.int32)


def whole(s: SubgraphBuilder, kind: Combination, v: Value) -> Value:
    """One number made of all elements of a matrix."""
    return s.apply(kind(), v, s.constant(BOTH))


def by_numbers(s: SubgraphBuilder, v: Value, _: int) -> Value:
    """A matrix by its greatest element, and its least one."""
    most, least = (whole(s, kind, v) for kind in (reduce.ReduceMax, reduce.ReduceMin))
    return soft(s, g.add(s, s.apply(elementwise.Mul(), v, most), least))


@pytest.mark.parametrize("is_open", [False, True])
def test_layers_are_written_once(is_open: bool) -> None:
    few, many = (written(stack(by_numbers, count, is_open)) for count in (3, 6))
    assert 0 < few == many


def test_the_same_number_twice_is_another_operator() -> None:
    def body(s: SubgraphBuilder, v: Value, k: int) -> Value:
        most, least = (whole(s, kind, v) for kind in (reduce.ReduceMax, reduce.ReduceMin))
        return soft(s, g.add(s, s.apply(elementwise.Mul(), v, most), most if k % 2 else least))

    compare(stack(body, 5), [X])


ROWS: Mapping[str, Combination] = {"least": reduce.ReduceMin, "greatest": reduce.ReduceMax, "sum": reduce.Sum}


def combined(kind: Combination, *sizes: tuple[int, ...]) -> Model:
    """Each of some inputs, with an open number of rows of a size, as one number."""
    b = ModelBuilder()
    main = b.subgraph("main")
    for k, size in enumerate(sizes):
        x = main.tensor(Tensor(f"x{k}", DType.FLOAT32, (7, *size), (-1, *size)))
        main.feed(x)
        main.output(main.apply(kind(), x, main.constant(np.arange(len(size) + 1, dtype=np.int32))))
    return b.build()


@pytest.mark.parametrize("kind", ROWS.values(), ids=ROWS)
def test_code_of_one_row_is_the_same_for_all_sizes(kind: Combination) -> None:
    sizes = [(3,), (16,), (5, 4), (64, 2), (1, 9, 11), (300,)]
    backend = compare(combined(kind, *sizes), [numbers(7, *size) for size in sizes])
    found = [each for listing in backend.listings for each in re.findall(
        r'^define [^\n]*@"operator[^\n]*\n(.*?)^}', listing.module, re.MULTILINE | re.DOTALL)]
    assert len(found) > 1
    assert len({re.sub(r"!\d+", "!", each) for each in found}) == 1


def test_a_number_that_is_called_for_beside_an_array_stays() -> None:
    b = ModelBuilder()
    main = b.subgraph("main")
    k, v = main.input("k", DType.FLOAT32, ()), main.input("v", DType.FLOAT32, (9,))
    doubled = g.define(b, "doubled", lambda s, v: [g.add(s, each, each) for each in v],
                       [(DType.FLOAT32, ()), (DType.FLOAT32, (9,))])
    number, array = main.op(CallSubgraph(doubled), k, v, outputs=[
        Tensor("number", DType.FLOAT32, ()), Tensor("array", DType.FLOAT32, (9,))])
    squares = main.apply(elementwise.Mul(), array, array)
    total = main.apply(reduce.Sum(), squares, main.constant(np.array([0], np.int32)))
    main.output(g.add(main, k, number), g.add(main, array, total))
    compare(b.build(), [np.float32(3), numbers(9)])
