"""Makes code for a machine, and loads it. The only file that imports `llvmlite.binding`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import string_at
from functools import lru_cache
from itertools import count
from pathlib import Path
from threading import RLock, local
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from circlet.backends.native.compilation import Making, Wish
from circlet.backends.native.load.fingerprint import digest
from circlet.backends.native.load.units import Unit, kept
from circlet.backends.native.lower.passes import Passes
from circlet.backends.native.lower.pieces import Piece
from circlet.backends.native.targets.catalogue import Processor
from circlet.backends.native.targets.machine import has_matrices, processors
from circlet.backends.native.targets.target import Goal, Target, kind_of
from circlet.runtime.exec import fork
from circlet.runtime.records import dataclass

_LIBRARY_NUMBERS = count()
"""Numbers of libraries, which LLVM wants names for."""


class Library:
    """Machine code in this process; it stays as long as the object does."""

    def __init__(self, engine: llvm.LLJIT, tracker: llvm.ResourceTracker, symbol: str) -> None:
        self._engine = engine
        self._tracker = tracker
        self.address: int = tracker[symbol]
        """Where the entry function begins."""
        fork.watch(self)

    def address_of(self, name: str) -> int:
        """Where an exported function begins."""
        return int(self._tracker[name])

    def after_fork(self) -> None:
        """Keeps the code in the child for good, as to unload it might wait for a thread that is not there."""
        self._tracker.detach()


@lru_cache(1)
def host() -> Target:
    """The machine that this process runs on."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    triple, cpu, features = llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    kind = kind_of(triple)
    features = kind.tuned(features, Goal.HERE)
    if not has_matrices():
        features = features.replace("+amx-", "-amx-")
    return kind(triple, cpu, features, str(_created(triple, cpu, features).target_data))


@lru_cache(1)
def _all_processors() -> None:
    """Lets LLVM make code for processors other than this one."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def _created(triple: str, cpu: str, features: str, is_hasty: bool = False) -> llvm.TargetMachine:
    """LLVM's machine for a processor, which makes position-independent code: the best, or soon."""
    if triple != llvm.get_process_triple():
        _all_processors()
    found, level = llvm.Target.from_triple(triple), 0 if is_hasty else 3
    return found.create_target_machine(cpu=cpu, features=features, opt=level, reloc="pic", codemodel="default")


def _embedding(processor: Processor, goal: Goal) -> llvm.TargetMachine:
    """LLVM's machine for code that is made ahead of time."""
    _all_processors()
    features, level = kind_of(processor.triple).tuned(processor.features, goal), 2 if goal is Goal.SIZE else 3
    return llvm.Target.from_triple(processor.triple).create_target_machine(
        cpu=processor.cpu, features=features, opt=level, reloc="static" if processor.is_static else "pic",
        codemodel="default", abiname=processor.abi)


def is_known(triple: str) -> bool:
    """Whether LLVM makes code for a triple of architecture and system."""
    _all_processors()
    try:
        llvm.Target.from_triple(triple)
    except RuntimeError:
        return False
    return True


def is_cpu(triple: str, name: str) -> bool:
    """Whether LLVM knows a processor; it only complains of others, on stderr, so that is read in a process of its
    own."""
    import subprocess  # takes a while to import

    program = ("import sys, llvmlite.binding as llvm; llvm.initialize_all_targets(); "
               "llvm.Target.from_triple(sys.argv[1]).create_target_machine(cpu=sys.argv[2])")
    done = subprocess.run([sys.executable, "-c", program, triple, name], capture_output=True, text=True, check=False)
    return done.returncode == 0 and "not a recognized processor" not in done.stderr


def this_processor() -> Processor:
    """The one of this machine."""
    found = host()
    return Processor("host", found.triple, found.cpu, found.features, "this machine")


def described(processor: Processor, goal: Goal) -> Target:
    """What code has to know of a processor that it is made for ahead of time."""
    layout = str(_embedding(processor, goal).target_data)
    return kind_of(processor.triple)(processor.triple, processor.cpu, processor.features, layout, goal)


_FORCED, _UNFORCED = re.compile(r'!"llvm\.loop\.vectorize\.enable", i1 1'), '!"llvm.loop.vectorize.enable", i1 0'
"""A hint that LLVM complains of where it makes no vectors, and what stands in its place."""


