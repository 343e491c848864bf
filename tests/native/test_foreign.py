"""Code for processors with addresses of 32 bits."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.backends.native.load import llvm
from circlet.backends.native.targets.target import Target
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.index import Gather
from tests.native.foreign import NARROW, calls, lowered, verify
from tests.native.native_cases import model_of, opened
from tests.ops.cases import Case

MODELS = sorted((Path(__file__).parents[1] / "models").glob("*.tflite"))
WIDE = re.compile(r"__(aeabi_(l|ul|d2l|l2d|f2l|l2f)\w*|(mul|div|mod|udiv|umod|ashl|ashr|lshr)di3|(float|fix)\w*di\w*)")
"""Functions of libgcc on integers of 64 bits."""
HAVE_WIDE = frozenset({"elementwise_float", "normalizations", "power_modulo_int64"})
"""Models with such integers: elements, or the bit patterns of doubles."""
FAMILIES = sorted(path.stem for path in (Path(__file__).parents[1] / "ops").glob("test_*.py"))


@pytest.mark.parametrize(("layout", "bits"), [("e-p:32:32", 32), ("e-p:64:64", 64), ("", 64), ("e-p:16:16", 32)])
def test_the_width_of_an_index(layout: str, bits: int) -> None:
    assert Target("", "", "", layout).index_bits == bits


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_models(path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions are those of the host, LLVM finds no fault in them, and they compute with 64 bits only where the
    model does."""
    model = circlet.load(path)
    for index in {each.subgraph for each in model.signatures} or {0}:
        main = model.subgraphs[index]
        given = [np.zeros(tensor.shape, tensor.dtype.numpy) for tensor in (main.tensors[k] for k in main.inputs)]
        with monkeypatch.context() as patch:
            expected = lowered(model, index, given, llvm.host(), patch)
        found = lowered(model, index, given, NARROW[name], monkeypatch)
        assert [(each.operators, not each.module) for each in found] == [
            (each.operators, not each.module) for each in expected]
        called = set().union(*(calls(each.module, NARROW[name]) for each in found if each.module))
        assert path.stem in HAVE_WIDE or not {each for each in called if WIDE.fullmatch(each)}


def _cases(family: str) -> Iterator[Case]:
    for value in vars(importlib.import_module(f"tests.ops.{family}")).values():
        if isinstance(value, (list, tuple)):
            yield from (each for each in value if isinstance(each, Case) and each.error is None)


@pytest.mark.parametrize("is_open", [False, True], ids=["fixed", "open"])
@pytest.mark.parametrize("family", FAMILIES)
def test_operators(family: str, is_open: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is code for the host is code for a processor with narrow addresses."""
    host, narrow = llvm.host(), NARROW["cortex-m4"]
    for case in _cases(family):
        model, given = model_of(case)
        model, arrays = opened(model) if is_open else model, [each.array for each in given]
        expected, found = (lowered(model, 0, arrays, by, monkeypatch, is_open) for by in (host, narrow))
        one, other = ([not each.module for each in functions] for functions in (expected, found))
        assert one == other, f"{case.op.name} {case.id}"
        for each in found:
            verify(each.module, narrow)


@pytest.mark.parametrize(("dtype", "limit"), [(DType.INT64, "llvm.smin.i64"), (DType.UINT32, "llvm.umin.i32")])
def test_indices_that_are_wider_are_limited(dtype: DType, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that 2**32 is not taken for 0."""
    b = ModelBuilder()
    main = b.subgraph("main")
    rows, place = main.input("rows", DType.FLOAT32, (3, 4)), main.input("place", dtype, (2,))
    main.output(main.apply(Gather(), rows, place))
    given = [np.zeros((3, 4), np.float32), np.zeros(2, dtype.numpy)]
    (found,) = lowered(b.build(), 0, given, NARROW["cortex-m4"], monkeypatch)
    assert limit in found.module
    verify(found.module, NARROW["cortex-m4"])
