"""Lists that loops fill as converters of TensorFlow spell it, against OpenVINO."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlet
from circlet.runtime.ops.loop import Loop
from tests.native.conftest import compiled as compiled
from tests.needs import NATIVE
from tests.schema.openvino.models import const, draw, f32, i32, op, ov, run_openvino, same, save


@dataclass(frozen=True)
class Rows:
    """How a list is filled."""

    id: str
    more: int = 0
    """Rows behind those that the loop sets."""
    is_single: bool = False
    """Whether it is the only row that is set again and again."""
    step: int = 1
    first: float = 0.0
    """What the list begins with, which a loop without a turn gives."""
    last: bool = False
    """Whether the rows are set from the last one on."""
    shares: bool = False
    """Whether another layer reads how many rows there are."""
    carries: int = 2
    """Values that the loop carries then, of which the list is one if it stays one."""

    def __str__(self) -> str:
        return self.id

    def save(self, folder: Path) -> Path:
        """A model that gives such a list of tanh(x[k]), and the sum of these."""
        x = op.parameter([-1, -1, 2], f32)
        number, rows = op.parameter([], i32), op.parameter([1 if self.is_single else -1, -1, -1], f32)
        total, values = op.parameter([-1, 2], f32), op.parameter([-1, -1, 2], f32)
        row = op.tanh(op.gather(values, number, const(0)))
        count = op.slice(op.shape_of(rows), const([0]), const([1]), const([1]), const([0])) if self.is_single else \
            op.gather(op.shape_of(rows), const([0]), const(0))
        spread = op.broadcast(rows, op.concat([count, op.shape_of(row)], 0))
        place = const([0]) if self.is_single else op.reshape(number, const([1]), False)
        filled = op.scatter_update(spread, place, op.unsqueeze(row, const([0])), const(0))
        after = op.add(number, const(np.array(self.step, i32)))
        added = op.add(row, op.multiply(op.convert(count, "f32"), const(0.0))) if self.shares else row
        results = [op.result(each) for each in (after, filled, op.add(total, added), const(True))]
        node = op.loop(op.gather(op.shape_of(x), const(0), const(0)), const(True))
        node.set_function(ov.Model(results, [number, rows, total, values]))
        node.set_special_body_ports([-1, 3])
        dims = [op.gather(op.shape_of(x), const([k]), const(0)) for k in (0, 1)]
        length = const([1]) if self.is_single else op.add(dims[0], const([self.more]))
        last = op.convert(op.reduce_sum(op.add(dims[0], const(-1)), const([0])), "i32")
        begin: list[Any] = [last if self.last else const(np.array(0, i32)),
                            op.broadcast(const(self.first), op.concat([length, const([1, 1])], 0)),
                            op.broadcast(const(0.0), op.concat([dims[1], const([2])], 0))]
        for parameter, outer, result in zip((number, rows, total), begin, results, strict=False):
            node.set_merged_input(parameter, outer.output(0), result.output(0))
        node.set_invariant_input(values, x.output(0))
        return save(folder, [node.get_iter_value(each.output(0), -1) for each in results[1:3]], [x])


CASES = [Rows("all"), Rows("some", more=2), Rows("single", is_single=True),
         Rows("again", step=0, carries=3), Rows("single from 2", is_single=True, first=2.0, carries=3),
         Rows("backwards", step=-1, last=True, carries=3), Rows("shared", shares=True, more=1, carries=3)]


@pytest.mark.slow
@pytest.mark.parametrize(("case", "backend"), [
    *((each, "cpu") for each in CASES), *(pytest.param(each, "native", marks=NATIVE) for each in CASES)], ids=str)
def test_as_openvino(case: Rows, backend: str, tmp_path: Path) -> None:
    path = case.save(tmp_path)
    model = circlet.load(path)
    (loop,) = (each.op for each in model.subgraphs[0].operators if isinstance(each.op, Loop))
    assert len(loop.carried) == case.carries
    session = circlet.Session(model, backend=backend)
    for count, batch in ((4, 3), (2, 5), (6, 2), (1, 3), (3, 1), (5, 3)):
        given = [draw(count, batch, 2)]
        for found, expected in zip(session.run(given).values(), run_openvino(path, given), strict=True):
            same(found, expected, str((count, batch)))


@NATIVE
@pytest.mark.parametrize("case", CASES, ids=str)
def test_one_function_computes_them(case: Rows, compiled: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
                                    ) -> None:
    monkeypatch.setenv("CIRCLET_CACHE_DIR", "")
    session = circlet.Session(circlet.load(case.save(tmp_path)), backend="native")
    for count, batch in ((4, 3), (2, 5), (6, 2)):
        session.run([draw(count, batch, 2)])
    assert len(compiled) == 1
