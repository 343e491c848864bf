"""Files of the kind `.circlet`: a model, and its code for one or several processors.

They begin with a header: magic, version, size of the table and its SHA-256. The table is JSON; it says what the code is
called with, and where the parts lie, the model and a shared object for each processor, at multiples of `ALIGNMENT`, and
of each its CRC-32. Nothing here reads the model, or runs code.
"""

from __future__ import annotations

import json
from binascii import crc32
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite, prod
from struct import Struct
from typing import TypeAlias, TypeVar

from circlet.runtime.digests import sha256
from circlet.runtime.errors import ModelError, Place, UnsupportedError
from circlet.runtime.ir.model import Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import MOST_DIMENSIONS, DType, Quantization
from circlet.runtime.records import dataclass

MAGIC = b"circlet\0"
VERSION = 2
"""The first had a SHA-256 of each part, which took longer than all else of a start where weights are large."""
HEADER = Struct("<8sIIQ32s")
"""Magic, version, zero, bytes of the table, its SHA-256."""
ALIGNMENT = 4096
"""Of parts, in bytes, so that they can be mapped."""
_MOST = 1 << 48
"""What sizes are below: an address of x86-64 has 48 bits."""
_WORDS = 8
"""Bytes of the words of the caller, where there are any."""
_MOST_LENGTH = 1 << 31
"""What open lengths are below."""
Bounds: TypeAlias = "tuple[tuple[int, int], ...]"
"""What the open lengths of a tensor are at least and at most."""
T = TypeVar("T")
Reads = Callable[[int, int], "bytes | memoryview"]
"""Gives so many bytes of a file from an offset on, or those that there are."""


@dataclass(frozen=True)
class Part:
    """A part of a file: where it begins, its bytes, and its CRC-32, which for code is that of its `interface`, too."""

    offset: int
    size: int
    checksum: int


@dataclass(frozen=True)
class EntryPoint:
    """What callers call a function and its tensors.

    Attributes:
        signature: the key; None for what is run where nobody names a signature.
        function: its number.
        inputs, outputs: names, and tensors of the function's subgraph.
    """

    signature: str | None
    function: int
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class FunctionCode:
    """A function in a shared object: its symbol, what statuses from `FIRST_SITE` on say, in order, and the parts of the
    state that it writes: offset and bytes of each."""

    symbol: str
    sites: tuple[tuple[Place, str], ...]
    writes: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Variant:
    """The code for a processor.

    Attributes:
        target: what users call the processor.
        system, machine: what `sys.platform` and `os.uname().machine` are there.
        features: what `/proc/cpuinfo` has to list.
        part: the shared object.
        arena_bytes, state_bytes, header_bytes: of the memory that runs are given, and of the words of the caller at the
            beginning of the state.
        alignment: of that memory.
        init, reset: the functions that make a state what it is before any run; None where there is no state.
        functions: in the order of the file's.
        interface: what `interface` gives of it.
    """

    target: str
    system: str
    machine: str
    features: tuple[str, ...]
    part: Part
    arena_bytes: int
    state_bytes: int
    header_bytes: int
    alignment: int
    init: str | None
    reset: str | None
    functions: tuple[FunctionCode, ...]
    interface: bytes


@dataclass(frozen=True)
class Container:
    """What the table of a file says.

    Attributes:
        name: of the model.
        format: of the model inside, `tflite` or `circle`.
        model: where that lies.
        functions: inputs and outputs of the compiled subgraphs; these have no operators.
        bounds: for each function, of each tensor: what its open lengths are at least and at most, in order.
        entries: what they are called.
        variants: their code.
    """

    name: str
    format: str
    model: Part
    functions: tuple[Subgraph, ...]
    bounds: tuple[tuple[Bounds, ...], ...]
    entries: tuple[EntryPoint, ...]
    variants: tuple[Variant, ...]


def is_container(data: memoryview) -> bool:
    """Whether content begins as these files do."""
    return data[:len(MAGIC)] == MAGIC


def read_table(read: Reads, size: int) -> Container:
    """What the table of a file says.

    Args:
        read: gives the content.
        size: of the file.

    Raises:
        ModelError: it is damaged, or none of these files.
        UnsupportedError: it has another version.
    """
    header = read(0, HEADER.size)
    if len(header) < HEADER.size or bytes(header[:len(MAGIC)]) != MAGIC:
        raise ModelError(f"expected a .circlet file, found one of {size} bytes that begins with {bytes(header[:8])!r}")
    _, version, _, length, digest = HEADER.unpack(header)
    if version != VERSION:
        raise UnsupportedError(f"expected version {VERSION} of .circlet files, found {version}; compile the model anew")
    if length > size - HEADER.size:
        raise ModelError(f"the file is cut short: its table has {length} bytes, the file {size}")
    text = read(HEADER.size, length)
    if len(text) != length or sha256(text).digest() != digest:
        raise ModelError("the file is damaged: its table is not what it was when it was written")
    try:
        found = json.loads(bytes(text))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"the table is no JSON: {error}") from None
    return _container(_Fields(found, "the table"), size)


