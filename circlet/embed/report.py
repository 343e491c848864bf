"""What there is to say of a compiled model, as JSON."""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from circlet.backends.native.abi import DONE, FIRST_SITE, STOPPED
from circlet.backends.native.aot.between import Between
from circlet.backends.native.aot.limits import EXHAUSTED, MISFIT
from circlet.embed.compiled import Compiled, Interface, Port

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
_LARGEST = 10
"""Buffers of an entry point that a report lists: a choice."""


def report(found: Compiled) -> dict[str, Json]:
    """Sizes in bytes, entry points, what their statuses mean, and what the object file needs of others.

    Args:
        found: the model.
    """
    contents = found.contents
    statuses: dict[str, Json] = {str(DONE): "done"}
    if found.code.state.header_bytes:
        statuses |= {str(STOPPED): "stopped by the caller", str(EXHAUSTED): "all iterations are made"}
    return {
        "name": found.name,
        "target": found.processor.name,
        "triple": found.processor.triple,
        "bytes": {"code": contents.code_bytes, "constants": contents.data_bytes, "arena": found.code.arena_bytes,
                  "state": found.code.state.nbytes, "alignment": found.alignment},
        "needs": list(contents.needed),
        "exports": list(contents.exported),
        "entries": [_entry(each, statuses) for each in found.interfaces],
    }


def _entry(found: Interface, statuses: dict[str, Json]) -> dict[str, Json]:
    if found.code.takes_lengths:
        statuses = {**statuses, str(MISFIT): "a length of an input is out of its bounds, or does not fit the others"}
    sites: dict[str, Json] = {
        str(FIRST_SITE + number): {"subgraph": each.place.subgraph, "operator": each.place.operator,
                                   "name": each.place.operator_name, "message": each.message}
        for number, each in enumerate(found.code.sites)}
    return {
        "symbol": f"{found.name}_run",
        "signature": found.key,
        "inputs": [_port(each) for each in found.inputs],
        "outputs": [_port(each) for each in found.outputs],
        "arena": found.code.arena_bytes,
        "buffers": [{"subgraph": each.subgraph, "tensor": each.tensor, "bytes": each.size} for each in sorted(
            found.code.buffers, key=lambda each: each.size, reverse=True)[:_LARGEST]],
        "operators": dict(Counter(each.name for each in found.code.spec.subgraph.operators)),
        "statuses": {**statuses, **sites},
    }


def _port(found: Port) -> dict[str, Json]:
    known = found.tensor.quantization
    return {
        "name": found.name, "dtype": found.tensor.dtype.value, "bytes": found.nbytes,
        "shape": [-1 if isinstance(each, Between) else each for each in found.shape],
        "lengths": [{"axis": axis, "least": each.least, "most": each.most}
                    for axis, each in enumerate(found.shape) if isinstance(each, Between)],
        "scales": None if known is None else list(known.scales),
        "zero_points": None if known is None else list(known.zero_points),
    }
