"""Changes `.tflite` and `.circle` files as trees of tables."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

import numpy as np

from circlet.runtime.ir.types import DType
from circlet.runtime.ops.registry import OPERATORS
from circlet.schema.circle import CIRCLE
from circlet.schema.document import Chunk, Member
from circlet.schema.flatbuffer import Content, Table
from circlet.schema.format import OPTIONS_UNIONS, Format
from circlet.schema.layout import Field, Kind
from circlet.schema.packer import pack
from circlet.schema.tflite import TFLITE
from tests.fuzz import boundary

Fields: TypeAlias = "dict[str, Any]"
"""A table: scalars, texts, lists, tables, and members of unions as `Member`s."""
UNIONS: Mapping[str, str] = {**OPTIONS_UNIONS, "details": "QuantizationDetails", "array_segments": "SparseIndexVector",
                             "array_indices": "SparseIndexVector"}
RANGES = {"b": (-128, 127), "B": (0, 255), "h": (-(1 << 15), (1 << 15) - 1), "H": (0, (1 << 16) - 1),
          "i": (-(1 << 31), (1 << 31) - 1), "I": (0, (1 << 32) - 1), "q": (-(1 << 63), (1 << 63) - 1),
          "Q": (0, (1 << 64) - 1), "?": (0, 1)}
MOST_ELEMENTS = 20_000
"""Constants do not become larger."""


@dataclass(frozen=True, eq=False)
class Tree:
    """A model file as nested tables."""

    format: Format
    root: Fields

    @property
    def subgraphs(self) -> list[Fields]:
        return self.root.get("subgraphs") or []

    def tensors(self) -> Iterator[Fields]:
        for subgraph in self.subgraphs:
            yield from subgraph.get("tensors") or ()

    def buffer(self, tensor: Fields) -> Fields | None:
        """Where the data of a constant are."""
        number, buffers = tensor.get("buffer", 0), self.root.get("buffers") or []
        return buffers[number] if 0 < number < len(buffers) and buffers[number].get("data") else None


def read(content: bytes) -> bytes:
    """A file as a tree, in a form of which copies are quickly made."""
    format = TFLITE if content[4:8] == TFLITE.identifier else CIRCLE
    return pickle.dumps((format.name, _fields(Content(memoryview(content), format.layouts).root("Model"), format)))


def tree(stored: bytes) -> Tree:
    """A tree of one's own."""
    name, root = pickle.loads(stored)
    return Tree(TFLITE if name == "tflite" else CIRCLE, root)


def write(tree: Tree) -> bytes:
    """The file of a tree."""
    return b"".join(pack("Model", _packable(tree.root), tree.format))


def _packable(fields: Fields) -> Fields:
    """The data of buffers lie behind the tables, as they do in files."""
    buffers = [{**each, "data": Chunk(np.frombuffer(each["data"], np.uint8))} if each.get("data") else each
               for each in fields.get("buffers") or ()]
    return {**fields, "buffers": buffers}


def _fields(table: Table, format: Format) -> Fields:
    return {name: _value(table, name, field, format) for name, field in table.layout.fields.items()
            if table.has(name) and not (field.kind is Kind.UNION and not table.scalar(f"{name}_type"))}


def _value(table: Table, name: str, field: Field, format: Format) -> Any:
    if field.kind is Kind.TABLE:
        child = table.table(name)
        return None if child is None else _fields(child, format)
    if field.kind is Kind.TABLES:
        return [_fields(each, format) for each in table.tables(name)]
    if field.kind is Kind.UNION:
        kind = format.unions[UNIONS[name]][table.integer(f"{name}_type")]
        member = table.union(name, kind)
        return None if member is None else Member(kind, _fields(member, format))
    found = table.value(name)
    return list(found) if isinstance(found, tuple) else found


@dataclass(frozen=True)
class Site:
    """A field that a table holds, or could."""

    table: str
    fields: Fields
    name: str
    field: Field


