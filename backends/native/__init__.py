"""The native backend: compiles the call tree of a subgraph with LLVM.

Importing it registers the rules of every family, where there is llvmlite to write code with. LLVM itself is loaded when
something is compiled.
"""

from importlib import import_module
from importlib.util import find_spec
from pkgutil import walk_packages

from circlet.backends.native import rules

if find_spec("llvmlite") is not None:
    for _module in walk_packages(rules.__path__, f"{rules.__name__}."):
        import_module(_module.name)
