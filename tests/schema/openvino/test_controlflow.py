"""If, Loop and TensorIterator, built and saved by OpenVINO, against values worked out by hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import circlet
from tests.schema.openvino.models import Array, const, f32, i32, i64, op, ov, ports, run, run_openvino, same, save

MOST = np.iinfo(i64).max


@dataclass(frozen=True)
class Loop:
    """A Loop or TensorIterator: what its body makes of its Parameters, and what passes between the two.

    `body` gets Parameters of the shapes and types of the first values, invariants, slices and, last, of the iteration
    number, if there is one. It returns what is carried next, further outputs, and for a Loop last the condition.
    """

    body: Callable[..., Sequence[Any]]
    carried: Sequence[npt.NDArray[Any]] = ()
    invariants: Sequence[Array] = ()
    sliced: Sequence[tuple[Array, int, int, int, int, int]] = ()
    """Value, axis, start, end, stride, part."""
    joined: Sequence[tuple[int, int, int, int, int, int]] = ()
    """Output of the body, axis, start, end, stride, part."""
    last: Sequence[int] = ()
    """Outputs of the body."""
    iteration: Sequence[int] | None = None
    """The shape of the iteration number."""
    open_dims: bool = False

    @property
    def values(self) -> list[Array]:
        return [*self.carried, *self.invariants, *(each[0] for each in self.sliced)]

    def build(self, node: Any, outer: Sequence[Any], is_loop: bool) -> list[Any]:
        """Puts the body into a node; returns the values of `last`, then of `joined`."""
        shapes = [list(each.shape) for each in (*self.carried, *self.invariants)]
        for value, axis, _, _, _, part in self.sliced:
            shapes.append([part if k == axis % value.ndim else size for k, size in enumerate(value.shape)])
        parameters = [op.parameter([-1] * len(shape) if self.open_dims else shape, value.dtype)
                      for shape, value in zip(shapes, self.values, strict=True)]
        number = [] if self.iteration is None else [op.parameter(list(self.iteration), i64)]
        results = ports(list(self.body(*parameters, *number)))
        body = ov.Model(results, [*parameters, *number])
        node.set_function(body)
        if is_loop:
            node.set_special_body_ports([len(parameters) if number else -1, len(results) - 1])
        first = len(self.carried)
        for k, value in enumerate(self.carried):
            del value
            node.set_merged_input(parameters[k], outer[k], body.results[k].output(0))
        for k in range(len(self.invariants)):
            node.set_invariant_input(parameters[first + k], outer[first + k])
        first += len(self.invariants)
        for k, (_, axis, start, end, stride, part) in enumerate(self.sliced):
            node.set_sliced_input(parameters[first + k], outer[first + k], start, stride, part, end, axis)
        return [*(node.get_iter_value(body.results[k].output(0), -1) for k in self.last),
                *(node.get_concatenated_slices(body.results[k].output(0), start, stride, part, end, axis)
                  for k, axis, start, end, stride, part in self.joined)]

    def save(self, folder: Path, trip: Any = None, condition: Any = True) -> Path:
        """A model of the loop; trip count and condition are constants, or Parameters where they are None."""
        outer = [op.parameter(list(each.shape), each.dtype) for each in self.values]
        outputs = [each.output(0) for each in outer]
        if trip is None and condition is None:
            return save(folder, self.build(op.tensor_iterator(), outputs, False), outer)
        node = op.loop(const(np.asarray(trip)), const(np.asarray(condition)))
        return save(folder, self.build(node, outputs, True), outer)


ALL = (0, 0, -1, 1, 1)
"""Axis 0 whole, an element at a time."""


def counted(stop: float, step: float = 1) -> Callable[[Any], Sequence[Any]]:
    """A body that adds to [[a, a]] and goes on while the sum is at most a bound."""
    return lambda a: [total := op.add(a, const([[float(step)] * 2])),
                      op.reduce_logical_and(op.less_equal(total, const([[float(stop)] * 2])), const([0, 1]), False)]


def endless(a: Any) -> Sequence[Any]:
    return [op.add(a, const([[1.0, 1.0]])), op.constant(True)]


def once(a: Any) -> Sequence[Any]:
    return [op.add(a, const([[1.0, 1.0]])), op.constant(False)]


def rows(*values: float) -> Array:
    return np.array([[each, each] for each in values], f32).reshape(-1, 2)


@dataclass(frozen=True)
class Count:
    """A loop that carries [[a, a]] and joins what it becomes."""

    id: str
    body: Callable[[Any], Sequence[Any]]
    trip: Any
    condition: Any
    last: Array
    joined: Array
    first: Sequence[float] = (0, 0)


COUNTS = [
    Count("trip_count", endless, 3, True, rows(3), rows(1, 2, 3)),
    Count("condition", counted(5), -1, True, rows(6), rows(1, 2, 3, 4, 5, 6)),
    Count("most_trips", counted(5), MOST, True, rows(6), rows(1, 2, 3, 4, 5, 6)),
    Count("condition_and_trip_count", counted(5), 10, True, rows(6), rows(1, 2, 3, 4, 5, 6)),
    Count("trip_count_first", counted(5), 2, True, rows(2), rows(1, 2)),
    Count("condition_from_outside", counted(5), 10, False, np.array([[3, 4]], f32), rows(), (3, 4)),
    Count("no_trips", endless, 0, True, rows(0), rows()),
    Count("body_stops", once, 5, True, rows(1), rows(1)),
    Count("steps_of_two", counted(10, 2), -1, True, rows(12), rows(2, 4, 6, 8, 10, 12)),
    Count("steps_of_three", counted(15, 3), -1, True, rows(18), rows(3, 6, 9, 12, 15, 18)),
    Count("vectors", endless, np.array([3]), np.array([True]), rows(3), rows(1, 2, 3)),
    Count("int32", endless, np.array(3, i32), True, rows(3), rows(1, 2, 3)),
]


@pytest.mark.parametrize("case", COUNTS, ids=lambda case: case.id)
def test_counted_loops(tmp_path: Path, case: Count) -> None:
    first = np.array([case.first], f32)
    loop = Loop(case.body, [first], joined=[(0, *ALL)], last=[0])
    path = loop.save(tmp_path, case.trip, case.condition)
    for options in ({"copy_elision": True}, {"copy_elision": False}):
        last, joined = run(path, [first], **options)
        same(last, case.last, "last")
        same(joined, case.joined, "joined")


def test_a_negative_trip_count_below_minus_one_is_endless_with_a_warning(tmp_path: Path) -> None:
    path = Loop(counted(5), [rows(0)], last=[0]).save(tmp_path, -5)
    with pytest.warns(UserWarning, match="trip count -5 is taken as -1"):
        model = circlet.load(path)
    (last,) = circlet.Session(model, backend="cpu").run([rows(0)]).values()
    same(last, rows(6), "last")


def test_an_endless_loop_ends_at_the_limit(tmp_path: Path) -> None:
    path = Loop(endless, [rows(0)], last=[0]).save(tmp_path, -1)
    with pytest.raises(circlet.LimitError):
        run(path, [rows(0)], limits=circlet.Limits(max_iterations=100))


def test_trip_count_and_condition_of_the_run(tmp_path: Path) -> None:
    """Also what OpenVINO says where it is right: not for a condition that is false at the start."""
    trip, condition, first = op.parameter([], i64), op.parameter([1], np.bool_), op.parameter([1, 2], f32)
    node = op.loop(trip, condition)
    outputs = Loop(counted(3), [rows(0)], joined=[(0, *ALL)], last=[0]).build(node, [first.output(0)], True)
    path = save(tmp_path, outputs, [trip, condition, first])
    for count, is_on, joined in ((2, True, rows(1, 2)), (9, True, rows(1, 2, 3, 4)), (-1, True, rows(1, 2, 3, 4)),
                                 (0, True, rows()), (5, False, rows())):
        found = run(path, [np.int64(count), [is_on], rows(0)])
        same(found[1], joined, f"{count}, {is_on}")
        same(found[0], joined[-1:] if len(joined) else rows(0), f"{count}, {is_on}")
        if count > 0 and is_on:
            theirs = run_openvino(path, [np.array(count, i64), np.array([is_on]), rows(0)])
            same(found[1], theirs[1], "OpenVINO")


def powers(a: Any, i: Any) -> Sequence[Any]:
    return [op.reshape(op.multiply(i, i), const(np.zeros(0, i64)), False), op.constant(True)]


def split_by(i: Any, below: int, a: Any, then: float, other: Any) -> Any:
    """An If: `a * then` where i < below, else what `other` makes of a."""
    node = op.if_op(op.less(i, const(below)).output(0))
    x, y, j = op.parameter([1, 2], f32), op.parameter([1, 2], f32), op.parameter([], i64)
    yes = ov.Model([op.multiply(x, const(then)).output(0)], [x])
    no = ov.Model(ports(other(y, j)), [y, j])
    node.set_then_body(yes)
    node.set_else_body(no)
    node.set_input(a.output(0), x, y)
    node.set_input(i.output(0), None, j)
    return node.set_output(yes.results[0], no.results[0])


def doubled_then_nine_then_eight(a: Any, i: Any) -> Sequence[Any]:
    return [split_by(i, 3, a, 2.0, lambda b, j: split_by(
        j, 4, b, 9.0, lambda d, k: op.multiply(d, op.convert(op.add(op.multiply(k, const(0)), const(8)), "f32")))),
            op.constant(True)]


def test_iteration_numbers(tmp_path: Path) -> None:
    for shape in ([], [1]):
        loop = Loop(powers, [np.array(0, i64)], joined=[(0, *ALL)], last=[0], iteration=shape)
        last, joined = run(loop.save(tmp_path, 5), [np.array(0, i64)])
        assert (last.tolist(), joined.tolist()) == (16, [0, 1, 4, 9, 16])


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_if_inside_if_inside_loop(tmp_path: Path, backend: str) -> None:
    loop = Loop(doubled_then_nine_then_eight, [rows(1)], joined=[(0, *ALL)], last=[0], iteration=[])
    last, joined = run(loop.save(tmp_path, 5), [rows(1)], backend=backend)
    same(last, rows(576), "last")
    same(joined, rows(2, 4, 8, 72, 576), "joined")


@pytest.mark.parametrize(("trip", "expected"), [(0, (1, 2)), (1, (2, 1)), (4, (1, 2)), (5, (2, 1))])
def test_carried_values_swap(tmp_path: Path, trip: int, expected: tuple[int, int]) -> None:
    """OpenVINO's own CPU plugin gives one of them twice."""
    loop = Loop(lambda a, b: [b, a, op.constant(True)], [rows(1), rows(2)], last=[0, 1])
    found = run(loop.save(tmp_path, trip), [rows(1), rows(2)])
    for one, value in zip(found, expected, strict=True):
        same(one, rows(value), f"{trip} trips")


