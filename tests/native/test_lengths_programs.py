"""Random programs with open lengths give what numpy gives, at any lengths and in any order of them."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.text import to_text
from tests.native.open_programs import Array, Open
from tests.native.open_steps import program

LENGTHS = ((7, 5), (12, 9), (2, 3), (33, 40), (4, 4), (1, 6), (5, 1), (1, 1), (0, 3), (6, 17), (7, 5))
"""Lengths of 0 and 1, of which some have functions of their own, come when others were compiled."""
FACTORS, OFFSETS = 2e-4, 2e-5
"""How far results may be from numpy's: of what they are, and of the greatest; programs may subtract what is alike."""
TINY = 1e-3
"""What results that are all less count as."""


def outcome(session: circlet.Session, given: list[Array]) -> list[Array] | None:
    """The results; None where the run is refused."""
    try:
        return session.invoke(0, given)
    except circlet.CircletError:
        return None


def agree(found: Array, expected: Array) -> bool:
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        return False
    if expected.dtype.kind != "f":
        return np.array_equal(found, expected)
    most = np.max(np.abs(expected), initial=TINY, where=np.isfinite(expected))
    return np.allclose(found, expected, FACTORS, OFFSETS * most, equal_nan=True)


@pytest.mark.parametrize("number", range(120))
def test_results_are_those_of_numpy(number: int, capfd: pytest.CaptureFixture[str]) -> None:
    """And nothing is written meanwhile, such as LLVM's complaints."""
    made: Open = program(number)
    native, cpu = (circlet.Session(made.model, each) for each in ("native", "cpu"))
    with np.errstate(all="ignore"):
        for lengths in LENGTHS:
            given = made.given(*lengths)
            found, expected = outcome(native, given), outcome(cpu, given)
            assert (found is None) == (expected is None), lengths
            for one, other in zip(found or [], expected or [], strict=True):
                assert agree(one, other), lengths
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("number", range(20))
def test_a_program_is_always_the_same(number: int) -> None:
    one, other = program(number), program(number)
    assert to_text(one.model) == to_text(other.model)
    assert any(-1 in one.model.subgraphs[0].tensors[each].signature for each in one.model.subgraphs[0].inputs)
