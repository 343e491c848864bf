"""Models built in Python, with control flow as in TensorRT or traced from functions."""

from circlet.network.conditional import Conditional
from circlet.network.loop import Loop, LoopOutput, Recurrence, TripLimit
from circlet.network.network import Network
from circlet.network.tensor import Tensor

__all__ = ["Conditional", "Loop", "LoopOutput", "Network", "Recurrence", "Tensor", "TripLimit"]
