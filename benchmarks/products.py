"""Measures float32 products against numpy's OpenBLAS, one thread each, in one process.

    python -m benchmarks.products [--rounds N]
"""

from __future__ import annotations

import os

os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")})

import argparse
import math
import sys
import time
from collections.abc import Callable
from statistics import median

import numpy as np

import circlet
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.matmul import BatchMatMul, FullyConnected

SQUARES = (64, 96, 128, 192, 256, 384, 512, 768, 1024)
POINTWISE = ((12544, 32, 16), (12544, 16, 96), (3136, 96, 24), (3136, 24, 144), (784, 144, 32), (784, 32, 192),
             (196, 192, 64), (196, 64, 384), (196, 384, 96), (196, 96, 576), (49, 576, 160), (49, 160, 960),
             (49, 960, 320), (49, 320, 1280), (1, 1280, 1000))
"""Rows, depth and columns of MobileNetV2's 1x1 convolutions."""
SAMPLE = 0.01


def constant_product(rows: int, depth: int, columns: int) -> Model:
    """x[rows, depth] times a constant."""
    b = ModelBuilder()
    main = b.subgraph("main")
    weights = np.random.default_rng(0).normal(size=(columns, depth)).astype(np.float32)
    main.output(main.apply(FullyConnected(), main.input("x", DType.FLOAT32, (rows, depth)), main.constant(weights)))
    return b.build()


def product(rows: int, depth: int, columns: int) -> Model:
    """x[rows, depth] times y[depth, columns]."""
    b = ModelBuilder()
    main = b.subgraph("main")
    main.output(main.apply(BatchMatMul(), main.input("x", DType.FLOAT32, (rows, depth)),
                           main.input("y", DType.FLOAT32, (depth, columns))))
    return b.build()


def _step(model: Model, shapes: list[tuple[int, ...]]) -> Callable[[], None]:
    session = circlet.Session(model, backend="native")
    r = np.random.default_rng(1)
    bound = session.bind(0, [r.normal(size=shape).astype(np.float32) for shape in shapes])
    return lambda: session.run_bound(bound)


def _numpy(rows: int, depth: int, columns: int) -> Callable[[], None]:
    r = np.random.default_rng(1)
    x, y = (r.normal(size=shape).astype(np.float32) for shape in ((rows, depth), (depth, columns)))
    out = np.empty((rows, columns), np.float32)

    def step() -> None:
        np.matmul(x, y, out)

    return step


def _seconds(step: Callable[[], None], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        step()
    return (time.perf_counter() - start) / repeats


def _medians(steps: list[Callable[[], None]], rounds: int) -> list[float]:
    repeats = []
    for step in steps:
        step()
        repeats.append(max(1, math.ceil(SAMPLE / max(_seconds(step, 1), 1e-7))))
    samples = [[_seconds(step, count) for step, count in zip(steps, repeats, strict=True)] for _ in range(rounds)]
    return [median(each) for each in zip(*samples, strict=True)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.products", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="samples of each (default: %(default)s)")
    rounds = parser.parse_args().rounds
    print(f"{'rows x depth x columns':24}{'OpenBLAS':>12}{'constant':>12}{'run time':>12}  GFLOP/s, and times OpenBLAS")
    for rows, depth, columns in (*((n, n, n) for n in SQUARES), *POINTWISE):
        steps = [_numpy(rows, depth, columns), _step(constant_product(rows, depth, columns), [(rows, depth)]),
                 _step(product(rows, depth, columns), [(rows, depth), (depth, columns)])]
        speeds = [2e-9 * rows * depth * columns / each for each in _medians(steps, rounds)]
        print(f"{f'{rows} x {depth} x {columns}':24}" + "".join(f"{each:12.1f}" for each in speeds)
              + "".join(f"{each / speeds[0]:8.2f}" for each in speeds[1:]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
