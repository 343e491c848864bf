"""What a model has in common with those that were compiled before is taken from the disk."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from llvmlite import ir

import circlet
from circlet.backends.native.gemm.microkernel import FLOAT32, lanes
from circlet.backends.native.gemm.tiling import panel_vectors
from circlet.backends.native.load import cache, fingerprint, llvm
from circlet.backends.native.load.llvm import host
from circlet.backends.native.lower.pieces import Piece
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.length import Scope
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Padding
from circlet.runtime.ops import unary
from circlet.runtime.ops.conv import Conv2D
from circlet.runtime.ops.elementwise import Mul
from circlet.runtime.ops.matmul import FullyConnected
from tests.exec import graphs as g
from tests.native.against_cpu import values
from tests.native.conftest import functions

X = values((8, 48), np.float32, 0)


@pytest.fixture(autouse=True)
def _whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CIRCLET_CHECK_BOUNDS", raising=False)  # checked code stays in one piece


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Piece]:
    """The pieces that LLVM compiled."""
    found: list[Piece] = []
    compiled = llvm._object_code

    def counted(piece: Piece, machine: object) -> bytes:
        found.append(piece)
        return compiled(piece, machine)

    monkeypatch.setattr(llvm, "_object_code", counted)
    return found


def layers(widths: Sequence[int], seed: int = 1) -> Model:
    """Dense layers from 48 columns on, each with a tanh."""
    b = ModelBuilder()
    main = b.subgraph("main")
    v, before = main.input("x", DType.FLOAT32, (8, 48)), 48
    for k, width in enumerate(widths):
        weights = main.constant(values((width, before), np.float32, seed + k) / 8)
        v, before = main.apply(unary.Tanh(), main.apply(FullyConnected(), v, weights, None)), width
    main.output(v)
    return b.build()


def run(model: Model) -> None:
    (found,) = g.run(circlet.Session(model, backend="native"), [X])
    (expected,) = g.run(circlet.Session(model, backend="cpu"), [X])
    np.testing.assert_allclose(found, expected, 1e-5, 1e-6, strict=True)


def test_equal_layers_are_compiled_once(folder: Path, made: list[Piece]) -> None:
    def operators() -> int:
        return sum('define hidden i32 @"operator_' in each.text for each in made)

    run(layers([48]))
    once = operators()
    made.clear()
    cache.clear()
    run(layers([48] * 6))
    assert operators() == once > 0


def test_other_weights_and_another_last_layer(folder: Path, made: list[Piece]) -> None:
    run(layers([48, 40, 24, 32]))
    first = len(made)
    made.clear()
    run(layers([48, 40, 24, 32], seed=9))
    assert made == []
    run(layers([48, 40, 24, 16]))
    assert 1 <= len(made) < first / 2
    assert any("circlet_entry" in each.text for each in made) or len(made) == 1


def test_versions_of_circlet_that_write_the_same_share_files(folder: Path, made: list[Piece],
                                                             monkeypatch: pytest.MonkeyPatch) -> None:
    run(layers([48]))
    count, first = len(made), functions(folder)
    monkeypatch.setattr(fingerprint, "toolchain", lambda: "other sources")
    made.clear()
    run(layers([48]))
    assert len(functions(folder)) == len(first) + 1
    assert made == []
    monkeypatch.setattr(llvm, "_compiler", lambda: b"another LLVM")
    cache.clear()
    run(layers([48]))
    assert len(made) == count > 0


def test_a_damaged_file_is_made_anew(folder: Path, made: list[Piece]) -> None:
    model = layers([48])
    run(model)
    count = len(made)
    units = [each for each in folder.iterdir() if each.suffix == cache.UNIT]
    assert len(units) == count
    for each in folder.iterdir():
        if each.suffix != cache.UNIT:
            each.unlink()
    content = units[0].read_bytes()
    for damaged in (b"", content[:-1], b"x" + content[1:], content + b"x"):
        made.clear()
        units[0].write_bytes(damaged)
        run(model)
        assert len(made) == 1
        for each in folder.iterdir():
            if each.suffix != cache.UNIT:
                each.unlink()
    assert units[0].read_bytes() == content


def test_nothing_is_kept_without_a_folder(monkeypatch: pytest.MonkeyPatch, made: list[Piece]) -> None:
    monkeypatch.setenv(cache.VARIABLE, "")
    for _ in range(2):
        made.clear()
        run(layers([48]))
        assert made


def test_code_that_was_written_leaves_no_cycles(folder: Path, made: list[Piece], monkeypatch: pytest.MonkeyPatch
                                                ) -> None:
    """Python takes what is left for long-lived."""
    monkeypatch.setattr(gc, "enable", lambda: None)
    gc.collect()
    try:
        run(layers([48, 40, 13]))
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = [each.__name__ for each in map(type, gc.garbage) if issubclass(each, (ir.Value, ir.Module))]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        monkeypatch.undo()
        gc.enable()
    assert made
    assert left == []


def images(channels: Sequence[int]) -> Model:
    """Convolutions of images of any size, with so many channels in turn, each with a sigmoid that is multiplied and a
    sum with a value of each channel."""
    b = ModelBuilder()
    main = b.subgraph("main")
    v = main.tensor(Tensor("x", DType.FLOAT32, (1, 8, 8, 16), (1, -1, -1, 16)))
    main.feed(v)
    before = 16
    for k, count in enumerate(channels):
        filter = main.constant(values((count, 3, 3, before), np.float32, k) / np.float32(3 * before**0.5))
        v = main.apply(Conv2D(padding=Padding.SAME, stride_h=1, stride_w=1), v, filter, None)
        v = main.apply(Mul(), v, main.apply(unary.Logistic(), v))
        v, before = g.add(main, v, main.constant(values((count,), np.float32, k))), count
    main.output(v)
    return b.build()


@pytest.mark.parametrize("threads", [1, 2])
def test_what_follows_on_products_is_compiled_once(folder: Path, made: list[Piece], threads: int) -> None:
    """Whatever numbers of channels there are, whose panels are of one width."""
    def epilogues(channels: Sequence[int]) -> int:
        made.clear()
        cache.clear()
        model = images(channels)
        session, other = circlet.Session(model, "native", num_threads=threads), circlet.Session(model, "cpu")
        for size in [(8, 9), (40, 31), (3, 200)]:
            x = values((1, *size, 16), np.float32, 3)
            (found,), (expected,) = (each.invoke(0, [x]) for each in (session, other))
            np.testing.assert_allclose(found, expected, 1e-4, 1e-5, strict=True)
        return sum('define hidden i32 @"epilogue_' in each.text for each in made)

    rows, width = Scope([64]).symbol(0), lanes(host())
    panels = [(each * width, panel_vectors(host(), rows, each * width, FLOAT32)) for each in range(4, 16)]
    channels = max(([count for count, vectors in panels if vectors == wide and not count % (wide * width)]
                    for wide in (2, 3, 4)), key=len)
    assert len(channels) > 3
    assert 0 < epilogues(channels[:3]) == epilogues(channels[::2] + channels[1::2])


def test_what_follows_on_products_ends_with_them(folder: Path) -> None:
    """Products that take long stop within what follows on them, too."""
    model, small = images([64] * 6), values((1, 5, 5, 16), np.float32, 0)
    circlet.Session(model, "native").invoke(0, [small])
    session = circlet.Session(model, "native")
    (expected,) = session.invoke(0, [small])
    session.limits = circlet.Limits(deadline=0.2)
    with pytest.raises(circlet.LimitError, match="deadline"):
        session.invoke(0, [values((1, 1200, 1200, 16), np.float32, 0)])
    session.limits = circlet.Limits()
    np.testing.assert_array_equal(session.invoke(0, [small])[0], expected)
