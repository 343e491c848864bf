"""The gates and cells of an int8 LSTM: int16 with 12 fraction bits before the gates' functions, and 15 after."""

from __future__ import annotations

import numpy as np

from circlet.backends.arithmetic import fixed_point_functions as fixed

GATE_SCALE = np.float32(2**-12)
"""Of the int16 that gates' functions take: 3 integer bits and 12 of fraction, TFLite's Q3.12."""
INT16 = np.arange(-32768, 32768)
"""Every int16, in order: the arguments of the tables below."""
LOGISTIC = fixed.logistic(INT16, 3, width=15)
"""The logistic function of each of these, Q3.12 to Q0.15."""
TANH = fixed.tanh(INT16, 3, width=15)
"""tanh of each of these, Q3.12 to Q0.15."""


def cell_limit(clip: float, scale: np.float32) -> int:
    """What cells, in int16 of a scale, are clipped to; 0 where they are not."""
    limit = np.float32(clip) / scale
    return int(min(limit, 32767)) if limit > 0 else 0
