"""Numpy rules of hash tables.

A table is a variable of the session: an object array of two rows, the keys and their values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from circlet.backends.cpu.rule import Node, rule
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops import table as ops

_PAIRS = ((DType.INT64, DType.STRING), (DType.STRING, DType.INT64))


def _accepts_pair(call: Call) -> str | None:
    found = (call.input(1).dtype, call.input(2).dtype)
    if found in _PAIRS:
        return None
    return f"keys of {found[0].value} and values of {found[1].value} (supported: int64 and string, string and int64)"


@rule(ops.Hashtable, accepts=lambda call: None)
def hashtable(node: Node[ops.Hashtable]) -> Step:
    handle, out = node.run.variables.handle(node.op.name, str(node.op.table_id)), node.out

    def step() -> None:
        out.fill(handle)

    return step


@rule(ops.HashtableImport, accepts=_accepts_pair)
def hashtable_import(node: Node[ops.HashtableImport]) -> Step:
    handle, keys, values, variables = node.input(0), node.input(1), node.input(2), node.run.variables

    def step() -> None:
        if handle.item() in variables.values:
            return
        entries: dict[Any, Any] = {}
        for key, value in zip(keys.ravel().tolist(), values.ravel().tolist(), strict=True):
            entries.setdefault(key, value)
        table = np.empty((2, len(entries)), object)
        table[0], table[1] = list(entries), list(entries.values())
        variables.values[handle.item()] = table

    return step


@rule(ops.HashtableFind, accepts=_accepts_pair)
def hashtable_find(node: Node[ops.HashtableFind]) -> Step:
    keys, default, out = node.input(1), node.input(2), node.out
    read = _reader(node.run.variables, node.input(0), *(bytes if node.dtype(k) is DType.STRING else int
                                                               for k in (1, 2)))

    def step() -> None:
        entries, missing = read(), default.item()
        for index, key in enumerate(keys.flat):
            out.flat[index] = entries.get(key, missing)

    return step


def _reader(variables: Variables, handle: Array, key: type, value: type) -> Callable[[], Mapping[Any, Any]]:
    """A function that gives the present entries of a table, collected anew only when the table is another."""
    last: Array | None = None
    entries: Mapping[Any, Any] = {}

    def read() -> Mapping[Any, Any]:
        nonlocal last, entries
        table = variables.values.get(handle.item())
        if table is None:
            raise ExecutionError("the hash table is searched before it is filled")
        if table is not last:
            if table.size and not (isinstance(table[0, 0], key) and isinstance(table[1, 0], value)):
                raise ExecutionError(f"the hash table does not map {key.__name__} to {value.__name__}")
            last, entries = table, dict(zip(*table.tolist(), strict=True))
        return entries

    return read


@rule(ops.HashtableSize, accepts={DType.RESOURCE})
def hashtable_size(node: Node[ops.HashtableSize]) -> Step:
    handle, out, variables = node.input(0), node.out, node.run.variables

    def step() -> None:
        table = variables.values.get(handle.item())
        out.fill(0 if table is None else table.shape[1])

    return step


@rule(ops.HashtableLookup, accepts={DType.INT32})
def hashtable_lookup(node: Node[ops.HashtableLookup]) -> Step:
    wanted, keys, values, (rows, hits) = node.input(0), node.input(1), node.input(2), node.outputs
    nothing = b"" if node.dtype(2) is DType.STRING else 0

    def step() -> None:
        places = {key: place for place, key in enumerate(keys.tolist())}
        rows.fill(nothing)
        hits.fill(0)
        for index, key in enumerate(wanted.tolist()):
            if key in places:
                rows[index], hits[index] = values[places[key]], 1

    return step