@pytest.mark.parametrize("dtype", [np.int8, np.int16, i32, i64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16,
                                   f32], ids=lambda each: each.__name__)
@pytest.mark.parametrize("trip", [1, 5])
def test_element_types(tmp_path: Path, dtype: type[np.generic], trip: int) -> None:
    """The template plugin's static Loop: a condition, the last value and values joined along the middle axis."""
    first, one = np.arange(100).reshape(10, 1, 10).astype(dtype), np.ones((), dtype)
    loop = Loop(lambda x: [op.add(x, op.constant(one)), op.constant(True)], [first], last=[1, 0],
                joined=[(0, 1, 0, -1, 1, 1)])
    condition, last, joined = run(loop.save(tmp_path, trip), [first])
    assert condition.tolist() is True
    same(last, first + dtype(trip), "last")
    same(joined, np.concatenate([first + dtype(k + 1) for k in range(trip)], 1), "joined")


def test_dynamic_inputs(tmp_path: Path) -> None:
    x, y, m = (np.array(each, f32).reshape(2, 2) for each in ([0, 1, 2, 3], [1, 2, 3, 4], [5, 4, 3, 2]))
    loop = Loop(lambda m, x, y: [op.multiply(op.add(x, y), m), op.constant(True)], [m], [x, y], last=[0],
                open_dims=True)
    (found,) = run(loop.save(tmp_path, 3), [m, x, y])
    assert found.tolist() == [[5, 108], [375, 686]]


