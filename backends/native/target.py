"""Makes code for a machine, and loads it. The only file that imports `llvmlite.binding`."""

from __future__ import annotations

from functools import lru_cache
from itertools import count

import llvmlite.binding as llvm

from circlet.backends.native.machine import Target

_LIBRARY_NUMBERS = count()


class Library:
    """Machine code in this process; it stays as long as the object does."""

    def __init__(self, engine: llvm.LLJIT, tracker: llvm.ResourceTracker, symbol: str) -> None:
        self._engine = engine
        self._tracker = tracker
        self.address: int = tracker[symbol]
        """Where the entry function begins."""


@lru_cache(1)
def host() -> Target:
    """The machine that this process runs on. LLVM would use half of its registers where an early AVX-512 processor
    slows down from all of them."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    triple, cpu, features = llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    if "+avx512f" in features.split(","):
        features += ",-prefer-256-bit"
    return Target(triple, cpu, features, str(_created(triple, cpu, features).target_data))


def _created(triple: str, cpu: str, features: str) -> llvm.TargetMachine:
    found = llvm.Target.from_triple(triple)
    return found.create_target_machine(cpu=cpu, features=features, opt=3, reloc="pic", codemodel="default")


def _machine(target: Target) -> llvm.TargetMachine:
    return _created(target.triple, target.cpu, target.features)


def optimize(text: str, target: Target) -> llvm.ModuleRef:
    """LLVM's own passes run over a module given as text."""
    machine = _machine(target)
    module = llvm.parse_assembly(text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    options.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module


def object_code(text: str, target: Target) -> bytes:
    """The object file of a module."""
    code: bytes = _machine(target).emit_object(optimize(text, target))
    return code


def assembly(text: str, target: Target) -> str:
    """The assembly listing of a module."""
    listing: str = _machine(target).emit_assembly(optimize(text, target))
    return listing


def optimized_text(text: str, target: Target) -> str:
    """The module as LLVM's passes leave it."""
    return str(optimize(text, target))


@lru_cache(1)
def _engine() -> llvm.LLJIT:
    return llvm.create_lljit_compiler(_machine(host()), use_jit_link=False, suppress_errors=False)


def link(code: bytes, symbol: str) -> Library:
    """Loads an object file into this process."""
    host()
    engine = _engine()
    builder = llvm.JITLibraryBuilder()
    builder.add_object_img(code)
    builder.export_symbol(symbol)
    builder.add_current_process()
    return Library(engine, builder.link(engine, f"circlet_{next(_LIBRARY_NUMBERS)}"), symbol)
