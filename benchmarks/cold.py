"""Measures the first result of a program with nothing compiled before, and with all of it: in processes of their own.

    python -m benchmarks.cold [--rounds N] [CASE...]

Time begins when circlet is imported, but nothing that a model is then loaded and compiled with. Straight models of many
small operators show how compiling grows with a model.
"""

from __future__ import annotations

import os

os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")})

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from benchmarks.cases import EXTERNAL, SHIPPED, Array
from benchmarks.start import Sample, inputs_beside, measured, write_inputs
from circlet.files import save
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType
from circlet.runtime.ops import elementwise, layout, matmul, normalize, reduce, shape, unary
from circlet.tools.tables import duration_text

Case: TypeAlias = Callable[[Path], tuple[Path, list[Array]]]
ROWS = 8
WIDTHS = (8, 12, 16, 20, 24)
"""Of the matrices that kinds of operators work on in turn, so that a kind has several shapes."""
UNARY = (unary.Abs, unary.Neg, unary.Sign, unary.Square, unary.Exp, unary.Sin, unary.Cos, unary.Tanh, unary.Logistic,
         unary.Floor, unary.Ceil, unary.Round, unary.Relu, unary.Relu6, unary.ReluN1To1, unary.Elu, unary.Gelu,
         unary.HardSwish)
BINARY = (elementwise.Add, elementwise.Sub, elementwise.Mul, elementwise.Maximum, elementwise.Minimum,
          elementwise.SquaredDifference)
REDUCED = (reduce.Sum, reduce.Mean, reduce.ReduceMax, reduce.ReduceMin)


def products(count: int) -> Model:
    """So many products and transpositions by turns, of one shape."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = v = main.input("x", DType.FLOAT32, (ROWS, ROWS))
    for number in range(count):
        if number % 2 == 0:
            v = main.apply(matmul.BatchMatMul(), v, x)
        else:
            v = main.apply(layout.Transpose(), v, main.constant([1, 0]))
    main.output(v)
    return b.build()


def mixture(count: int) -> Model:
    """So many operators of 40 kinds in matrices of five widths; each has a row of numbers of its own width."""
    b = ModelBuilder()
    main = b.subgraph("main")
    values = [main.input(f"x{width}", DType.FLOAT32, (ROWS, width)) for width in WIDTHS]
    kinds = _kinds(main)
    number = 0
    for turn in range(count):
        at = turn % len(WIDTHS)
        values[at] = kinds[number % len(kinds)](values[at], WIDTHS[at])
        number += at == len(WIDTHS) - 1
    main.output(*values)
    return b.build()


def _kinds(s: SubgraphBuilder) -> Sequence[Callable[[Value, int], Value]]:
    """Operators on a matrix that give one of the same shape."""
    numbers = np.linspace(-1, 1, max(WIDTHS), dtype=np.float32)

    def one(kind: type[unary.Unary], v: Value, _: int) -> Value:
        return s.apply(kind(), v)

    def two(kind: type[elementwise.Binary], v: Value, width: int) -> Value:
        return s.apply(kind(), v, s.constant(numbers[:width]))

    def folded(kind: type[reduce.Reduction], v: Value, _: int) -> Value:
        return s.apply(elementwise.Add(), v, s.apply(kind(keep_dims=True), v, s.constant([1])))

    def product(v: Value, width: int) -> Value:
        return s.apply(matmul.BatchMatMul(), v, s.constant(np.eye(width, dtype=np.float32)))

    def dense(v: Value, width: int) -> Value:
        return s.apply(matmul.FullyConnected(), v, s.constant(np.eye(width, dtype=np.float32)), None)

    def turned(v: Value, width: int) -> Value:
        there = s.apply(layout.Transpose(), v, s.constant([1, 0]))
        return s.apply(shape.Reshape(), there, s.constant([ROWS, width]))

    def mirrored(v: Value, _: int) -> Value:
        return s.apply(layout.ReverseV2(), v, s.constant([1]))

    def soft(kind: normalize.Normalization, v: Value, _: int) -> Value:
        return s.apply(kind, v)

    return [*(partial(one, each) for each in UNARY), *(partial(two, each) for each in BINARY),
            *(partial(folded, each) for each in REDUCED), product, dense, turned, mirrored,
            partial(soft, normalize.Softmax(1.0)), partial(soft, normalize.LogSoftmax()),
            partial(soft, normalize.L2Normalization())]


def _made(make: Callable[[int], Model], count: int) -> Case:
    def case(folder: Path) -> tuple[Path, list[Array]]:
        model, path = make(count), folder / "model.tflite"
        save(model, path)
        graph = model.subgraphs[0]
        return path, [np.full(graph.tensors[each].shape, 0.5, np.float32) for each in graph.inputs]

    return case


def _file(path: Path) -> Case:
    return lambda _: (path, inputs_beside(path))


FILES = (*(EXTERNAL / "control" / f"{name}.tflite" for name in ("count", "nested", "if")),
         SHIPPED / "transformer.tflite",
         *(EXTERNAL / "straight" / f"{name}.tflite" for name in ("mobilenet_v2", "mobilenet_v2_int8")))
"""Those that are not there are left out."""
CASES: dict[str, Case] = {
    **{each.stem: _file(each) for each in FILES if each.exists()},
    **{f"{count} products": _made(products, count) for count in (500, 2000)},
    **{f"{count} operators": _made(mixture, count) for count in (1000, 10000)},
}
"""What gives the file of a case, perhaps in a folder that is given, and its inputs."""


def _line(name: str, rounds: int) -> str:
    """The least of several processes with an empty cache, and of as many with what the last of these left there."""
    cold: list[Sample] = []
    warm: list[Sample] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path, values = CASES[name](folder)
        inputs = write_inputs(values, folder)
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as cache:
                for samples in (cold, warm):
                    samples.append(measured("circlet", path, Path(cache), inputs))
    first, again = map(_taken, (cold, warm))
    times = (first, min(each.spent for each in cold), again)
    peak, usual = (min(each.peak for each in samples) for samples in (cold, warm))
    return f"{name:20}{''.join(f'{duration_text(each):>10}' for each in times)}{peak:8.0f} MB{peak / usual:8.2f}"


def _taken(samples: Sequence[Sample]) -> float:
    """The least seconds from the import to the first result."""
    return min(each.done - each.imported for each in samples)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cold", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; all by default")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each (default: %(default)s)")
    options = parser.parse_args()
    print(f"{'':20}{'cold':>10}{'CPU':>10}{'warm':>10}{'memory':>11}{'/ warm':>8}")
    for name in options.names or CASES:
        try:
            print(_line(name, options.rounds), flush=True)
        except subprocess.CalledProcessError as error:
            print(f"{name:20} {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
