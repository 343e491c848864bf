"""A part of a subgraph that has a function of its own for a length of 1, of which more is known then: what the function
leaves out as it is known is there for what follows."""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from circlet.backends.native.backend import NativeBackend
from circlet.backends.native.load.store import Function
from circlet.runtime.exec.kernel import Span
from circlet.runtime.exec.observe.listener import Observation
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.premises import ToldApart
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Add, Maximum, Sub
from circlet.runtime.ops.shape import Fill, Reshape
from circlet.runtime.ops.unary import Abs, Neg, Tanh
from tests.native.test_lengths import Graph, floats
from tests.native.test_lengths_hosted import INTS
from tests.ops.cases import check


def model() -> Model:
    """How far x is from 5 rows; as many ones as k differs from 0 by, which only a frame for any values has for k below
    0; and that number and how far x is together."""
    b = ModelBuilder()
    g = Graph(b.subgraph("main"))
    x, k = g.builder.input("x", DType.FLOAT32, (-1, 6)), g.builder.input("k", INTS, ())
    far = g(Abs(), g(Sub(), g.length(x, 0), g.number(5), dtype=INTS), dtype=INTS)
    size = g(Reshape(), g(Maximum(), k, g(Neg(), k, dtype=INTS), dtype=INTS), g.ints(1), dtype=INTS)
    ones = g(Fill(), size, g.number(1.0))
    g.builder.output(far, g(Tanh(), x), ones, g(Add(), far, size, dtype=INTS))
    return b.build()


def test_values_that_are_known_at_length_one(folder: object, monkeypatch: pytest.MonkeyPatch) -> None:
    general = NativeBackend._general

    def apart(self: NativeBackend, span: Span, observed: Observation) -> Function | None:
        if not span.is_whole and span.spec.general is not None and span.spec.general.opened and (
                span.spec.lengths[0] == 1):
            raise ToldApart([0])
        return general(self, span, observed)

    monkeypatch.setattr(NativeBackend, "_general", apart)
    session = circlet.Session(model(), backend="native")
    for n in (7, 1, 9, 1):
        x = floats(n, 6)
        far, rows, ones, both = session.invoke(0, [x, np.array(-3, np.int32)])
        assert far == abs(n - 5)
        check(rows, np.tanh(x), 1e-6)
        assert ones.tolist() == [1] * 3
        assert both.tolist() == [abs(n - 5) + 3]
