"""Writes a model as a flatbuffer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import numpy as np

from circlet.runtime.errors import ModelError, UnsupportedError
from circlet.runtime.ir.model import Model, Operator, Signature, Subgraph
from circlet.runtime.ir.op import Opaque
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array
from circlet.schema.constants import encode_constant
from circlet.schema.custom import PREFIX, custom_options
from circlet.schema.document import Chunk, Document, Member
from circlet.schema.foreign import Foreign
from circlet.schema.format import Format
from circlet.schema.options import dtype_number, options_codec
from circlet.schema.packer import MOST_BYTES, Packed, pack
from circlet.schema.quantization import quantization_document, sparsity_document

T = TypeVar("T")
_ROOM_FOR_TABLES = 1 << 28
_LEAST_OUTSIDE = 2
"""Offsets and sizes below this mean that there is nothing outside of the flatbuffer."""


def write_model(model: Model, format: Format, external_bytes: int | None = None) -> Packed:
    """The file of a model.

    Args:
        external_bytes: constants and custom options of at least this many bytes lie behind the flatbuffer rather than
            inside, where it could not have more than 2 GB; by default only in a model that would.

    Raises:
        ModelError: the model is malformed, e.g. data that does not fit the declared type.
        UnsupportedError: the format cannot express the model.
    """
    if external_bytes is None:
        sizes = {_address(tensor.data): tensor.data.nbytes for subgraph in model.subgraphs
                 for tensor in subgraph.tensors if tensor.data is not None}
        external_bytes = _LEAST_OUTSIDE if sum(sizes.values()) > MOST_BYTES - _ROOM_FOR_TABLES else MOST_BYTES
    try:
        document = _Writer(model, format, max(external_bytes, _LEAST_OUTSIDE)).document()
    except _Unwritable as found:
        raise UnsupportedError(found.text()) from None
    packed = pack("Model", document, format)
    if packed.flatbuffer_size > MOST_BYTES:
        raise UnsupportedError(f"the flatbuffer would have {packed.flatbuffer_size} bytes, it may have {MOST_BYTES}; "
                               "put constants outside of it (external_bytes)")
    return packed


class _Writer:
    """Turns one model into nested documents."""

    def __init__(self, model: Model, format: Format, external_bytes: int) -> None:
        self._model = model
        self._format = format
        self._same_format = model.format == format.name
        self._external_bytes = external_bytes
        self._buffers: list[Document] = [{}]
        self._shared: dict[tuple[int, int], int] = {}
        """The buffers of data by its address and size."""
        self._codes: dict[tuple[int, str | None, int], int] = {}

    def document(self) -> Document:
        model = self._model
        known = self._same_format and model.version in self._format.versions
        subgraphs = _each(model.subgraphs, self._subgraph, lambda k, each: f"subgraph {k} ({each.name!r}), ")
        metadata = [{"name": name, "buffer": self._add({"data": Chunk(np.frombuffer(data, np.uint8))})}
                    for name, data in model.metadata.items()]
        return {
            "version": model.version if known else self._format.versions[0],
            "operator_codes": [self._code_document(*key) for key in self._codes],
            "subgraphs": subgraphs,
            "description": model.description,
            "buffers": self._buffers,
            **({"metadata": metadata} if metadata else {}),
            **({"signature_defs": [_signature(each) for each in model.signatures]} if model.signatures else {}),
        }

    def _subgraph(self, subgraph: Subgraph) -> Document:
        documents: dict[str, list[Document]] = {}
        problems: list[str] = []
        for what, make in (("tensors", self._tensors), ("operators", self._operators)):
            try:
                documents[what] = make(subgraph)
            except _Unwritable as found:
                problems += found.problems
        if problems:
            raise _Unwritable(problems)
        return {**documents, "inputs": subgraph.inputs, "outputs": subgraph.outputs, "name": subgraph.name}

    def _tensors(self, subgraph: Subgraph) -> list[Document]:
        return _each(subgraph.tensors, self._tensor, lambda k, each: f"tensor {k} ({each.name!r}): ")

    def _operators(self, subgraph: Subgraph) -> list[Document]:
        return _each(subgraph.operators, self._operator, lambda k, each: f"operator {k} ({each.name}): ")

    def _tensor(self, tensor: Tensor) -> Document:
        document: dict[str, object] = {
            "shape": tensor.shape, "type": self._dtype(tensor), "buffer": self._constant(tensor), "name": tensor.name,
            "is_variable": tensor.is_variable, "has_rank": tensor.has_rank,
        }
        if tensor.quantization is not None:
            document["quantization"] = quantization_document(tensor.quantization, tensor.dtype, self._format)
        if tensor.sparsity is not None:
            document["sparsity"] = sparsity_document(tensor.sparsity, self._format)
        if tensor.shape_signature is not None:
            document["shape_signature"] = tensor.shape_signature
        return document

    def _dtype(self, tensor: Tensor) -> int:
        try:
            return dtype_number(self._format, tensor.dtype)
        except ValueError as problem:
            raise UnsupportedError(str(problem)) from None

    def _constant(self, tensor: Tensor) -> int:
        """The index of the buffer of a tensor's data; 0 where it has none. Tensors that share memory share it."""
        data = tensor.data
        if data is None:
            return 0
        stored = encode_constant(data, tensor.dtype, tensor.shape, tensor.sparsity is not None)
        key = _address(stored), stored.size
        if key not in self._shared or not stored.size:
            chunk = Chunk(stored)
            outside = stored.size >= self._external_bytes
            self._shared[key] = self._add({"offset": chunk, "size": stored.size} if outside else {"data": chunk})
        return self._shared[key]

    def _add(self, buffer: Document) -> int:
        """The index of a new buffer."""
        self._buffers.append(buffer)
        return len(self._buffers) - 1

    def _operator(self, operator: Operator) -> Document:
        document: dict[str, object] = {
            "opcode_index": self._code(operator), "inputs": operator.inputs, "outputs": operator.outputs,
            **self._options(operator), **self._custom_options(_custom(operator)),
        }
        if operator.intermediates:
            document["intermediates"] = operator.intermediates
        return document

    def _code(self, operator: Operator) -> int:
        """The index of an operator's code in the model."""
        name, _, custom = operator.name.partition(":")
        code = self._format.codes.get(name)
        if code is None and isinstance(operator.op, Foreign) and self._same_format and name.startswith("BUILTIN_"):
            code = int(name.removeprefix("BUILTIN_"))
        if code is None:
            raise UnsupportedError(f"the format {self._format.name} has no operator {operator.name}")
        key = code, (custom if name == "CUSTOM" else None), operator.version
        return self._codes.setdefault(key, len(self._codes))

    def _code_document(self, code: int, custom: str | None, version: int) -> Document:
        builtin, deprecated = self._format.stored_code(code)
        document = {"builtin_code": builtin, "deprecated_builtin_code": deprecated, "version": version}
        return document if custom is None else {**document, "custom_code": custom}

    def _options(self, operator: Operator) -> Document:
        op = operator.op
        if not isinstance(op, Opaque) and not operator.name.startswith(PREFIX):
            codec = options_codec(type(op), self._format)
            return self._member(codec.table, codec.encode(op))
        if not isinstance(op, Foreign):
            return {}
        if not op.is_complete:
            raise UnsupportedError(f"not all of its options are known: {op.reason}")
        return self._member(op.options_table, dict(op.options))

    def _member(self, table: str | None, fields: Document) -> Document:
        if table is None:
            return {}
        if table not in self._format.options:
            raise UnsupportedError(f"the format {self._format.name} has no {table}")
        name, tag = self._format.options[table]
        return Member(table, fields).fields(name, tag)

    def _custom_options(self, options: bytes) -> Document:
        if not options:
            return {}
        chunk = Chunk(np.frombuffer(options, np.uint8))
        if len(options) < self._external_bytes:
            return {"custom_options": chunk}
        return {"large_custom_options_offset": chunk, "large_custom_options_size": len(options)}


