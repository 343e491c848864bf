"""The node cases of the package `onnx`, made in this process, and how circlet does on them."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import onnx.backend.test.case.node as node_cases
from onnx.backend.test.case.utils import import_recursive
from onnx.backend.test.runner import Runner

from circlet.onnx_backend import CircletBackend
from circlet.runtime.errors import UnsupportedError

CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})
CONTROL_FLOW_MODULES = ("affinegrid", "if_", "linear_attention", "loop", "rangeop", "scan", "sequence_map")
"""The modules that make the cases with control flow; making all cases takes several times as long."""


class Outcome(Enum):
    """What became of a case."""

    PASSED = "passed"
    REFUSED = "refused"
    """By an UnsupportedError, which names the operator or the type."""
    FAILED = "failed"


@dataclass(frozen=True)
class Result:
    """A case and what became of it."""

    name: str
    outcome: Outcome
    message: str = ""


@lru_cache(1)
def control_flow_cases() -> dict[str, Any]:
    """The cases with an If, a Loop, a Scan or a SequenceMap, by name."""
    for module in CONTROL_FLOW_MODULES:
        _quietly(f"{node_cases.__name__}.{module}")
    return {case.name: case for case in node_cases._NodeTestCases if has_control_flow(case)}


@lru_cache(1)
def all_cases() -> Sequence[Any]:
    """All cases but those of random numbers, of which the package expects numpy's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import_recursive(node_cases)
    return tuple(each for each in node_cases._NodeTestCases if not each.name.startswith("test_bernoulli"))


def has_control_flow(case: Any) -> bool:
    """Whether a case holds a node that invokes a graph."""
    return any(each.op_type in CONTROL_FLOW for each in nodes_of(case.model.graph))


def nodes_of(graph: Any) -> Iterator[Any]:
    """The nodes of a graph and those of the graphs inside of them."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from nodes_of(attribute.g)


def cases_of(module: str) -> list[Any]:
    """The cases that one module of the package makes."""
    _quietly(f"{node_cases.__name__}.{module}")
    operators = [value for value in vars(importlib.import_module(f"{node_cases.__name__}.{module}")).values()
                 if isinstance(value, type)]
    names = {each.__name__ for each in operators}
    return [case for case in node_cases._NodeTestCases if names & {each.op_type for each in case.model.graph.node}]


def run_case(case: Any, backend: str = "cpu") -> Result:
    """Runs a case and compares what it gives by the rules of `onnx.backend.test`."""
    try:
        rep = CircletBackend.prepare(case.model, backend=backend)
        for inputs, outputs in case.data_sets:
            found = rep.run([_array(each) for each in inputs])
            expected = [_array(each) for each in outputs]
            Runner.assert_similar_outputs(*_leaves(expected, found), case.rtol, case.atol)
    except UnsupportedError as refusal:
        return Result(case.name, Outcome.REFUSED, str(refusal))
    except Exception as error:
        return Result(case.name, Outcome.FAILED, f"{type(error).__name__}: {error}")
    return Result(case.name, Outcome.PASSED)


def _quietly(module: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(module)


def _array(value: Any) -> Any:
    """A value of a case, some of which are numpy's scalars or stored tensors."""
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, (list, tuple)):
        return [_array(each) for each in value]
    return None if value is None else np.asarray(value)


def _leaves(expected: Any, found: Any) -> tuple[list[Any], list[Any]]:
    """The arrays in two structures that must be alike; the runner cannot compare lists of scalars."""
    if not isinstance(expected, (list, tuple)):
        assert (found is None) == (expected is None)
        return ([], []) if expected is None else ([expected], [found])
    assert isinstance(found, (list, tuple))
    assert len(found) == len(expected)
    pairs = [_leaves(one, other) for one, other in zip(expected, found, strict=True)]
    return [each for one, _ in pairs for each in one], [each for _, other in pairs for each in other]
