"""Einsum of numbers that are not finite, and of open lengths: numpy's own, and both backends."""

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


OPEN = {
    "bij,bjk->bik": (((2, 3, 4), (2, 4, 5)), ((1, 3, 4), (2, 4, 5)), ((2, 3, 1), (2, 4, 5)), ((2, 3, 4), (1, 1, 5)),
                     ((0, 3, 4), (0, 4, 5)), ((2, 3, 0), (2, 0, 5)), ((2, 3, 1), (2, 0, 5)), ((1, 1, 1), (1, 1, 1))),
    "ibnd,jbnd->bnij": (((5, 2, 3, 4), (7, 2, 3, 4)), ((1, 1, 3, 4), (2, 3, 1, 4)), ((6, 1, 1, 1), (6, 1, 1, 9))),
    "bnij,jbnd->ibnd": (((2, 3, 5, 7), (7, 2, 3, 4)), ((2, 1, 5, 7), (1, 1, 3, 4)), ((1, 1, 1, 1), (1, 1, 1, 1))),
    "bij,bij->bi": (((2, 3, 4), (2, 3, 4)), ((2, 1, 4), (1, 3, 1)), ((2, 3, 0), (2, 3, 0))),
    "bi,bij->bj": (((2, 3), (2, 3, 4)), ((1, 3), (2, 1, 4)), ((2, 0), (2, 0, 4))),
    "i,j->ij": (((3,), (4,)), ((1,), (0,))),
}
"""Lengths that the inputs have, one after the other; those of one letter are equal, or one of them is 1."""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize("equation", OPEN)
def test_open_lengths(equation: str, backend: str) -> None:
    left, right = equation.partition("->")[0].split(",")
    inputs = ", ".join(f"float[{', '.join(name + each for each in letters)}] {name}"
                       for name, letters in (("x", left), ("y", right)))
    model = load(f'g ({inputs}) => (float[] z) {{ z = Einsum<equation = "{equation}">(x, y) }}')
    session = circlet.Session(model, backend)
    random = np.random.default_rng(0)
    for shapes in OPEN[equation]:
        x, y = (random.standard_normal(each).astype(np.float32) for each in shapes)
        np.testing.assert_allclose(session.run([x, y])["z"], np.einsum(equation, x, y), 1e-5, 1e-6, strict=True)


@pytest.mark.parametrize("shape", [(2, 5, 5), (3, 4, 5), (2, 0, 5)])
def test_open_lengths_that_do_not_fit(shape: tuple[int, ...]) -> None:
    model = load('g (float[a, b, c] x, float[d, e, f] y) => (float[] z) '
                 '{ z = Einsum<equation = "bij,bjk->bik">(x, y) }')
    for backend in ("cpu", "native"):
        with pytest.raises(circlet.ExecutionError, match="cannot broadcast"):
            circlet.Session(model, backend).run([np.ones((2, 3, 4), np.float32), np.ones(shape, np.float32)])


def test_open_lengths_are_multiplied_as_matrices() -> None:
    """No products of all pairs are made."""
    (graph,) = load('g (float[b, i, 3, 4] x, float[c, j, 3, 4] y) => (float[] z) '
                    '{ z = Einsum<equation = "bihd,bjhd->bhij">(x, y) }').subgraphs
    names = {each.name for each in graph.operators}
    assert "BATCH_MATMUL" in names
    assert not {"MUL", "SUM"} & names