def _custom(operator: Operator) -> bytes:
    """The custom options of an operator."""
    is_known = operator.name.startswith(PREFIX) and not isinstance(operator.op, Opaque)
    return operator.custom_options or (custom_options(operator.op) if is_known else b"")


def _address(data: Array) -> int:
    address: int = data.__array_interface__["data"][0]
    return address


def _signature(signature: Signature) -> Document:
    return {"signature_key": signature.key, "subgraph_index": signature.subgraph,
            "inputs": _tensor_map(signature.inputs), "outputs": _tensor_map(signature.outputs)}


def _tensor_map(names: Mapping[str, int]) -> list[Document]:
    return [{"name": name, "tensor_index": tensor} for name, tensor in names.items()]


class _Unwritable(Exception):
    """What a format cannot say, all of it."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(problems)
        self.problems = problems

    def text(self) -> str:
        if len(self.problems) == 1:
            return self.problems[0]
        return f"{len(self.problems)} things cannot be written:\n  " + "\n  ".join(self.problems)


def _each(parts: Iterable[T], convert: Callable[[T], Document], label: Callable[[int, T], str]) -> list[Document]:
    """Converts each part; errors say which one it was."""
    documents, problems = list[Document](), list[str]()
    for index, part in enumerate(parts):
        try:
            documents.append(convert(part))
        except ModelError as problem:
            raise ModelError(f"{label(index, part)}{problem}") from None
        except UnsupportedError as problem:
            problems.append(f"{label(index, part)}{problem}")
        except _Unwritable as inner:
            problems.extend(f"{label(index, part)}{problem}" for problem in inner.problems)
    if problems:
        raise _Unwritable(problems)
    return documents
