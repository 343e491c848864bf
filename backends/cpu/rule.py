"""One numpy rule for an operator: it runs when the operator is bound to buffers and returns what runs each time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from importlib.util import find_spec
from typing import Generic, TypeAlias, TypeVar, cast

from circlet.backends.arithmetic.quantization import quantization_of
from circlet.backends.refusal import Refusal, only
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Quantization
from circlet.runtime.ops.rules import Rules
from circlet.runtime.records import dataclass

OpT = TypeVar("OpT", bound=Op)


@dataclass(frozen=True, eq=False)
class Node(Generic[OpT]):
    """One operator and the buffers it is bound to."""

    op: OpT
    call: Call
    arrays: Sequence[Array | None]
    """Inputs; None where an optional one is absent. Their contents change between steps unless constant."""
    outputs: Sequence[Array]
    """To be filled in place; an output may share memory with an input as the operator's `overwrites` allows."""
    run: Run

    def input(self, index: int) -> Array:
        """The buffer of a required input."""
        array = self.arrays[index]
        assert array is not None, f"input {index} of {self.op.name} is required; verify() checks it"
        return array

    def optional(self, index: int) -> Array | None:
        """The buffer of an optional input; None where it is absent."""
        return self.arrays[index] if index < len(self.arrays) else None

    @property
    def inputs(self) -> list[Array]:
        """All buffers of an operator whose inputs are all required."""
        return [self.input(k) for k in range(len(self.arrays))]

    @property
    def out(self) -> Array:
        return self.outputs[0]

    def dtype(self, index: int = 0) -> DType:
        """The element type of an input."""
        return self.call.input(index).dtype

    def constant(self, index: int) -> Array | None:
        """The value of an input that is a constant of the model, so that work on it may be done when binding."""
        tensor = self.call.inputs[index] if index < len(self.call.inputs) else None
        return None if tensor is None or tensor.data is None else self.arrays[index]

    def is_constant(self, inputs: Collection[int]) -> bool:
        """Whether all of the given inputs are constants of the model."""
        return all(self.constant(k) is not None for k in inputs)

    def quantization(self, index: int = 0) -> Quantization:
        """The quantisation of an input that the rule refuses without one."""
        return _required(self.call.input(index))

    def output_quantization(self, index: int = 0) -> Quantization:
        """The quantisation of an output that the rule refuses without one."""
        return _required(self.call.outputs[index])


def _required(tensor: Tensor) -> Quantization:
    found = quantization_of(tensor)
    assert found is not None, f"tensor {tensor.name!r} has no scale; rules that need one refuse it"
    return found


Bind: TypeAlias = Callable[[Node[OpT]], Step]
Evaluate: TypeAlias = Callable[[Node[OpT]], Sequence[Array]]


@dataclass(frozen=True)
class Rule(Generic[OpT]):
    """How numpy computes an operator, and for which operands."""

    bind: Bind[OpT]
    refuses: Refusal
    evaluate: Evaluate[OpT] | None = None
    """Computes results whose shapes only running the operator tells; the node it gets has no outputs."""


def _modules(family: str) -> tuple[str, ...]:
    name = f"{__package__}.{family}"
    return (name,) if find_spec(name) else ()


RULES: Rules[Rule[Op]] = Rules(_modules)
"""The numpy rule of each operator; those of a family are in the module of its name."""


def rule(op: type[OpT], accepts: Collection[DType] | Refusal,
         evaluate: Evaluate[OpT] | None = None) -> Callable[[Bind[OpT]], Bind[OpT]]:
    """Registers the decorated function as the rule of `op`.

    `accepts` is the set of element types that input 0 may have, or a function that returns why a call is refused
    (None where it is not), for rules that depend on more than that. `evaluate` is for operators whose result shapes
    not even the values of the inputs tell.
    """
    refuses = accepts if callable(accepts) else only(accepts)

    def register(bind: Bind[OpT]) -> Bind[OpT]:
        if op in RULES:
            raise ValueError(f"operator {op.name} has two numpy rules")
        RULES[op] = Rule(cast("Bind[Op]", bind), refuses, cast("Evaluate[Op] | None", evaluate))
        return bind

    return register


def store(out: Array, value: Array) -> None:
    """Copies a result into a bound output, without broadcasting.

    Raises:
        ExecutionError: the result, whose shape depends on data, has another shape than the model declares.
    """
    if value.shape != out.shape:
        raise ExecutionError(f"the result has shape {value.shape}, the model declares {out.shape}")
    out[...] = value
