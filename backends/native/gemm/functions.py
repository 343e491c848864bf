"""Functions that products and what stands beside them are made of, by what is left of them to LLVM."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from circlet.backends.native.emit.emitter import Emitter


class Microkernel(ir.Function):  # type: ignore[misc]  # llvmlite is untyped
    """A function that is written as the processor is to run it: in vectors, unrolled, its values in registers. LLVM's
    passes would find nothing to do, which takes them more time than making machine code does."""


class VectorLoop(ir.Function):  # type: ignore[misc]  # llvmlite is untyped
    """A function whose loops are written in vectors, and read nothing again that they could keep; what it computes of
    constants is left to LLVM."""


def internal_function(e: Emitter, name: str, kinds: Sequence[ir.Type],
                      kind: type[ir.Function] = ir.Function) -> ir.Function:
    """A new function of the module that only the module calls, and that stays a function."""
    function = kind(e.module, ir.FunctionType(ir.VoidType(), kinds), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    return function
