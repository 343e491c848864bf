"""Makes object files of models."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from circlet.backends.controlflow.backend import ControlflowBackend
from circlet.backends.native.aot.between import Between, Dims
from circlet.backends.native.aot.cases import EntryPoint
from circlet.backends.native.aot.entry import EntryCode
from circlet.backends.native.aot.model import lower_model
from circlet.backends.native.backend import NativeBackend
from circlet.backends.native.compilation import COLLECTOR
from circlet.backends.native.load.llvm import described, embedded_object, is_cpu, is_known, this_processor
from circlet.backends.native.targets.catalogue import PROCESSORS, Processor
from circlet.backends.native.targets.target import Goal
from circlet.embed.compiled import Compiled, Interface, Port
from circlet.embed.names import identifier, unique
from circlet.embed.supply import Supply
from circlet.runtime.errors import InputError, UnsupportedError, suggestion
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.values.inputs import Entry, entry_of
from circlet.runtime.ir.model import Model, Signature
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.passes.manager import Pass, Pipeline
from circlet.runtime.passes.transforms.declare_reads import declare_reads
from circlet.runtime.records import replace
from circlet.session import engine

_OMITTED = frozenset({"update_variables", "lift_variables", "lift_words", "pad_growth"})
"""Passes for values that are kept for runs that fail, which the state of a device has no room for; for variables whose
shapes change; for text, which is refused; and for loops that are entered anew, with more memory."""

_HALVES = frozenset({"__extendhfsf2", "__truncdfhf2", "__truncsfhf2"})
"""What converts float16 where there are no instructions; few compilers have these functions."""

_COPYING = frozenset({"memcpy", "memset"})
"""What code may call, and nothing else."""
_MOST_LENGTH = 1 << 31
"""What lengths within bounds are below."""
_ARCHITECTURES = re.compile(r"(x86_64|i[3-6]86|aarch64|arm|thumb|riscv32|riscv64|wasm32)[\w.]*-")
"""The triples that code is made for, by how they begin: little-endian."""
_OTHER_FILES = re.compile(
    "windows|mingw|cygwin|uefi|darwin|macos|ios|tvos|watchos|xros|driverkit|apple|macho|coff|be-|eb-")
"""Parts of triples whose object files are neither ELF nor WebAssembly, or big-endian."""


def chosen_processor(name: str, cpu: str | None = None) -> Processor:
    """The processor that is meant.

    Args:
        name: of those in `PROCESSORS`, `host` for the one of this machine, or LLVM's triple.
        cpu: LLVM's name of the processor, if it is to be another one than the target's. Instructions that it has beyond
            the target's features are left to LLVM.

    Raises:
        InputError: none is called so, or no object files are made for it.
    """
    if name == "host":
        found = this_processor()
    elif name in PROCESSORS:
        found = PROCESSORS[name]
    elif _ARCHITECTURES.match(name) and not _OTHER_FILES.search(name) and is_known(name):
        found = Processor(name, name, "", "", "as LLVM knows it", is_static="none" in name.split("-"))
    else:
        raise InputError(f"no target {name!r}; known are {', '.join(PROCESSORS)}, host, and LLVM's triples of x86-64, "
                         f"ARM, RISC-V and WebAssembly with ELF files{suggestion(name, PROCESSORS)}")
    if cpu is None:
        return found
    if not is_cpu(found.triple, cpu):
        raise InputError(f"no processor {cpu!r} of {found.triple}, as far as LLVM knows")
    return replace(found, name=f"{found.name}, {cpu}", cpu=cpu)


@COLLECTOR.paused()
def compile_model(model: Model, target: Processor | str, name: str = "model", signature: str | None = None,
                  shapes: Mapping[str, Dims] | None = None, is_small: bool = False, limits: bool = True,
                  capacity: int | None = None) -> Compiled:
    """Compiles a model ahead of time.

    Args:
        model: from `load` or a `ModelBuilder`.
        target: the processor, or its name; `PROCESSORS` has those that are known.
        name: of the model; symbols begin with it.
        signature: the key of the one to compile; by default all are entry points, or the first subgraph.
        shapes: of inputs whose lengths the model leaves open, by name; where that is the first alone, it is 1 by
            default. A length that is `Between` others is given in each run.
        is_small: whether code is to be small rather than fast.
        limits: whether loops can be stopped, and bounded.
        capacity: for how many elements along an axis there is room where only a run tells how many there are and
            nothing bounds that; None where there are to be no such axes. A run that comes to more fails.

    Raises:
        InputError: no such target, signature or input; a length is not given.
        UnsupportedError: operators have no code for devices; the message lists them all.
    """
    chosen = chosen_processor(target) if isinstance(target, str) else target
    name = identifier(name)
    executed = _pipeline().run(model)
    entries = _entries(model, signature)
    symbols = unique([name if key is None or len(entries) == 1 else f"{name}_{identifier(key.key)}"
                      for key, _ in entries])
    _expect_inputs([each for _, each in entries], shapes or {})
    points = [EntryPoint(f"{symbol}_run", each.subgraph, _shapes(each, shapes or {}),
                         tuple(_names(each.inputs, each.graph.inputs)), capacity)
              for symbol, (_, each) in zip(symbols, entries, strict=True)]
    machine = described(chosen, Goal.SIZE if is_small else Goal.SPEED)
    executors = ExecutorMap(executed, lambda each: (ControlflowBackend(each), NativeBackend(each)), elide=True)
    code = lower_model(executors, machine, name, points, limits, is_small)
    interfaces = [_interface(symbol, key, each, found)
                  for symbol, (key, each), found in zip(symbols, entries, code.entries, strict=True)]
    content = code.constants.fill(embedded_object(str(code.module), chosen, is_small, Supply(code.module, machine)))
    found = Compiled(name, chosen, content, code, interfaces, machine.alignment)
    _expect_instructions(found)
    return found


def _expect_instructions(found: Compiled) -> None:
    """Raises UnsupportedError if code calls what programs may not have: functions of real numbers, or conversions of
    float16."""
    missing = [each for each in found.contents.needed if each not in _COPYING]
    if missing:
        what = "float16" if _HALVES & {*missing} else "what these functions compute"
        raise UnsupportedError(f"target {found.processor.name!r} has no instructions for {what}: {', '.join(missing)}")


def _pipeline() -> Pipeline:
    """What is done to a model before its code is written."""
    kept = (each for each in engine("native").pipeline().passes if each.name not in _OMITTED)
    return Pipeline("embedded", (Pass("declare_reads", declare_reads), *kept))


def _entries(model: Model, key: str | None) -> list[tuple[Signature | None, Entry]]:
    """The entry points that are asked for."""
    keys = [each.key for each in model.signatures]
    if key is not None and key not in keys:
        raise InputError(f"no signature {key!r}; the model has {', '.join(keys) or 'none'}{suggestion(key, keys)}")
    chosen = [each for each in model.signatures if key is None or each.key == key]
    return [(each, entry_of(model, each.subgraph, each)) for each in chosen] or [(None, entry_of(model, 0, None))]


def _names(named: Sequence[tuple[str, int]], tensors: Sequence[int]) -> list[str]:
    """What tensors are called in C; of several names of one the first."""
    first: dict[int, str] = {}
    for name, tensor in named:
        first.setdefault(tensor, name)
    return unique([identifier(first.get(each, f"tensor_{each}")) for each in tensors])


def _shapes(entry: Entry, given: Mapping[str, Dims]) -> tuple[Dims, ...]:
    """The shapes of an entry point's inputs.

    Raises:
        InputError: a length is neither in the model nor given, or a shape is given that does not fit.
    """
    names = {tensor: name for name, tensor in entry.inputs}
    return tuple(_shape(names.get(each, ""), entry.graph.tensors[each], given.get(names.get(each, "")))
                 for each in entry.graph.inputs)


def _shape(name: str, tensor: Tensor, given: Dims | None) -> Dims:
    """The shape of an input; if nothing is given and the first length alone is open, as for batches, that is 1."""
    declared = tensor.signature
    if given is None:
        if any(each < 0 for each in declared[1:]):
            raise InputError(f"input {name!r} has shape {_text(declared)}; give its lengths, --shape {name}=...")
        return tuple(abs(each) for each in declared)
    fits = len(given) == len(declared) and all(one in (-1, other) for one, other in zip(declared, given, strict=True))
    if not fits:
        raise InputError(f"input {name!r} has shape {_text(declared)}, found {_text(given)}")
    return tuple(map(_narrowed, given))


def _narrowed(length: int | Between) -> int | Between:
    """A length that can be but one as a number.

    Raises:
        InputError: it can be none.
    """
    if not isinstance(length, Between):
        return length
    if not 0 <= length.least <= length.most < _MOST_LENGTH:
        raise InputError(f"expected bounds of a length in order, from 0 to below {_MOST_LENGTH}, found {length}")
    return length.least if length.least == length.most else length


def _expect_inputs(entries: Sequence[Entry], given: Mapping[str, Dims]) -> None:
    """Raises InputError if a shape is given that no input has."""
    names = [name for each in entries for name, _ in each.inputs]
    for each in given:
        if each not in names:
            raise InputError(f"no input {each!r}; there are {', '.join(names) or 'none'}{suggestion(each, names)}")


def _text(shape: Dims) -> str:
    """A shape for people, open lengths as `?`."""
    return f"[{', '.join('?' if each == -1 else str(each) for each in shape)}]"


def _interface(name: str, signature: Signature | None, entry: Entry, code: EntryCode) -> Interface:
    """What C sees of an entry point."""
    graph = entry.graph
    inputs = _ports(entry, entry.inputs, graph.inputs, code.entry.shapes)
    outputs = _ports(entry, entry.outputs, graph.outputs, code.outputs)
    return Interface(name, None if signature is None else signature.key, code, inputs, outputs)


def _ports(entry: Entry, named: Sequence[tuple[str, int]], tensors: Sequence[int], shapes: Sequence[Dims]
           ) -> Sequence[Port]:
    names = _names(named, tensors)
    lengths = unique([*names, *(f"{each}_lengths" for each in names)])[len(names):]
    return [Port(name, entry.graph.tensors[tensor], shape, told)
            for name, tensor, shape, told in zip(names, tensors, shapes, lengths, strict=True)]
