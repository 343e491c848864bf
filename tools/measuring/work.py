"""What is measured: a model, how it is entered, and values for its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from circlet.runtime.exec.values.inputs import Entry, entry_of
from circlet.runtime.ir.model import Model, Signature
from circlet.tools.arguments import default_signature
from circlet.tools.results import Value


@dataclass(frozen=True, eq=False)
class Work:
    """A run of a model.

    Attributes:
        path: of the model.
        inputs: by name, in the model's order.
        outputs: names, in the model's order.
        signature: the key of the entry point; None where it has none, and names are those of tensors.
        is_further_entry: whether the entry point is another one than subgraph 0.
        threads: that a run may use.
        reading: choices among the formats' options of reading, for circlet alone.
    """

    path: Path
    inputs: Mapping[str, Value]
    outputs: Sequence[str]
    signature: str | None = None
    is_further_entry: bool = False
    threads: int = 1
    reading: Mapping[str, str] = field(default_factory=dict)


def work_of(path: Path, model: Model, inputs: Mapping[str, Value], signature: Signature | None = None,
            threads: int = 1, reading: Mapping[str, str] | None = None) -> Work:
    """The work of one entry point of a model, by default that of `Session.run`."""
    chosen = signature or default_signature(model)
    entry = entry_named(model, chosen)
    return Work(path, {name: inputs[name] for name, _ in entry.inputs}, [name for name, _ in entry.outputs],
                chosen.key if chosen else None, entry.subgraph != 0, threads, reading or {})


def entry_named(model: Model, signature: Signature | None) -> Entry:
    """The entry point of a signature; subgraph 0 without one."""
    return entry_of(model, signature.subgraph if signature else 0, signature)
