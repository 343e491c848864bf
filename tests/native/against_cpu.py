"""Compares native code with the numpy backend on models made for the purpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

import circlet
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import DType
from tests.ops.cases import check

Array: TypeAlias = npt.NDArray[Any]
Formula: TypeAlias = Callable[..., Sequence[Value]]
"""From the builder of a subgraph and its inputs to its outputs."""

NUMBERS = (np.float32, np.int32, np.int64)
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0)


def agree(formula: Formula, *inputs: Array, floats: float = 1e-5) -> None:
    """Runs a model of one subgraph on both backends, twice; floats may differ by a part of the largest one."""
    b = ModelBuilder()
    main = b.subgraph("main")
    given = [main.input(f"x{k}", DType.of(each.dtype), each.shape) for k, each in enumerate(inputs)]
    main.output(*formula(main, *given))
    model = b.build()
    native, cpu = (circlet.Session(model, backend=backend) for backend in ("native", "cpu"))
    wanted = cpu.invoke(0, list(inputs))
    for _ in range(2):
        for found, expected in zip(native.invoke(0, list(inputs)), wanted, strict=True):
            check(found, expected, floats if expected.dtype.kind == "f" else None)


def applied(op: Op, *constants: npt.ArrayLike) -> Formula:
    """The results of one operator on the inputs and some constants behind them."""
    def formula(g: SubgraphBuilder, *inputs: Value) -> Sequence[Value]:
        return g.op(op, *inputs, *(g.constant(np.array(each)) for each in constants))

    return formula


def shapes(least: int = 0, most: int = 5, dims: st.SearchStrategy[int] | None = None) -> st.SearchStrategy[list[int]]:
    """Shapes of some ranks; an axis is rarely empty."""
    lengths = st.sampled_from([1, 1, 2, 2, 3, 3, 4, 5, 7, 9, 0]) if dims is None else dims
    return st.lists(lengths, min_size=least, max_size=most)


def values(shape: Sequence[int], dtype: npt.DTypeLike, seed: int, special: bool = False) -> Array:
    """Numbers around zero; `special` mixes in infinities, NaN and zeros of both signs where the type has them."""
    random, kind = np.random.default_rng(seed), np.dtype(dtype)
    if kind.kind == "b":
        return np.asarray(random.integers(0, 2, shape), np.bool_)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return np.asarray(random.integers(max(limits.min, -(2**40)), min(limits.max, 2**40), shape, endpoint=True),
                          kind)
    found = np.asarray(random.standard_normal(shape), kind)
    if special:
        found = np.where(random.random(shape) < 0.3, random.choice(SPECIAL, shape), found).astype(kind)
    return found


seeds = st.integers(0, 2**32 - 1)