def sites(tree: Tree) -> Iterator[Site]:
    """All fields of all tables."""
    yield from _sites("Model", tree.root, tree.format)


def _sites(table: str, fields: Fields, format: Format) -> Iterator[Site]:
    for name, field in format.layouts[table].fields.items():
        yield Site(table, fields, name, field)
        value = fields.get(name)
        if field.kind is Kind.TABLE and value is not None:
            yield from _sites(field.table, value, format)
        elif field.kind is Kind.TABLES:
            for each in value or ():
                yield from _sites(field.table, each, format)
        elif isinstance(value, Member):
            yield from _sites(value.table, dict_of(value), format)


def dict_of(member: Member) -> Fields:
    found = member.document
    assert isinstance(found, dict)
    return found


AREAS: Mapping[str, float] = {"Operator": 2, "Tensor": 3, "SubGraph": 1, "OperatorCode": 1, "Buffer": 0.5,
                              "Model": 0.3, "QuantizationParameters": 1.5, "SignatureDef": 0.2, "TensorMap": 0.2,
                              "Metadata": 0.05}
"""How often each table is changed; options of operators are the rest."""


def change_field(tree: Tree, r: Random) -> None:
    """Gives one field another value."""
    areas: dict[str, list[Site]] = {}
    for site in sites(tree):
        areas.setdefault(site.table, []).append(site)
    names = list(areas)
    site = r.choice(areas[r.choices(names, [AREAS.get(name, 4) for name in names])[0]])
    if site.name not in site.fields and r.random() < 0.5:
        held = [each for each in areas[site.table] if each.name in each.fields]
        site = r.choice(held) if held else site
    change(tree, site, r)


def change(tree: Tree, site: Site, r: Random) -> None:
    """Gives a field another value."""
    kind, fields, name = site.field.kind, site.fields, site.name
    if r.random() < 0.05:
        fields.pop(name, None)
    elif kind is Kind.SCALAR:
        fields[name] = scalar(r, site.field.code, fields.get(name, site.field.default))
    elif kind is Kind.STRING:
        fields[name] = r.choice(boundary.TEXTS)
    elif kind is Kind.VECTOR:
        fields[name] = vector(r, site.field.code, fields.get(name) or (b"" if site.field.code == "B" else []))
    elif kind is Kind.TABLES:
        fields[name] = rearranged(r, fields.get(name) or [])
    elif kind is Kind.TABLE and name not in fields:
        fields[name] = {}
    elif kind is Kind.UNION:
        replace_union(tree, site, r)


def scalar(r: Random, code: str, value: Any) -> Any:
    if code in "fd":
        found = boundary.number(r, float(value))
        return float(np.float32(found)) if code == "f" and abs(found) < 3e38 else found if code == "d" else np.inf
    if code == "?":
        return not value
    return boundary.integer(r, int(value), *RANGES[code])


def vector(r: Random, code: str, values: Any) -> Any:
    if isinstance(values, bytes):
        return changed_bytes(r, values)
    items, how = list(values), r.random()
    if not items or how < 0.15:
        items.insert(r.randrange(len(items) + 1), scalar(r, code, items[0] if items else 0))
    elif how < 0.3:
        del items[r.randrange(len(items))]
    elif how < 0.4:
        items[r.randrange(len(items))] = r.choice(items)
    elif how < 0.45:
        items.clear()
    elif how < 0.5:
        r.shuffle(items)
    else:
        index = r.randrange(len(items))
        items[index] = scalar(r, code, items[index])
    return items


def changed_bytes(r: Random, data: bytes) -> bytes:
    if not data or r.random() < 0.1:
        return data + bytes(r.choice((1, 2, 4, 8)))
    if r.random() < 0.1:
        return data[:r.randrange(len(data))]
    found, width = bytearray(data), r.choice((1, 1, 2, 4, 8))
    start = r.randrange(max(len(data) - width + 1, 1)) // width * width
    filler = r.choice((b"\0", b"\xff", b"\x80", b"\x7f", bytes([r.randrange(256)])))
    found[start:start + width] = (filler * width)[:len(found[start:start + width])]
    return bytes(found)


