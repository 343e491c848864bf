"""Measures one case in every runtime that reads its kind of file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import circlet
from benchmarks.cases import Array
from circlet.tools.measuring.peers import PEERS, Peer, circlet_peer
from circlet.tools.measuring.sampling import Effort, Measured, measure
from circlet.tools.measuring.work import work_of

REFERENCES = {".tflite": "LiteRT", ".onnx": "ONNX Runtime"}
"""The peer that the others are compared with, for each kind of file."""


@dataclass(frozen=True)
class Result:
    """What was measured of one runtime on one case."""

    case: str
    iterations: int | None
    reference: str
    """The runtime that the others are compared with."""
    measured: Measured

    @property
    def is_reference(self) -> bool:
        return self.measured.peer == self.reference

    @property
    def per_iteration(self) -> float | None:
        return self.measured.median / self.iterations if self.iterations else None

    @property
    def difference(self) -> str | None:
        """How its outputs differ from those of the first runtime."""
        found = self.measured.agreement
        return None if found is None or found.agrees else found.text


def peers(backends: Sequence[str]) -> list[Peer]:
    """Everything that is measured, in the order of the report; circlet with each of the given backends."""
    own = [circlet_peer(each, copy_elision) for each in backends for copy_elision in (True, False)]
    return [*own, *(PEERS[each] for each in ("litert", "onnxruntime", "openvino"))]


def measure_case(
    case: str, path: Path, inputs: Mapping[str, Array], iterations: int | None, peers: Sequence[Peer], rounds: int,
    threads: int = 1,
) -> list[Result]:
    """Runs a model in every runtime that reads its kind of file; results are in the order of `peers`."""
    work = work_of(path, circlet.load(path), inputs, threads=threads)
    found = measure(work, [each for each in peers if each.reads_files(path.suffix)], Effort(rounds))
    return [Result(case, iterations, REFERENCES[path.suffix], each) for each in found]
