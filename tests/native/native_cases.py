"""Runs operator cases through sessions of the native backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder, Value
from circlet.runtime.ir.model import Model
from tests.ops.cases import Case, T, as_t, check

FLOATS = 1e-5


def model_of(case: Case) -> tuple[Model, list[T]]:
    """A model of one operator, and what its inputs are given."""
    b = ModelBuilder()
    main = b.subgraph("main")
    given: list[T] = []
    inputs: list[Value | None] = []
    for each in case.inputs:
        if each is None:
            inputs.append(None)
            continue
        value = as_t(each)
        inputs.append(main.tensor(value.tensor))
        if not value.constant:
            given.append(value)
    fed = [k for k, each in enumerate(case.inputs) if each is not None and not as_t(each).constant]
    main.feed(*(each for k, each in enumerate(inputs) if k in fed and each is not None))
    main.output(*main.op(case.op, *inputs, outputs=[as_t(each).tensor for each in case.outputs]))
    return b.build(), given


def opened(model: Model) -> Model:
    """The model with inputs of which only the rank is declared."""
    (main,) = model.subgraphs
    tensors = list(main.tensors)
    for each in main.inputs:
        quantization = tensors[each].quantization
        if quantization is None or not quantization.per_axis:
            rank = len(tensors[each].shape)
            tensors[each] = replace(tensors[each], shape=(1,) * rank, shape_signature=(-1,) * rank)
    return replace(model, subgraphs=(replace(main, tensors=tuple(tensors)),))


def native_test(cases: Sequence[Case], floats: float = FLOATS) -> Callable[[Case, str], None]:
    """A test of every case on the native backend; floats that a case wants exact may differ by `floats`."""

    @pytest.mark.parametrize("lengths", ["fixed", "open"])
    @pytest.mark.parametrize("case", cases, ids=[f"{case.op.name}-{case.id}" for case in cases])
    def run(case: Case, lengths: str) -> None:
        model, given = model_of(case)
        if lengths == "open":
            model = opened(model)
        if case.error is not None:
            with pytest.raises(circlet.CircletError, match=case.error):
                circlet.Session(model, backend="native").run([each.array for each in given])
            return
        session = circlet.Session(model, backend="native")
        for _ in range(2):
            found = session.invoke(0, [each.array for each in given])
            for actual, expected in zip(found, case.outputs, strict=True):
                wanted = as_t(expected).array
                real = wanted.dtype.kind == "f"
                check(actual, wanted, max(case.tolerance or 0.0, floats) if real else case.tolerance)

    return run
