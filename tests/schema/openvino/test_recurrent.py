"""Recurrent cells and sequences, and variables, of OpenVINO against OpenVINO."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlet
from tests.schema.openvino.models import Case, check, const, draw, f32, i64, op, save

H, I, B, T = 3, 2, 2, 4  # noqa: E741  # hidden, input, batch, time
SMALL = 1e-4


def parameters(gates: int, *lead: int, more: int = 0) -> list[Any]:
    """W, R and B."""
    return [const(draw(*lead, gates * H, I)), const(draw(*lead, gates * H, H)), const(draw(*lead, (gates + more) * H))]


def gru(before_reset: bool, clip: float) -> Callable[[Any, Any], Any]:
    return lambda x, h: op.gru_cell(x, h, *parameters(3, more=before_reset), H, clip=clip,
                                    linear_before_reset=before_reset)


CELLS = [
    *(Case(f"lstm_{clip}", lambda x, h, c, clip=clip: op.lstm_cell(x, h, c, *parameters(4), H, clip=clip),
           [draw(B, I), draw(B, H), draw(B, H, seed=1)], tolerance=SMALL) for clip in (0.0, 0.5)),
    *(Case(f"gru_{before}_{clip}", gru(before, clip), [draw(B, I), draw(B, H)], tolerance=SMALL)
      for before in (False, True) for clip in (0.0, 0.5)),
    Case("rnn", lambda x, h: op.rnn_cell(x, h, *parameters(1), H, ["relu"], [], []), [draw(B, I), draw(B, H)],
         tolerance=SMALL),
]


def sequences(direction: str, lengths: list[int]) -> list[Case]:
    """The three kinds; OpenVINO ignores lengths where the batch is not known."""
    d = 2 if direction == "bidirectional" else 1
    counts, x, h = np.array(lengths, i64), draw(B, T, I), draw(B, d, H)
    dynamic = lengths == [T, T]
    return [
        Case(f"lstm_{direction}_{lengths}", lambda x, h, c: op.lstm_sequence(
            x, h, c, const(counts), *parameters(4, d), H, direction), [x, h, draw(B, d, H, seed=1)], None, dynamic,
             SMALL),
        *(Case(f"gru_{direction}_{lengths}_{before}", lambda x, h, before=before: op.gru_sequence(
            x, h, const(counts), *parameters(3, d, more=before), H, direction, linear_before_reset=before), [x, h],
               None, dynamic, SMALL) for before in (False, True)),
        Case(f"rnn_{direction}_{lengths}", lambda x, h: op.rnn_sequence(
            x, h, const(counts), *parameters(1, d), H, direction), [x, h], None, dynamic, SMALL),
    ]


COMPUTED = Case("computed_parameters", lambda x, h, c, n, w: op.lstm_sequence(
    x, h, c, n, w, *parameters(4, 1)[1:], H, "forward"),
    [draw(B, T, I), draw(B, 1, H), draw(B, 1, H, seed=1), np.array([1, 3], i64), draw(1, 4 * H, I)], None, False, SMALL)
SEQUENCES = [each for direction in ("forward", "reverse", "bidirectional") for lengths in ([T, T], [T, 2])
             for each in sequences(direction, lengths)]


@pytest.mark.parametrize("dynamic", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["static", "dynamic"])
@pytest.mark.parametrize("cases", [CELLS, [*SEQUENCES, COMPUTED]], ids=["cells", "sequences"])
def test_as_openvino(tmp_path: Path, cases: list[Case], dynamic: bool) -> None:
    check(tmp_path, cases, dynamic)


def test_a_sequence_is_a_loop(tmp_path: Path) -> None:
    x, h = op.parameter([B, T, I], f32), op.parameter([B, 1, H], f32)
    made = op.rnn_sequence(x, h, const([T] * B), *parameters(1, 1), H, "forward")
    path = save(tmp_path, made.outputs(), [x, h])
    assert [each.name for each in circlet.load(path).subgraphs[0].operators].count("LOOP") == 1


def test_variables(tmp_path: Path) -> None:
    """A variable has its first value until it is assigned, which is when the run has read it."""
    x = op.parameter([2], f32)
    total = op.add(op.read_value(const([1.0, 2]), "sum"), x)
    path = save(tmp_path, [total.output(0)], [x], [op.assign(total, "sum")])
    session = circlet.Session(circlet.load(path), backend="cpu")
    for expected in ([2, 3], [3, 4], [4, 5]):
        (found,) = session.run([[1, 1]]).values()
        assert found.tolist() == expected
    session.reset_state()
    (found,) = session.run([[1, 1]]).values()
    assert found.tolist() == [2, 3]


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_a_first_value_that_the_run_computes(tmp_path: Path, backend: str) -> None:
    """Keys of a decoder: none of as many sequences as there are, until the first run assigns them."""
    x = op.parameter([-1, -1, 2], f32)
    empty = op.concat([op.gather(op.shape_of(x), const([0]), const(0)), const([0, 2])], 0)
    keys = op.concat([op.read_value(op.broadcast(const(0.0), empty), "keys"), x], 1)
    total = op.reduce_sum(keys, const([1]))
    path = save(tmp_path, [total.output(0)], [x], [op.assign(keys, "keys")])
    session = circlet.Session(circlet.load(path), backend=backend)
    for batch in (2, 3):
        session.reset_state()
        expected = np.zeros((batch, 2))
        for count in (3, 1, 1):
            given = draw(batch, count, 2, seed=count)
            expected += given.sum(1)
            (found,) = session.run([given]).values()
            np.testing.assert_allclose(found, expected, rtol=1e-5)
