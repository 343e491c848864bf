"""Einsum of numbers that are not finite: numpy's own, and both backends."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from tests.schema.onnx.graphs import load

EQUATIONS = {
    "ij,jk->ik": ((3, 4), (4, 5)),
    "ij->ji": ((3, 4),),
    "ij->i": ((3, 4),),
    "ii->i": ((4, 4),),
    "ii->": ((4, 4),),
    "i,j->ij": ((3,), (4,)),
    "ij,ij->": ((3, 4), (3, 4)),
    "ij,ij->ij": ((3, 4), (3, 4)),
    "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)),
    "...ij,...jk->...ik": ((2, 3, 4), (2, 4, 5)),
    "bij,kj->bik": ((2, 3, 4), (5, 4)),
    "ij,jk,kl->il": ((3, 4), (4, 2), (2, 3)),
}
KINDS = {"nan": (np.nan,), "infinity": (np.inf,), "both infinities": (np.inf, -np.inf),
         "all": (np.nan, np.inf, -np.inf, 0.0)}


PATHS: dict[int, bool | list[str | tuple[int, int]]] = {1: False, 2: False, 3: ["einsum_path", (0, 1), (0, 1)]}
"""By how many operands: three are multiplied two by two, from the left; infinity times a zero among the sums tells."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("equation", EQUATIONS)
def test_numbers_that_are_not_finite(equation: str, kind: str) -> None:
    random = np.random.default_rng(len(equation))
    given = {}
    for name, shape in zip("abc", EQUATIONS[equation], strict=False):
        x = random.standard_normal(shape).astype(np.float32)
        given[name] = np.where(random.random(shape) < 0.15, random.choice(KINDS[kind], shape), x).astype(np.float32)
    given["a"].flat[1] = KINDS[kind][0]
    inputs = ", ".join(f"float[{', '.join(map(str, each.shape))}] {name}" for name, each in given.items())
    model = load(f'g ({inputs}) => (float[] y) {{ y = Einsum<equation = "{equation}">({", ".join(given)}) }}')
    with np.errstate(all="ignore"):
        expected = np.einsum(equation, *given.values(), optimize=PATHS[len(given)])
    for backend in ("cpu", "native"):
        (found,) = circlet.Session(model, backend).run(given).values()
        np.testing.assert_allclose(found, expected, 1e-5, 1e-6)
