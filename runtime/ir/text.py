"""Prints models as text that is stable, so that tests and people can compare it line by line."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum

import numpy as np

from circlet.runtime.ir.model import ABSENT, Model, Operator, Signature, Subgraph
from circlet.runtime.ir.op import Op, Opaque
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, Quantization

SHOWN = 8
"""Sequences of at most so many elements are printed whole; of others the first few and a digest."""
FIRST = 4
SHOWN_BYTES = 32
_PLAIN_NAME = re.compile(r"[A-Za-z_][\w./-]*")
_CALLEE_FIELD = re.compile(r"(?:(\w+)_)?subgraph(?:_index|_indices)?")


def to_text(model: Model, subgraph: int | None = None) -> str:
    """The text of a model, or of one of its subgraphs alone.

    `%3` is tensor 3 of the subgraph at hand, `@2` is subgraph 2, `[4]` operator 4. Only options that differ from
    their defaults are shown; tensors that nothing uses are left out. Equal models give equal text.
    """
    if subgraph is not None:
        return _lines(_subgraph_lines(model, subgraph))
    parts = [_lines(_header_lines(model))]
    parts.extend(_lines(_subgraph_lines(model, index)) for index in range(len(model.subgraphs)))
    if model.metadata:
        parts.append(_lines(f"metadata {key!r}: {len(model.metadata[key])} bytes" for key in sorted(model.metadata)))
    return "\n".join(parts)


def type_text(tensor: Tensor) -> str:
    """The type of a tensor, e.g. `int8[1,?]{scale: 0.5, zero_point: 3}`; `[*]` where even the rank is not known."""
    notes = [] if tensor.quantization is None else list(_quantization_notes(tensor.quantization))
    if tensor.sparsity is not None:
        notes.append("sparse")
    return tensor.type_text + (f"{{{', '.join(notes)}}}" if notes else "")


def option_texts(operator: Operator) -> Mapping[str, str]:
    """What is particular to an operator: its options, then what the file says of it beyond them."""
    texts = {}
    for option in fields(operator.op):
        value = getattr(operator.op, option.name)
        if _is_default(option, value) or (isinstance(operator.op, Opaque) and option.name == "code"):
            continue
        callee = _CALLEE_FIELD.fullmatch(option.name)
        if callee is not None:
            texts[callee[1] or option.name] = _callee_text(value)
        else:
            texts[option.name] = _value_text(value)
    if operator.custom_options:
        texts["custom_options"] = _value_text(operator.custom_options)
    if operator.intermediates:
        texts["intermediates"] = f"({_references(operator.intermediates)})"
    return texts


def preview_text(tensor: Tensor) -> str:
    """The first elements of a constant, e.g. `[0.5, 1, 2, 3, ...]`; empty for tensors that are none."""
    if tensor.data is None:
        return ""
    if tensor.sparsity is not None or not tensor.dtype.is_computable or tensor.data.size <= SHOWN:
        return _constant_text(tensor, tensor.data)
    return f"[{', '.join(map(_value_text, tensor.data.flat[:FIRST]))}, ...]"


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _header_lines(model: Model) -> Iterator[str]:
    yield f"model {model.format} {model.version}" + (f" {model.description!r}" if model.description else "")
    for signature in model.signatures:
        yield _signature_line(signature)


def _signature_line(signature: Signature) -> str:
    sides = (", ".join(f"{_name(name)}: %{tensor}" for name, tensor in side.items())
             for side in (signature.inputs, signature.outputs))
    return f"signature {signature.key!r} @{signature.subgraph} " + " -> ".join(f"({side})" for side in sides)


def _subgraph_lines(model: Model, number: int) -> Iterator[str]:
    subgraph = model.subgraphs[number]
    inputs = ", ".join(_declaration(subgraph, tensor) for tensor in subgraph.inputs)
    yield f"subgraph {number} {subgraph.name!r} ({inputs}) -> ({_references(subgraph.outputs)})"
    for index in _own_lines(subgraph):
        tensor = subgraph.tensors[index]
        value = "" if tensor.data is None else f" = {_constant_text(tensor, tensor.data)}"
        yield f"  {_declaration(subgraph, index)}{value}"
    for number, operator in enumerate(subgraph.operators):
        yield f"  [{number}] {_operator_text(subgraph, operator)}"


def _own_lines(subgraph: Subgraph) -> list[int]:
    """The tensors that are shown on lines of their own: those in use that are neither inputs nor results."""
    used, shown = set(subgraph.outputs), set(subgraph.inputs)
    for operator in subgraph.operators:
        used.update(operator.inputs, operator.intermediates)
        shown.update(operator.outputs)
    for tensor in used.copy():
        if 0 <= tensor < len(subgraph.tensors):
            used.update(_scale_tensors(subgraph.tensors[tensor]))
    return sorted(each for each in used - shown if 0 <= each < len(subgraph.tensors))


def _scale_tensors(tensor: Tensor) -> tuple[int, ...]:
    blockwise = None if tensor.quantization is None else tensor.quantization.blockwise
    return () if blockwise is None else (blockwise.scales, blockwise.zero_points)


def _declaration(subgraph: Subgraph, index: int) -> str:
    if not 0 <= index < len(subgraph.tensors):
        return f"%{index}: undeclared"
    tensor = subgraph.tensors[index]
    marker = "constant " if tensor.is_constant else "variable " if tensor.is_variable else ""
    name = f" {_name(tensor.name)}" if tensor.name else ""
    return f"%{index}{name}: {marker}{type_text(tensor)}"


def _operator_text(subgraph: Subgraph, operator: Operator) -> str:
    results = ", ".join(_declaration(subgraph, tensor) for tensor in operator.outputs)
    options = ", ".join(f"{key}: {text}" for key, text in option_texts(operator).items())
    version = f" v{operator.version}" if operator.version != 1 else ""
    call = f"{_printable(operator.name)}{version}({_references(operator.inputs)})"
    return (f"{results} = " if results else "") + call + (f" {{{options}}}" if options else "")


def _references(tensors: Sequence[int]) -> str:
    return ", ".join("none" if tensor == ABSENT else f"%{tensor}" for tensor in tensors)


def _is_default(option: Field[object], value: object) -> bool:
    default = option.default if option.default_factory is MISSING else option.default_factory()
    return type(default) is type(value) and default == value


def _callee_text(value: object) -> str:
    return f"[{', '.join(map(_callee_text, value))}]" if isinstance(value, tuple) else f"@{value}"


def _quantization_notes(quantization: Quantization) -> Iterator[str]:
    if quantization.blockwise is not None:
        yield f"block_size: {quantization.blockwise.block_size}"
        yield f"scales: {_references([quantization.blockwise.scales])}"
        yield f"zero_points: {_references([quantization.blockwise.zero_points])}"
    elif quantization.per_axis:
        yield f"axis: {quantization.axis}"
        yield f"scales: {_sequence_text(quantization.scales)}"
        if any(quantization.zero_points):
            yield f"zero_points: {_sequence_text(quantization.zero_points)}"
    elif quantization.scales:
        yield f"scale: {_value_text(quantization.scales[0])}"
        yield f"zero_point: {quantization.zero_point}"
    elif quantization.minimum or quantization.maximum:
        yield f"minimum: {_sequence_text(quantization.minimum)}"
        yield f"maximum: {_sequence_text(quantization.maximum)}"


def _constant_text(tensor: Tensor, data: Array) -> str:
    if tensor.sparsity is not None or not tensor.dtype.is_computable:
        return _bytes_text(data.tobytes())
    if data.ndim == 0:
        return _value_text(data[()])
    flat = data.reshape(-1)
    if flat.size <= SHOWN:
        return _sequence_text(list(flat))
    content = repr(flat.tolist()).encode() if data.dtype.hasobject else np.ascontiguousarray(flat).data
    return _elided(flat[:FIRST], content)


def _sequence_text(values: Sequence[object]) -> str:
    if len(values) > SHOWN:
        return _elided(values[:FIRST], repr(tuple(values)).encode())
    return f"[{', '.join(map(_value_text, values))}]"


def _elided(first: Iterable[object], content: bytes | memoryview) -> str:
    return f"[{', '.join(map(_value_text, first))}, ... {_digest(content)}]"


@np.errstate(over="ignore")
def _value_text(value: object) -> str:
    """A value of an option or an element: enumerations by name, float32 values by the fewest digits that tell them,
    options within options without those that are as by default."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, (bool, np.bool_)):
        return str(value).lower()
    if isinstance(value, float) and float(np.float32(value)) == value:
        return str(np.float32(value))
    if isinstance(value, np.generic):
        return str(value)
    if isinstance(value, bytes):
        return _bytes_text(value)
    if is_dataclass(value):
        own = (f"{each.name}: {_value_text(getattr(value, each.name))}" for each in fields(value)
               if not _is_default(each, getattr(value, each.name)))
        return f"{value.name if isinstance(value, Op) else ''}({', '.join(own)})"
    return _sequence_text(value) if isinstance(value, tuple) else repr(value)


def _bytes_text(value: bytes) -> str:
    return repr(value) if len(value) <= SHOWN_BYTES else f"{len(value)} bytes {_digest(value)}"


def _digest(content: bytes | memoryview) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()[:12]}"


def _printable(name: str) -> str:
    return name if name.isprintable() else repr(name)


def _name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else repr(name)
