"""Code that tests write themselves, compiled for this machine."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from circlet.backends.native.emit.emitter import POINTER, Emitter
from circlet.backends.native.load.library import Library
from circlet.backends.native.load.llvm import host, link, object_code
from circlet.backends.native.lower.passes import Passes
from circlet.backends.native.lower.pieces import Piece

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Code:
    """Code that takes the addresses of two arrays; it is there as long as its library."""

    library: Library

    def __call__(self, source: Array, target: Array) -> None:
        given = np.ascontiguousarray(source)
        assert target.flags.c_contiguous
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(self.library.address)(
            given.ctypes.data, target.ctypes.data)


def call_of(write: Callable[[Emitter, ir.Value, ir.Value], None]) -> Code:
    """What is written, given the addresses of two arrays."""
    module = ir.Module("written")
    module.triple, module.data_layout = host().triple, host().data_layout
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [POINTER] * 2), "written")
    e = Emitter(module, function, host())
    write(e, *function.args)
    e.builder.ret_void()
    return Code(link([object_code(Piece(str(module), Passes.ALL), host())], "written"))
