"""How fast this machine computes and moves bytes at its best, measured, and what part of that an operator reaches."""

from __future__ import annotations

import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import cache
from math import isqrt, log

import numpy as np
from numpy.lib.stride_tricks import as_strided

from circlet.backends.platform import Feature, current
from circlet.network.network import Network
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Quantization
from circlet.runtime.ops.matmul import FullyConnected
from circlet.runtime.passes.analyses.work import Work
from circlet.runtime.records import dataclass
from circlet.session import Session

SIDE = 512
"""Of the matrices that are multiplied: large enough to be limited by arithmetic, and done in some milliseconds."""
SIZES = (1 << 15, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26)
"""Bytes that are touched: in the caches of the first and second level, in the last one, in none."""
LARGEST_WEIGHTS = 1 << 20
"""Bytes up to which products of one row are tried too: numpy reads 32 KiB at 85 GB/s where these read 170, 256 KiB at
95 and 107, 1 MiB at 75 and 80, more than that faster than they."""
ROW = 16
"""Numbers that a vector may hold; rows are multiples of it."""
MOVED = 1 << 24
"""Bytes that one sample moves at least, the same ones again and again: in less than a millisecond."""
SAMPLES = 12
"""Of which the quickest counts, as others disturb them."""

BYTES = frozenset({DType.INT8, DType.UINT8, DType.INT4})
"""Products of these, or of float32 with weights of them, are computed in int8."""
OTHERS = frozenset({DType.INT16})
"""Products with these are computed otherwise."""


@dataclass(frozen=True)
class Peak:
    """The best that was measured."""

    flops: float
    """Operations on float32 in a second."""
    rates: tuple[tuple[int, float], ...]
    """Bytes that are touched, and how many are then moved in a second, from the smallest."""
    product: str
    """What multiplied: `native`, or `numpy` with threads of its own."""
    int8: float | None = None
    """Operations on int8 in a second; None where they were not measured, as numpy has no product of them."""

    @property
    def text(self) -> str:
        """How it was measured, and what came out."""
        rates = ", ".join(f"{rate / 1e9:.3g} GB/s in {_size_text(size)}" for size, rate in self.rates)
        int8 = "" if self.int8 is None else f", {self.int8 / 1e9:.3g} Gop/s (of int8)"
        return f"{self.flops / 1e9:.3g} GFLOP/s ({self.product} product of float32 matrices){int8}; {rates}"

    def seconds(self, work: Work, types: AbstractSet[DType]) -> float | None:
        """What an operator on some element types would take that is limited by arithmetic or by the bytes it moves,
        whichever takes longer (the roofline model: Williams, Waterman, Patterson, 2009); None where there is no peak
        for its arithmetic."""
        flops = self.int8 if types & BYTES else self.flops if DType.FLOAT32 in types else None
        if not work.flops:
            return work.bytes / self.rate(work.bytes)
        return None if flops is None or types & OTHERS else max(work.flops / flops, work.bytes / self.rate(work.bytes))

    def rate(self, size: int) -> float:
        """Bytes that are moved in a second where so many are touched: between two that were measured in proportion to
        the logarithm, before and after these as at the nearest."""
        sizes, rates = [log(each) for each, _ in self.rates], [rate for _, rate in self.rates]
        return float(np.interp(log(max(size, 1)), sizes, rates))


def _size_text(size: int) -> str:
    return f"{size >> 20} MiB" if size >> 20 else f"{size >> 10} KiB"


@cache
def measured_peak(num_threads: int = 1) -> Peak:
    """The machine's best, measured once in a process, in a second or so; code for it may have to be compiled first.

    Args:
        num_threads: that compiled code may use.
    """
    is_native = Feature.LLVM not in current().lacks
    multiply = _native_product(num_threads) if is_native else _numpy_product()
    rates = {each: _rate(each) for each in SIZES}
    if is_native:
        for each in SIZES[:SIZES.index(LARGEST_WEIGHTS) + 1]:
            rates[each] = max(rates[each], _native_rate(each))
    operations = 2 * SIDE**3
    return Peak(operations / _quickest(multiply), tuple(rates.items()), "native" if is_native else "numpy",
                operations / _quickest(_int8_product(num_threads)) if is_native else None)


def _native_product(num_threads: int) -> Callable[[], object]:
    chance = np.random.default_rng(0)
    builder = ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", np.float32, (SIDE, SIDE))
    weights = main.constant(chance.normal(size=(SIDE, SIDE)).astype(np.float32))
    main.output(main.apply(FullyConnected(), x, weights))
    return _bound(builder, chance.normal(size=(SIDE, SIDE)).astype(np.float32), num_threads)


def _int8_product(num_threads: int) -> Callable[[], object]:
    one, other = np.random.default_rng(0).integers(-127, 128, (2, SIDE, SIDE), np.int8)
    builder = ModelBuilder()
    main = builder.subgraph("main")
    scale = Quantization((0.1,), (0,))
    x, weights = main.input("x", np.int8, (SIDE, SIDE), scale), main.constant(other, quantization=scale)
    (product,) = main.op(FullyConnected(), x, weights, None, outputs=[
        Tensor("product", DType.INT8, (SIDE, SIDE), quantization=Quantization((100.0,), (0,)))])
    main.output(product)
    return _bound(builder, one, num_threads)


def _bound(builder: ModelBuilder, given: Array, num_threads: int) -> Callable[[], object]:
    """A run of a model with one input."""
    session = Session(builder.build(), "native", num_threads)
    bound = session.bind(0, [given])
    return lambda: session.run_bound(bound)


def _native_rate(size: int) -> float:
    """Bytes read in a second where so many are weights: by products of one row, in a loop."""
    side = isqrt(size // 4) // ROW * ROW
    read = 4 * side**2
    turns = max(MOVED // read, 1)
    net = Network()
    row, weights = net.input("row", np.float32, (1, side)), np.zeros((side, side), np.float32)
    _, result = net.while_loop(lambda turn, row: turn < turns, lambda turn, row: (turn + 1, row @ weights), (0, row))
    net.output(result, "result")
    session = Session(net.build(), "native")
    bound = session.bind(0, [np.zeros((1, side), np.float32)])
    return read * turns / _quickest(lambda: session.run_bound(bound))


def _numpy_product() -> Callable[[], object]:
    one, other = np.random.default_rng(0).normal(size=(2, SIDE, SIDE)).astype(np.float32)
    out = np.empty_like(one)
    return lambda: np.matmul(one, other, out)


def _rate(size: int) -> float:
    """Bytes moved in a second where so many are touched: by a copy, or, if that is faster, by reading alone."""
    count, times = size // 8, max(MOVED // size, 1)
    source, target, largest = np.ones(count, np.float32), np.empty(count, np.float32), np.empty(times, np.float32)
    again, into = (as_strided(each, (times, count), (0, 4)) for each in (source, target))
    whole = as_strided(np.ones(2 * count, np.float32), (times, 2 * count), (0, 4))
    copying = _quickest(lambda: np.copyto(into, again))
    reading = _quickest(lambda: np.max(whole, axis=1, out=largest))
    return size * times / min(copying, reading)


def _quickest(work: Callable[[], object]) -> float:
    """The seconds of the quickest of some samples, after one that is not counted."""
    found = []
    for _ in range(SAMPLES + 1):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return min(found[1:])
