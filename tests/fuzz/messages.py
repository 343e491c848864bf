"""Changes ONNX models as trees of messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper

from tests.fuzz import boundary

RANGES = {"int32": (-(1 << 31), (1 << 31) - 1), "int64": (-(1 << 63), (1 << 63) - 1), "uint64": (0, (1 << 64) - 1),
          "uint32": (0, (1 << 32) - 1)}
TYPES = {1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 8: "bool", 9: "string", 11: "message",
         12: "bytes", 13: "uint32", 14: "int32"}
"""Of protobuf's fields that ONNX uses, by number."""
NUMBERS = (TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT32,
           TensorProto.INT64, TensorProto.INT64, TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16,
           TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64, TensorProto.BOOL, TensorProto.STRING,
           TensorProto.BFLOAT16, TensorProto.COMPLEX64, TensorProto.INT4)


@dataclass(frozen=True)
class Site:
    """A field that a message holds."""

    message: Any
    field: Any
    """Its descriptor."""

    @property
    def is_message(self) -> bool:
        return bool(self.field.message_type)


def sites(message: Any) -> Iterator[Site]:
    """All fields that are set, of a message and of those in it."""
    for field, value in message.ListFields():
        yield Site(message, field)
        if field.message_type:
            for each in value if field.is_repeated else (value,):
                yield from sites(each)


