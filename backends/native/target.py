"""The machine that code is made for, and the code once made. The only file that imports `llvmlite.binding`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import count

import llvmlite.binding as llvm

_LIBRARY_NUMBERS = count()


@dataclass(frozen=True)
class Target:
    """A processor.

    Attributes:
        triple: LLVM's name of architecture and system.
        cpu: LLVM's name of the processor.
        features: LLVM's feature string, `+avx2,-avx512f,...`.
    """

    triple: str
    cpu: str
    features: str

    def has(self, feature: str) -> bool:
        """Whether the processor has a feature, by LLVM's name of it."""
        return f"+{feature}" in self.features.split(",")

    @property
    def vector_bytes(self) -> int:
        """The width of the widest vector register."""
        if self.has("avx512f"):
            return 64
        return 32 if self.has("avx2") else 16

    @property
    def vector_registers(self) -> int:
        """How many vector registers there are."""
        return 32 if self.has("avx512f") or self.triple.startswith(("aarch64", "arm64")) else 16


class Library:
    """Machine code in this process; it stays as long as the object does."""

    def __init__(self, engine: llvm.LLJIT, tracker: llvm.ResourceTracker, symbol: str) -> None:
        self._engine = engine
        self._tracker = tracker
        self.address: int = tracker[symbol]
        """Where the entry function begins."""


@lru_cache(1)
def host() -> Target:
    """The machine that this process runs on."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    return Target(llvm.get_process_triple(), llvm.get_host_cpu_name(), features.flatten())


def _machine(target: Target) -> llvm.TargetMachine:
    found = llvm.Target.from_triple(target.triple)
    return found.create_target_machine(cpu=target.cpu, features=target.features, opt=3, reloc="pic",
                                       codemodel="default")


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