def embedded_object(module: str, processor: Processor, is_small: bool, supply: Callable[[bytes], str]) -> bytes:
    """The object file of a whole module, for a processor.

    Args:
        module: in LLVM's language.
        processor: that it is for.
        is_small: whether it is to be small rather than fast.
        supply: a module to be added, with functions that the object file calls, or nothing.

    Raises:
        RuntimeError: LLVM cannot make it.
    """
    machine = _embedding(processor, Goal.SIZE if is_small else Goal.SPEED)
    options = llvm.create_pipeline_tuning_options(speed_level=2 if is_small else 3)
    options.loop_vectorization = not is_small
    options.loop_unrolling = not is_small
    options.slp_vectorization = False
    text = _FORCED.sub(_UNFORCED, module) if is_small else module
    with llvm.create_context() as context, llvm.parse_assembly(text, context) as parsed:
        parsed.verify()
        with llvm.create_pass_builder(machine, options) as builder, _all_passes(builder) as manager:
            manager.run(parsed, builder)
        with parsed.clone() as whole:
            content: bytes = machine.emit_object(whole)
        while added := supply(content):
            with parsed.clone() as whole, llvm.parse_assembly(added, context) as other:
                whole.link_in(other)
                content = machine.emit_object(whole)
    return content


def _machine(target: Target, passes: Passes) -> llvm.TargetMachine:
    """LLVM's machine for a target, and a module that is worth some passes: for `Passes.HASTY` instructions are selected
    one by one, and registers allocated block by block, which takes a third of the time."""
    return _created(target.triple, target.cpu, target.features, passes is Passes.HASTY)


class _Machines(local):
    """LLVM's machines for a target, other ones in each thread: no two threads may use one at a time. To make one takes
    as long as a tenth of what most modules take."""

    def __init__(self, target: Target, all_made: list[llvm.TargetMachine]) -> None:
        """
        Args:
            target: is for all of them.
            all_made: keeps those of all threads. A fork drops what other threads alone have, before anything else is
                done in the child: to let go of a machine then would wait for llvmlite's lock, which one of them held.
        """
        self._target = target
        self._all_made = all_made
        self._made: dict[Passes, llvm.TargetMachine] = {}

    def machine(self, passes: Passes) -> llvm.TargetMachine:
        """As `_machine`."""
        if passes not in self._made:
            self._made[passes] = _machine(self._target, passes)
            self._all_made.append(self._made[passes])
        return self._made[passes]


@dataclass(frozen=True)
class _Unlocked:
    """Functions of LLVM without the lock that llvmlite holds during each call, so that several threads can be in them
    at a time; LLVM allows that if each has its own context."""

    run_passes: Callable[..., Any]
    emit: Callable[..., Any]
    start: Callable[..., Any]
    size: Callable[..., Any]
    dispose: Callable[..., Any]
    message: Callable[[], Any]


@lru_cache(1)
def _unlocked() -> _Unlocked | None:
    """They have private names. None where llvmlite has others: its public functions then let in a thread at a time."""
    try:
        functions = llvm.ffi.lib
        return _Unlocked(functions.LLVMPY_RunNewModulePassManager._cfn, functions.LLVMPY_TargetMachineEmitToMemory._cfn,
                         functions.LLVMPY_GetBufferStart, functions.LLVMPY_GetBufferSize,
                         functions.LLVMPY_DisposeMemoryBuffer, llvm.ffi.OutputString)
    except AttributeError:
        return None


@contextmanager
def _optimized(piece: Piece, machine: llvm.TargetMachine) -> Iterator[llvm.ModuleRef]:
    """A module that the passes ran over which it is worth. It ends before its context: the garbage collector, where it
    finds both in the traceback of an error, may end the context first, and with that the process."""
    with llvm.create_context() as context, llvm.parse_assembly(piece.text, context) as module:
        module.verify()
        if piece.passes in _MANAGERS:
            _run_passes(module, piece.passes, machine)
        yield module


def _run_passes(module: llvm.ModuleRef, passes: Passes, machine: llvm.TargetMachine) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = True
    options.slp_vectorization = False
    unlocked = _unlocked()
    with llvm.create_pass_builder(machine, options) as builder, _MANAGERS[passes](builder) as manager:
        if unlocked is None:
            manager.run(module, builder)
        else:
            unlocked.run_passes(manager, module, builder)


def _few_passes(_: llvm.PassBuilder) -> llvm.ModulePassManager:
    """Those of `Passes.FOLDING`."""
    found = llvm.create_new_module_pass_manager()
    found.add_sroa_pass()
    found.add_instruction_combine_pass()
    found.add_simplify_cfg_pass()
    return found


