"""What two models differ in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from circlet.runtime.ir.model import Model, Signature, Subgraph
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.text import option_texts, type_text
from circlet.runtime.ir.types import Array
from circlet.tools.inspection.matching import Matching, matched_operators, matched_subgraphs
from circlet.tools.tables import plain


@dataclass(frozen=True)
class Difference:
    """Something that one model has and the other has not, or has otherwise."""

    kind: str
    """`model`, `signature`, `subgraph`, `operator`, `tensor` or `constant`."""
    place: str
    """In the first model, or in the second where only that has it: `@0[3] ADD`."""
    text: str
    largest: float | None = None
    """Of constants, the largest magnitude of a difference of two elements; NaN counts as infinitely far."""


def differences_of(one: Model, other: Model) -> list[Difference]:
    """What a second model has otherwise than a first; constants by the size of their differences, largest first."""
    pairs, only_one, only_other = matched_subgraphs(one, other)
    found = [*_of_models(one, other), *_of_signatures(one, other)]
    found += [Difference("subgraph", f"@{each} {plain(one.subgraphs[each].name)}", "is gone") for each in only_one]
    found += [Difference("subgraph", f"@{each} {plain(other.subgraphs[each].name)}", "is new") for each in only_other]
    renamed = dict(pairs)
    constants: list[Difference] = []
    for a, b in pairs:
        for each in _of_subgraphs(a, one.subgraphs[a], other.subgraphs[b], renamed):
            (constants if each.kind == "constant" else found).append(each)
    return found + sorted(constants, key=lambda each: -np.inf if each.largest is None else -each.largest)


def _of_models(one: Model, other: Model) -> Iterator[Difference]:
    for name, before, after in (("format", one.format, other.format), ("version", one.version, other.version),
                                ("description", one.description, other.description)):
        if before != after:
            yield Difference("model", name, f"{before!r} became {after!r}")
    for key in sorted({*one.metadata, *other.metadata}):
        if one.metadata.get(key) != other.metadata.get(key):
            yield Difference("model", f"metadata {key!r}", _presence(key in one.metadata, key in other.metadata))


def _presence(before: bool, after: bool) -> str:
    return "differs" if before and after else "is gone" if before else "is new"


def _of_signatures(one: Model, other: Model) -> Iterator[Difference]:
    before, after = ({each.key: each for each in model.signatures} for model in (one, other))
    for key in dict.fromkeys((*before, *after)):
        place = f"signature {plain(key)}"
        if key not in before or key not in after:
            yield Difference("signature", place, _presence(key in before, key in after))
            continue
        for side in ("inputs", "outputs"):
            names, others = (_types(model, found[key], side) for model, found in ((one, before), (other, after)))
            for name in dict.fromkeys((*names, *others)):
                if names.get(name) != others.get(name):
                    yield Difference("signature", f"{place}, {side[:-1]} {plain(name)}",
                                     _change(names.get(name), others.get(name)))


def _types(model: Model, signature: Signature, side: str) -> Mapping[str, str]:
    tensors = model.subgraphs[signature.subgraph].tensors
    return {name: type_text(tensors[each])
            for name, each in (signature.inputs if side == "inputs" else signature.outputs).items()}


def _change(before: str | None, after: str | None) -> str:
    if before is None or after is None:
        return _presence(before is not None, after is not None)
    return f"{before} became {after}"


def _of_subgraphs(index: int, one: Subgraph, other: Subgraph, renamed: Mapping[int, int]) -> Iterator[Difference]:
    place = f"@{index} {plain(one.name)}"
    if one.name != other.name:
        yield Difference("subgraph", place, f"is called {plain(other.name)}")
    found = matched_operators(one, other)
    for side, mine, others in (("input", one.inputs, other.inputs), ("output", one.outputs, other.outputs)):
        if len(mine) != len(others):
            yield Difference("subgraph", place, f"has {len(mine)} {side}s, then {len(others)}")
        for position, (a, b) in enumerate(zip(mine, others, strict=False)):
            if side == "input":
                yield from _of_tensors(f"{place}, input {position}", one.tensors[a], other.tensors[b])
            elif found.tensors.get(a, b) != b:
                yield Difference("subgraph", f"{place}, output {position}", f"is another value, {_name(other, b)}")
    for number in found.only_one:
        yield Difference("operator", f"@{index}[{number}] {plain(one.operators[number].name)}", "is gone")
    for number in found.only_other:
        yield Difference("operator", f"@{index}[{number}] {plain(other.operators[number].name)}",
                         "is new, at this place of the other model")
    for a, b in found.operators.items():
        yield from _of_operators(f"@{index}[{a}] {plain(one.operators[a].name)}", one, other, (a, b), found, renamed)


def _of_operators(place: str, one: Subgraph, other: Subgraph, numbers: tuple[int, int], found: Matching,
                  renamed: Mapping[int, int]) -> Iterator[Difference]:
    before, after = one.operators[numbers[0]], other.operators[numbers[1]]
    if before.name != after.name:
        yield Difference("operator", place, f"became {plain(after.name)}")
    elif before.version != after.version:
        yield Difference("operator", place, f"version {before.version} became {after.version}")
    options, others = option_texts(before), option_texts(after)
    skipped = _callee_options(before.op, after.op, renamed)
    for name in dict.fromkeys((*options, *others)):
        if options.get(name) != others.get(name) and name not in skipped:
            yield Difference("operator", place, f"option {name}: "
                             + f"{options.get(name, 'the default')} became {others.get(name, 'the default')}")
    if len(before.inputs) != len(after.inputs):
        yield Difference("operator", place, f"has {len(before.inputs)} inputs, then {len(after.inputs)}")
    for position, (a, b) in enumerate(zip(before.inputs, after.inputs, strict=False)):
        yield from _of_inputs(f"{place}, input {position}", one, other, (a, b), found)
    for position, (a, b) in enumerate(zip(before.outputs, after.outputs, strict=False)):
        yield from _of_tensors(f"{place}, result {position}", one.tensors[a], other.tensors[b])


def _callee_options(before: Op, after: Op, renamed: Mapping[int, int]) -> frozenset[str]:
    """The options that name the same subgraphs by other indices."""
    calls, others = before.calls(), after.calls()
    if [renamed.get(each.subgraph) for each in calls] != [each.subgraph for each in others]:
        return frozenset()
    return frozenset({*(each.role for each in calls), "subgraph", "init", "decomposition", "branch"})


def _of_inputs(place: str, one: Subgraph, other: Subgraph, tensors: tuple[int, int],
               found: Matching) -> Iterator[Difference]:
    a, b = tensors
    if (a < 0) != (b < 0):
        yield Difference("operator", place, _presence(a >= 0, b >= 0))
    elif a >= 0:
        before, after = one.tensors[a], other.tensors[b]
        if before.data is not None and after.data is not None:
            yield from _of_constants(f"{place} {_name(one, a)}", before, after)
        elif before.is_constant != after.is_constant:
            yield Difference("operator", place, f"{'a constant' if before.is_constant else 'a value'} became "
                             f"{'a constant' if after.is_constant else 'a value'}, {_name(other, b)}")
        elif before.is_variable and after.is_variable:
            yield from _of_tensors(place, before, after)
        elif found.tensors.get(a) != b:
            yield Difference("operator", place, f"reads another value: {_name(one, a)}, then {_name(other, b)}")


def _name(subgraph: Subgraph, tensor: int) -> str:
    return f"%{tensor} {plain(subgraph.tensors[tensor].name)}"


def _of_tensors(place: str, before: Tensor, after: Tensor) -> Iterator[Difference]:
    if before.name != after.name:
        yield Difference("tensor", place, f"{plain(before.name)} is called {plain(after.name)}")
    if type_text(before) != type_text(after):
        yield Difference("tensor", place, f"{type_text(before)} became {type_text(after)}")


def _of_constants(place: str, before: Tensor, after: Tensor) -> Iterator[Difference]:
    assert before.data is not None
    assert after.data is not None
    if type_text(before) != type_text(after):
        yield Difference("constant", place, f"{type_text(before)} became {type_text(after)}")
    if before.dtype is not after.dtype or before.data.shape != after.data.shape:
        return
    if before.data is after.data or before.data.tobytes() == after.data.tobytes():
        return
    count, largest = _distance(before, after)
    if count:
        size = "" if largest is None else f", by {largest:.6g} at the most"
        yield Difference("constant", place, f"{count:,} of {before.data.size:,} elements differ{size}", largest)


def _distance(before: Tensor, after: Tensor) -> tuple[int, float | None]:
    """How many elements differ, and how much; None where they are no numbers."""
    one, other = _elements(before), _elements(after)
    if one is None or other is None:
        assert before.data is not None
        return int(np.count_nonzero(before.data != after.data)), None
    differs = (one != other) & ~(np.isnan(one) & np.isnan(other))
    if not differs.any():
        return 0, 0.0
    with np.errstate(all="ignore"):
        distances = np.abs(one[differs] - other[differs])
    return int(np.count_nonzero(differs)), float(np.max(np.where(np.isnan(distances), np.inf, distances)))


def _elements(tensor: Tensor) -> Array | None:
    """The elements of a constant as float64 or complex128; None of packed ones and strings."""
    kind = tensor.dtype.element
    if tensor.data is None or kind is None or kind.hasobject or tensor.sparsity is not None:
        return None
    if not tensor.dtype.is_computable:
        return None
    found = tensor.data.view(kind) if tensor.data.dtype != kind else tensor.data
    return found.astype(np.complex128 if found.dtype.kind == "c" else np.float64)