def interface(functions: object, variant: Mapping[str, object]) -> bytes:
    """What code is called with, in JSON, as its checksum has it: whoever changes the one must have made the other."""
    own = {name: value for name, value in variant.items() if name not in ("offset", "crc32")}
    return json.dumps([functions, own], separators=(",", ":"), sort_keys=True).encode()


def expect_checksum(part: Part, pieces: Iterable[bytes | memoryview], what: str) -> None:
    """Expects a part of a file to be what it was. 14 MB take 4 ms; SHA-256 takes 55 of the interpreter's own, and 17 of
    OpenSSL, with 3 to load it, and 3.6 MB of memory.

    Raises:
        ModelError: it is not.
    """
    found = 0
    for each in pieces:
        found = crc32(each, found)
    if found != part.checksum:
        raise ModelError(f"the file is damaged: {what} is not what it was when it was written")


class _Fields:
    """An object of JSON, whose fields must be what is expected of them."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise ModelError(f"{where}: expected an object, found {type(value).__name__}")
        self.value, self.where = value, where

    def get(self, name: str, kind: type[T]) -> T:
        """A field of a type."""
        found = self.value.get(name)
        if type(found) is not kind:
            raise ModelError(f"{self.where}: expected {name!r} of type {kind.__name__}, found {type(found).__name__}")
        return found

    def has(self, name: str) -> bool:
        """Whether there is such a field that is not null."""
        return self.value.get(name) is not None

    def number(self, name: str, most: int = _MOST) -> int:
        """A whole number from 0 to below `most`."""
        found = self.get(name, int)
        if not 0 <= found < most:
            raise ModelError(f"{self.where}: expected {name!r} from 0 to below {most}, found {found}")
        return found

    def all(self, name: str, kind: type[T]) -> tuple[T, ...]:
        """A list of values of a type."""
        found = self.get(name, list)
        if any(type(each) is not kind for each in found):
            raise ModelError(f"{self.where}: expected {name!r} to be a list of {kind.__name__}")
        return tuple(found)

    def numbers(self, name: str, most: int) -> tuple[int, ...]:
        """A list of whole numbers from 0 to below `most`."""
        found = self.all(name, int)
        if not all(0 <= each < most for each in found):
            raise ModelError(f"{self.where}: expected numbers in {name!r} from 0 to below {most}, found {list(found)}")
        return found

    def objects(self, name: str) -> list[_Fields]:
        """A list of objects."""
        return [_Fields(each, f"{self.where}, {name} {k}") for k, each in enumerate(self.get(name, list))]

    def object(self, name: str) -> _Fields:
        """An object."""
        return _Fields(self.get(name, dict), f"{self.where}, {name}")


def _container(table: _Fields, size: int) -> Container:
    model = table.object("model")
    described = table.objects("functions")
    functions = tuple(_function(each) for each in described)
    bounds = tuple(tuple(map(_bounds, each.objects("tensors"))) for each in described)
    entries = tuple(_entry(each, functions) for each in table.objects("entries"))
    variants = tuple(_variant(each, size, functions, interface(table.get("functions", list), each.value))
                     for each in table.objects("variants"))
    return Container(table.get("name", str), model.get("format", str), _part(model, size), functions, bounds, entries,
                     variants)


def _part(found: _Fields, size: int) -> Part:
    """A part that lies within a file of `size` bytes."""
    part = Part(found.number("offset"), found.number("bytes"), found.number("crc32", 1 << 32))
    if part.offset % ALIGNMENT or part.offset + part.size > size:
        raise ModelError(f"{found.where}: expected {part.size} bytes at a multiple of {ALIGNMENT} within the {size} of "
                         f"the file, found them at {part.offset}")
    return part


def _function(found: _Fields) -> Subgraph:
    tensors = tuple(map(_tensor, found.objects("tensors")))
    inputs, outputs = (found.numbers(each, len(tensors)) for each in ("inputs", "outputs"))
    return Subgraph(found.get("name", str), tensors, inputs, outputs, ())


def _tensor(found: _Fields) -> Tensor:
    signature, kind, left = found.all("shape", int), found.get("dtype", str), iter(_bounds(found))
    shape = tuple(next(left)[1] if each == -1 else each for each in signature)
    if min(shape, default=0) < 0 or max(shape, default=0) >= _MOST:
        raise ModelError(f"{found.where}: no array has shape {signature}")
    dtype = next((each for each in DType if each.value == kind and each.is_computable), None)
    if dtype is None or dtype.numpy.hasobject or dtype.numpy.name != kind:
        raise ModelError(f"{found.where}: expected a type that compiled code computes with, found {kind!r}")
    if len(shape) > MOST_DIMENSIONS or prod(shape) * dtype.numpy.itemsize >= _MOST:
        raise ModelError(f"{found.where}: no array has shape {shape}")
    quantization = _quantization(found.object("quantization")) if found.has("quantization") else None
    return Tensor(found.get("name", str), dtype, shape, None if -1 not in signature else signature,
                  quantization=quantization)


def _bounds(found: _Fields) -> Bounds:
    """Of the open lengths of a tensor."""
    wanted = found.all("shape", int).count(-1)
    pairs = found.all("lengths", list) if found.has("lengths") else ()
    if len(pairs) != wanted or not all(len(each) == 2 and all(type(one) is int for one in each)
                                       and 0 <= each[0] <= each[1] < _MOST_LENGTH for each in pairs):
        raise ModelError(f"{found.where}: expected bounds for {wanted} lengths, found {list(pairs)}")
    return tuple((least, most) for least, most in pairs)


def _quantization(found: _Fields) -> Quantization:
    scales = found.all("scales", float)
    if not all(map(isfinite, scales)):
        raise ModelError(f"{found.where}: expected finite scales, found {list(scales)}")
    return Quantization(scales, found.all("zero_points", int), found.number("axis", MOST_DIMENSIONS))


def _entry(found: _Fields, functions: Sequence[Subgraph]) -> EntryPoint:
    number = found.number("function", len(functions))
    graph = functions[number]
    inputs, outputs = _names(found, "inputs", graph), _names(found, "outputs", graph)
    if {each for _, each in inputs} != {*graph.inputs} or not {each for _, each in outputs} <= {*graph.outputs}:
        raise ModelError(f"{found.where}: expected names of the inputs and outputs of function {number}")
    return EntryPoint(found.get("signature", str) if found.has("signature") else None, number, inputs, outputs)


def _names(found: _Fields, side: str, graph: Subgraph) -> tuple[tuple[str, int], ...]:
    """Names and tensors, no name twice."""
    pairs = tuple((each.get("name", str), each.number("tensor", len(graph.tensors))) for each in found.objects(side))
    if len(dict(pairs)) != len(pairs):
        raise ModelError(f"{found.where}: expected {side} of different names")
    return pairs


def _variant(found: _Fields, size: int, functions: Sequence[Subgraph], text: bytes) -> Variant:
    codes = tuple(FunctionCode(each.get("symbol", str), tuple(map(_site, each.objects("sites"))), _writes(each))
                  for each in found.objects("functions"))
    if len(codes) != len(functions):
        raise ModelError(f"{found.where}: expected {len(functions)} functions, found {len(codes)}")
    alignment, state, words = (found.number(each) for each in ("alignment", "state", "words"))
    if alignment.bit_count() != 1 or alignment > ALIGNMENT or words not in (0, _WORDS) or words > state:
        raise ModelError(f"{found.where}: no state has {state} bytes with {words} of words, aligned to {alignment}")
    init, reset = (found.get(each, str) if state or found.has(each) else None for each in ("init", "reset"))
    if any(not words <= offset <= offset + size <= state for each in codes for offset, size in each.writes):
        raise ModelError(f"{found.where}: expected functions to write to the {state} bytes of the state alone")
    return Variant(
        found.get("target", str), found.get("system", str), found.get("machine", str), found.all("features", str),
        _part(found, size), found.number("arena"), state, words, alignment, init, reset, codes,
        text)


def _writes(found: _Fields) -> tuple[tuple[int, int], ...]:
    """The parts of the state that a function writes."""
    parts = found.all("writes", list)
    if not all(len(each) == 2 and all(type(one) is int and 0 <= one < _MOST for one in each) for each in parts):
        raise ModelError(f"{found.where}: expected offsets and bytes, found {list(parts)}")
    return tuple((offset, size) for offset, size in parts)


def _site(found: _Fields) -> tuple[Place, str]:
    place = Place(found.number("subgraph"), found.get("subgraph_name", str), found.number("operator"),
                  found.get("operator_name", str))
    return place, found.get("message", str)
