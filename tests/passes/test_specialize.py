"""Shapes and constants of a subgraph for concrete input shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from circlet.runtime.errors import ExecutionError, LimitError
from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.length import Scope, computed_number
from circlet.runtime.ir.op import Unknown
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Quantization, fits
from circlet.runtime.ops.controlflow import CallSubgraph
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.index import Where
from circlet.runtime.ops.quantize import Dequantize
from circlet.runtime.ops.random import RandomUniform
from circlet.runtime.ops.shape import Fill, Reshape, ShapeOf
from circlet.runtime.ops.unary import Neg
from circlet.runtime.passes.analyses.specialize import FOLDED_BYTES
from tests.passes.specialized import model_of, specialized, specializer_of


def test_shapes_follow_from_those_of_the_inputs() -> None:
    model = model_of(lambda s, v: [s.apply(Add(), v[0], v[1])], (-1, 3), (3,))
    specializer = specializer_of(model)
    for length in (1, 5):
        spec = specializer.at(0, ((length, 3), (3,)))
        assert spec.output_shapes == ((length, 3),)
        assert spec.is_static
        assert spec.promised
    assert specializer.at(0, ((5, 3), (3,))) is spec


def test_shapes_other_than_declared_promise_nothing() -> None:
    spec = specializer_of(model_of(lambda s, v: [s.apply(Neg(), v[0])], (2,))).at(0, ((7,),))
    assert spec.output_shapes == ((7,),)
    assert not spec.promised


def test_shapes_that_do_not_fit_name_the_operator() -> None:
    model = model_of(lambda s, v: [s.apply(Add(), s.apply(Neg(), v[0]), v[1])], (-1,), (-1,))
    with pytest.raises(ExecutionError, match=r"subgraph 0 \('main'\), operator 1 \(ADD\)"):
        specializer_of(model).at(0, ((2,), (3,)))


def test_constants_are_computed_once_for_all_shapes() -> None:
    def write(s: SubgraphBuilder, v: Sequence[Value]) -> list[Value]:
        first = s.apply(Neg(), s.constant(np.ones(3, np.float32)))
        return [s.apply(Add(), v[0], s.apply(Neg(), first)), s.apply(Fill(), s.apply(ShapeOf(DType.INT32), v[0]),
                                                                     s.constant(np.float32(2)))]

    specializer = specializer_of(model_of(write, (-1, 3)))
    two, three, again = (specializer.at(0, ((length, 3),)) for length in (2, 3, 4))
    assert all(two.known[each] is three.known[each] is again.known[each] for each in (2, 3))
    filled = two.subgraph.outputs[1]
    assert [each.known[filled].shape for each in (two, three)] == [(2, 3), (3, 3)]


def test_what_follows_from_constants_and_shapes_is_known() -> None:
    def write(s: SubgraphBuilder, v: Sequence[Value]) -> list[Value]:
        shape = s.apply(ShapeOf(DType.INT32), v[0])
        return [s.apply(Fill(), shape, s.constant(np.float32(2))), s.apply(Neg(), v[0])]

    spec = specializer_of(model_of(write, (-1, 2))).at(0, ((3, 2),))
    full, negative = spec.subgraph.outputs
    np.testing.assert_array_equal(spec.known[full], np.full((3, 2), 2, np.float32))
    assert not spec.known[full].flags.writeable
    assert negative not in spec.known


def test_large_results_are_not_kept() -> None:
    def known(count: int) -> bool:
        spec = specialized(lambda s, v: [s.apply(Fill(), s.constant([count]), s.constant(np.float32(1)))])
        return spec.subgraph.outputs[0] in spec.known

    assert known(FOLDED_BYTES // 4)
    assert not known(FOLDED_BYTES // 4 + 1)


def test_large_constants_are_dequantised_ahead() -> None:
    """Four bytes are kept for each element, of which two may share one."""
    rows = FOLDED_BYTES // 256

    def write(s: SubgraphBuilder, _: Sequence[Value]) -> list[Value]:
        stored = Tensor("w", DType.INT4, (rows, 128), data=np.zeros(rows * 64, np.uint8),
                        quantization=Quantization((0.5,), (1,)))
        return [*s.op(Dequantize(), s.tensor(stored), outputs=[Tensor("real", DType.FLOAT32, (rows, 128))])]

    spec = specialized(write)
    np.testing.assert_array_equal(spec.known[spec.subgraph.outputs[0]], np.full((rows, 128), -0.5, np.float32))


def test_random_numbers_are_not_known() -> None:
    spec = specialized(lambda s, v: [s.op(RandomUniform(1, 1), s.constant([3]),
                                          outputs=[Tensor("r", DType.FLOAT32, (3,))])[0]])
    assert spec.output_shapes == ((3,),)
    assert spec.subgraph.outputs[0] not in spec.known


def places(s: SubgraphBuilder, v: Sequence[Value]) -> list[Value]:
    """The negated indices of what is not zero."""
    found, = s.op(Where(), v[0], outputs=[Tensor("places", DType.INT64, (1, 1), (-1, 1))])
    return [s.op(Neg(), found, outputs=[Tensor("negative", DType.INT64, (1, 1), (-1, 1))])[0]]


def test_it_stops_where_only_a_run_can_tell_and_goes_on_from_there() -> None:
    specializer = specializer_of(model_of(places, (4,)))
    spec = specializer.at(0, ((4,),))
    assert (spec.stop, spec.is_static) == (0, False)
    with pytest.raises(Unknown):
        _ = spec.output_shapes
    after = specializer.extend(spec, {spec.subgraph.inputs[0]: np.array([0, 1, 1, 0], np.float32)})
    assert after.output_shapes == ((2, 1),)


@pytest.mark.parametrize("is_kept", [False, True])
def test_what_is_forgotten_is_derived_anew(is_kept: bool) -> None:
    """As lengths have their numbers in turn, one that is made next has that of the forgotten one."""
    specializer, scope = specializer_of(model_of(places, (-1,))), Scope([4])
    given = (scope.symbol(0),),
    with scope.tentatively() as keep:
        with scope.tentatively() as keep_this:
            tried = specializer.at(0, given, scope)
            keep_this()
        assert specializer.at(0, given, scope) is tried
        if is_kept:
            keep()
    found = specializer.at(0, given, scope)
    assert (found is tried) == is_kept
    assert computed_number(found.output_shapes[0][0]) == scope.count - 1 == 1
    assert specializer.at(0, given, scope) is found


def test_declared_shapes_are_believed_where_inputs_are_as_declared() -> None:
    def write(s: SubgraphBuilder, v: Sequence[Value]) -> list[Value]:
        return [s.op(Where(), v[0], outputs=[Tensor("places", DType.INT64, (2, 1))])[0]]

    specializer = specializer_of(model_of(write, (4,)))
    assert specializer.at(0, ((4,),)).output_shapes == ((2, 1),)
    assert not specializer.at(0, ((5,),)).is_static


def test_a_callee_that_cannot_run_is_unknown() -> None:
    specializer = specializer_of(model_of(lambda s, v: [s.apply(Add(), v[0], v[1])], (-1,), (-1,)))
    assert specializer.callee(0, ((2,), (2,))).output_shapes == ((2,),)
    with pytest.raises(Unknown):
        specializer.callee(0, ((2,), (3,)))


def test_a_call_has_the_shapes_of_what_it_calls() -> None:
    def write(s: SubgraphBuilder, v: Sequence[Value]) -> list[Value]:
        return [s.op(CallSubgraph(1), v[0], outputs=[Tensor("y", DType.FLOAT32, (1,), (-1,))])[0]]

    main = model_of(write, (-1,)).subgraphs[0]
    callee = model_of(lambda s, v: [s.apply(Reshape(), v[0], s.constant([-1, 1]))], (-1,)).subgraphs[0]
    model = replace(model_of(write, (-1,)), subgraphs=(main, callee))
    assert specializer_of(model).at(0, ((6,),)).output_shapes == ((6, 1),)


def test_results_that_no_memory_holds() -> None:
    specializer = specializer_of(model_of(lambda s, v: [s.apply(Add(), v[0], v[1])], (-1, 1), (1, -1)))
    with pytest.raises(LimitError, match="more elements than any memory holds"):
        specializer.at(0, ((1 << 30, 1), (1, 1 << 30)))


@pytest.mark.parametrize(("shape", "signature", "expected"), [
    ((2, 3), (2, 3), True), ((2, 3), (-1, 3), True), ((2, 3), (-1, -1), True), ((), (), True), ((0,), (-1,), True),
    ((2, 3), (2, 4), False), ((2, 3), (2,), False), ((2,), (), False), ((2, 3), (3, -1), False),
])
def test_fits(shape: tuple[int, ...], signature: tuple[int, ...], expected: bool) -> None:
    assert fits(shape, signature) is expected
