"""Functions of a process that keep the same constants hold them once."""

from __future__ import annotations

from collections.abc import Sequence
from io import FileIO
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest

import circlet
from circlet.backends.native.load.artifact import Artifact, load
from circlet.backends.native.load.gathering import gather
from circlet.backends.native.load.manifest import Constant, Manifest, Stored
from circlet.backends.native.load.sealed import shared
from circlet.backends.native.parts import FIXED
from circlet.backends.native.plans.key import MARK
from circlet.backends.native.program import Program
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Padding
from circlet.runtime.ops.conv import Conv2D
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.layout import Transpose
from circlet.runtime.ops.matmul import FullyConnected
from circlet.runtime.ops.unary import Tanh
from circlet.schema.files import dump_model
from tests.exec.graphs import at_most, i32, plus, while_model
from tests.native.conftest import functions
from tests.native.test_plans import forbid_reading

WIDTH = 24


def turn(g: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    """A layer with a bias."""
    chance = np.random.default_rng(0)
    weights = g.constant(chance.normal(size=(WIDTH, WIDTH)).astype(np.float32))
    bias = g.constant(chance.normal(size=WIDTH).astype(np.float32))
    return [plus(g, v[0]), g.apply(Tanh(), g.apply(FullyConnected(), v[1], weights, bias))]


def manifests(monkeypatch: pytest.MonkeyPatch) -> list[Manifest]:
    """Hears of what functions need, as they are kept."""
    found: list[Manifest] = []

    def gathering(*given: Any) -> Artifact:
        artifact = gather(*given)
        found.append(artifact.manifest)
        return artifact

    monkeypatch.setattr("circlet.backends.native.backend.gather", gathering)
    return found


@pytest.mark.parametrize("length", [-1, 5])
def test_weights_of_which_a_packed_copy_is_read_are_not_needed(
        length: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a filter are packed; what is added is read where it lies."""
    b = ModelBuilder()
    main = b.subgraph("main")
    chance = np.random.default_rng(0)
    filter, bias, table = (main.constant(chance.normal(size=shape).astype(np.float32))
                           for shape in ((WIDTH, 3, 3, 5), (WIDTH,), (7, WIDTH)))
    image = main.input("image", DType.FLOAT32, (1, length, 7, 5))
    main.output(main.apply(Add(), main.apply(Conv2D(Padding.SAME, 1, 1), image, filter, bias), table))
    found, model = manifests(monkeypatch), b.build()
    inputs = [chance.normal(size=(1, 5, 7, 5)).astype(np.float32)]
    results = [circlet.Session(model, backend).invoke(0, inputs) for backend in ("native", "cpu")]
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    (manifest,) = found
    needed = {each.tensor for each in manifest.origins if isinstance(each, Constant)}
    assert filter.index not in needed
    assert table.index in needed


def test_a_large_table_is_kept_and_mapped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not in the file as it is read, of more than 4 MB."""
    table = np.random.default_rng(0).normal(size=(8, 150_000)).astype(np.float32)
    b = ModelBuilder()
    main = b.subgraph("main")
    turned = main.apply(Transpose(), main.constant(table), main.constant(np.array([1, 0], np.int32)))
    main.output(main.apply(Gather(), turned, main.input("ids", DType.INT32, (-1,))))
    content = dump_model(b.build(), "tflite")
    circlet.Session(content, "native").run([np.zeros(3, np.int32)])
    (plan,) = [each for each in folder.iterdir() if MARK in each.read_bytes()[-200:]]
    forbid_reading(monkeypatch)
    for ids in ([149_999, 0, 7], [5, 5]):
        (found,) = circlet.Session(content, "native").run([np.array(ids, np.int32)]).values()
        np.testing.assert_array_equal(found, table.T[ids])
    damaged = bytearray(plan.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    plan.write_bytes(damaged)
    with pytest.raises(pytest.fail.Exception, match="the model is read"):
        circlet.Session(content, "native")


def test_code_that_is_observed_has_the_constants_of_the_code_that_is_not(
        folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Artifact] = []

    def loading(file: FileIO, held: Array | None) -> Artifact | None:
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


def test_constants_that_lie_in_another_order() -> None:
    """A table and its transposition."""
    table, x = np.arange(49, dtype=np.int32).reshape(7, 7), np.random.default_rng(0).random((2, 49), np.float32)
    builder = ModelBuilder()
    main = builder.subgraph("main")
    given = main.input("x", DType.FLOAT32, (-1, 49))
    for each in (table, table.T):
        main.output(*main.op(Gather(1), given, main.constant(each), outputs=[Tensor("", DType.FLOAT32, (),
                                                                                    has_rank=False)]))
    for found, each in zip(circlet.Session(builder.build(), "native").invoke(0, [x]), (table, table.T), strict=True):
        np.testing.assert_array_equal(found, x[:, each])


def test_constants_of_networks_that_lie_in_another_order() -> None:
    table, places = np.random.default_rng(0).random((8, 50), np.float32), np.array([3, 49], np.int32)
    network = circlet.Network()
    network.output(network.gather(table.T, network.input("places", np.int32, (-1,))), "rows")
    found = circlet.Session(network.build(), "native").run({"places": places})["rows"]
    np.testing.assert_array_equal(found, table.T[places])
