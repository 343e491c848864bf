"""What runs that fail have written to the state is taken back, and no more than that is copied."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import circlet
from circlet.embed import compile_model
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.controlflow import CallOnce, While
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.variable import AssignVariable, ReadVariable, VarHandle
from tests.embed.library import Library
from tests.embed.test_interface import FAILED, here
from tests.exec import graphs as g
from tests.exec.graphs import f32, i32

pytestmark = here
SIZES = {"v": 1, "w": 1000}
"""Elements of the variables."""
FIRST_TABLE = 6
"""Elements of the table that is read first; each further one has one less."""


def handle(s: SubgraphBuilder, name: str) -> Value:
    return s.op(VarHandle("", name), outputs=[Tensor("handle", DType.RESOURCE, ())])[0]


def read(s: SubgraphBuilder, name: str) -> Value:
    return s.op(ReadVariable(), handle(s, name), outputs=[Tensor("value", DType.FLOAT32, (SIZES[name],))])[0]


def write(s: SubgraphBuilder, steps: str, at: Value) -> Value:
    """Adds what is read to a variable for `v` and `w`, reads the element `at` of a table for `f`; gives what was read
    last."""
    found, table = s.constant(f32([1])), FIRST_TABLE
    for each in steps:
        if each == "f":
            (found,) = s.op(Gather(), s.constant(np.arange(1, table + 1, dtype=np.float32)), at)
            table -= 1
        else:
            s.op(AssignVariable(), handle(s, each), g.add(s, read(s, each), found), outputs=[])
    return found


def model(steps: str, turns: int) -> Model:
    """`run` takes these steps; in a loop, if there are to be more turns than none. `get` gives the variables."""
    b = ModelBuilder()
    run, get, init = b.subgraph("run"), b.subgraph("get"), b.subgraph("init")
    for name, size in SIZES.items():
        init.op(AssignVariable(), handle(init, name), init.constant(np.zeros(size, np.float32)), outputs=[])
    for entry in (run, get):
        entry.op(CallOnce(init.index), outputs=[])
    at = run.input("at", DType.INT32, (1,))
    result = _loop(b, run, steps, turns, at) if turns else write(run, steps, at)
    run.output(result)
    b.signature("run", run, {"at": at}, {"found": result})
    values = [read(get, name) for name in SIZES]
    get.output(*values)
    b.signature("get", get, {}, dict(zip(SIZES, values, strict=True)))
    return b.build()


def _loop(b: ModelBuilder, run: SubgraphBuilder, steps: str, turns: int, at: Value) -> Value:
    """Each turn adds one to what is read."""
    cond, body = b.subgraph("cond"), b.subgraph("body")
    for each in (cond, body):
        k, place = each.input("k", DType.INT32, ()), each.input("place", DType.INT32, (1,))
        found = each.input("found", DType.FLOAT32, (1,))
        if each is cond:
            each.output(g.less(each, k, each.constant(i32(turns))))
        else:
            each.output(g.plus(each, k), g.plus(each, place), g.add(each, found, write(each, steps, place)))
    zero, one = run.constant(i32(0)), run.constant(f32([1]))
    kinds = [Tensor("", DType.INT32, ()), Tensor("", DType.INT32, (1,)), Tensor("", DType.FLOAT32, (1,))]
    return run.op(While(cond.index, body.index), zero, at, one, outputs=kinds)[2]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text("vwf", min_size=1, max_size=5), st.integers(0, 3), st.lists(st.integers(0, 7), min_size=1, max_size=5))
def test_variables_are_those_of_a_session(tmp_path: Path, steps: str, turns: int, places: Sequence[int]) -> None:
    made = model(steps, turns)
    library, session = Library(compile_model(made, "host", "steps"), tmp_path), circlet.Session(made, "cpu")
    for place in places:
        inputs = {"at": i32([place])}
        status, outputs = library.run(inputs, "run")
        try:
            expected = session.signature("run")(inputs)
        except circlet.ExecutionError:
            assert status >= FAILED
        else:
            assert status == 0
            np.testing.assert_array_equal(outputs["found"], expected["found"])
        kept = session.signature("get")()
        for name, value in library.run({}, "get")[1].items():
            np.testing.assert_array_equal(value, kept[name])


@pytest.mark.parametrize(("steps", "turns", "copied"), [
    ("w", 0, 0), ("fw", 0, 0), ("ffww", 0, 0), ("vf", 0, 1), ("vfw", 0, 1), ("wf", 0, 1000), ("vwf", 0, 1001),
    ("v", 2, 1), ("fw", 2, 1000), ("f", 2, 0), ("fv", 2, 1)])
def test_only_what_is_written_before_a_failure_is_copied(steps: str, turns: int, copied: int) -> None:
    entry = compile_model(model(steps, turns), "cortex-m4", "steps", "run", is_small=True).code.entries[0]
    tensors = sum(each.size for each in entry.buffers)
    assert copied * 4 <= entry.arena_bytes <= copied * 4 + tensors + 8


def test_without_limits_loops_do_not_fail() -> None:
    made = model("w", 2)
    sizes = [compile_model(made, "cortex-m4", "steps", "run", limits=each).code.arena_bytes for each in (True, False)]
    assert sizes[0] - sizes[1] == 4 * SIZES["w"]