def rearranged(r: Random, items: list[Any]) -> list[Any]:
    """Tables with one gone, twice there, empty or in another place."""
    found, how = list(items), r.random()
    if not found:
        return [{}]
    k = r.randrange(len(found))
    if how < 0.35:
        del found[k]
    elif how < 0.65:
        found.insert(r.randrange(len(found) + 1), pickle.loads(pickle.dumps(found[k])))
    elif how < 0.75:
        found.append({})
    else:
        other = r.randrange(len(found))
        found[k], found[other] = found[other], found[k]
    return found


def replace_union(tree: Tree, site: Site, r: Random) -> None:
    """Puts another member, without any field, into a union."""
    tag, table = r.choice(sorted(tree.format.unions[UNIONS[site.name]].items()))
    site.fields[site.name], site.fields[f"{site.name}_type"] = Member(table, {}), tag


def change_options(tree: Tree, r: Random) -> None:
    """Changes a field of an operator's options."""
    members = [member for member in _members(tree) if tree.format.layouts[member.table].fields]
    if members:
        member = r.choice(members)
        name, field = r.choice(list(tree.format.layouts[member.table].fields.items()))
        change(tree, Site(member.table, dict_of(member), name, field), r)


def _members(tree: Tree) -> Iterator[Member]:
    for subgraph in tree.subgraphs:
        for operator in subgraph.get("operators") or ():
            yield from (each for each in operator.values() if isinstance(each, Member))


def exchange_operator(tree: Tree, r: Random) -> None:
    """Makes an operator another one, mostly of the same family."""
    codes = tree.root.get("operator_codes") or []
    if not codes:
        return
    code = r.choice(codes)
    name = tree.format.code_names.get(tree.format.effective_code(
        code.get("builtin_code", 0), code.get("deprecated_builtin_code", 0)), "")
    now = OPERATORS.get(name)
    family = [each.name for each in OPERATORS.values() if now is not None and each.__module__ == now.__module__]
    chosen = r.choice(family if family and r.random() < 0.8 else sorted(OPERATORS))
    if chosen in tree.format.codes:
        code["builtin_code"], code["deprecated_builtin_code"] = tree.format.stored_code(tree.format.codes[chosen])
        if r.random() < 0.7:
            _drop_options(tree, codes.index(code))


def _drop_options(tree: Tree, index: int) -> None:
    for subgraph in tree.subgraphs:
        for operator in subgraph.get("operators") or ():
            if operator.get("opcode_index", 0) == index:
                for name in OPTIONS_UNIONS:
                    operator.pop(name, None)
                    operator.pop(f"{name}_type", None)


def retype(tree: Tree, r: Random) -> None:
    """Makes all tensors of an element type such of another, or one of them; constants keep their values."""
    tensors = list(tree.tensors())
    if not tensors:
        return
    numbers = tree.format.dtypes
    old = r.choice(tensors).get("type", 0)
    new = r.choice([number for number, each in numbers.items() if each.is_computable] if r.random() < 0.9
                   else sorted(numbers))
    chosen = [each for each in tensors if each.get("type", 0) == old]
    for each in chosen if r.random() < 0.8 else [r.choice(chosen)]:
        each["type"] = new
        buffer = tree.buffer(each)
        if buffer is not None and all(each in numbers and numbers[each].numpy.kind in "biuf" for each in (old, new)):
            with np.errstate(all="ignore"):
                data = np.frombuffer(buffer["data"][:len(buffer["data"]) // numbers[old].numpy.itemsize
                                                    * numbers[old].numpy.itemsize], numbers[old].numpy)
                buffer["data"] = data.astype(numbers[new].numpy).tobytes()


