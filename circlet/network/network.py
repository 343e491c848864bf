"""`Network`: a model built in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from circlet.network.conditional import Conditional
from circlet.network.functions import Functions
from circlet.network.graph import input_type
from circlet.network.loop import Loop
from circlet.network.lower import lower
from circlet.network.partition import partition
from circlet.network.tensor import Like, Tensor
from circlet.network.trace import trace_cond, trace_while
from circlet.runtime.errors import ModelError
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType

T = TypeVar("T")


class Network(Functions):
    """Builds a model in Python.

    Tensors come from `input` and `constant`; Python's operators, methods of tensors and functions of the network
    record layers over them. Control flow is delimited as in TensorRT, by `conditional` and `loop`, of which the data
    flow tells what belongs to them; or traced from Python functions, by `cond` and `while_loop`.

        net = circlet.Network()
        x, y = net.input("x", np.float32, (5,)), net.input("y", np.float32, (5,))
        conditional = net.conditional(x.sum() > 0)
        a, b = conditional.input(x), conditional.input(y)
        net.output(conditional.output(a + b, a - b), "out")
        session = circlet.Session(net.build())
    """

    def __init__(self, name: str = "main", strict: bool = False) -> None:
        """
        Args:
            name: of the model's first subgraph.
            strict: refuse what TensorRT refuses and circlet would run: branches of different shapes, recurrences that
                change theirs, conditions and limits that are not scalars, concatenations without a length.
        """
        super().__init__()
        self.name = name
        self.strict = strict
        self._inputs: dict[str, Tensor] = {}
        self._outputs: dict[str, Tensor] = {}

    def input(self, name: str, dtype: DType | npt.DTypeLike, shape: Sequence[int] = ()) -> Tensor:
        """Adds an input; -1 in `shape` is a dimension that only a run can tell.

        Raises:
            ModelError: the name is taken, or a function is being traced.
        """
        self._check_name(name, self._inputs, "input")
        tensor = self.graph.input(name, *input_type(dtype, shape))
        self._inputs[name] = tensor
        return tensor

    def constant(self, value: npt.ArrayLike, dtype: DType | npt.DTypeLike | None = None, name: str = "") -> Tensor:
        """A constant; without `dtype` Python floats become float32, Python integers int32.

        Raises:
            ModelError: a Python value that `dtype` does not hold. Arrays are converted.
        """
        kind = None if dtype is None else input_type(dtype, ())[0]
        if kind is not None and isinstance(value, (np.ndarray, np.generic)):
            value = np.asarray(value).astype(kind.element)
        return self.graph.tensor(value, kind, name)

    def output(self, x: Like, name: str) -> None:
        """Makes a tensor an output.

        Raises:
            ModelError: the name is taken, or a function is being traced.
        """
        self._check_name(name, self._outputs, "output")
        self._outputs[name] = self.graph.tensor(x)

    def conditional(self, predicate: Like, name: str = "") -> Conditional:
        """A conditional that the data flow delimits.

        Raises:
            ModelError: the predicate is not one boolean.
        """
        return Conditional(self.graph, predicate, name, self.strict)

    def loop(self, name: str = "") -> Loop:
        """A loop that the data flow delimits."""
        return Loop(self.graph, name, self.strict)

    def cond(self, predicate: Like, then_fn: Callable[..., T], else_fn: Callable[..., T], *operands: object,
             name: str = "") -> T:
        """What `then_fn(*operands)` returns where the predicate holds, else what `else_fn(*operands)` returns.

        Both functions are called, now, to record their layers; when the model runs, one of the branches does. They
        return tensors, Python numbers, or tuples, lists and dicts of these, of one structure and of the same element
        types.

        Raises:
            ModelError: the predicate is not one boolean, or the branches do not fit together.
        """
        return trace_cond(self.graph, self.strict, predicate, then_fn, else_fn, operands, name)

    def while_loop(self, cond_fn: Callable[..., Like], body_fn: Callable[..., T], init: object, name: str = "") -> T:
        """Replaces the carried values by `body_fn(*values)` while `cond_fn(*values)` holds, and gives the last ones.

        `init` is the first value, or a tuple or list of them, which may nest tuples, lists and dicts; the body returns
        the same. Both functions are called now, to record their layers: once, and again if a value comes back in
        another shape, which then becomes one that only a run can tell.

        Raises:
            ModelError: the condition is not one boolean, or the body returns another structure or other element
                types than `init`.
        """
        return trace_while(self.graph, self.strict, cond_fn, body_fn, init, name)

    def build(self) -> Model:
        """The model, with one signature, `serving_default`.

        Raises:
            ModelError: there is no output, a conditional or loop lacks a part, or a value leaves or enters one by
                another way than its inputs and outputs.
        """
        if not self._outputs:
            raise ModelError(f"network {self.name!r}: expected at least one output, found none")
        plan = partition(self.graph, list(self._outputs.values()))
        return lower(plan, self.name, self._inputs, self._outputs)

    def _check_name(self, name: str, taken: dict[str, Tensor], what: str) -> None:
        if name in taken:
            raise ModelError(f"{what} {name!r}: expected a name that no other {what} has, found it twice")
        if self.graph.region is not None:
            raise ModelError(f"{what} {name!r}: expected outside of functions under trace, found in "
                             f"{self.graph.region}")
