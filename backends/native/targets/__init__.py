"""The processors that code is made for, a file each. Importing it registers them. Nothing here loads LLVM."""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