def resize(tree: Tree, r: Random) -> None:
    """Gives all dimensions of one length another; constants are repeated or cut."""
    shapes = [each for each in tree.tensors() if each.get("shape")]
    if not shapes:
        return
    old, new = r.choice(r.choice(shapes)["shape"]), r.choice(boundary.LENGTHS)
    for tensor in shapes if r.random() < 0.8 else [r.choice(shapes)]:
        buffer, before = tree.buffer(tensor), list(tensor["shape"])
        tensor["shape"] = [new if each == old else each for each in before]
        if tensor.get("shape_signature"):
            tensor["shape_signature"] = [new if each == old else each for each in tensor["shape_signature"]]
        if buffer is not None:
            _resize_buffer(tree, tensor, buffer, old, new, r)


def _resize_buffer(tree: Tree, tensor: Fields, buffer: Fields, old: int, new: int, r: Random) -> None:
    dtype = tree.format.dtypes.get(tensor.get("type", 0), DType.STRING)
    size = int(np.prod(tensor["shape"], dtype=np.float64))
    if dtype.numpy.kind not in "biufc" or not 0 <= size <= MOST_ELEMENTS or len(buffer["data"]) % dtype.numpy.itemsize:
        return
    data = np.frombuffer(buffer["data"], dtype.numpy)
    if dtype in (DType.INT32, DType.INT64) and r.random() < 0.5:
        data = np.where(data == old, np.array(new, data.dtype), data)
    buffer["data"] = np.resize(data, size).tobytes()


def change_data(tree: Tree, r: Random) -> None:
    """Changes elements of a constant."""
    chosen = [(each, buffer) for each in tree.tensors() if (buffer := tree.buffer(each)) is not None]
    if not chosen:
        return
    tensor, buffer = r.choice(chosen)
    dtype, data = tree.format.dtypes.get(tensor.get("type", 0), DType.STRING), buffer["data"]
    if dtype.numpy.kind not in "iuf" or len(data) % dtype.numpy.itemsize or r.random() < 0.1:
        buffer["data"] = changed_bytes(r, data)
        return
    array = np.frombuffer(data, dtype.numpy).copy()
    index = r.randrange(array.size)
    if dtype.numpy.kind in "iu" and r.random() < 0.6:
        limits = np.iinfo(array.dtype)
        array[index] = boundary.integer(r, int(array[index]), int(limits.min), int(limits.max))
    else:
        array[index] = boundary.edge(r, array.dtype)
    buffer["data"] = array.tobytes()


def open_lengths(tree: Tree, r: Random) -> None:
    """Declares dimensions, or ranks, as not known."""
    for tensor in tree.tensors():
        if tensor.get("shape") and r.random() < 0.6 and tree.buffer(tensor) is None:
            tensor["shape_signature"] = [-1 if r.random() < 0.6 else each for each in tensor["shape"]]
            if r.random() < 0.5:
                tensor["shape"] = [1 if each < 0 else each for each in tensor["shape_signature"]]


def feed(tree: Tree, r: Random) -> None:
    """Makes a constant an input, or an input a constant."""
    subgraph = r.choice(tree.subgraphs or [{}])
    tensors = subgraph.get("tensors") or []
    inputs = list(subgraph.get("inputs") or [])
    constants = [k for k, each in enumerate(tensors) if tree.buffer(each) is not None]
    if constants and r.random() < 0.7:
        chosen = r.choice(constants)
        tensors[chosen]["buffer"] = 0
        inputs.append(chosen)
    elif inputs:
        chosen = inputs.pop(r.randrange(len(inputs)))
        has_tensor = -len(tensors) <= chosen < len(tensors)
        dtype = tree.format.dtypes.get(tensors[chosen].get("type", 0), DType.STRING) if has_tensor else None
        shape = [max(each, 0) for each in tensors[chosen].get("shape") or []] if dtype else []
        if dtype is not None and dtype.numpy.kind in "biuf" and np.prod(shape, dtype=np.float64) <= MOST_ELEMENTS:
            tree.root.setdefault("buffers", [{}]).append({"data": boundary.values(r, dtype.numpy, shape).tobytes()})
            tensors[chosen]["buffer"] = len(tree.root["buffers"]) - 1
    subgraph["inputs"] = inputs
    tree.root.pop("signature_defs", None)


