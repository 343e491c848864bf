"""Frames: what is bound once, what is bound again, and what is lent."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import pytest

import circlet
from circlet.backends.controlflow.backend import ControlflowBackend
from circlet.backends.cpu.backend import CpuBackend
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.frame import Contract, Frame
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.elementwise import Add, Div
from circlet.runtime.ops.index import DynamicUpdateSlice, GatherNd, Where
from circlet.runtime.ops.shape import Reshape
from tests.exec.graphs import f32
from tests.needs import NATIVE


def frame_of(model: Model, shapes: Sequence[tuple[int, ...]], contract: Contract | None = None) -> Frame:
    executors = ExecutorMap(model, lambda owner: (ControlflowBackend(owner), CpuBackend()), elide=True)
    run = Run(Variables())
    return executors.frame(0, tuple(shapes), run, contract)


def sums() -> Model:
    """`(x + y, reshape(x + y))`"""
    builder = ModelBuilder()
    main = builder.subgraph("main")
    x, y = main.input("x", DType.FLOAT32, (-1,)), main.input("y", DType.FLOAT32, (-1,))
    total = main.apply(Add(), x, y)
    main.output(total, main.apply(Reshape(), total, main.constant([-1, 1])))
    return builder.build()


def quotients() -> Model:
    """`x[x != 0] / y`, of which only a run tells the length."""
    builder = ModelBuilder()
    main = builder.subgraph("main")
    x, y = main.input("x", DType.FLOAT32, (-1,)), main.input("y", DType.FLOAT32)
    places, = main.op(Where(), x, outputs=[Tensor("places", DType.INT64, (1, 1), (-1, 1))])
    found, = main.op(GatherNd(), x, places, outputs=[Tensor("found", DType.FLOAT32, (1,), (-1,))])
    main.output(*main.op(Div(), found, y, outputs=[Tensor("quotients", DType.FLOAT32, (1,), (-1,))]))
    return builder.build()


def test_results_lie_where_they_did() -> None:
    frame = frame_of(sums(), [(2,), (2,)])
    before = frame.outputs
    for k in range(3):
        for each in frame.inputs:
            each[...] = k
        frame.invoke()
        assert all(one is other for one, other in zip(before, frame.outputs, strict=True))
        np.testing.assert_array_equal(frame.outputs[0], f32([2 * k, 2 * k]))
    assert frame.is_fixed
    assert not frame.is_compiled


def test_a_view_has_no_memory_of_its_own() -> None:
    total, column = frame_of(sums(), [(2,), (2,)]).outputs
    assert column.shape == (2, 1)
    assert np.shares_memory(total, column)


def test_what_is_lent_is_used() -> None:
    x, y, out = f32([1, 2]), f32([3, 4]), f32([0, 0])
    frame = frame_of(sums(), [(2,), (2,)], Contract((x, y), (out, None)))
    frame.invoke()
    assert frame.inputs[0] is x
    assert frame.outputs[0] is out
    np.testing.assert_array_equal(out, f32([4, 6]))
    np.testing.assert_array_equal(x, f32([1, 2]))


@pytest.mark.parametrize("is_given_up", [True, False])
def test_an_input_is_overwritten_only_if_it_is_given_up(is_given_up: bool) -> None:
    builder = ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", DType.FLOAT32, (4,))
    main.output(main.apply(DynamicUpdateSlice(), x, main.constant(f32([9])), main.constant([1])))
    lent = f32([1, 2, 3, 4])
    destroyable = frozenset({0} if is_given_up else ())
    frame = frame_of(builder.build(), [(4,)], Contract((lent,), destroyable=destroyable))
    frame.invoke()
    np.testing.assert_array_equal(frame.outputs[0], f32([1, 9, 3, 4]))
    assert np.shares_memory(lent, frame.outputs[0]) == is_given_up
    assert lent[1] == (9 if is_given_up else 2)


def test_the_size_is_what_it_allocated() -> None:
    small, large = (frame_of(sums(), [(length,), (length,)]).size for length in (16, 1600))
    assert 3 * 4 * 16 <= small < large
    x, y, out = (np.zeros(1600, np.float32) for _ in range(3))
    assert frame_of(sums(), [(1600,), (1600,)], Contract((x, y), (out, None))).size == 0


def test_shapes_that_do_not_fit_name_the_operator() -> None:
    with pytest.raises(ExecutionError, match=r"subgraph 0 \('main'\), operator 0 \(ADD\)"):
        frame_of(sums(), [(2,), (3,)])


def test_segments_are_bound_for_the_lengths_that_a_run_tells() -> None:
    frame = frame_of(quotients(), [(4,), ()])
    assert not frame.is_fixed
    for values in ([1, 0, 2, 0], [3, 0, 4, 0], [1, 2, 3, 4], [0, 0, 0, 0]):
        found = frame.call([f32(values), f32(2)])
        np.testing.assert_array_equal(found[0], f32([each / 2 for each in values if each]))


def test_a_segment_is_bound_again_only_if_its_shapes_change() -> None:
    frame = frame_of(quotients(), [(4,), ()])
    outputs: list[Array] = []
    for values in ([1, 0, 2, 0], [0, 3, 0, 4], [1, 1, 1, 0]):
        frame.call([f32(values), f32(2)])
        outputs += frame.outputs
    assert outputs[0] is outputs[1]
    assert outputs[1] is not outputs[2]


@NATIVE
def test_numpy_is_silent_after_a_compiled_segment() -> None:
    """Lengths beyond those that are compiled at once are left to numpy, in a frame that began with compiled code."""
    session = circlet.Session(quotients(), "native")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for length in range(1, 12):
            values = np.arange(12, dtype=np.float32) < length
            (found,) = session.run([values.astype(np.float32), f32(0)]).values()
            assert found.shape == (length,)
            assert np.isinf(found).all()
