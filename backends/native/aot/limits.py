"""How callers stop and bound runs of code that is made ahead of time: by words at the beginning of the state."""

from __future__ import annotations

EXHAUSTED = 2
"""The status of a run that made all iterations that it may."""
MISFIT = 3
"""The status of a run that was given lengths of inputs for which there is no code."""
STOP, ITERATIONS, HEADER_BYTES = 0, 1, 8
"""The words, uint32 each, at the beginning of the state of a model with loops: whether to stop, and how many iterations
a run may make."""
