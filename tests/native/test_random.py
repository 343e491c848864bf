"""Native operators that make random numbers."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Add, Mul, StablehloAdd
from circlet.runtime.ops.random import Algorithm, StablehloRngBitGenerator
from tests.native.native_cases import native_test
from tests.ops.test_random import BITS, u64

test_bits = native_test(BITS)


@pytest.mark.parametrize("algorithm", Algorithm)
@pytest.mark.parametrize("threads", [1, 2])
def test_bits_are_part_of_code_for_any_lengths(algorithm: Algorithm, threads: int, folder: object,
                                               compiled: list[str]) -> None:
    """Made from a state that is computed, and used in a sum, beside an input of any length."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x, state = main.input("x", np.int32, (-1, 10_001)), main.input("state", np.uint64, (2,))
    made = [Tensor("after", DType.UINT64, (2,)), Tensor("bits", DType.INT32, (10_001,))]
    after, bits = main.op(StablehloRngBitGenerator(algorithm), main.apply(StablehloAdd(), state, state), outputs=made)
    main.output(main.apply(Add(), x, main.apply(Mul(), bits, main.constant(np.int32(3)))), after)
    native, cpu = (circlet.Session(b.build(), each, num_threads=threads) for each in ("native", "cpu"))
    for rows in (1, 3, 2):
        given = [np.arange(rows * 10_001, dtype=np.int32).reshape(rows, -1), u64(rows, 2**63 + rows)]
        for found, expected in zip(native.invoke(0, given), cpu.invoke(0, given), strict=True):
            np.testing.assert_array_equal(found, expected)
    assert len(compiled) == 1
    assert native.backend_of(0) == ("native",) * 4
