"""Reads OpenVINO IR: an `.xml` file of layers and a `.bin` file of their constants."""

from __future__ import annotations

from collections.abc import Callable

from circlet.runtime.ir.model import Model
from circlet.runtime.ops.loop_options import Overrun
from circlet.schema.openvino import families as families
from circlet.schema.openvino.importer import Importer
from circlet.schema.openvino.weights import Weights
from circlet.schema.openvino.xml import parse


def read_model(data: memoryview, weights: Callable[[], memoryview], overrun: Overrun = Overrun.ERROR) -> Model:
    """The model that XML and weights hold.

    Args:
        data: the content of the `.xml` file.
        weights: gives the content of the `.bin` file; called when a constant needs it. Constants are views of it.
        overrun: what happens where a loop asks for a slice that leaves its axis.

    Raises:
        ModelError: the XML or the weights are malformed.
        UnsupportedError: there are layers that circlet has no rule for; the message lists them.
    """
    return Importer(Weights(weights), overrun).model(parse(bytes(data)))
