"""The interface of compiled code: `i32 entry(control*, arena*, table*)`.

`control` is `Activation.control`. `arena` holds what the function computes, at offsets known when code is made.
"""

from __future__ import annotations

from circlet.runtime.exec.activation import CONTROL_WORDS

DONE, STOPPED, FIRST_SITE = 0, 1, 16
"""What the function returns: it is done, was told to stop, or failed at site `k - 16`."""
CONTROL_BYTES, POINTER_BYTES = 8 * CONTROL_WORDS, 8
SCRATCH, HOST, FIRST_ARRAY = 0, 1, 2
"""The table: memory for each participant, what the host is called by, and arrays."""
POLL = -1
"""What the host is asked for to see whether the run goes on; else the number of a host call."""