def _all_passes(builder: llvm.PassBuilder) -> llvm.ModulePassManager:
    """Those of `Passes.ALL`: of level 3, with vectors of loops. Vectors of straight-line code, which no rule relies on,
    take a tenth of the time of all passes; level 2 adds up the elements of some reductions in another order."""
    return builder.getModulePassManager()


_MANAGERS = {Passes.FOLDING: _few_passes, Passes.ALL: _all_passes}
"""What makes passes out of a word for them, if it stands for any."""


def object_code(piece: Piece, target: Target) -> bytes:
    """The object file of a module."""
    return _object_code(piece, _machine(target, piece.passes))


def _object_code(piece: Piece, machine: llvm.TargetMachine) -> bytes:
    """The object file of a module, by one of LLVM's machines."""
    unlocked = _unlocked()
    with _optimized(piece, machine) as module:
        if unlocked is None:
            return machine.emit_object(module)  # type: ignore[no-any-return]  # llvmlite is untyped
        with unlocked.message() as error:
            buffer = unlocked.emit(machine, module, 1, error)
            if not buffer:
                raise RuntimeError(str(error))
    try:
        return string_at(unlocked.start(buffer), unlocked.size(buffer))
    finally:
        unlocked.dispose(buffer)


def making(target: Target, wish: Wish, heard: Callable[[Unit], None] | None = None) -> Making[Piece, bytes]:
    """Makes object files of modules, on all processors; those that are on the disk are taken from there. `heard` is
    told of each, in the thread that makes it."""
    maker, machines = digest(_compiler(), target.triple, target.cpu, target.features), _Machines(target, [])
    return Making(lambda piece: kept(piece, maker, lambda: _object_code(piece, machines.machine(piece.passes)), heard),
                  wish, processors())


@lru_cache(1)
def _compiler() -> bytes:
    """What names the way from pieces to object files: LLVM, and this file, which says what LLVM is to do."""
    return digest(llvmlite.__version__, llvm.llvm_version_info, Path(__file__).read_bytes())


def object_files(modules: Sequence[Piece], target: Target, wish: Wish) -> tuple[bytes, ...]:
    """The object files of modules.

    Raises:
        Abandoned: the wish was withdrawn.
    """
    with making(target, wish) as files:
        for each in modules:
            files.ask(each)
        return tuple(files.results())


def assembly(piece: Piece, target: Target) -> str:
    """The assembly listing of a module."""
    machine = _machine(target, piece.passes)
    with _optimized(piece, machine) as module:
        listing: str = machine.emit_assembly(module)
    return listing


def optimized_text(piece: Piece, target: Target) -> str:
    """The module as LLVM's passes leave it."""
    with _optimized(piece, _machine(target, piece.passes)) as module:
        return str(module)


@lru_cache(1)
def _engine() -> llvm.LLJIT:
    """What links object files; made once, and anew in a child of a fork."""
    return llvm.create_lljit_compiler(_machine(host(), Passes.ALL), use_jit_link=True, suppress_errors=False)


class _Locks:
    """What calls of LLVM wait for. A fork may find another thread in one."""

    outer = getattr(llvm.ffi.lib, "_lock", None)
    """What llvmlite holds during each call, where it has that name."""

    def after_fork(self) -> None:
        """Gives the child a lock of llvmlite's that nobody holds, and an engine of its own."""
        held = getattr(self.outer, "_lock", None)
        if self.outer is not None and held is not None:
            if held.acquire(blocking=False):
                held.release()
            else:
                self.outer._lock = RLock()
        if _engine.cache_info().currsize:
            _engine().detach()
            _engine.cache_clear()


_LOCKS = _Locks()
"""Those of this process."""
fork.watch(_LOCKS)


def link(code: Sequence[bytes], symbol: str, others: Sequence[str] = ()) -> Library:
    """Loads object files that belong together into this process; `others` are further symbols to be found by name."""
    host()
    engine = _engine()
    builder = llvm.JITLibraryBuilder()
    for each in code:
        builder.add_object_img(each)
    for name in dict.fromkeys((symbol, *others)):
        builder.export_symbol(name)
    builder.add_current_process()
    return Library(engine, builder.link(engine, f"circlet_{next(_LIBRARY_NUMBERS)}"), symbol)
