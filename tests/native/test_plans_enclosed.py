"""Plans that hold a function, where that is small."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

import circlet
from circlet.backends.native.load import sealed
from circlet.backends.native.load.library import MappedLibrary, Mapping, SharedLibrary
from circlet.backends.native.load.store import stored
from circlet.backends.native.plans import planning
from circlet.backends.native.plans.key import MARK, plan_key
from circlet.backends.native.plans.prepared import find
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Provenance
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.layout import Transpose
from circlet.runtime.ops.matmul import FullyConnected
from circlet.schema.files import dump_model
from tests.native.test_plans import forbid_reading, is_prepared
from tests.native.test_visible import SHARED

WIDE = np.random.default_rng(3).normal(size=(32, 64)).astype(np.float32)
WEIGHTS = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
TURNED = np.arange(15, dtype=np.float32).reshape(3, 5)
GIVEN = np.random.default_rng(1).normal(size=(3, 3)).astype(np.float32)


def layers(length: int) -> bytes:
    """x (length, 3) by weights that are in the file, and by some that follow from it."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (length, 3))
    turned = main.apply(Transpose(), main.constant(TURNED), main.constant(np.array([1, 0], np.int32)))
    main.output(main.apply(Add(), main.apply(FullyConnected(), x, main.constant(WEIGHTS)),
                           main.apply(FullyConnected(), x, turned)))
    return dump_model(b.build(), "tflite")


def run(session: circlet.Session) -> Array:
    (found,) = session.invoke(0, [GIVEN])
    np.testing.assert_allclose(found, GIVEN @ (WEIGHTS.T + TURNED), rtol=1e-5, atol=1e-5)
    return found


def leave_the_plan(folder: Path) -> Path:
    """The plan, all else is deleted."""
    (plan,) = [each for each in folder.iterdir() if MARK in each.read_bytes()[-200:]]
    for each in folder.iterdir():
        if each != plan:
            each.unlink()
    return plan


@SHARED
@pytest.mark.parametrize("length", [-1, 3])
def test_the_file_of_the_plan_is_enough(folder: Path, monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    content = layers(length)
    expected = run(circlet.Session(content, "native"))
    leave_the_plan(folder)
    forbid_reading(monkeypatch)
    session = circlet.Session(content, "native")
    np.testing.assert_array_equal(run(session), expected)
    assert is_prepared(session)


@SHARED
def test_the_loader_of_the_system_is_asked_where_files_are_not_executed(
        folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = layers(-1)
    expected = run(circlet.Session(content, "native"))
    leave_the_plan(folder)
    forbid_reading(monkeypatch)
    kinds = []

    def refuse(mapping: Mapping, begin: int, size: int) -> NoReturn:
        raise OSError("no")

    for refuses in (False, True):
        if refuses:
            monkeypatch.setattr(Mapping, "allow", refuse)
        found = find(plan_key(Provenance(memoryview(content), "", (), ())))
        assert found is not None
        assert found.function is not None
        kinds.append(type(found.function.library))
        np.testing.assert_array_equal(run(circlet.Session(content, "native")), expected)
    assert kinds == [MappedLibrary, SharedLibrary]


@SHARED
def test_of_several_functions_that_for_any_lengths_is_held(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row is another function's, which is looked for elsewhere; both are found with the plan."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", DType.FLOAT32, (-1, 64))
    main.output(main.apply(FullyConnected(), x, main.constant(WIDE)))
    content = dump_model(b.build(), "tflite")
    given = [np.random.default_rng(2).normal(size=(rows, 64)).astype(np.float32) for rows in (1, 7)]
    expected = [circlet.Session(content, "native").invoke(0, [each])[0] for each in given]
    forbid_reading(monkeypatch)
    found = find(plan_key(Provenance(memoryview(content), "", (), ())))
    assert found is not None
    assert found.function is not None
    (opened,) = [each for each in found.plan.planned if each.layout is None]
    assert [each.layout is None for each in found.plan.planned] == [False, True]
    assert found.function.key == opened.stages[0].key
    session = circlet.Session(content, "native")
    for each, result in zip(given, expected, strict=True):
        np.testing.assert_array_equal(session.invoke(0, [each])[0], result)
    assert is_prepared(session)


@SHARED
def test_code_of_large_files_is_mapped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "ENCLOSED", 1000)
    content = layers(-1)
    expected = run(circlet.Session(content, "native"))
    monkeypatch.setattr(sealed, "_MAPPED", 1000)
    found = find(plan_key(Provenance(memoryview(content), "", (), ())))
    assert found is not None
    assert found.function is None
    function = stored(found.plan.planned[0].stages[0].key)
    assert function is not None
    assert isinstance(function.library, MappedLibrary)
    forbid_reading(monkeypatch)
    np.testing.assert_array_equal(run(circlet.Session(content, "native")), expected)


@pytest.mark.parametrize("place", [0.1, 0.5, 0.8, 0.99])
def test_what_is_damaged_is_made_anew(folder: Path, place: float) -> None:
    content = layers(-1)
    run(circlet.Session(content, "native"))
    plan = leave_the_plan(folder)
    damaged = bytearray(plan.read_bytes())
    damaged[int(place * len(damaged))] ^= 1
    plan.write_bytes(damaged)
    session = circlet.Session(content, "native")
    run(session)
    assert not is_prepared(session)


def test_large_functions_are_kept_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "ENCLOSED", 1000)
    content = layers(-1)
    run(circlet.Session(content, "native"))
    forbid_reading(monkeypatch)
    run(circlet.Session(content, "native"))
    leave_the_plan(folder)
    with pytest.raises(pytest.fail.Exception, match="the model is read"):
        run(circlet.Session(content, "native"))
