"""What there is to say of a model, as JSON."""

from __future__ import annotations

from math import isfinite
from typing import Any

from circlet.runtime.ir.model import Operator
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.passes.analyses.work import Work
from circlet.tools.inspection.constants import tensor_bytes, unused_of
from circlet.tools.inspection.costs import Cost
from circlet.tools.inspection.difference import Difference
from circlet.tools.inspection.inspection import Inspection
from circlet.tools.inspection.text import judged
from circlet.tools.results import json_quantization
from circlet.tools.support import Verdict


def json_inspection(found: Inspection) -> dict[str, Any]:
    """The model and all that was found."""
    model = found.model
    return {
        "model": found.path,
        "format": model.format,
        "version": model.version,
        "description": model.description,
        "bytes": found.size,
        "weights_bytes": found.constants.bytes,
        "problem": found.support.problem,
        "problems": [{"kind": each.kind, "subgraph": each.subgraph, "operator": each.operator, "tensor": each.tensor,
                      "text": each.text, "remedy": each.remedy} for each in found.problems],
        "same_constants": [{"bytes": each.bytes, "shared": each.is_shared,
                            "tensors": [list(one) for one in each.tensors]} for each in found.constants.same],
        "signatures": [{"key": each.key, "subgraph": each.subgraph, "inputs": dict(each.inputs),
                        "outputs": dict(each.outputs)} for each in model.signatures],
        "subgraphs": [_json_subgraph(found, index) for index in found.shown],
    }


def json_difference(found: Difference) -> dict[str, Any]:
    """Something that two models have otherwise; an infinite distance is the string `Infinity`."""
    largest = found.largest if found.largest is None or isfinite(found.largest) else "Infinity"
    return {"kind": found.kind, "place": found.place, "text": found.text, "largest": largest}


def _json_subgraph(found: Inspection, index: int) -> dict[str, Any]:
    subgraph = found.model.subgraphs[index]
    cost = found.costs[index] if found.costs else None
    works: tuple[Work | None, ...] = cost.estimate.operators if cost else (None,) * len(subgraph.operators)
    return {
        "index": index,
        "name": subgraph.name,
        "inputs": list(subgraph.inputs),
        "outputs": list(subgraph.outputs),
        "constant_bytes": sum(map(tensor_bytes, subgraph.tensors)),
        **_json_cost(cost),
        "called_by": [{"subgraph": each.subgraph, "operator": each.operator, "role": each.role}
                      for each in found.callers[index]],
        "unused_tensors": [{"tensor": each.tensor, "reason": each.reason} for each in unused_of(subgraph)],
        "tensors": [_json_tensor(number, each) for number, each in enumerate(subgraph.tensors)],
        "operators": [{**_json_operator(number, *each), **_json_work(works[number])}
                      for number, each in enumerate(judged(found, index))],
    }


def _json_cost(cost: Cost | None) -> dict[str, Any]:
    peak = None if cost is None else cost.peak
    return {**_json_work(None if cost is None else cost.estimate.total),
            "operators_without_estimate": None if cost is None else cost.estimate.unknown,
            "peak_bytes": None if peak is None else peak.bytes,
            "peak_operator": None if peak is None else peak.operator}


def _json_work(work: Work | None) -> dict[str, Any]:
    return {"flops": None if work is None else work.flops, "bytes_read": None if work is None else work.read,
            "bytes_written": None if work is None else work.written}


def _json_tensor(number: int, tensor: Tensor) -> dict[str, Any]:
    kind = "constant" if tensor.is_constant else "variable" if tensor.is_variable else "value"
    return {"index": number, "name": tensor.name, "dtype": tensor.dtype.value, "kind": kind,
            "shape": list(tensor.signature) if tensor.has_rank or tensor.shape else None,
            "quantization": json_quantization(tensor.quantization)}


def _json_operator(number: int, operator: Operator, verdict: Verdict) -> dict[str, Any]:
    return {"index": number, "name": operator.name, "version": operator.version, "inputs": list(operator.inputs),
            "outputs": list(operator.outputs), "backend": verdict.backend, "reason": verdict.reason or None}
