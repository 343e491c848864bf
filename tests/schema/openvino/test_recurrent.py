"""Recurrent cells and sequences, and variables, of OpenVINO against OpenVINO."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import circlet
from tests.schema.openvino.models import PRECISE, Case, check, const, draw, f32, i64, op, ov, save

op6 = ov.opset6
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


TWICE = Case("activations_of_both_directions", lambda x, h, c: op.lstm_sequence(
    x, h, c, const([T, T]), *parameters(4, 2), H, "bidirectional", ["sigmoid", "tanh", "relu"] * 2),
    [draw(B, T, I), draw(B, 2, H), draw(B, 2, H, seed=1)], tolerance=SMALL)
COMPUTED = Case("computed_parameters", lambda x, h, c, n, w: op.lstm_sequence(
    x, h, c, n, w, *parameters(4, 1)[1:], H, "forward"),
    [draw(B, T, I), draw(B, 1, H), draw(B, 1, H, seed=1), np.array([1, 3], i64), draw(1, 4 * H, I)], None, False, SMALL)
SEQUENCES = [each for direction in ("forward", "reverse", "bidirectional") for lengths in ([T, T], [T, 2])
             for each in sequences(direction, lengths)]


@pytest.mark.parametrize("dynamic", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["static", "dynamic"])
@pytest.mark.parametrize("cases", [CELLS, [*SEQUENCES, COMPUTED, TWICE]], ids=["cells", "sequences"])
def test_as_openvino(tmp_path: Path, cases: list[Case], dynamic: bool) -> None:
    check(tmp_path, cases, dynamic)


def test_a_sequence_is_a_loop(tmp_path: Path) -> None:
    x, h = op.parameter([B, T, I], f32), op.parameter([B, 1, H], f32)
    made = op.rnn_sequence(x, h, const([T] * B), *parameters(1, 1), H, "forward")
    path = save(tmp_path, made.outputs(), [x, h])
    assert [each.name for each in circlet.load(path).subgraphs[0].operators].count("LOOP") == 1


def test_activations_that_differ_by_direction_are_refused(tmp_path: Path) -> None:
    x, h, c = op.parameter([B, T, I], f32), op.parameter([B, 2, H], f32), op.parameter([B, 2, H], f32)
    made = op.lstm_sequence(x, h, c, const([T] * B), *parameters(4, 2), H, "bidirectional",
                            ["sigmoid", "tanh", "tanh", "sigmoid", "tanh", "relu"])
    with pytest.raises(circlet.UnsupportedError, match="activations of their own in each direction"):
        circlet.load(save(tmp_path, made.outputs(), [x, h, c]))


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


def variable_of(shape: list[int], name: str) -> Any:
    """A variable of float32."""
    info = ov.op.util.VariableInfo()
    info.data_shape, info.data_type, info.variable_id = ov.PartialShape(shape), ov.Type.f32, name
    return ov.op.util.Variable(info)


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_no_first_value(tmp_path: Path, backend: str) -> None:
    """There is nothing of the dimensions that are not known."""
    x, variable = op.parameter([1, -1, 2], f32), variable_of([1, -1, 2], "rows")
    rows = op.concat([op6.read_value(variable), x], 1)
    path = save(tmp_path, [rows.output(0)], [x], [op6.assign(rows, variable)])
    session, request = circlet.Session(path, backend), ov.compile_model(path, "CPU").create_infer_request()
    for count in (2, 1, 3):
        given = draw(1, count, 2, seed=count)
        (found,) = session.run([given]).values()
        np.testing.assert_array_equal(found, request.infer([given])[0])


@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_a_decoder(tmp_path: Path, backend: str) -> None:
    """Attention to all that came before, whose keys and values are put into the order of beams first."""
    x, beams = op.parameter([-1, -1, 8], f32), op.parameter([-1], np.int32)
    sizes = op.gather(op.shape_of(x), const([0]), const(0))
    empty = op.broadcast(const(0.0), op.concat([sizes, const([2, 0, 4])], 0))
    sinks, found = [], []
    for name in ("keys", "values"):
        heads = op.transpose(op.reshape(op.matmul(x, const(draw(8, 8, seed=len(name))), False, True),
                                        const([0, 0, 2, 4]), True), const([0, 2, 1, 3]))
        variable = variable_of([-1, 2, -1, 4], name)
        found.append(op.concat([op.gather(op6.read_value(empty, variable), beams, const(0)), heads], 2))
        sinks.append(op6.assign(found[-1], variable))
    query = op.transpose(op.reshape(x, const([0, 0, 2, 4]), True), const([0, 2, 1, 3]))
    weights = op.softmax(op.matmul(query, found[0], False, True), 3)
    path = save(tmp_path, op.matmul(weights, found[1], False, False).outputs(), [x, beams], sinks)
    session = circlet.Session(path, backend)
    request = ov.compile_model(path, "CPU", PRECISE).create_infer_request()
    for batch in (2, 3):
        session.reset_state()
        request.reset_state()
        for count in (4, 1, 1, 2):
            given = [draw(batch, count, 8, seed=count), np.arange(batch, dtype=np.int32)[::-1].copy()]
            (one,) = session.run(given).values()
            np.testing.assert_allclose(one, request.infer(given)[0], rtol=1e-4, atol=1e-6)
