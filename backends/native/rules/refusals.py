"""Why native rules refuse calls: conditions that several rules have, as `Refusal`s."""

from __future__ import annotations

from collections.abc import Iterator

from circlet.backends.arithmetic.quantization import is_quantized
from circlet.backends.native.emit.emitter import NATIVE_TYPES
from circlet.backends.refusal import Refusal, all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType


def tensors(call: Call, first: int = 0) -> Iterator[tuple[str, Tensor]]:
    """The inputs of a call from one on, and the outputs, each with what it is called in a message."""
    yield from ((f"input {k}", each) for k, each in enumerate(call.inputs) if each is not None and k >= first)
    yield from ((f"output {k}", each) for k, each in enumerate(call.outputs))


def movable(call: Call) -> str | None:
    """Refuses all but elements that fit into a register; for operators that only move them."""
    return next((f"element type {each.dtype.value} of {what}, which no register holds" for what, each in tensors(call)
                 if each.dtype not in NATIVE_TYPES), None)


def castable(call: Call) -> str | None:
    """Refuses all but numbers that fit into a register, be it as their bits, and are not quantised; complex ones, of
    which real parts are taken, as results."""
    return movable(call) or _quantized(call) or ("the result is complex" if call.outputs[0].dtype is DType.COMPLEX64
                                                 else None)


def _quantized(call: Call) -> str | None:
    return next((f"{what} is quantised" for what, each in tensors(call)
                 if each.quantization is not None and each.quantization.scales), None)


def _complex(call: Call) -> str | None:
    return next((f"{what} is complex" for what, each in tensors(call) if each.dtype is DType.COMPLEX64), None)


def summable(call: Call) -> str | None:
    """Refuses all but numbers that fit into a register and can be added as they are, be they stored ones."""
    return movable(call) or _complex(call) or next((f"{what} is bfloat16" for what, each in tensors(call)
                                                    if each.dtype is DType.BFLOAT16), None)


def plain(call: Call) -> str | None:
    """Refuses all but real numbers that fit into a register and are not quantised."""
    return summable(call) or _quantized(call)


def quantized(call: Call) -> str | None:
    """Refuses calls whose first input is not quantised."""
    return None if is_quantized(call.input(0)) else "input 0 is not quantised"


def outputs_only(*dtypes: DType) -> Refusal:
    """Refuses all calls but those whose first output has one of the types."""
    def refuses(call: Call) -> str | None:
        found = call.outputs[0].dtype
        return None if found in dtypes else f"element type {found.value} of output 0"

    return refuses


def constant_inputs(*positions: int) -> Refusal:
    """Refuses calls in which one of some inputs is there, but no constant."""
    return lambda call: next((f"input {k} is not constant" for k in positions
                              if call.has(k) and call.input(k).data is None), None)


def sums_below(limit: int, reached: int) -> str | None:
    """Refuses products of integers whose sums may reach a limit."""
    return None if reached < limit else f"sums may reach {reached} (supported: less than {limit})"


def largest(tensor: Tensor | None) -> int:
    """The largest magnitude in a constant of integers, which for the least int64 is no int64; 0 where there is none."""
    if tensor is None or tensor.data is None:
        return 0
    return max(int(tensor.data.max(initial=0)), -int(tensor.data.min(initial=0)))


single_or_half = all_of(plain, only((DType.FLOAT32, DType.FLOAT16)))
"""Refuses calls of other types than elementary functions take."""
real = all_of(plain, only((DType.FLOAT32, DType.FLOAT16, DType.FLOAT64)))
"""Refuses calls of other types than elementary functions take that the C library has of doubles."""
