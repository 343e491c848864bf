"""Loops of TFLite that are measured; the models are made here."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import circlet
from benchmarks.cases import Case
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Less
from circlet.runtime.ops.controlflow import While
from circlet.runtime.ops.elementwise import Add, Mul, Sub

FIELD = (1024, 1024)
TURNS = 100


def made_cases(folder: Path) -> tuple[Case, ...]:
    """Writes models into a folder; returns how they are run."""
    circlet.save(circlet.convert(_wave()), folder / "wave.tflite")
    rng = np.random.default_rng(0)
    u, old = (rng.normal(size=FIELD).astype(np.float32) for _ in range(2))
    return (Case("wave", str(folder / "wave"), "u, old = 2 u - old, u over f32[1024,1024]", "n", TURNS,
                 values={"n": np.array(TURNS, np.int32), "u": u, "old": old}),)


def _wave() -> Model:
    """`for _ in range(n): u, old = 2 * u - old, u`; the file has a copy of `u`, without which LiteRT overwrites it."""
    b = ModelBuilder()
    main, cond, body = (b.subgraph(name) for name in ("main", "cond", "body"))
    left, *_ = _inputs(cond)
    cond.output(cond.apply(Less(), cond.constant(0), left))
    left, u, old = _inputs(body)
    ahead = body.apply(Sub(), body.apply(Mul(), u, body.constant(np.float32(2))), old)
    body.output(body.apply(Add(), left, body.constant(-1)), ahead, u)
    results = [Tensor(name, DType.FLOAT32, FIELD) for name in ("last", "before")]
    main.output(*main.op(While(cond.index, body.index), *_inputs(main),
                         outputs=[Tensor("none", DType.INT32, ()), *results])[1:])
    return b.build()


def _inputs(s: SubgraphBuilder) -> list[Value]:
    return [s.input("n", DType.INT32), *(s.input(name, DType.FLOAT32, FIELD) for name in ("u", "old"))]