def graphs(model: Any) -> Iterator[Any]:
    """The graph, the graphs in it, and the functions, which have nodes too."""
    stack = [model.graph, *model.functions]
    while stack:
        graph = stack.pop()
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                stack += [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs


AREAS = {"AttributeProto": 4, "NodeProto": 3, "ValueInfoProto": 0.5, "TypeProto": 0.5, "Tensor": 1, "Dimension": 2,
         "TensorShapeProto": 1.5, "TensorProto": 2, "GraphProto": 1.5, "ModelProto": 0.3, "OperatorSetIdProto": 0.5,
         "FunctionProto": 1, "StringStringEntryProto": 0.05}


def change_field(model: Any, r: Random) -> None:
    """Gives one field another value."""
    areas: dict[str, list[Site]] = {}
    for site in sites(model):
        areas.setdefault(site.message.DESCRIPTOR.name, []).append(site)
    names = list(areas)
    change(r.choice(areas[r.choices(names, [AREAS.get(name, 1) for name in names])[0]]), r)


def change(site: Site, r: Random) -> None:
    message, field = site.message, site.field
    if r.random() < 0.07:
        message.ClearField(field.name)
    elif field.is_repeated:
        change_repeated(getattr(message, field.name), site, r)
    elif not site.is_message:
        assign(message, field, value(r, field, getattr(message, field.name)))
    elif r.random() < 0.3:
        unset = [each for each in message.DESCRIPTOR.fields if not each.is_repeated and not each.message_type]
        if unset:
            chosen = r.choice(unset)
            assign(message, chosen, value(r, chosen, getattr(message, chosen.name)))


def assign(message: Any, field: Any, new: Any) -> None:
    """Sets a field that is not repeated."""
    message.MergeFrom(type(message)(**{field.name: new}))


def value(r: Random, field: Any, now: Any) -> Any:
    kind = TYPES.get(field.type, "")
    if field.enum_type:
        return r.choice(list(field.enum_type.values_by_number))
    if kind in RANGES:
        return boundary.integer(r, int(now), *RANGES[kind])
    if kind in ("float", "double"):
        found = boundary.number(r, float(now))
        return found if kind == "double" or abs(found) < 3e38 else float("inf")
    if kind == "bool":
        return not now
    text = r.choice((*boundary.TEXTS, "relu", "linear", "constant", "SAME_UPPER", "nearest"))
    return text.encode() if kind == "bytes" else text


def change_repeated(values: Any, site: Site, r: Random) -> None:
    if not len(values):
        return
    k, how = r.randrange(len(values)), r.random()
    if how < 0.25:
        del values[k]
    elif how < 0.4:
        if site.is_message:
            values.add().CopyFrom(values[k])
        else:
            values.append(values[k])
    elif site.is_message:
        other = r.randrange(len(values))
        kept = type(values[k])()
        kept.CopyFrom(values[k])
        values[k].CopyFrom(values[other])
        values[other].CopyFrom(kept)
    elif how < 0.6:
        values[k] = values[r.randrange(len(values))]
    else:
        values[k] = value(r, site.field, values[k])


def change_attribute(model: Any, r: Random) -> None:
    """Changes an attribute of a node: its values, or that it is there."""
    attributes = [(node, each) for graph in graphs(model) for node in graph.node for each in node.attribute]
    if not attributes:
        return
    node, attribute = r.choice(attributes)
    if r.random() < 0.1:
        node.attribute.remove(attribute)
        return
    chosen = [site for site in sites(attribute) if site.field.name not in ("name", "type", "ref_attr_name")]
    if chosen:
        change(r.choice(chosen), r)


def exchange_operator(model: Any, r: Random, operators: Sequence[str]) -> None:
    """Makes a node another operator."""
    nodes = [node for graph in graphs(model) for node in graph.node]
    if nodes:
        node = r.choice(nodes)
        node.op_type = r.choice(operators)
        if r.random() < 0.5:
            del node.attribute[:]


def change_opset(model: Any, r: Random) -> None:
    """Has the model mean an older or a newer set of operators."""
    if len(model.opset_import):
        r.choice(model.opset_import).version = r.choice((1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 19, 21, 23, 99))


def tensors(model: Any) -> list[Any]:
    """The constants: initialisers, and attributes that are tensors."""
    return [each for graph in graphs(model)
            for each in (*getattr(graph, "initializer", ()),
                         *(attribute.t for node in graph.node for attribute in node.attribute
                           if attribute.type == AttributeProto.TENSOR))]


def declared(model: Any) -> list[Any]:
    """The types of inputs, outputs and values that are tensors."""
    return [each.type.tensor_type for graph in graphs(model) if hasattr(graph, "initializer")
            for each in (*graph.input, *graph.output, *graph.value_info) if each.type.HasField("tensor_type")]


def retype(model: Any, r: Random) -> None:
    """Makes all values of an element type such of another; constants keep their numbers."""
    types, constants = declared(model), tensors(model)
    if not types:
        return
    old, new = r.choice(types).elem_type, r.choice(NUMBERS)
    for each in types:
        if each.elem_type == old:
            each.elem_type = new
    for each in constants:
        if each.data_type == old and r.random() < 0.9:
            array = to_array(each)
            if array is not None and array.dtype.kind in "biuf" and new not in _UNUSUAL:
                with np.errstate(all="ignore"):
                    changed = array.astype(helper.tensor_dtype_to_np_dtype(new))
                each.CopyFrom(numpy_helper.from_array(changed, each.name))


_UNUSUAL = (TensorProto.STRING, TensorProto.BFLOAT16, TensorProto.INT4)


def to_array(tensor: Any) -> Any:
    """The value of a constant; None where it has none."""
    try:
        return numpy_helper.to_array(tensor)
    except Exception:
        return None


def resize(model: Any, r: Random) -> None:
    """Gives all dimensions of one length another; constants are repeated or cut."""
    types, constants = declared(model), tensors(model)
    dims = [dim for each in types for dim in each.shape.dim if dim.HasField("dim_value")]
    if not dims:
        return
    old, new = r.choice(dims).dim_value, r.choice(boundary.LENGTHS)
    for dim in dims if r.random() < 0.8 else [r.choice(dims)]:
        if dim.dim_value == old:
            dim.dim_value = new
    for each in constants:
        array = to_array(each) if old in each.dims else None
        shape = [new if size == old else size for size in each.dims]
        if array is not None and array.dtype.kind in "biufc" and 0 <= np.prod(shape, dtype=np.float64) <= 20_000:
            each.CopyFrom(numpy_helper.from_array(np.resize(array, shape), each.name))


def change_data(model: Any, r: Random) -> None:
    """Changes an element of a constant."""
    constants = tensors(model)
    if not constants:
        return
    tensor = r.choice(constants)
    array = to_array(tensor)
    if array is None or array.dtype.kind not in "iuf" or not array.size:
        return
    changed = array.copy().reshape(-1)
    k = r.randrange(array.size)
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        changed[k] = boundary.integer(r, int(changed[k]), int(limits.min), int(limits.max))
    else:
        changed[k] = boundary.edge(r, changed.dtype)
    tensor.CopyFrom(numpy_helper.from_array(changed.reshape(array.shape), tensor.name))


def open_lengths(model: Any, r: Random) -> None:
    """Declares dimensions, or shapes, as not known."""
    for each in declared(model):
        if r.random() < 0.6:
            if r.random() < 0.3:
                each.ClearField("shape")
            for k, dim in enumerate(each.shape.dim):
                if r.random() < 0.6:
                    dim.dim_param = f"n{k}"


def feed(model: Any, r: Random) -> None:
    """Makes a constant an input, or an input a constant."""
    graph = model.graph
    if len(graph.initializer) and r.random() < 0.5:
        chosen = graph.initializer[r.randrange(len(graph.initializer))]
        if chosen.name not in [each.name for each in graph.input]:
            graph.input.append(helper.make_tensor_value_info(chosen.name, chosen.data_type, chosen.dims))
        graph.initializer.remove(chosen)
    elif len(graph.input):
        chosen = graph.input[r.randrange(len(graph.input))]
        type = chosen.type.tensor_type
        shape = [dim.dim_value for dim in type.shape.dim]
        try:
            dtype = helper.tensor_dtype_to_np_dtype(type.elem_type)
        except KeyError:
            return
        if dtype.kind in "biuf" and 0 <= np.prod(shape, dtype=np.float64) <= 20_000 and min(shape, default=0) >= 0:
            graph.initializer.append(numpy_helper.from_array(boundary.values(r, dtype, shape), chosen.name))
            graph.input.remove(chosen)


def rewire(model: Any, r: Random) -> None:
    """Has a node take or give another value, or the graph return another one."""
    graph = r.choice(list(graphs(model)))
    names = sorted({name for node in graph.node for name in (*node.input, *node.output)} | {""})
    if not len(graph.node):
        return
    node = r.choice(graph.node)
    if r.random() < 0.2 and hasattr(graph, "initializer") and len(graph.output):
        made = r.choice([each for node in graph.node for each in node.output] or [""])
        output = r.choice(graph.output)
        output.name = made
        if r.random() < 0.7:
            output.ClearField("type")
            output.type.tensor_type.elem_type = r.choice(NUMBERS)
        return
    values = node.input if r.random() < 0.85 else node.output
    if len(values) and r.random() < 0.8:
        values[r.randrange(len(values))] = r.choice(names)
    else:
        values.append(r.choice(names))


CHANGES: Sequence[tuple[Callable[[Any, Random], None], float]] = (
    (change_attribute, 6), (change_field, 5), (change_data, 3), (retype, 2.5), (resize, 3), (rewire, 2), (feed, 1.5),
    (open_lengths, 1), (change_opset, 1),
)
EXCHANGES, SPLICES = 0.08, 0.05
"""The shares of changes that make an operator another one, and that take a node of another model."""


def tree(stored: bytes) -> Any:
    return ModelProto.FromString(stored)


def write(model: Any) -> bytes:
    return bytes(model.SerializeToString(deterministic=True))


def mutate(model: Any, r: Random, other: Callable[[], Any], operators: Sequence[str]) -> None:
    """Makes one change."""
    how = r.random()
    if how < EXCHANGES:
        exchange_operator(model, r, operators)
    elif how < EXCHANGES + SPLICES:
        theirs = [node for graph in graphs(other()) for node in graph.node]
        mine = r.choice(list(graphs(model)))
        if theirs:
            mine.node.insert(r.randrange(len(mine.node) + 1), r.choice(theirs))
    else:
        makers, weights = zip(*CHANGES, strict=True)
        r.choices(makers, weights)[0](model, r)


def reductions(model: Any) -> Iterator[tuple[Any, int]]:
    """What can be taken out of a model to make it smaller: elements of repeated fields."""
    for name in ("functions", "metadata_props"):
        yield from ((getattr(model, name), k) for k in range(len(getattr(model, name))))
    for graph in graphs(model):
        for name in ("node", "output", "input", "initializer", "value_info", "sparse_initializer"):
            values = getattr(graph, name, ())
            yield from ((values, k) for k in range(len(values)))
        for node in graph.node:
            yield from ((node.attribute, k) for k in range(len(node.attribute)))
