"""Measures one case in every runtime that reads its kind of file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import circlet
from benchmarks.cases import Array
from circlet.tools.measuring.benched import Benched, bench
from circlet.tools.measuring.peers import PEERS, Peer, circlet_peer
from circlet.tools.measuring.sampling import Effort, Measured
from circlet.tools.measuring.work import work_of

REFERENCES = {".tflite": "LiteRT", ".onnx": "ONNX Runtime"}
"""The peer that the others are compared with, for each kind of file."""


@dataclass(frozen=True)
class Result:
    """What was measured on one case."""

    case: str
    iterations: int | None
    benched: Benched

    @property
    def reference(self) -> Measured | None:
        """What the table compares the others with; None where it did not run."""
        name = REFERENCES[self.benched.work.path.suffix]
        return next((each for each in self.benched.found if each.peer == name and each.samples), None)

    def per_iteration(self, each: Measured) -> float | None:
        """The median of a runtime for an innermost iteration."""
        return each.median / self.iterations if self.iterations else None

    @property
    def agrees(self) -> bool:
        """Whether circlet's ways to run it and the reference, as far as they ran, have the results of the first one.
        Other peers may be wrong, which the report tells."""
        reference = REFERENCES[self.benched.work.path.suffix]
        return not any(difference(each) for each in self.benched.found
                       if each.peer == reference or each.peer.startswith("circlet"))


def difference(each: Measured) -> str | None:
    """How the outputs of a runtime differ from those of the first one."""
    found = each.agreement
    return None if found is None or found.agrees else found.text


def peers(backends: Sequence[str]) -> list[Peer]:
    """Everything that is measured, in the order of the report; circlet with each of the given backends."""
    own = [circlet_peer(each, copy_elision) for each in backends for copy_elision in (True, False)]
    return [*own, *(PEERS[each] for each in ("litert", "onnxruntime", "openvino"))]


def measure_case(
    case: str, path: Path, inputs: Mapping[str, Array], iterations: int | None, peers: Sequence[Peer], rounds: int,
    threads: int = 1,
) -> Result:
    """Runs a model in every runtime that reads its kind of file, by `circlet bench`; measured are in the order of
    `peers`."""
    work = work_of(path, circlet.load(path), inputs, threads=threads)
    return Result(case, iterations, bench(work, [each for each in peers if each.reads_files(path.suffix)],
                                          Effort(rounds)))
