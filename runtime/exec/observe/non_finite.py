"""Looks for NaN and infinity among the values that operators compute."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

import numpy as np

from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.observe.listener import Listener
from circlet.runtime.exec.observe.moment import Moment
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array
from circlet.runtime.records import dataclass


class NonFinite(Enum):
    """What is looked for."""

    NAN = "nan"
    INFINITY = "inf"


BOTH = frozenset(NonFinite)
_TESTS = {NonFinite.NAN: np.isnan, NonFinite.INFINITY: np.isinf}


@dataclass(frozen=True)
class Finding:
    """The first such element of a tensor."""

    kind: NonFinite
    tensor: str
    index: tuple[int, ...]
    count: int
    """How many elements of the tensor are of this kind."""

    def __str__(self) -> str:
        found = {NonFinite.NAN: "NaN", NonFinite.INFINITY: "infinity"}[self.kind]
        more = "" if self.count == 1 else f", the first of {self.count}"
        return f"{found} in tensor {self.tensor!r} at {list(self.index)}{more}"


def non_finite(tensor: Tensor, stored: Array, kinds: Collection[NonFinite] = BOTH) -> Finding | None:
    """The first element of a tensor that is NaN or infinity, as asked for; of integers none is."""
    element = tensor.dtype.element
    value = stored if element is None or element == stored.dtype else stored.view(element)
    if value.dtype.kind not in "fcV" or value.dtype.names is not None:
        return None
    for kind in NonFinite:
        if kind in kinds:
            found = np.asarray(_TESTS[kind](value), np.bool_)
            if found.any():
                first = np.unravel_index(int(found.argmax()), found.shape)
                return Finding(kind, tensor.name, tuple(map(int, first)), int(np.count_nonzero(found)))
    return None


def first_non_finite(moment: Moment, kinds: Collection[NonFinite] = BOTH) -> Finding | None:
    """The first of an operator's outputs that has such an element."""
    for tensor, value in zip(moment.operator.outputs, moment.outputs, strict=True):
        found = non_finite(moment.graph.tensors[tensor], value, kinds)
        if found is not None:
            return found
    return None


class NanGuard(Listener):
    """Ends a run at the first operator that gives NaN or infinity, with an `ExecutionError` that names it, the element,
    and the iterations of the loops around it."""

    def __init__(self, infinities: bool = True) -> None:
        """
        Args:
            infinities: whether these end a run too. Masks are often made of them.
        """
        self._kinds = BOTH if infinities else frozenset({NonFinite.NAN})

    def did_compute(self, moment: Moment) -> None:
        found = first_non_finite(moment, self._kinds)
        if found is not None:
            calls = "".join(f"; in {each}" for each in reversed(moment.calls))
            raise ExecutionError(f"{found}{calls}", moment.place)
