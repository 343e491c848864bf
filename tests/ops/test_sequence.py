"""Operators on sequences and optionals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from circlet.runtime.errors import ExecutionError, InputError
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import sequence as ops
from circlet.session import Session

A, B = np.array([1, 2], np.float32), np.array([[3]], np.float32)


def run(op: Op, *inputs: Any, dtype: DType = DType.VARIANT) -> Any:
    """What an operator gives: a list for a sequence. Lists and None are sequences and optionals."""
    main = (builder := ModelBuilder()).subgraph()
    values = [main.tensor(Tensor(f"x{k}", DType.VARIANT, ()) if each is None or isinstance(each, list)
                          else Tensor(f"x{k}", DType.of(each.dtype), (), has_rank=False))
              for k, each in enumerate(inputs)]
    main.feed(*values)
    main.output(*main.op(op, *values, outputs=[Tensor("y", dtype, (), has_rank=dtype is DType.VARIANT)]))
    found = Session(builder.build()).run(list(inputs))["y"]
    if dtype is not DType.VARIANT:
        return found
    return [each.tolist() for each in found] if isinstance(found, list) else found


def at(position: int) -> np.int64:
    found: np.int64 = np.int64(position)
    return found


def test_sequences_grow_and_shrink() -> None:
    assert run(ops.SequenceConstruct(), A, B) == [[1, 2], [[3]]]
    assert run(ops.SequenceConstruct()) == []
    assert run(ops.SequenceInsert(), [A], B) == [[1, 2], [[3]]]
    assert run(ops.SequenceInsert(), [A], B, at(0)) == [[[3]], [1, 2]]
    assert run(ops.SequenceInsert(), [A], B, at(-1)) == [[[3]], [1, 2]]
    assert run(ops.SequenceErase(), [A, B]) == [[1, 2]]
    assert run(ops.SequenceErase(), [A, B], at(-2)) == [[[3]]]


def test_sequences_are_read() -> None:
    np.testing.assert_array_equal(run(ops.SequenceAt(), [A, B], at(-1), dtype=DType.FLOAT32), B)
    assert run(ops.SequenceLength(), [A, B], dtype=DType.INT64) == 2
    np.testing.assert_array_equal(run(ops.SequenceConcat(0), [A, A], dtype=DType.FLOAT32), [1, 2, 1, 2])
    np.testing.assert_array_equal(run(ops.SequenceConcat(-1, True), [A, A], dtype=DType.FLOAT32), [[1, 1], [2, 2]])


def test_tensors_are_split() -> None:
    x = np.arange(5, dtype=np.float32)
    assert run(ops.SequenceSplit(), x, at(2)) == [[0, 1], [2, 3], [4]]
    assert run(ops.SequenceSplit(), x, np.array([1, 4], np.int64)) == [[0], [1, 2, 3, 4]]
    assert run(ops.SequenceSplit(keep_axis=False), x[:2], at(1)) == [0, 1]


def test_optionals() -> None:
    assert run(ops.OptionalOf()) is None
    np.testing.assert_array_equal(run(ops.OptionalOf(), A), A, strict=True)
    assert not run(ops.OptionalHasElement(), None, dtype=DType.BOOL)
    assert run(ops.OptionalHasElement(), [A], dtype=DType.BOOL)
    np.testing.assert_array_equal(run(ops.OptionalGetElement(), [A], dtype=DType.FLOAT32), A)


@pytest.mark.parametrize(("op", "inputs", "dtype", "message"), [
    (ops.SequenceAt(), ([A], at(1)), DType.FLOAT32, "expected -1 to 0 for 1 elements, found 1"),
    (ops.SequenceInsert(), ([A], B, at(2)), DType.VARIANT, "expected -1 to 1 for 1 elements, found 2"),
    (ops.SequenceErase(), ([],), DType.VARIANT, "for 0 elements, found -1"),
    (ops.SequenceConcat(), ([A, B],), DType.FLOAT32, r"cannot join elements of shapes \(2,\), \(1, 1\)"),
    (ops.SequenceConcat(), ([],), DType.FLOAT32, "found none"),
    (ops.SequenceSplit(), (A, np.array([1, 2], np.int64)), DType.VARIANT, "sum to 2"),
    (ops.SequenceSplit(), (A, at(0)), DType.VARIANT, "at least 1, found 0"),
    (ops.OptionalGetElement(), (None,), DType.FLOAT32, "found an empty one"),
])
def test_what_does_not_fit_ends_the_run(op: Op, inputs: Any, dtype: DType, message: str) -> None:
    with pytest.raises(ExecutionError, match=message):
        run(op, *inputs, dtype=dtype)


def test_a_sequence_is_given_as_a_list() -> None:
    main = (builder := ModelBuilder()).subgraph()
    main.feed(value := main.tensor(Tensor("x", DType.VARIANT, ())))
    main.output(value)
    session = Session(builder.build())
    with pytest.raises(InputError, match="expected a list of arrays"):
        session.run(["text"])
