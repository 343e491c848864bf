"""Turns a list of cases into a test function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.ops.cases import BACKENDS, Case, as_t, check, evaluate


def case_test(cases: Sequence[Case]) -> Callable[[Case, str], None]:
    """A test of every case on every backend; assign it to a name that starts with `test_`."""

    @pytest.mark.parametrize("backend", BACKENDS)
    @pytest.mark.parametrize("case", cases, ids=[f"{case.op.name}-{case.id}" for case in cases])
    def run(case: Case, backend: str) -> None:
        if case.error is not None:
            with pytest.raises(Exception, match=case.error):
                evaluate(case, BACKENDS[backend])
            return
        for actual, expected in zip(evaluate(case, BACKENDS[backend]), case.outputs, strict=True):
            check(actual, as_t(expected).array, case.tolerance)

    return run
