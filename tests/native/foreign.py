"""Processors that are not the host: descriptions of them, code for them in assembly language."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from circlet.backends.controlflow.backend import ControlflowBackend
from circlet.backends.native.backend import Listing, NativeBackend, Options
from circlet.backends.native.load import llvm
from circlet.backends.native.lower.passes import Passes
from circlet.backends.native.lower.pieces import Piece
from circlet.backends.native.program import Unlowerable
from circlet.backends.native.targets.target import Target
from circlet.runtime.exec.engine import Engine
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.kernel import Backend
from circlet.runtime.exec.session import Session
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import Array

NARROW = {
    "cortex-m4": Target("thumbv7em-unknown-none-eabihf", "cortex-m4", "",
                        "e-m:e-p:32:32-Fi8-i64:64-v128:64:128-a:0:32-n32-S64"),
    "riscv32": Target("riscv32-unknown-none-elf", "generic-rv32", "+m,+c", "e-m:e-p:32:32-i64:64-n32-S128"),
    "wasm32": Target("wasm32-unknown-unknown", "mvp", "",
                     "e-m:e-p:32:32-p10:8:8-p20:8:8-i64:64-i128:128-n32:64-S128-ni:1:10:20"),
}
"""Processors with addresses of 32 bits."""
_CALLED = re.compile(r"^\s*(?:bl|call|tail)\s+(\w+)", re.MULTILINE)
"""A call in assembly language."""


def verify(module: str, by: Target) -> None:
    """Has LLVM read a module.

    Raises:
        RuntimeError: it finds a fault.
    """
    llvm.optimized_text(Piece(module, Passes.NONE), by)


def calls(module: str, by: Target) -> set[str]:
    """What the assembly language of a module calls."""
    return set(_CALLED.findall(llvm.assembly(Piece(module, Passes.HASTY), by)))


class _Unmade:
    """Takes modules and makes nothing of them."""

    def ask(self, piece: object) -> None:
        pass

    def results(self) -> Sequence[bytes]:
        raise Unlowerable("not made")


@contextmanager
def _making(*_: object) -> Iterator[_Unmade]:
    yield _Unmade()


def lowered(model: Model, subgraph: int, given: Sequence[Array], by: Target, monkeypatch: pytest.MonkeyPatch,
            is_open: bool = False) -> Sequence[Listing]:
    """The functions of a subgraph for a processor, without machine code; `is_open` says whether they may serve any
    lengths."""
    made: list[NativeBackend] = []

    def backends(executors: ExecutorMap) -> Sequence[Backend]:
        made.append(NativeBackend(executors, Options(keep_text=True, compiles=is_open)))
        return (ControlflowBackend(executors), *made)

    monkeypatch.setattr(llvm, "host", lambda: by)
    monkeypatch.setattr(llvm, "making", _making)
    Session(model, Engine(backends)).bind(subgraph, given)
    return made[0].listings
