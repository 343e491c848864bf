"""How fast this machine computes and moves bytes at its best, measured, and what part of that an operator reaches."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.lib.stride_tricks import as_strided

from circlet.backends.platform import Feature, current
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ops.matmul import FullyConnected
from circlet.runtime.passes.analyses.work import Work
from circlet.runtime.records import dataclass
from circlet.session import Session

SIDE = 512
"""Of the matrices that are multiplied: large enough to be limited by arithmetic, and done in some milliseconds."""
SIZES = (1 << 15, 1 << 18, 1 << 22, 1 << 26)
"""Bytes that are touched: in the caches of the first and second level, in the last one, in none."""
MOVED = 1 << 24
"""Bytes that one sample moves at least, the same ones again and again: in less than a millisecond."""
SAMPLES = 12
"""Of which the quickest counts, as others disturb them."""


@dataclass(frozen=True)
class Peak:
    """The best that was measured."""

    flops: float
    """Operations on float32 in a second."""
    rates: tuple[tuple[int, float], ...]
    """Bytes that are touched, and how many are then moved in a second, from the smallest."""
    product: str
    """What multiplied: `native`, or `numpy` with threads of its own."""

    @property
    def text(self) -> str:
        """How it was measured, and what came out."""
        rates = ", ".join(f"{rate / 1e9:.3g} GB/s in {_size_text(size)}" for size, rate in self.rates)
        return f"{self.flops / 1e9:.3g} GFLOP/s ({self.product} product of float32 matrices); {rates}"

    def seconds(self, work: Work) -> float:
        """What an operator would take that is limited by arithmetic or by the bytes it moves, whichever takes
        longer (the roofline model: Williams, Waterman, Patterson, 2009)."""
        found = bisect_left(self.rates, work.bytes, key=lambda each: each[0])
        rate = self.rates[min(found, len(self.rates) - 1)][1]
        return max(work.flops / self.flops, work.bytes / rate)


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
    return Peak(2 * SIDE**3 / _quickest(multiply), tuple((each, _rate(each)) for each in SIZES),
                "native" if is_native else "numpy")


def _native_product(num_threads: int) -> Callable[[], object]:
    chance = np.random.default_rng(0)
    builder = ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", np.float32, (SIDE, SIDE))
    weights = main.constant(chance.normal(size=(SIDE, SIDE)).astype(np.float32))
    main.output(main.apply(FullyConnected(), x, weights))
    session = Session(builder.build(), "native", num_threads)
    bound = session.bind(0, [chance.normal(size=(SIDE, SIDE)).astype(np.float32)])
    return lambda: session.run_bound(bound)


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
