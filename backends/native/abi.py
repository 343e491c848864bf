"""The interface of compiled code: `i32 entry(control*, arena*, table*)`.

`control` is `Activation.control`: words of 64 bits that the run and the code share, whatever an address takes. `arena`
holds what the function computes, at offsets known when code is made. `table` holds addresses, as wide as the target's.
"""

from __future__ import annotations

from circlet.runtime.exec.activation import (
    ARENA,
    CONTROL_WORDS,
    DEADLINE,
    ITERATIONS,
    NEXT,
    PATIENCE,
    REQUEST,
    STOP,
    TEAM,
)

__all__ = ["ARENA", "CONTROL_BYTES", "DEADLINE", "DONE", "EXHAUSTED", "FIRST_ARRAY", "FIRST_SITE", "HOST", "ITERATIONS",
           "NEXT", "PATIENCE", "POLL", "REQUEST", "SCRATCH", "STOP", "STOPPED", "TEAM"]

WORD_BYTES = 8
CONTROL_BYTES = WORD_BYTES * CONTROL_WORDS
DONE, STOPPED, EXHAUSTED, FIRST_SITE = 0, 1, 2, 16
"""What the function returns: it is done, was told to stop, used up its iterations, or failed at site `k - 16`."""
SCRATCH, HOST, FIRST_ARRAY = 0, 1, 2
"""The table: memory for each participant, what the host is called by, and arrays."""
POLL = -1
"""What the host is asked for to see whether the run goes on; else the number of a host call."""
