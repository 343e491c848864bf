"""Changes OpenVINO IR as a tree of elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from tests.fuzz import boundary

TYPES = ("f32", "f16", "f64", "bf16", "i32", "i64", "i8", "u8", "i16", "u16", "u32", "u64", "boolean", "string", "u1",
         "i4", "dynamic", "undefined")


@dataclass(frozen=True)
class Vocabulary:
    """What attributes are, and what layers there are, in all models."""

    values: Mapping[str, Sequence[str]]
    """By the name of the attribute."""
    layers: Sequence[tuple[str, str]]
    """Type and opset."""


def vocabulary(contents: Iterator[bytes]) -> Vocabulary:
    values: dict[str, set[str]] = {}
    layers: set[tuple[str, str]] = set()
    for content in contents:
        for element in ElementTree.fromstring(content).iter():
            if element.tag == "layer":
                layers.add((element.get("type", ""), element.get("version", "")))
            if element.tag != "rt_info":
                for name, value in element.items():
                    values.setdefault(name, set()).add(value)
    return Vocabulary({name: sorted(each)[:200] for name, each in values.items()}, sorted(layers))


def tree(stored: bytes) -> Element:
    return ElementTree.fromstring(stored)


def write(root: Element) -> bytes:
    return ElementTree.tostring(root)


def _parents(root: Element) -> list[tuple[Element, int]]:
    """Every element but the root, as a place in its parent."""
    return [(parent, k) for parent in root.iter() for k in range(len(parent))]


def change_attribute(root: Element, r: Random, words: Vocabulary) -> None:
    """Changes an attribute, mostly of the options of a layer."""
    found = [each for each in root.iter("data") if each.attrib] if r.random() < 0.6 else \
        [each for each in root.iter() if each.attrib]
    if not found:
        return
    element = r.choice(found)
    name = r.choice(sorted(element.attrib))
    how = r.random()
    if how < 0.07:
        del element.attrib[name]
    elif how < 0.45:
        element.set(name, r.choice(words.values.get(name, boundary.TEXTS)))
    else:
        element.set(name, _text(r, element.get(name, "")))


def _text(r: Random, text: str) -> str:
    """A text with one number in it changed, or another text."""
    parts = text.split(",")
    k = r.randrange(len(parts))
    how = r.random()
    if how < 0.1:
        return r.choice((*boundary.TEXTS, "1.5", "nan", "inf", "1e999", "true", "?", "0..5", "99999999999999999999"))
    if how < 0.2:
        del parts[k]
    elif how < 0.3:
        parts.insert(k, parts[k])
    else:
        parts[k] = _number(r, parts[k].strip())
    return ",".join(parts)


def _number(r: Random, text: str) -> str:
    try:
        return str(boundary.integer(r, int(text), -(1 << 70), 1 << 70))
    except ValueError:
        pass
    try:
        return repr(boundary.number(r, float(text)))
    except ValueError:
        return r.choice((*boundary.TEXTS, "0", "1", "-1"))


def change_text(root: Element, r: Random, words: Vocabulary) -> None:
    """Changes a dimension of a port."""
    dims = list(root.iter("dim"))
    if dims:
        r.choice(dims).text = r.choice(("0", "1", "2", "3", "-1", "x", "", "99999999999999999999", "4"))


def rearrange(root: Element, r: Random, words: Vocabulary) -> None:
    """Takes an element out, puts it in twice, or exchanges it with another one."""
    places = _parents(root)
    if not places:
        return
    parent, k = r.choice(places)
    how = r.random()
    if how < 0.4:
        del parent[k]
    elif how < 0.65:
        parent.insert(k, parent[k])
    elif how < 0.8:
        other = r.randrange(len(parent))
        parent[k], parent[other] = parent[other], parent[k]
    else:
        holder, other = r.choice(places)
        if parent[k] not in holder.iter() and holder not in parent[k].iter():
            holder[other] = parent[k]


def rewire(root: Element, r: Random, words: Vocabulary) -> None:
    """Has an edge begin or end elsewhere."""
    edges = [*root.iter("edge"), *(each for tag in ("input", "output") for each in root.iter(tag) if each.attrib)]
    if edges:
        edge, other = r.choice(edges), r.choice(edges)
        name = r.choice(sorted(edge.attrib) or ["axis"])
        edge.set(name, other.get(name, str(r.randrange(6))))


def retype(root: Element, r: Random, words: Vocabulary) -> None:
    """Gives all that have one element type another."""
    found = [each.get("element_type", "") for each in root.iter("data") if each.get("element_type")]
    if not found:
        return
    old, new = r.choice(found), r.choice(TYPES)
    for each in root.iter():
        for name, value in each.items():
            if value == old and r.random() < 0.95:
                each.set(name, new)


def resize(root: Element, r: Random, words: Vocabulary) -> None:
    """Gives all dimensions of one length another."""
    dims = [each for each in root.iter("dim") if each.text]
    if not dims:
        return
    old, new = r.choice(dims).text or "1", r.choice((*map(str, boundary.LENGTHS), "-1"))
    for each in dims:
        if each.text == old:
            each.text = new
    for each in root.iter("data"):
        if "shape" in each.attrib and "offset" not in each.attrib:
            each.set("shape", ",".join(new.replace("-1", "?") if part.strip() == old else part.strip()
                                       for part in each.get("shape", "").split(",")))


def exchange_layer(root: Element, r: Random, words: Vocabulary) -> None:
    """Makes a layer another one."""
    layers = [each for each in root.iter("layer") if each.get("type") not in ("Parameter", "Result", "Const")]
    if layers:
        layer = r.choice(layers)
        kind, version = r.choice(words.layers)
        layer.set("type", kind)
        layer.set("version", version)


CHANGES: Sequence[tuple[Callable[[Element, Random, Vocabulary], None], float]] = (
    (change_attribute, 8), (rearrange, 3), (rewire, 2), (retype, 2), (resize, 2.5), (exchange_layer, 1.5),
    (change_text, 1),
)
SPLICES = 0.04


def mutate(root: Element, r: Random, other: Callable[[], Element], words: Vocabulary) -> None:
    """Makes one change."""
    if r.random() < SPLICES:
        mine, theirs = list(root.iter("layers")), list(other().iter("layer"))
        if mine and theirs:
            r.choice(mine).append(r.choice(theirs))
        return
    makers, weights = zip(*CHANGES, strict=True)
    r.choices(makers, weights)[0](root, r, words)


def changed_weights(r: Random, weights: bytes | None) -> bytes | None:
    """The constants with some bytes changed, or cut short."""
    if not weights or r.random() < 0.85:
        return weights
    if r.random() < 0.2:
        return weights[:r.randrange(len(weights))]
    found = bytearray(weights)
    start = r.randrange(len(found)) // 4 * 4
    filler: Any = r.choice((b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\x80\x7f", b"\x01\0\0\0", b"\0\0\0\x80"))
    found[start:start + 4] = filler
    return bytes(found)


def reductions(root: Element) -> Iterator[tuple[Element, int]]:
    """What can be taken out of a tree to make it smaller: elements."""
    yield from ((parent, k) for parent, k in _parents(root) if parent[k].tag != "port")
