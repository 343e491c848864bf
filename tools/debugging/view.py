"""A stop of a run: as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from circlet.runtime.exec.observe.debugger import Stop
from circlet.runtime.exec.observe.moment import Moment
from circlet.runtime.exec.values.results import giver
from circlet.runtime.ir.model import ABSENT, Operator, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array
from circlet.tools.results import Value, json_shape, json_values, type_text, values_text
from circlet.tools.tables import plain

AROUND = 4
"""How many operators are listed before and behind the one at which a run waits."""


def given(tensor: Tensor, stored: Array) -> Value:
    """A stored value as callers of sessions get it."""
    give = giver(tensor, is_text=False)
    value: Value = stored if give is None else give(stored)
    return value


def tensor_text(tensor: Tensor, stored: Array) -> str:
    """A tensor's name, type and values, and of floats how many are NaN or infinite."""
    value = given(tensor, stored)
    text = values_text(value)
    separator = "\n" if "\n" in text else " "
    return f"{plain(tensor.name)} {type_text(tensor, value)} ={separator}{text}{_odd_text(value)}"


def _odd_text(value: Value) -> str:
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fc":
        return ""
    counts = {"NaN": np.count_nonzero(np.isnan(value)), "infinite": np.count_nonzero(np.isinf(value))}
    found = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    return f"  ({found})" if found else ""


def json_tensor(tensor: Tensor, stored: Array) -> dict[str, Any]:
    value = given(tensor, stored)
    return {"name": tensor.name, "type": type_text(tensor, value), "shape": json_shape(value),
            "values": json_values(value)}


def place_text(moment: Moment) -> str:
    """An operator as the printer of models refers to it, and the iterations in which it ran."""
    place = moment.place
    turns = ", ".join(f"iteration {each.iteration}" for each in moment.calls if each.iteration is not None)
    name = f"@{place.subgraph}[{place.operator}] {plain(place.operator_name)}"
    return f"{name} in {plain(place.subgraph_name)}{f', {turns}' if turns else ''}"


def stop_text(stop: Stop) -> str:
    """Where a run waits, and why."""
    return f"after {place_text(stop.moment)}: {stop.reason}"


def where_text(stop: Stop) -> str:
    """The operators that are running, the outermost first."""
    lines = [f"{plain(each.place.subgraph_name)}: @{each.place.subgraph}[{each.place.operator}] "
             f"{plain(each.place.operator_name)} runs its {each.role}"
             + ("" if each.iteration is None else f", iteration {each.iteration}") for each in stop.moment.calls]
    return "\n".join([*lines, f"{plain(stop.moment.place.subgraph_name)}: after {place_text(stop.moment)}"])


def outputs_text(stop: Stop) -> str:
    """What the operator has given."""
    moment = stop.moment
    return "\n".join(tensor_text(moment.graph.tensors[index], value)
                     for index, value in zip(moment.operator.outputs, moment.outputs, strict=True))


def list_text(stop: Stop) -> str:
    """The operators around the one at which a run waits."""
    place, graph = stop.moment.place, stop.moment.graph
    first, last = max(place.operator - AROUND, 0), place.operator + AROUND + 1
    return "\n".join(_lines(graph, first, graph.operators[first:last], place.operator))


def _lines(graph: Subgraph, first: int, operators: tuple[Operator, ...], here: int) -> Iterator[str]:
    for number, each in enumerate(operators, first):
        sides = [", ".join("-" if index == ABSENT else plain(graph.tensors[index].name) for index in side)
                 for side in (each.inputs, each.outputs)]
        callees = "".join(f" {call.role}=@{call.subgraph}" for call in each.op.calls())
        yield f"{'=>' if number == here else '  '} [{number}] {plain(each.name)} {sides[0]} -> {sides[1]}{callees}"


def json_stop(stop: Stop) -> dict[str, Any]:
    """A stop, without values."""
    moment = stop.moment
    return {
        "reason": stop.reason,
        "subgraph": moment.place.subgraph,
        "subgraph_name": moment.place.subgraph_name,
        "operator": moment.place.operator,
        "operator_name": moment.place.operator_name,
        "iteration": moment.iteration,
        "calls": [{"subgraph": each.place.subgraph, "operator": each.place.operator, "role": each.role,
                   "iteration": each.iteration} for each in moment.calls],
    }
