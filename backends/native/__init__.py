"""The native backend: compiles the call tree of a subgraph with LLVM.

Importing it registers the rules of every family, where there is llvmlite to write code with. LLVM itself is loaded when
something is compiled.
"""

from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules

LOADS_LLVM = "target"

if find_spec("llvmlite") is not None:
    for _module in iter_modules(__path__):
        if _module.name != LOADS_LLVM:
            import_module(f"{__name__}.{_module.name}")
