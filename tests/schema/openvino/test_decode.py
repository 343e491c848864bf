"""Texts and paths that OpenVINO finds against OpenVINO."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.schema.openvino.models import Array, Case, check, const, draw, f32, i32, op

MASK = np.array([[1, 1, 1, 1, 1, 1, 0, 1], [1, 1, 0, 0, 0, 0, 0, 0], [1] * 8], f32).T


def classes(*rows: list[int]) -> Array:
    """Probabilities of four classes, of which each step has the given one as its greatest."""
    found: Array = np.eye(4, dtype=f32)[np.array(rows)] + draw(len(rows), len(rows[0]), 4) / 10
    return found


SAID = classes([0, 0, 3, 0, 1, 1, 2, 2], [2, 2, 2, 3, 1, 0, 0, 1], [3, 3, 3, 3, 3, 0, 3, 0])
TOKENS, PARENTS = (np.random.default_rng(k).integers(0, most, (6, 2, 3)).astype(i32) for k, most in enumerate((9, 3)))
FOUND = [
    *(Case(f"ctc_{merges}", lambda x, mask, merges=merges: op.ctc_greedy_decoder(x, mask, merges),
           [SAID.transpose(1, 0, 2).copy(), MASK]) for merges in (False, True)),
    *(Case(f"ctc_lengths_{merges}_{blank}", lambda x, n, merges=merges, blank=blank: op.ctc_greedy_decoder_seq_len(
        x, n, None if blank is None else const(np.array(blank, i32)), merges, "i64", "i32"),
           [SAID, np.array([6, 2, 8], i32)]) for merges in (False, True) for blank in (None, 0)),
    *(Case(f"paths_{kind.__name__}", lambda tokens, parents, n, kind=kind: op.gather_tree(
        tokens, parents, n, const(np.array(4, kind))),
           [TOKENS.astype(kind), PARENTS.astype(kind), np.array([6, 4], kind)]) for kind in (i32, f32)),
    Case("paths_too_long", lambda tokens, parents: op.gather_tree(
        tokens, parents, const(np.array([9, 1], i32)), const(np.array(77, i32))), [TOKENS, PARENTS]),
]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_as_openvino(tmp_path: Path, dynamic: bool) -> None:
    check(tmp_path, FOUND, dynamic)
