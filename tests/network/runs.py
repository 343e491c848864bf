"""Runs of networks: on numpy with and without copy elision, and, where a test asks for it, native."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import circlet
from circlet import Network
from circlet.runtime.ir.model import Model

Array: TypeAlias = npt.NDArray[Any]
WAYS: dict[str, dict[str, Any]] = {
    "elided": {"backend": "cpu"},
    "copied": {"backend": "cpu", "copy_elision": False},
}
NATIVE: dict[str, dict[str, Any]] = {"native": {"backend": "native"}}


def run(net: Network, **inputs: npt.ArrayLike) -> dict[str, Array]:
    """The outputs of one run."""
    return circlet.Session(net.build(), backend="cpu").run(typed(net.build(), inputs))


def typed(model: Model, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
    """Inputs in the element types that the model declares."""
    main, names = model.subgraphs[0], model.signatures[0].inputs
    return {name: np.asarray(value, main.tensors[names[name]].dtype.numpy) for name, value in inputs.items()}


def run_all(net: Network, inputs: Mapping[str, npt.ArrayLike], native: bool = False) -> Iterator[dict[str, Array]]:
    """The outputs, each way."""
    model = net.build()
    for options in (WAYS | NATIVE if native else WAYS).values():
        yield circlet.Session(model, **options).run(typed(model, inputs))


def ran(model: Model, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, int]:
    """How often each subgraph runs, by its name without the numbers."""
    counter = circlet.Counter()
    circlet.Session(model, backend="cpu").run(typed(model, inputs), listener=counter)
    return {subgraph.name: counter.invocations[k] for k, subgraph in enumerate(model.subgraphs)}


def saved(net: Network, folder: Path) -> Model:
    """The model, written and read."""
    file = folder / "network.tflite"
    circlet.save(net.build(), file)
    return circlet.load(file)
