"""Properties that `make test` tries on few examples, and `make slow` on many."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy

Check: TypeAlias = "Callable[..., None]"


def holds(*strategies: SearchStrategy[object], few: int, many: int) -> Callable[[Check], Callable[[int], None]]:
    """Makes a test of a property.

    Args:
        strategies: what draws its arguments.
        few: how many examples it is tried on.
        many: how many it is tried on by the slow tests.
    """
    def decorate(check: Check) -> Callable[[int], None]:
        @pytest.mark.parametrize("examples", [few, pytest.param(many, marks=pytest.mark.slow)])
        def test(examples: int) -> None:
            settings(max_examples=examples, deadline=None)(given(*strategies)(check))()

        test.__name__ = check.__name__
        return test

    return decorate
