"""The functions that object files bring along, as a module of LLVM's language."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llvmlite import ir

from circlet.backends.native.aot.builtins.body import Body, Function
from circlet.backends.native.aot.builtins.conversions import CONVERSIONS
from circlet.backends.native.aot.builtins.integers import INTEGERS
from circlet.backends.native.aot.builtins.memory import memory
from circlet.backends.native.aot.builtins.reals import REALS


def functions(word: int) -> dict[str, Function]:
    """All that there are, by name, where addresses have so many bits."""
    return {**INTEGERS, **REALS, **CONVERSIONS, **memory(word)}


def library(names: Iterable[str], like: ir.Module, word: int, is_small: bool) -> str:
    """A module with some of them, which nothing outside of the object file sees.

    Args:
        names: of functions that there are.
        like: a module for the same processor.
        word: bits of an address.
        is_small: whether they are to be small rather than fast.
    """
    module, known = ir.Module("builtins"), functions(word)
    module.triple, module.data_layout = like.triple, like.data_layout
    for each in sorted(names):
        if each not in module.globals:
            Body(module, known[each], word, is_small)
    _keep(module, [module.globals[each] for each in sorted(names)])
    return str(module)


def _keep(module: ir.Module, functions: Sequence[ir.Function]) -> None:
    """Has LLVM's linker take functions along that nothing calls yet."""
    kind = ir.ArrayType(ir.PointerType(), len(functions))
    used = ir.GlobalVariable(module, kind, "llvm.compiler.used")
    used.linkage, used.section = "appending", "llvm.metadata"
    used.initializer = ir.Constant(kind, functions)
