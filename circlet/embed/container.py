"""Files of the kind `.circlet`: a model and its code for several processors, for `circlet.compiled`."""

from __future__ import annotations

import json
from binascii import crc32
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import version

from circlet.backends.native.aot.between import Between, Dims
from circlet.backends.native.load.elf.shared_object import UnknownObject, shared_object
from circlet.backends.native.targets.catalogue import PROCESSORS, Processor
from circlet.backends.native.targets.features import flags
from circlet.compiled.machine import features
from circlet.conversion import convert
from circlet.embed import chosen_processor, compile_model
from circlet.embed.compiled import Compiled, Interface, Port
from circlet.embed.report import Json
from circlet.runtime.digests import sha256
from circlet.runtime.errors import InputError, UnsupportedError
from circlet.runtime.exec.values.entry_points import primary
from circlet.runtime.exec.values.inputs import Entry, entry_of
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import Quantization
from circlet.schema.container import ALIGNMENT, HEADER, MAGIC, VERSION, interface, is_container
from circlet.schema.files import dump_model
from circlet.schema.formats import WRITTEN, model_inside, recognized

SUFFIX = ".circlet"
"""What names of these files end with."""
TARGETS = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-vnni")
"""The processors that files have code for unless others are named: nearly any PC since 2009."""
_SLACK = 64
"""Bytes that the numbers of a part may take more in the table than zeros do."""


def container(model: Model, targets: Iterable[str] = (), name: str = "model", signature: str | None = None,
              shapes: Mapping[str, Dims] | None = None, is_small: bool = False, limits: bool = True,
              capacity: int | None = None) -> bytes:
    """A file with a model and its code.

    Args:
        model: from `load` or a `ModelBuilder`.
        targets: the names of processors; if there are none, those of `TARGETS` that have instructions for the model.
        name, signature, shapes, is_small, limits, capacity: as for `compile_model`.

    Raises:
        InputError: a target is unknown, or not one of which it can be told what it fits; as `compile_model`.
        UnsupportedError: operators have no code for devices; no shared objects are made for a target; or no file can
            have the model.
    """
    compiled = partial(compile_model, model, name=name, signature=signature, shapes=shapes, is_small=is_small,
                       limits=limits, capacity=capacity)
    chosen = {each: _processor(each) for each in targets}
    found = [compiled(each) for each in chosen.values()] or _for_many(compiled)
    format, content = _file(model)
    functions: list[Json] = [_function(model, each) for each in found[0].interfaces]
    options: dict[str, Json] = {
        "optimize": "size" if is_small else "speed", "limits": limits, "signature": signature,
        "shapes": {each: [str(size) if isinstance(size, Between) else size for size in shape]
                   for each, shape in (shapes or {}).items()},
        "capacity": capacity}
    return _joined({
        "name": name,
        "versions": {each: version(each) for each in ("circlet", "llvmlite")},
        "options": options,
        "functions": functions,
        "entries": list(_entries(model, found[0].interfaces)),
    }, format, content, found)


def _for_many(compiled: Callable[[Processor], Compiled]) -> Sequence[Compiled]:
    """A model for those of `TARGETS` that have instructions for it.

    Raises:
        UnsupportedError: none has.
    """
    found = []
    for number, name in enumerate(TARGETS, 1):
        try:
            found.append(compiled(PROCESSORS[name]))
        except UnsupportedError:
            if number == len(TARGETS):
                raise
    return found


def _processor(name: str) -> Processor:
    """A processor of which it can be told what it needs."""
    if name != "host" and name not in PROCESSORS:
        raise InputError(f"target {name!r}: files for circlet.compiled must say which machines they fit; expected host "
                         f"or one of {', '.join(each for each in PROCESSORS if each.startswith('x86'))}")
    return chosen_processor(name)


def _file(model: Model) -> tuple[str, memoryview]:
    """A model as a file of a format that can be written: as it was given, if it was."""
    found = model.provenance if model.is_as_read else None
    if found is not None and is_container(found.content):
        format, content = model_inside(found.content)
        return format.name, content
    read = None if found is None else recognized(found.content)
    if found is not None and read is not None and read.name in WRITTEN:
        return read.name, found.content
    converted = convert(model)
    try:
        return "tflite", memoryview(dump_model(converted, "tflite"))
    except UnsupportedError:
        return "circle", memoryview(dump_model(converted, "circle"))


def _function(model: Model, found: Interface) -> dict[str, Json]:
    """Inputs and outputs of a function; a tensor that is several of these is there once."""
    graph, numbers = model.subgraphs[found.code.entry.subgraph], _numbers(model, found)
    ports = dict(zip((*graph.inputs, *graph.outputs), (*found.inputs, *found.outputs), strict=True))
    return {
        "name": graph.name,
        "tensors": [_tensor(ports[each]) for each in numbers],
        "inputs": [numbers[each] for each in graph.inputs],
        "outputs": [numbers[each] for each in graph.outputs],
    }


