"""Functions of a process that keep the same constants hold them once."""

from __future__ import annotations

from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path
from weakref import ref

import numpy as np
import pytest

import circlet
from circlet.backends.native.load.artifact import Artifact, load
from circlet.backends.native.load.constants import shared
from circlet.backends.native.load.gathering import gather
from circlet.backends.native.load.manifest import Stored
from circlet.backends.native.parts import FIXED
from circlet.backends.native.program import Program
from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.types import Array
from circlet.runtime.ops.matmul import FullyConnected
from circlet.runtime.ops.unary import Tanh
from tests.exec.graphs import at_most, i32, plus, while_model
from tests.native.conftest import functions

WIDTH = 24


def turn(g: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    """A layer with a bias."""
    chance = np.random.default_rng(0)
    weights = g.constant(chance.normal(size=(WIDTH, WIDTH)).astype(np.float32))
    bias = g.constant(chance.normal(size=WIDTH).astype(np.float32))
    return [plus(g, v[0]), g.apply(Tanh(), g.apply(FullyConnected(), v[1], weights, bias))]


def test_code_that_is_observed_has_the_constants_of_the_code_that_is_not(
        folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Artifact] = []

    def loading(file: BufferedReader, held: Array | None) -> Artifact | None:
        artifact = load(file, held)
        assert artifact is not None
        found.append(artifact)
        return artifact

    monkeypatch.setattr("circlet.backends.native.load.store.load", loading)
    inputs = [i32(0), np.ones((1, WIDTH), np.float32)]
    sessions = [circlet.Session(while_model(at_most(4), turn, inputs), "native") for _ in range(2)]
    for each in sessions:
        each.run(inputs)
    sessions[0].run(inputs, circlet.Counter())
    with circlet.profile(sessions[0]):
        sessions[0].run(inputs)
    assert len(functions(folder)) == 3
    assert [each.constants is found[0].constants for each in found] == [True] * 4
    assert found[0].constants.nbytes >= WIDTH * WIDTH * 4


def test_others_are_told_apart_where_checksums_are_not() -> None:
    one, two = np.zeros(64, np.uint8), np.arange(64, dtype=np.uint8)
    assert shared(one, b"a") is one
    assert shared(two, b"a") is two
    assert shared(one.copy(), b"a") is one
    assert shared(two.copy(), b"b") is not two


def test_they_are_given_up_with_the_last_function() -> None:
    first = shared(np.zeros(64, np.uint8), b"c")
    first[0] = 1
    del first
    assert shared(np.zeros(64, np.uint8), b"c")[0] == 0


def test_arrays_are_gone_once_they_are_put_together() -> None:
    program = Program(externals=[np.full(300 * k, k, np.uint8) for k in range(1, 6)], sources=[FIXED] * 5)
    expected, left = [each.copy() for each in program.externals], [ref(each) for each in program.externals]
    artifact = gather(program, (), {})
    assert [each() for each in left] == [None] * 5
    places = [each for each in artifact.manifest.origins if isinstance(each, Stored)]
    for place, array in zip(places, expected, strict=True):
        np.testing.assert_array_equal(artifact.constants[place.offset:place.offset + place.size], array, strict=True)
