"""Which backend computes what, and why not another."""

from __future__ import annotations

import numpy as np

import circlet
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.controlflow import CallOnce
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.table import Hashtable, HashtableImport
from circlet.tools.support import support_of
from tests.needs import NATIVE

pytestmark = NATIVE


def initialised() -> Model:
    """A subgraph that fills a table is called once; then there is a sum."""
    builder = circlet.ModelBuilder()
    main, init = builder.subgraph("main"), builder.subgraph("init")
    handle, = init.op(Hashtable(1, DType.INT64, DType.STRING), outputs=[Tensor("table", DType.RESOURCE, ())])
    init.op(HashtableImport(), handle, init.constant(np.array([1], np.int64)),
            init.constant(np.array([b"one"], object), DType.STRING), outputs=[])
    x = main.input("x", np.float32, (2,))
    main.op(CallOnce(init.index), outputs=[])
    main.output(main.apply(Add(), x, x))
    return builder.build()


def test_a_subgraph_that_is_called_once_is_the_hosts() -> None:
    found = support_of(initialised(), "native")
    assert found.problem is None
    assert found.verdicts[0][0].reason
    assert found.verdicts[0][1].backend == "native"
    assert found.verdicts[0][1].reason == ""
