"""The native backend: compiles the call tree of a subgraph with LLVM.

Importing it registers the rules of every family.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
