"""circlet as a backend by the interface of the package `onnx`, for `onnx.backend.test` and programs that use it.

    from circlet import onnx_backend
    outputs = onnx_backend.run_model(onnx.load("model.onnx"), [x])

It needs the package `onnx`, which `circlet[onnx]` installs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep

from circlet.runtime.errors import UnsupportedError
from circlet.schema.files import load_model
from circlet.schema.onnx.format import AbsentCond
from circlet.session import Session


class CircletRep(BackendRep):
    """A model made ready by `prepare`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Runs the model.

        Args:
            inputs: one for each input of the graph, in order: arrays, lists for sequences, None for an optional that
                is empty.

        Returns:
            The outputs in order; sequences are lists.
        """
        results = self._session.run(list(inputs))
        return tuple(results[name] for name in self._session.model.signatures[0].outputs)


class CircletBackend(Backend):
    """Runs ONNX models with circlet."""

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", backend: str = "auto", absent_cond: AbsentCond = "spec",
                **kwargs: Any) -> CircletRep:
        """Makes a model ready to run.

        Args:
            model: a ModelProto.
            device: `CPU`.
            backend: as for `circlet.Session`.
            absent_cond: as for `circlet.load`.

        Raises:
            ModelError: it is malformed.
            UnsupportedError: it uses something that circlet does not have, or another device is asked for.
        """
        if not cls.supports_device(device):
            raise UnsupportedError(f"device {device!r} (supported: CPU)")
        found = load_model(model, options={"onnx_absent_cond": absent_cond}, verified=True)
        return CircletRep(Session(found, backend))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """`prepare` and `run`."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None,
                 **kwargs: Any) -> tuple[Any, ...]:
        """Runs one node on arrays; `opset_version` in `kwargs` says how to read it, the newest by default."""
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        arrays = [np.asarray(each) for each in inputs]
        given = [onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(each.dtype), each.shape)
                 for name, each in zip(filter(None, node.input), arrays, strict=True)]
        graph = onnx.helper.make_graph([node], "node", given, [onnx.ValueInfoProto(name=each) for each in node.output
                                                               if each])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(node.domain, version)])
        return cls.run_model(model, arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether circlet computes on a device, e.g. `CPU`."""
        return device.partition(":")[0] == "CPU"


prepare = CircletBackend.prepare
run_model = CircletBackend.run_model
run_node = CircletBackend.run_node
supports_device = CircletBackend.supports_device
