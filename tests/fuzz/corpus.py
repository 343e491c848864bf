"""What was found, as small files that are tried again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.case import Checks, Subject

FOLDER = Path(__file__).with_name("corpus")
INDEX = FOLDER / "cases.json"
SUFFIXES = {"flatbuffer": ".tflite", "onnx": ".onnx", "ir": ".xml", "bytes": ".model", "memory": ".model"}
OUTCOMES = ("refused", "failed", "ran", "large")


@dataclass(frozen=True)
class Entry:
    """A model of the corpus."""

    name: str
    found: str
    """What was wrong when it was found."""
    outcome: str
    """What becomes of it: the furthest of `OUTCOMES`; empty until that is known."""
    checks: Mapping[str, bool]
    kind: str
    number: int
    entry: int | None
    """The subgraph that runs on the inputs beside the model; None where they are made."""
    edits: Sequence[int] = ()
    """What is changed in memory."""

    def subject(self) -> Subject:
        path = (FOLDER / self.name).with_suffix(SUFFIXES[self.kind])
        weights = path.with_suffix(".bin")
        given = None if self.entry is None else (self.entry, tuple(_arrays(path.with_suffix(".npz"))))
        return Subject(self.kind, path.read_bytes(), weights.read_bytes() if weights.exists() else None, (),
                       self.number, Checks(**self.checks), tuple(self.edits), given)


def entries() -> list[Entry]:
    """All that was found."""
    if not INDEX.exists():
        return []
    return [Entry(**each) for each in json.loads(INDEX.read_text(encoding="utf-8"))]


def save(all_entries: list[Entry]) -> None:
    lines = ",\n".join(json.dumps(asdict(each), sort_keys=True) for each in sorted(all_entries, key=lambda e: e.name))
    INDEX.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def add(subject: Subject, found: str, given: tuple[int, tuple[Any, ...]] | None) -> str:
    """Keeps a model; returns its name."""
    name = hashlib.sha256(subject.content + (subject.weights or b"")).hexdigest()[:12]
    path = (FOLDER / name).with_suffix(SUFFIXES[subject.kind])
    FOLDER.mkdir(exist_ok=True)
    path.write_bytes(subject.content)
    if subject.weights:
        path.with_suffix(".bin").write_bytes(subject.weights)
    entry = None
    if given is not None and all(each.dtype.kind != "O" for each in given[1]):
        entry = given[0]
        np.savez(path.with_suffix(".npz"), *given[1])
    kept = [each for each in entries() if each.name != name]
    save([*kept, Entry(name, found, "", asdict(replace(subject.checks, text=True)), subject.kind, subject.number,
                       entry, subject.edits)])
    return name


def outcome(counts: Mapping[str, int]) -> str:
    """What became of a model."""
    return next((each for each in reversed(OUTCOMES) if counts.get(each)), "")


def _arrays(path: Path) -> Iterator[Any]:
    with np.load(path) as arrays:
        yield from (arrays[f"arr_{k}"] for k in range(len(arrays.files)))