def _numbers(model: Model, found: Interface) -> dict[int, int]:
    """The tensors of a function, by tensor of the model."""
    graph = model.subgraphs[found.code.entry.subgraph]
    return {each: number for number, each in enumerate(dict.fromkeys((*graph.inputs, *graph.outputs)))}


def _tensor(port: Port) -> dict[str, Json]:
    known = port.tensor.quantization
    return {"name": port.tensor.name, "dtype": port.tensor.dtype.value,
            "shape": [-1 if isinstance(each, Between) else each for each in port.shape],
            "lengths": [[each.least, each.most] for each in port.shape if isinstance(each, Between)],
            "quantization": None if known is None or not known.scales else _quantization(known)}


def _quantization(known: Quantization) -> dict[str, Json]:
    return {"scales": [float(each) for each in known.scales], "zero_points": [int(each) for each in known.zero_points],
            "axis": known.axis}


def _entries(model: Model, found: Sequence[Interface]) -> Iterable[Json]:
    """What callers call functions: signatures, and what is run without one."""
    keys = {each.key: each for each in model.signatures}
    unnamed = primary(model)
    for number, each in enumerate(found):
        index, named = each.code.entry.subgraph, partial(_entry, number, _numbers(model, each))
        if each.key is not None:
            yield named(each.key, entry_of(model, index, keys[each.key]))
        if index == unnamed.subgraph and index not in (other.code.entry.subgraph for other in found[:number]):
            yield named(None, unnamed)


def _entry(number: int, numbers: Mapping[int, int], key: str | None, entry: Entry) -> dict[str, Json]:
    def named(side: Sequence[tuple[str, int]]) -> list[Json]:
        return [{"name": name, "tensor": numbers[tensor]} for name, tensor in side]

    return {"signature": key, "function": number, "inputs": named(entry.inputs), "outputs": named(entry.outputs)}


def _variant(found: Compiled) -> dict[str, Json]:
    """What the code for a processor needs, and is called by."""
    machine, _, system = found.processor.triple.partition("-")
    known = flags(found.processor.features)
    is_host = found.processor.name == "host"
    return {
        "target": found.processor.name,
        "system": "linux" if "linux" in system else system,
        "machine": machine,
        "features": [each for each in known if each in features()] if is_host else list(known),
        "arena": found.code.arena_bytes, "state": found.code.state.nbytes, "words": found.code.state.header_bytes,
        "alignment": found.alignment,
        **dict(zip(("init", "reset"), found.starters or (None, None), strict=True)),
        "functions": [{"symbol": f"{each.name}_run", "sites": _sites(each),
                       "writes": [[part.offset, part.size] for part in each.code.writes]} for each in found.interfaces],
    }


def _sites(found: Interface) -> list[Json]:
    return [{"subgraph": each.place.subgraph, "subgraph_name": each.place.subgraph_name,
             "operator": each.place.operator, "operator_name": each.place.operator_name, "message": each.message}
            for each in found.code.sites]


def _code(found: Compiled) -> bytes:
    try:
        return shared_object([found.object], found.exports)
    except UnknownObject as error:
        raise UnsupportedError(f"no shared object for {found.processor.name}: {error}") from error


def _joined(table: dict[str, Json], format: str, model: memoryview, found: Sequence[Compiled]) -> bytes:
    """The file: header, table, then code and model, each at a multiple of `ALIGNMENT`, what is the same once."""
    about: dict[str, Json] = {"format": format}
    parts = [*((_variant(each), _code(each)) for each in found), (about, bytes(model))]
    for each, content in parts:
        each |= {"offset": 0, "bytes": len(content)}
        called = b"" if each is about else interface(table["functions"], each)
        each["crc32"] = crc32(called, crc32(content))
    table = {**table, "model": about, "variants": [each for each, _ in parts[:-1]]}
    offset = HEADER.size + len(_text(table)) + _SLACK * len(parts)
    places: dict[bytes, int] = {}
    for each, content in parts:
        if content not in places:
            places[content] = -(-offset // ALIGNMENT) * ALIGNMENT
            offset = places[content] + len(content)
        each["offset"] = places[content]
    text = _text(table)
    file = bytearray(offset)
    file[:HEADER.size] = HEADER.pack(MAGIC, VERSION, 0, len(text), sha256(text).digest())
    file[HEADER.size:HEADER.size + len(text)] = text
    for content, begin in places.items():
        file[begin:begin + len(content)] = content
    return bytes(file)


def _text(table: Mapping[str, Json]) -> bytes:
    return json.dumps(table, separators=(",", ":")).encode()
