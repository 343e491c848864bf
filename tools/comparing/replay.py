"""Computes each operator of a run once more elsewhere, alone, on the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import circlet
from circlet.runtime.errors import CircletError
from circlet.runtime.exec.observe.moment import Moment
from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType
from circlet.schema.files import dump_model
from circlet.tools.comparing.found import Findings

Compute = Callable[[Sequence[Array]], Sequence[Array]]
"""Computes the outputs of a model of one operator."""
Make = Callable[[Model], Compute]
"""Makes a model of one operator ready; raises CircletError or what the runtime raises where it cannot run it."""
_UNFIT = frozenset({DType.RESOURCE, DType.VARIANT})


def one_operator(moment: Moment) -> Model:
    """A model of the operator alone, at the shapes that it has; what is not constant is an input."""
    own, graph = moment.operator, moment.graph
    tensors: list[Tensor] = []
    places: dict[int, int] = {}
    for index, value in moment.values.items():
        tensor = graph.tensors[index]
        places[index] = len(tensors)
        fixed = tensor if tensor.is_constant else replace(tensor, shape=value.shape, shape_signature=None)
        tensors.append(replace(fixed, name=f"t{len(tensors)}"))
    for index in own.outputs:
        places[index] = len(tensors)
        tensors.append(replace(graph.tensors[index], name=f"t{len(tensors)}"))
    for index in own.intermediates:
        if index != ABSENT:
            places[index] = len(tensors)
            tensors.append(graph.tensors[index])
    inputs, outputs, intermediates = (tuple(ABSENT if each == ABSENT else places[each] for each in side)
                                      for side in (own.inputs, own.outputs, own.intermediates))
    fed = tuple(places[index] for index in moment.values if not graph.tensors[index].is_constant)
    operator = Operator(own.op, inputs, outputs, own.version, own.custom_options, intermediates)
    return Model((Subgraph("main", tuple(tensors), fed, outputs, (operator,)),))


def native(model: Model) -> Compute:
    session = circlet.Session(model, "native")
    return lambda arrays: session.invoke(0, arrays)


def litert(model: Model) -> Compute:
    """LiteRT's own kernels, without delegates."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    content = dump_model(model, "tflite")
    interpreter: Any = Interpreter(model_content=content, experimental_op_resolver_type=(
        OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES))
    interpreter.allocate_tensors()
    given, made = interpreter.get_input_details(), interpreter.get_output_details()

    def compute(arrays: Sequence[Array]) -> list[Array]:
        for each, value in zip(given, arrays, strict=True):
            interpreter.set_tensor(each["index"], value)
        interpreter.invoke()
        return [np.asarray(interpreter.get_tensor(each["index"])) for each in made]

    return compute


class Replay(circlet.Listener):
    """Compares what operators of a run give with what they give elsewhere."""

    def __init__(self, make: Make, findings: Findings) -> None:
        self._make, self._findings = make, findings
        self._made: dict[object, Compute | None] = {}
        self._waiting: list[tuple[Compute, list[Array]] | None] = []

    def will_compute(self, moment: Moment) -> None:
        compute = self._computing(moment)
        if compute is None:
            self._waiting.append(None)
            return
        fed = [value.copy() for index, value in moment.values.items() if not moment.graph.tensors[index].is_constant]
        self._waiting.append((compute, fed))

    def did_compute(self, moment: Moment) -> None:
        waiting = self._waiting.pop()
        if waiting is None:
            return
        compute, fed = waiting
        try:
            found = compute(fed)
        except (CircletError, RuntimeError, ValueError) as error:
            self._findings.skip(moment, str(error).partition("\n")[0])
            return
        self._findings.compare(moment, found)

    def _computing(self, moment: Moment) -> Compute | None:
        """What computes an operator elsewhere; None, of which the findings tell, where nothing does."""
        reason = unfit(moment)
        if reason is not None:
            if reason:
                self._findings.skip(moment, reason)
            return None
        place = moment.place
        key = (place.subgraph, place.operator, *(each.shape for each in moment.values.values()))
        if key not in self._made:
            try:
                self._made[key] = self._make(one_operator(moment))
            except (CircletError, RuntimeError, ValueError) as error:
                self._made[key] = None
                self._findings.skip(moment, str(error).partition("\n")[0])
        return self._made[key]


def unfit(moment: Moment) -> str | None:
    """Why an operator is not computed alone: nothing is said of those whose subgraphs are compared; None if it is."""
    own, graph = moment.operator, moment.graph
    tensors = [graph.tensors[each] for each in (*own.inputs, *own.outputs) if each != ABSENT]
    if own.op.callees():
        return ""
    if not own.op.pure or own.op.has_state or any(each.is_variable for each in tensors):
        return "it has state"
    if any(each.dtype in _UNFIT for each in tensors):
        return "it handles lists or variables"
    known = len({*own.inputs} - {ABSENT}) == len(moment.values)
    return None if known else "some of its inputs are not known here"
