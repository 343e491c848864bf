"""Reads a model from a flatbuffer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from circlet.runtime.errors import ModelError, UnsupportedError
from circlet.runtime.ir.model import ABSENT, Model, Operator, Signature, Subgraph
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.registry import OPERATORS
from circlet.runtime.records import dataclass, replace
from circlet.schema.constants import element_count, is_raw, read_constant
from circlet.schema.custom import PREFIX, custom_op
from circlet.schema.flatbuffer import Content, Table, read_each
from circlet.schema.foreign import Foreign
from circlet.schema.format import OPTIONS_UNIONS, Format
from circlet.schema.options import OptionsCodec, options_codec, raw_options
from circlet.schema.quantization import read_quantization, read_sparsity, refuse


def read_model(data: memoryview, format: Format) -> Model:
    """The model that the bytes of a file hold; its constants are views of them.

    Raises:
        ModelError: the file is malformed.
        UnsupportedError: it uses a feature that circlet's model cannot express.
    """
    content = Content(data, format.layouts)
    return _Reader(content, content.root("Model"), format).model()


@dataclass(frozen=True)
class _Code:
    """An operator code of a model."""

    name: str
    version: int
    codec: OptionsCodec | None
    """None where circlet has no such operator."""


class _Reader:
    """Reads one model."""

    def __init__(self, content: Content, root: Table, format: Format) -> None:
        self._content = content
        self._root = root
        self._format = format
        self._buffers = root.tables("buffers")
        self._codes: Sequence[_Code] = ()

    def model(self) -> Model:
        root, format = self._root, self._format
        version = root.integer("version")
        if version not in format.versions:
            expected = " or ".join(map(str, format.versions))
            raise UnsupportedError(f"expected version {expected} of the {format.name} schema, found {version}")
        self._codes = read_each(root.tables("operator_codes"), "operator code", self._code)
        subgraphs = read_each(root.tables("subgraphs"), "subgraph", self._subgraph, _string("name"), ", ")
        if not subgraphs:
            raise ModelError("expected at least one subgraph, found none")
        signatures = read_each(root.tables("signature_defs"), "signature",
                               lambda each: self._signature(each, subgraphs), _string("signature_key"))
        metadata = dict(read_each(root.tables("metadata"), "metadata", self._metadata, _string("name")))
        return Model(_with_own_inputs(_with_named(subgraphs, signatures)), signatures, root.string("description"),
                     metadata, version, format.name)

    def _code(self, table: Table) -> _Code:
        format = self._format
        code = format.effective_code(table.integer("builtin_code"), table.integer("deprecated_builtin_code"))
        name = format.code_names.get(code, f"BUILTIN_{code}")
        if name == "CUSTOM":
            name = PREFIX + table.string("custom_code")
        cls = OPERATORS.get(name)
        return _Code(name, table.integer("version"), None if cls is None else options_codec(cls, format))

    def _subgraph(self, table: Table) -> Subgraph:
        tables = table.tables("tensors")
        tensors = read_each(tables, "tensor", self._tensor, _string("name"))
        inputs, outputs = (_indices(table, name, len(tensors)) for name in ("inputs", "outputs"))
        operators = read_each(table.tables("operators"), "operator", lambda each: self._operator(each, len(tensors)),
                              self._operator_name)
        tensors = _fill_empty(tensors, inputs, operators)
        return Subgraph(table.string("name"), tensors, inputs, outputs, operators)

    def _tensor(self, table: Table) -> Tensor:
        format = self._format
        refuse(table, format)
        number = table.integer("type")
        dtype = format.dtypes.get(number)
        if dtype is None:
            raise ModelError(f"element type {number} is not known to the {format.name} schema")
        shape = table.values("shape")
        element_count(shape)
        sparsity, quantization = table.table("sparsity"), table.table("quantization")
        return Tensor(
            name=table.string("name"), dtype=dtype, shape=shape,
            shape_signature=table.values("shape_signature") or None, has_rank=table.boolean("has_rank"),
            data=self._data(table.integer("buffer"), dtype, shape, sparsity is not None),
            quantization=None if quantization is None else read_quantization(quantization, format),
            is_variable=table.boolean("is_variable"),
            sparsity=None if sparsity is None else read_sparsity(sparsity, format),
        )

    def _data(self, buffer: int, dtype: DType, shape: tuple[int, ...], sparse: bool) -> Array | None:
        span = self._span(buffer)
        if span is None or not span[1]:
            return None
        try:
            return read_constant(self._content, span, dtype, shape, sparse)
        except ModelError as problem:
            raise ModelError(f"buffer {buffer}: {problem}") from None

    def _span(self, buffer: int) -> tuple[int, int] | None:
        """Where the data of a buffer lies in the file: inside of the flatbuffer, or behind it."""
        if buffer == 0:
            return None
        if buffer >= len(self._buffers):
            raise ModelError(f"expected the index of a buffer, below {len(self._buffers)}, found {buffer}")
        table = self._buffers[buffer]
        inside = table.span("data")
        return inside if inside is not None and inside[1] else self._outside(table, "offset", "size")

    def _outside(self, table: Table, offset: str, size: str) -> tuple[int, int] | None:
        """A part of the file that two fields name; None where they say that there is none."""
        start, length = table.integer(offset), table.integer(size)
        if start <= 1 or length <= 1:
            return None
        if start + length > self._content.size:
            raise ModelError(f"{table.layout.name}.{offset} names {length} bytes at byte {start} of a file of "
                             f"{self._content.size} bytes")
        return start, length

    def _operator(self, table: Table, tensors: int) -> Operator:
        index = table.integer("opcode_index")
        if index >= len(self._codes):
            raise ModelError(f"expected the index of an operator code, below {len(self._codes)}, found {index}")
        code = self._codes[index]
        return Operator(
            self._op(code, table), _indices(table, "inputs", tensors, ABSENT), _indices(table, "outputs", tensors),
            code.version, self._custom_options(table), _indices(table, "intermediates", tensors, ABSENT))

    def _operator_name(self, table: Table) -> str:
        return self._codes[table.integer("opcode_index")].name

    def _op(self, code: _Code, table: Table) -> Op:
        used = [union for union in OPTIONS_UNIONS if table.scalar(f"{union}_type")]
        if code.codec is not None and code.name.startswith(PREFIX):
            return custom_op(code.codec.cls, self._custom_options(table))
        if not used:
            return Foreign(code.name) if code.codec is None else code.codec.decode(None)
        if len(used) > 1:
            raise ModelError(f"expected options in one of {' and '.join(used)}, found both")
        union = used[0]
        tag = table.integer(f"{union}_type")
        name = self._format.unions[OPTIONS_UNIONS[union]].get(tag)
        if name is None:
            reason = f"its options have type {tag}, which the {self._format.name} schema does not know"
            return Foreign(code.name, reason, is_complete=False)
        options = table.union(union, name)
        codec = code.codec
        if codec is None or options is None:
            return _foreign(code.name, options) if codec is None else codec.decode(None)
        if codec.table not in (name, None):
            raise ModelError(f"expected options of type {codec.table}, found {name}")
        reason = codec.unknown(options)
        return _foreign(code.name, options, reason) if reason else codec.decode(options)

    def _custom_options(self, table: Table) -> bytes:
        inside = table.bytes("custom_options")
        outside = self._outside(table, "large_custom_options_offset", "large_custom_options_size")
        if inside or outside is None:
            return inside
        start, size = outside
        self._content.charge(size)
        return bytes(self._content.data[start:start + size])

    def _signature(self, table: Table, subgraphs: Sequence[Subgraph]) -> Signature:
        index = table.integer("subgraph_index")
        if index >= len(subgraphs):
            raise ModelError(f"expected the index of a subgraph, below {len(subgraphs)}, found {index}")
        count = len(subgraphs[index].tensors)
        return Signature(table.string("signature_key"), index, _names(table.tables("inputs"), "input", count),
                         _names(table.tables("outputs"), "output", count))

    def _metadata(self, table: Table) -> tuple[str, bytes]:
        start, size = self._span(table.integer("buffer")) or (0, 0)
        self._content.charge(size)
        return table.string("name"), bytes(self._content.data[start:start + size])


def _with_named(subgraphs: tuple[Subgraph, ...], signatures: Sequence[Signature]) -> tuple[Subgraph, ...]:
    """Subgraphs, with the results of operators that signatures name as outputs behind their own: a quantiser that puts
    something behind an output leaves the name with what there was. Those that operators invoke stay as they are."""
    named: dict[int, dict[int, None]] = {}
    for each in signatures:
        others = [tensor for tensor in each.outputs.values() if tensor not in subgraphs[each.subgraph].outputs]
        named.setdefault(each.subgraph, {}).update(dict.fromkeys(others))
    if not any(named.values()):
        return subgraphs
    invoked = _invoked(subgraphs)
    return tuple(each if index in invoked else _with_outputs(each, named.get(index, {}))
                 for index, each in enumerate(subgraphs))


def _with_own_inputs(subgraphs: tuple[Subgraph, ...]) -> tuple[Subgraph, ...]:
    """Subgraphs, of which those that operators invoke have a tensor for each input. TensorFlow's converter gives a
    branch one tensor for two inputs, where a program hands over a value twice: the last one is what it holds."""
    if not any(_repeats(each) for each in subgraphs):
        return subgraphs
    invoked = _invoked(subgraphs)
    return tuple(_with_unread(each) if index in invoked and _repeats(each) else each
                 for index, each in enumerate(subgraphs))


def _repeats(subgraph: Subgraph) -> bool:
    return len(set(subgraph.inputs)) < len(subgraph.inputs)


def _with_unread(subgraph: Subgraph) -> Subgraph:
    """A subgraph, with tensors that nothing reads for inputs which a later one is put in the place of."""
    tensors, inputs = list(subgraph.tensors), list(subgraph.inputs)
    for position, tensor in enumerate(subgraph.inputs):
        if tensor in subgraph.inputs[position + 1:]:
            inputs[position] = len(tensors)
            tensors.append(tensors[tensor])
    return replace(subgraph, tensors=tuple(tensors), inputs=tuple(inputs))


def _invoked(subgraphs: Sequence[Subgraph]) -> frozenset[int]:
    """The subgraphs that operators invoke."""
    operators = [operator for each in subgraphs for operator in each.operators]
    return frozenset(callee for operator in operators for callee in operator.op.callees())


def _with_outputs(subgraph: Subgraph, tensors: Iterable[int]) -> Subgraph:
    made = {tensor for operator in subgraph.operators for tensor in operator.outputs}
    return replace(subgraph, outputs=(*subgraph.outputs, *(each for each in tensors if each in made)))


def _string(name: str) -> Callable[[Table], str]:
    """What a table is called in messages."""
    return lambda table: repr(table.string(name))


def _foreign(code: str, options: Table | None, reason: str = "") -> Foreign:
    if options is None:
        return Foreign(code, reason)
    return Foreign(code, reason, options.layout.name, raw_options(options), not options.has_unknown())


def _indices(table: Table, name: str, tensors: int, least: int = 0) -> tuple[int, ...]:
    """The tensor indices of a vector."""
    found = table.values(name)
    if found and not (least <= min(found) and max(found) < tensors):
        wrong = next(index for index in found if not least <= index < tensors)
        raise ModelError(f"{name}: expected the index of a tensor, below {tensors}, found {wrong}")
    return found


def _names(tables: Sequence[Table], noun: str, tensors: int) -> Mapping[str, int]:
    """The tensors that a signature names."""
    found: dict[str, int] = {}
    for table in tables:
        name, tensor = table.string("name"), table.integer("tensor_index")
        if name in found:
            raise ModelError(f"two {noun}s are called {name!r}")
        if tensor >= tensors:
            raise ModelError(f"{noun} {name!r}: expected the index of a tensor, below {tensors}, found {tensor}")
        found[name] = tensor
    return found


def _fill_empty(tensors: tuple[Tensor, ...], inputs: Iterable[int],
                operators: Iterable[Operator]) -> tuple[Tensor, ...]:
    """Gives tensors without elements their only value, where nothing else does: a file cannot tell them from others."""
    empty = {index for index, each in enumerate(tensors)
             if 0 in each.signature and each.data is None and not each.is_variable}
    if not empty:
        return tensors
    empty -= {index for operator in operators for index in operator.outputs} | set(inputs)
    return tuple(_filled(each) if index in empty else each for index, each in enumerate(tensors))


def _filled(tensor: Tensor) -> Tensor:
    if tensor.dtype is DType.VARIANT or not tensor.is_static:
        return tensor
    raw = is_raw(tensor.dtype, tensor.sparsity is not None)
    data = np.zeros(0, np.uint8) if raw else np.zeros(tensor.shape, tensor.dtype.numpy)
    data.setflags(write=False)
    return replace(tensor, data=data)
