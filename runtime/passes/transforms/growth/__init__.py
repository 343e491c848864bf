"""How a loop whose carried tensors grow becomes loops of fixed shapes; see `transforms.pad_growth`.

Importing it registers the rules of every family.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
