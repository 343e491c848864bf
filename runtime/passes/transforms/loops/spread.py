"""Which values of a loop are spread over more axes by its first turn, and stay so.

OpenVINO's converter writes lists of TensorFlow so: (n, 1, 1) at first, which each turn broadcasts to n of what it is to
write. With shapes that all turns have from the start, such a loop is code for any lengths.
"""

from __future__ import annotations

from circlet.runtime.ir.model import Subgraph
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.loop_options import Carried
from circlet.runtime.ops.shape import BroadcastTo, ShapeOf


def kept_axes(body: Subgraph, carried: Carried) -> frozenset[int] | None:
    """The axes of which a loop's body asks how long a carried value is, if it otherwise only broadcasts it; None if it
    does anything else with it."""
    own = body.inputs[carried.body_input]
    readers = [each for each in body.operators if own in each.inputs]
    spreading = [each for each in readers if isinstance(each.op, BroadcastTo) and each.inputs[0] == own]
    asked = [_asked_axes(body, each.outputs[0]) for each in readers if isinstance(each.op, ShapeOf)]
    known = [each for each in asked if each is not None]
    is_alone = len(spreading) + len(known) == len(readers) and own not in body.outputs
    if not (spreading and is_alone) or body.tensors[own].dtype is DType.VARIANT:
        return None
    return frozenset[int]().union(*known)


def _asked_axes(body: Subgraph, shape: int) -> frozenset[int] | None:
    """The axes of which elements of a shape are read, counted from the front; None where that is not said."""
    found = set[int]()
    for each in body.operators:
        if shape in each.inputs:
            indices = body.tensors[each.inputs[1]].data if isinstance(each.op, Gather) else None
            if indices is None or (indices < 0).any():
                return None
            found.update(indices.reshape(-1).tolist())
    return None if shape in body.outputs else frozenset(found)