def rewire(tree: Tree, r: Random) -> None:
    """Has an operator take another tensor, or a subgraph return another one."""
    subgraph = r.choice(tree.subgraphs or [{}])
    tensors, operators = subgraph.get("tensors") or [], subgraph.get("operators") or []
    if not tensors:
        return
    places = [*((each, name) for each in operators for name in ("inputs", "inputs", "inputs", "outputs")),
              (subgraph, "outputs"), (subgraph, "outputs"), (subgraph, "inputs")]
    holder, name = r.choice(places)
    values = list(holder.get(name) or [])
    new = -1 if holder is not subgraph and r.random() < 0.1 else r.randrange(len(tensors))
    if values and r.random() < 0.8:
        values[r.randrange(len(values))] = new
    else:
        values.append(new)
    holder[name] = values


def quantize(tree: Tree, r: Random) -> None:
    """Gives a tensor a quantisation with numbers at the edges."""
    tensors = list(tree.tensors())
    if tensors:
        held = [each for each in tensors if each.get("quantization")]
        chosen = r.choice(held if held and r.random() < 0.8 else tensors)
        scales = [r.choice((1.0, 0.5, 1 / 256, 0.0078125, 1e-6, 1e6, 0.1, 0.0, 1e-30, 1e30))
                  for _ in range(r.choice((1, 1, 1, 2, 3)))]
        chosen["quantization"] = {"scale": scales, "zero_point": [r.choice((0, 0, 1, -1, 127, -128, 128, 255, 3))
                                                                   for _ in scales],
                                  "quantized_dimension": r.choice((0, 0, 1, 3, -1))}


def splice(tree: Tree, other: Tree, r: Random) -> None:
    """Puts a table of another model, of the same kind, in the place of one of this."""
    mine = [site for site in sites(tree) if site.field.kind in (Kind.TABLES, Kind.UNION) and site.fields.get(site.name)]
    if not mine:
        return
    site = r.choice(mine)
    theirs = [each.fields[each.name] for each in sites(other)
              if (each.table, each.name) == (site.table, site.name) and each.fields.get(each.name)]
    if not theirs or tree.format is not other.format:
        return
    found = r.choice(theirs)
    if site.field.kind is Kind.UNION:
        tag = tree.format.tag(UNIONS[site.name], found.table)
        site.fields[site.name], site.fields[f"{site.name}_type"] = found, tag
    elif r.random() < 0.5:
        site.fields[site.name][r.randrange(len(site.fields[site.name]))] = r.choice(found)
    else:
        site.fields[site.name] = [*site.fields[site.name], r.choice(found)]


CHANGES: Sequence[tuple[Callable[[Tree, Random], None], float]] = (
    (change_options, 5), (change_field, 5), (change_data, 4), (retype, 3), (resize, 4), (exchange_operator, 3),
    (rewire, 2), (feed, 1.5), (open_lengths, 1), (quantize, 1),
)
SPLICES = 0.06
"""The share of changes that take a part of another model."""


def mutate(tree: Tree, r: Random, other: Callable[[], Tree]) -> None:
    """Makes one change."""
    if r.random() < SPLICES:
        splice(tree, other(), r)
        return
    makers, weights = zip(*CHANGES, strict=True)
    r.choices(makers, weights)[0](tree, r)


def reductions(tree: Tree) -> Iterator[tuple[list[Any], int]]:
    """What can be taken out of a tree to make it smaller: elements of lists."""
    for name in ("signature_defs", "metadata"):
        yield from ((tree.root[name], k) for k in range(len(tree.root.get(name) or ())))
    for subgraph in tree.subgraphs:
        for name in ("operators", "outputs", "inputs"):
            yield from ((subgraph[name], k) for k in range(len(subgraph.get(name) or ())))
