"""Compares one operator on drawn values with LiteRT's reference kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Array, DType, Quantization, Shape
from circlet.schema.files import dump_model, load_model
from circlet.session import Session
from tests.ops.cases import Case, T, check
from tests.ops.one_operator import fed_arrays, model_of

DRAWS = 3
"""How many times the inputs of a row are drawn."""
RUNS = 2
"""How many times a model runs on the same inputs, so that state counts."""


@dataclass(frozen=True)
class Draw:
    """An input that is drawn evenly from an interval; of integers the ends are among the elements if there is room."""

    dtype: DType
    shape: Shape
    low: float
    high: float
    q: Quantization | None = None
    constant: bool = False

    def drawn(self, generator: np.random.Generator) -> T:
        if self.dtype.numpy.kind == "f":
            values: Array = generator.uniform(self.low, self.high, self.shape)
        else:
            values = generator.integers(int(self.low), int(self.high), self.shape, np.int64, endpoint=True)
            if values.size > 1:
                generator.shuffle(ends := np.array([int(self.low), int(self.high)]))
                values.reshape(-1)[generator.choice(values.size, 2, replace=False)] = ends
        return T(values.astype(self.dtype.numpy), self.dtype, self.q, self.constant)


def real(*shape: int, low: float = -3.0, high: float = 3.0, constant: bool = False,
         dtype: DType = DType.FLOAT32) -> Draw:
    return Draw(dtype, shape, low, high, None, constant)


def whole(dtype: DType, *shape: int, low: int = -20, high: int = 20, constant: bool = False) -> Draw:
    """Integers that stand for themselves; 0 is the least of unsigned ones."""
    return Draw(dtype, shape, max(low, 0) if dtype.numpy.kind == "u" else low, high, None, constant)


def stored(dtype: DType, *shape: int, q: Quantization, constant: bool = False, low: int | None = None) -> Draw:
    """Quantised values from all that the type holds."""
    limits = np.iinfo(dtype.numpy)
    return Draw(dtype, shape, limits.min if low is None else low, limits.max, q, constant)


def flags(*shape: int) -> Draw:
    return Draw(DType.BOOL, shape, 0, 1)


def result(dtype: DType, q: Quantization | None = None) -> T:
    """An output; its value does not count."""
    return T(0, dtype, q)


@dataclass(frozen=True)
class Row:
    """An operator, its inputs and its outputs."""

    op: Op
    inputs: Sequence[Draw | T | None]
    outputs: Sequence[T]
    tolerance: float = 1e-6
    """Of floats, relative and, of the largest output, absolute; all else is equal to the bit."""
    version: int = 1
    """The first one that LiteRT's kernel has."""
    reference: bool = True
    """Whether LiteRT has a reference kernel; otherwise the optimised one counts."""

    def case(self, number: int) -> Case:
        """The row on inputs of its own for each number."""
        generator = np.random.default_rng(crc32(f"{self.op} {number}".encode()))
        inputs = [each.drawn(generator) if isinstance(each, Draw) else each for each in self.inputs]
        return Case(str(number), self.op, inputs, self.outputs)


def litert_test(rows: Sequence[Row]) -> Callable[[Row], None]:
    """A test that circlet gives what LiteRT's kernels give; assign it to a name that starts with `test_`."""

    @pytest.mark.parametrize("row", rows, ids=list(_ids(rows)))
    def run(row: Row) -> None:
        interpreter = pytest.importorskip("ai_edge_litert.interpreter")
        for number in range(DRAWS):
            case = row.case(number)
            content, given = dump_model(model_of(case, version=row.version), "tflite"), fed_arrays(case)
            expected = litert_results(interpreter, content, given, row.reference)
            session = Session(load_model(content), "cpu")
            for _ in range(RUNS):
                found = session.invoke(0, given)
            for actual, wanted in zip(found, expected, strict=True):
                check(actual, wanted, row.tolerance if wanted.dtype.kind in "fc" else None)

    return run


def _ids(rows: Sequence[Row]) -> Iterator[str]:
    seen: Counter[str] = Counter()
    for row in rows:
        types = [each.dtype.value if each.dtype else str(each.array.dtype) for each in row.inputs
                 if isinstance(each, Draw) or (isinstance(each, T) and not each.constant)]
        name = "-".join([row.op.name, *dict.fromkeys(types)])
        seen[name] += 1
        yield f"{name}-{seen[name]}"


def litert_results(module: Any, content: bytes, given: Sequence[Array], reference: bool) -> list[Array]:
    """What LiteRT's kernels give."""
    kernels = module.OpResolverType
    resolver = kernels.BUILTIN_REF if reference else kernels.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = module.Interpreter(model_content=content, experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    for _ in range(RUNS):
        for each, value in zip(interpreter.get_input_details(), given, strict=True):
            interpreter.set_tensor(each["index"], value)
        interpreter.invoke()
    return [interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()]
