"""Compares what operators of a run give with values that another run of the whole model gave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import circlet
from circlet.runtime.exec.observe.moment import Moment
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import Array
from circlet.tools.comparing.found import Findings
from circlet.tools.measuring.work import Work

Key = tuple[object, ...]


class Beside(circlet.Listener):
    """Compares outputs of operators where there is a value of the same tensor."""

    def __init__(self, find: Callable[[Moment, str], Array | None], findings: Findings) -> None:
        """
        Args:
            find: gives the other value of a tensor of a name, None where there is none.
            findings: what is noted.
        """
        self._find, self._findings = find, findings

    def did_compute(self, moment: Moment) -> None:
        names = [moment.graph.tensors[each].name for each in moment.operator.outputs]
        values = [self._find(moment, each) for each in names]
        if any(each is not None for each in values):
            self._findings.compare(moment, values)


def of_main(model: Model, values: Mapping[str, Array]) -> Callable[[Moment, str], Array | None]:
    """Finds values of tensors of subgraph 0, whose names stand for one each."""
    names = Counter(each.name for each in model.subgraphs[0].tensors)

    def find(moment: Moment, name: str) -> Array | None:
        is_known = moment.place.subgraph == 0 and not moment.calls and names[name] == 1
        return values.get(name) if is_known else None

    return find


class Recording(circlet.Listener):
    """Keeps what operators give by subgraph, iterations and name, so that another model's run finds it."""

    def __init__(self) -> None:
        self._values: dict[Key, Array] = {}

    def did_compute(self, moment: Moment) -> None:
        for index, value in zip(moment.operator.outputs, moment.outputs, strict=True):
            self._values[_key(moment, moment.graph.tensors[index].name)] = value.copy()

    def find(self, moment: Moment, name: str) -> Array | None:
        return self._values.get(_key(moment, name))


def _key(moment: Moment, name: str) -> Key:
    calls = tuple((each.place.subgraph_name, each.role, each.iteration) for each in moment.calls)
    return (*calls, moment.place.subgraph_name, name)


def onnxruntime_values(work: Work) -> dict[str, Array]:
    """What each node of the main graph gives in ONNX Runtime, which is not to change the graph."""
    import onnx
    import onnxruntime

    model = onnx.load(str(work.path))
    given = {each.name for each in model.graph.output}
    made = [name for node in model.graph.node for name in node.output if name and name not in given]
    model.graph.output.extend(onnx.ValueInfoProto(name=each) for each in made)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    found = session.run(names, dict(work.inputs))
    return dict(zip(names, found, strict=True))


def openvino_values(work: Work) -> dict[str, Array]:
    """What each layer of the main graph gives in OpenVINO's CPU plugin, by the names of tensors."""
    import numpy as np
    import openvino

    core = openvino.Core()
    model: Any = core.read_model(str(work.path))
    for layer in model.get_ordered_ops():
        if layer.get_type_name() not in ("Parameter", "Result", "Constant"):
            model.add_outputs(list(layer.outputs()))
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = compiled.create_infer_request().infer(dict(enumerate(work.inputs.values())))
    return {name: np.array(found[k]) for k, port in enumerate(compiled.outputs) for name in port.get_names()}