def test_a_growing_value(tmp_path: Path) -> None:
    loop = Loop(lambda a: [op.concat([a, op.convert(op.slice(a, const([-1]), const([MOST]), const([1])), "f32")], 0),
                           op.constant(True)], [np.array([7], f32)], last=[0], open_dims=True)
    (found,) = run(loop.save(tmp_path, 3), [np.array([7], f32)])
    assert found.tolist() == [7] * 4


def test_joined_values_that_change_their_shape(tmp_path: Path) -> None:
    """OpenVINO's CPU plugin gives garbage."""
    loop = Loop(lambda a: [op.concat([a, const([[7.0]])], 1), op.constant(True)], [np.array([[7]], f32)],
                joined=[(0, *ALL)], open_dims=True)
    with pytest.raises(circlet.ExecutionError, match=r"the element of iteration 1 has shape \(1, 3\)"):
        run(loop.save(tmp_path, 3), [np.array([[7]], f32)])


def test_slices_of_a_loop(tmp_path: Path) -> None:
    """One slice for each trip; a trip count beyond them is an error, not garbage."""
    x = np.arange(6, dtype=f32).reshape(3, 2)
    loop = Loop(lambda a: [op.multiply(a, const(2.0)), op.constant(True)], sliced=[(x, *ALL)], joined=[(0, *ALL)],
                last=[0])
    for trip in (2, 3):
        last, joined = run(loop.save(tmp_path, trip), [x])
        same(joined, 2 * x[:trip], "joined")
        same(last, 2 * x[trip - 1:trip], "last")
    with pytest.raises(circlet.ExecutionError):
        run(loop.save(tmp_path, 4), [x])


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_the_last_slice_is_held_as_asked(tmp_path: Path, backend: str) -> None:
    """Pairs of five elements, of which the third would leave the axis, beside single elements, which are two."""
    x, y = np.arange(5, dtype=f32), np.arange(10, 12, dtype=f32)
    loop = Loop(lambda a, b: [op.reshape(op.add(a, b), const([1, 2]), False), op.constant(True)],
                sliced=[(x, 0, 0, -1, 2, 2), (y, *ALL)], joined=[(0, *ALL)])
    path = loop.save(tmp_path, 4)
    with pytest.raises(circlet.ExecutionError, match="out of range"):
        run(path, [x, y], backend=backend)
    session = circlet.Session(circlet.load(path, slice_overrun="hold_last"), backend=backend)
    (joined,) = session.run([x, y]).values()
    same(joined, np.array([[10, 11], [13, 14], [14, 15], [14, 15]], f32), "joined")


