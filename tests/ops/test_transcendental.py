"""Functions of real numbers."""

from __future__ import annotations

from math import erf, inf, nan

import numpy as np

from circlet.runtime.ops import transcendental as ops
from tests.ops.cases import Case
from tests.ops.run_cases import case_test

X = [-2.5, -1.0, -1e-3, 0.0, 1e-3, 0.5, 1.0, 3.0, inf, nan]
WIDE = np.array(X)
CASES = [
    Case("erf", ops.Erf(), [X], [np.array([erf(each) for each in X], np.float32)], tolerance=1e-6),
    Case("erf-double", ops.Erf(), [WIDE], [np.array([erf(each) for each in X])], tolerance=1e-14),
    Case("tan", ops.Tan(), [[0.0, 1.0, -4.0]], [[0.0, 1.5574077, -1.1578213]], tolerance=1e-6),
    Case("asin", ops.Asin(), [[0.0, 1.0, -0.5, 2.0]], [[0.0, 1.5707964, -0.5235988, nan]], tolerance=1e-6),
    Case("acos", ops.Acos(), [[0.0, 1.0, -0.5, 2.0]], [[1.5707964, 0.0, 2.0943952, nan]], tolerance=1e-6),
    Case("atan", ops.Atan(), [[0.0, 1.0, -inf]], [[0.0, 0.7853982, -1.5707964]], tolerance=1e-6),
    Case("sinh", ops.Sinh(), [[0.0, 1e-4, -2.0]], [[0.0, 1e-4, -3.6268604]], tolerance=1e-6),
    Case("cosh", ops.Cosh(), [[0.0, -2.0]], [[1.0, 3.7621957]], tolerance=1e-6),
    Case("asinh", ops.Asinh(), [[0.0, 1e-4, -2.0]], [[0.0, 1e-4, -1.4436355]], tolerance=1e-6),
    Case("acosh", ops.Acosh(), [[1.0, 2.0, 0.5]], [[0.0, 1.316958, nan]], tolerance=1e-6),
    Case("atanh", ops.Atanh(), [[0.0, 0.5, 1.0, 2.0]], [[0.0, 0.54930615, inf, nan]], tolerance=1e-6),
]

test_cases = case_test(CASES)
