"""Turns a list of cases into a test function that computes each of them in several ways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from circlet.backends.cpu.backend import CpuBackend
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.ir.model import Model
from circlet.runtime.ops.registry import OPERATORS
from circlet.schema.files import dump_model, load_model
from circlet.schema.tflite import TFLITE
from circlet.session import Session
from tests.ops.cases import Case, check
from tests.ops.one_operator import called, fed_arrays, model_of, same_options

Results = Sequence[npt.NDArray[Any]]


def by_kernel(case: Case) -> Results:
    """Through shape rule and kernel alone, on buffers that are not the kernel's."""
    given, declared, backend = case.given, [each.tensor for each in case.expected], CpuBackend()
    kinds = case.op.types(case.operands())
    assert all(kind in (None, each.dtype) for kind, each in zip(kinds, declared, strict=True)), kinds
    call = Call(case.op, tuple(None if each is None else each.tensor for each in given), tuple(declared),
                intermediates=tuple(each.tensor for each in case.intermediates))
    refusal = backend.refuses(call)
    assert refusal is None, refusal
    wanted = tuple(each.shape for each in declared)
    shapes = case.shapes() or wanted
    assert case.error is not None or shapes == wanted
    inputs = [None if each is None else each.array for each in given]
    outputs = [np.zeros(shape, each.dtype.numpy) for shape, each in zip(shapes, declared, strict=True)]
    step = backend.kernel(call).bind(inputs, outputs, Run(Variables()))
    with np.errstate(all="ignore"):
        step()
        step()
    return outputs


def by_file(case: Case) -> Results:
    """As a model of that operator alone, written and read again."""
    model = model_of(case)
    if case.op.name in OPERATORS:
        format = "tflite" if case.op.name in TFLITE.codes else "circle"
        model = load_model(dump_model(model, format))
        assert same_options(model.subgraphs[0].operators[0].op, case.op)
    return _run(case, model)


def by_call(case: Case) -> Results:
    """In a subgraph that another one calls, with inputs of any shapes, on buffers that the caller lends."""
    return _run(case, called(model_of(case, static=False)))


def by_copying(case: Case) -> Results:
    """As by a call, with copies in and out."""
    return _run(case, called(model_of(case, static=False)), copy_elision=False)


def _run(case: Case, model: Model, copy_elision: bool = True) -> Results:
    session = Session(model, "cpu", copy_elision=copy_elision)
    first = session.invoke(0, fed_arrays(case))
    second = session.invoke(0, fed_arrays(case))
    if case.op.pure and not any(each is not None and each.variable for each in case.given):
        for one, other in zip(first, second, strict=True):
            np.testing.assert_array_equal(one, other)
    return second


WAYS = (by_kernel, by_file, by_call, by_copying)


def case_test(cases: Sequence[Case]) -> Callable[[Case, Callable[[Case], Results]], None]:
    """A test of every case in every way; assign it to a name that starts with `test_`."""

    @pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
    @pytest.mark.parametrize("case", cases, ids=[f"{case.op.name}-{case.id}" for case in cases])
    def run(case: Case, way: Callable[[Case], Results]) -> None:
        if case.error is not None:
            with pytest.raises(Exception, match=case.error):
                way(case)
            return
        for actual, expected in zip(way(case), case.expected, strict=True):
            check(actual, expected.array, case.tolerance)

    return run