@pytest.mark.parametrize("axis", ['axis="1"', 'axis="-1"'])
def test_slices_along_another_axis_even_a_negative_one(tmp_path: Path, axis: str) -> None:
    x = np.arange(6, dtype=f32).reshape(2, 3)
    span = (1, 0, -1, 1, 1)
    loop = Loop(lambda a: [op.add(a, const(1.0)), op.constant(True)], sliced=[(x, *span)], joined=[(0, *span)])
    path = loop.save(tmp_path, 3)
    path.write_text(path.read_text().replace('axis="1"', axis))
    same(run(path, [x])[0], x + 1, axis)


@dataclass(frozen=True)
class Scan:
    """A TensorIterator whose body adds 1 to a slice: start, end, stride and part of input and output."""

    id: str
    cut: Span
    join: Span
    expected: Array


Span = tuple[int, int, int, int]
NAMES = ("start", "end", "stride", "part_size")
LINE = np.arange(6, dtype=f32)
SCANS = [
    Scan("whole", (0, -1, 1, 1), (0, -1, 1, 1), LINE + 1),
    Scan("pairs", (0, -1, 2, 2), (0, -1, 2, 2), LINE + 1),
    Scan("backwards", (-1, 0, -1, 1), (-1, 0, -1, 1), LINE + 1),
    Scan("backwards_to_forwards", (-1, 0, -1, 1), (0, -1, 1, 1), LINE[::-1] + 1),
    Scan("pairs_backwards", (-1, 0, -2, 2), (0, -1, 2, 2), np.array([5, 6, 3, 4, 1, 2], f32)),
    Scan("half_open", (1, 4, 1, 1), (0, -1, 1, 1), LINE[1:4] + 1),
    Scan("from_the_end", (-4, -2, 1, 1), (0, -1, 1, 1), LINE[3:5] + 1),
]


