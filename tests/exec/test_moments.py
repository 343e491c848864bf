"""What listeners see of the values that operators read and write is what flows between them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.exec.observe.moment import Moment
from circlet.runtime.exec.observe.observer import Observer
from circlet.runtime.ir.model import Model
from tests.exec import graphs as g
from tests.models.expectations import read
from tests.needs import ONNX

FOLDER = Path(__file__).parents[1] / "models"
MODELS = sorted(FOLDER.glob("*.tflite"))
INPUTS = {name: read(FOLDER / f"{name}.npz")[0].inputs for name in ("collatz", "nested_while")}


class Flow(circlet.Listener):
    """Keeps what operators gave, and compares it with what others then read."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.scopes: list[dict[int, g.Array]] = []
        self.given: list[dict[int, g.Array]] = []
        """What each operator that runs was given, the innermost last."""
        self.seen: Counter[tuple[int, int]] = Counter()

    def will_invoke(self, subgraph: int) -> None:
        self.scopes.append({})

    def did_invoke(self, subgraph: int) -> None:
        self.scopes.pop()

    def _expect(self, values: dict[int, g.Array], known: dict[int, g.Array]) -> None:
        for tensor in values.keys() & known.keys():
            one, other = values[tensor], known[tensor]
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            assert one.tobytes() == other.tobytes() or np.array_equal(one, other)

    def will_compute(self, moment: Moment) -> None:
        self._expect(moment.values, self.scopes[-1])
        self.given.append({tensor: value.copy() for tensor, value in moment.values.items()})

    def did_compute(self, moment: Moment) -> None:
        outputs = dict(zip(moment.operator.outputs, moment.outputs, strict=True))
        kept = {tensor: value for tensor, value in moment.values.items() if tensor not in outputs}
        self._expect(kept, self.given.pop())
        self.scopes[-1].update({tensor: value.copy() for tensor, value in outputs.items()})
        self.seen[moment.place.subgraph, moment.place.operator] += 1
        assert not any(each.flags.writeable for each in moment.values.values())
        assert moment.place.operator_name == self.model.subgraphs[moment.place.subgraph].operators[
            moment.place.operator].name


@pytest.mark.parametrize(("backend", "elide"), [
    ("cpu", False), *(pytest.param(*each, marks=pytest.mark.slow)
                      for each in (("native", True), ("native", False), ("cpu", True)))])
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_what_is_seen_flows(path: Path, backend: str, elide: bool) -> None:
    model = circlet.load(path)
    call = read(path.with_suffix(".npz"))[0]
    session, other = (circlet.Session(model, each, copy_elision=elide) for each in (backend, "cpu"))
    flow, counter = Flow(model), circlet.Counter()
    found = session.signature(call.signature).run(call.inputs, listener=flow)
    wanted = other.signature(call.signature).run(call.inputs, listener=counter)
    for name in wanted:
        np.testing.assert_array_equal(found[name], wanted[name], strict=True)
    assert flow.seen
    for (subgraph, _), times in flow.seen.items():
        assert times == counter.invocations[subgraph]


@pytest.mark.parametrize("elide", g.ELISION, ids=["elision", "copies"])
def test_where_operators_are(elide: bool) -> None:
    model = circlet.load(FOLDER / "nested_while.tflite")
    paths: list[tuple[str, int | None]] = []

    class Where(circlet.Listener):
        def did_compute(self, moment: Moment) -> None:
            paths.append((moment.path, moment.iteration))

    counter = circlet.Counter()
    session = circlet.Session(model, copy_elision=elide)
    session.signature().run(INPUTS["nested_while"], listener=Where())
    session.signature().run(INPUTS["nested_while"], listener=counter)
    assert len(paths) == len({*paths})
    assert paths[-1] == ("0[0] WHILE", None)
    for index, subgraph in enumerate(model.subgraphs):
        last = f"{index}[{len(subgraph.operators) - 1}] "
        assert sum(last in path.rpartition("> ")[2] for path, _ in paths) == counter.invocations[index]
    outer = [path for path, _ in paths if path.startswith("0[0] WHILE #1 body > ")]
    assert outer[-1].count(" > ") == 1
    assert any(" WHILE #0 body > " in path.partition(" > ")[2] for path in outer)


@ONNX
@pytest.mark.parametrize("elide", g.ELISION, ids=["elision", "copies"])
def test_a_loop_that_passes_rewrite_is_seen_as_it_was(elide: bool) -> None:
    """Its scan output has no known length, so that its turns are in rounds; its body has an invariant that is known."""
    from tests.schema.onnx import graphs

    model = graphs.load("""
        main (int64 n, bool c) => (int64 last, int64[k] all)
        <int64 three = {3}, int64 zero = {0}> {
            last, all = Loop <body = body (int64 i, bool go, int64 s) => (bool stay, int64 t, int64 out) {
                t = Add(s, three)
                limit = Mul(three, three)
                stay = Less(i, limit)
                out = Identity(t)
            }> (n, c, zero)
        }""")
    seen: list[tuple[str, int | None, list[int]]] = []

    class Where(circlet.Listener):
        def did_compute(self, moment: Moment) -> None:
            seen.append((moment.place.operator_name, moment.iteration, [each.item() for each in moment.outputs[:1]
                                                                        if each.size == 1]))
            assert len(moment.calls) <= 1

    session = circlet.Session(model, copy_elision=elide)
    found = session.run({"n": 100, "c": True}, listener=Where())
    assert found["last"] == 30
    additions = [(iteration, value) for name, iteration, (value,) in
                 (each for each in seen if each[2]) if name == "ADD"]
    assert additions == [(k, 3 * (k + 1)) for k in range(10)]
    assert seen[-1][:2] == ("LOOP", None)
    assert {name for name, _, _ in seen} <= {"ADD", "MUL", "LESS", "ALIAS", "LOOP", "IDENTITY"}


def test_nothing_is_bound_for_others() -> None:
    """Listeners that do not ask for values get operators as before, and runs without one no observer of values."""
    session = circlet.Session(circlet.load(FOLDER / "collatz.tflite"), "cpu")
    heard: list[tuple[int, int]] = []

    class Runs(circlet.Listener):
        def did_run(self, subgraph: int, operator: int) -> None:
            heard.append((subgraph, operator))

    session.run(INPUTS["collatz"], listener=Runs())
    session.run(INPUTS["collatz"])
    assert heard
    for frames in session._frames._idle.values():
        assert all(type(frame.run.observer) is Observer for frame in frames)