@pytest.mark.parametrize("case", SCANS, ids=lambda case: case.id)
def test_scans(tmp_path: Path, case: Scan) -> None:
    """`end` is exclusive, as OpenVINO's CPU plugin and its model optimizer have it."""
    path = _scan(tmp_path, case.cut, case.join)
    same(run(path, [LINE])[0], case.expected, case.id)


def _scan(folder: Path, cut: Span, join: Span) -> Path:
    """The model is made with plain spans; those of the case are written into it, since OpenVINO takes `end` as the
    last element when it checks a model."""
    plain = (0, 0, -1, abs(cut[2]) or 1, cut[3])
    loop = Loop(lambda a: [op.add(a, const(1.0))], sliced=[(LINE, *plain)], joined=[(0, *plain)])
    path = loop.save(folder, None, None)
    text = path.read_text()
    for tag, span in (("input", cut), ("output", join)):
        values = " ".join(f'{name}="{value}"' for name, value in zip(NAMES, span, strict=True))
        text = re.sub(rf'(<{tag} axis[^>]*?) start=.*?/>', rf'\1 {values}/>', text)
    path.write_text(text)
    return path


def test_scan_with_a_carried_value(tmp_path: Path) -> None:
    """The template plugin's case: X is cut along axis 1, Y along axis 0."""
    m, x, y = np.array([[5]], f32), np.array([[2, 3]], f32), np.array([[4], [5]], f32)
    loop = Loop(lambda m, x, y: [op.multiply(op.add(x, y), m)], [m], sliced=[(x, 1, 0, -1, 1, 1), (y, *ALL)], last=[0],
                joined=[(0, 1, 0, -1, 1, 1)])
    path = loop.save(tmp_path, None, None)
    for found in (run(path, [m, x, y]), run_openvino(path, [m, x, y])):
        assert [each.tolist() for each in found] == [[[240]], [[30, 240]]]


@pytest.mark.parametrize(("cut", "message"), [
    ((0, -1, 4, 4), "4"), ((0, -1, 0, 1), "stride that is not 0"), ((0, 9, 1, 1), "index 6 is out of range"),
])
def test_slices_that_do_not_fit(tmp_path: Path, cut: Span, message: str) -> None:
    path = _scan(tmp_path, cut, (0, -1, 1, 1))
    with pytest.raises((circlet.ModelError, circlet.ExecutionError), match=message):
        run(path, [LINE])


def test_slices_of_different_counts(tmp_path: Path) -> None:
    x, y = np.zeros((3, 1), f32), np.zeros((2, 1), f32)
    loop = Loop(lambda a, b: [op.add(a, b)], sliced=[(x, *ALL), (x, *ALL)], joined=[(0, *ALL)])
    path = loop.save(tmp_path, None, None)
    text = path.read_text().replace('shape="3,1"', 'shape="2,1"', 1)
    path.write_text(text)
    with pytest.raises((circlet.ModelError, circlet.ExecutionError), match="3"):
        run(path, [y, x])


@pytest.mark.parametrize("ends", [(3, 3), (3, 2)], ids=["one_count", "two_counts"])
def test_a_scan_without_slices_runs_as_often_as_its_output_says(tmp_path: Path, ends: tuple[int, int]) -> None:
    """The ends of the outputs are written into the file, since OpenVINO takes them as the last elements."""
    loop = Loop(lambda a: [total := op.add(a, const(1.0)), op.negative(total)], [rows(1)],
                joined=[(0, *ALL), (1, *ALL)])
    path = loop.save(tmp_path, None, None)
    pieces = path.read_text().split('end="-1"')
    path.write_text(pieces[0] + "".join(f'end="{end}"{piece}' for end, piece in zip(ends, pieces[1:], strict=True)))
    if len(set(ends)) > 1:
        with pytest.raises(circlet.ModelError, match=r"one number of iterations, found \[2, 3\]"):
            circlet.load(path)
        return
    for found, sign in zip(run(path, [rows(1)]), (1, -1), strict=True):
        same(found, sign * rows(2, 3, 4), f"{sign}")


def test_a_scan_without_slices_runs_once(tmp_path: Path) -> None:
    loop = Loop(lambda a: [op.add(a, const(1.0))], [rows(1)], last=[0])
    same(run(loop.save(tmp_path, None, None), [rows(1)])[0], rows(2), "last")
