"""`circlet inspect --diff`: what two models have otherwise."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.ir.builder import SubgraphBuilder, Value
from circlet.runtime.ir.model import Model, Subgraph
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.controlflow import While
from circlet.runtime.ops.elementwise import Add, Mul
from circlet.runtime.ops.reduce import Sum
from circlet.runtime.ops.unary import Neg, Tanh
from circlet.tools.inspection.difference import differences_of
from tests.tools.conftest import Program

MODELS = sorted((Path(__file__).parents[1] / "models").glob("*.tflite"))
COLLATZ = "examples/collatz.tflite"
WEIGHTS = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)


def model(weights: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = WEIGHTS, keep_dims: bool = False,
          extra: bool = False, dtype: DType = DType.FLOAT32) -> Model:
    """tanh(x * weights), summed up; with a NEG before that if it is `extra`."""
    builder = circlet.ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", dtype, (2, 2))
    y = main.apply(Mul(), x, main.constant(weights, dtype, name="weights"))
    if extra:
        y = _named(main, main.apply(Neg(), y), "extra")
    y = _named(main, main.apply(Tanh(), y), "tanh")
    main.output(_named(main, main.apply(Sum(keep_dims=keep_dims), y, main.constant([1], name="axis")), "sum"))
    builder.signature("serve", main, {"x": x}, {"sum": Value(0, main.size - 1)})
    return builder.build()


def _named(graph: SubgraphBuilder, value: Value, name: str) -> Value:
    graph.redeclare(value, replace(graph.build().tensors[value.index], name=name))
    return value


def told(one: Model, other: Model) -> list[tuple[str, str, str]]:
    return [(each.kind, each.place, each.text) for each in differences_of(one, other)]


def with_main(found: Model, main: Subgraph) -> Model:
    return replace(found, subgraphs=(main, *found.subgraphs[1:]))


@pytest.mark.parametrize("path", MODELS, ids=lambda each: each.stem)
def test_a_model_is_as_itself(path: Path) -> None:
    assert differences_of(circlet.load(path), circlet.load(path)) == []


def test_constants() -> None:
    changed = WEIGHTS.copy()
    changed[0, 1], changed[1, 1] = 2.5, 4.125
    (found,) = differences_of(model(), model(changed))
    assert (found.kind, found.place, found.largest) == ("constant", "@0[0] MUL, input 1 %1 weights", 0.5)
    assert found.text == "2 of 4 elements differ, by 0.5 at the most"
    changed[0, 0] = np.nan
    (found,) = differences_of(model(), model(changed))
    assert found.largest == np.inf
    assert differences_of(model(changed), model(changed)) == []
    (found,) = differences_of(model(), model(-WEIGHTS, extra=False))
    assert found.text == "4 of 4 elements differ, by 8 at the most"


def test_constants_stand_by_the_size_of_their_differences() -> None:
    def two(one: float, other: float) -> Model:
        main = (builder := circlet.ModelBuilder()).subgraph("main")
        x = main.input("x", np.float32, (1,))
        for number in (one, other):
            x = main.apply(Add(), x, main.constant([number], np.float32))
        main.output(x)
        return builder.build()

    assert [each.largest for each in differences_of(two(0, 0), two(1, 3))] == [3, 1]


def test_options_and_types() -> None:
    assert told(model(), model(keep_dims=True)) == [
        ("signature", "signature serve, output sum", "float32[2] became float32[2,1]"),
        ("operator", "@0[2] SUM", "option keep_dims: the default became true"),
        ("tensor", "@0[2] SUM, result 0", "float32[2] became float32[2,1]")]
    found = told(model(), model(dtype=DType.FLOAT16))
    assert ("tensor", "@0 main, input 0", "float32[2,2] became float16[2,2]") in found
    assert ("constant", "@0[0] MUL, input 1 %1 weights", "float32[2,2] became float16[2,2]") in found


def test_operators_that_are_new_or_gone() -> None:
    before, after = model(), model(extra=True)
    assert told(before, after) == [
        ("operator", "@0[1] NEG", "is new, at this place of the other model"),
        ("operator", "@0[1] TANH, input 0", "reads another value: %2 mul_2, then %3 extra")]
    assert [each[1:] for each in told(after, before)] == [
        ("@0[1] NEG", "is gone"), ("@0[2] TANH, input 0", "reads another value: %3 extra, then %2 mul_2")]


def test_an_operator_that_became_another() -> None:
    found = model()
    main = found.subgraphs[0]
    operators = (main.operators[0], replace(main.operators[1], op=Neg()), main.operators[2])
    assert told(found, with_main(found, replace(main, operators=operators))) == [
        ("operator", "@0[1] TANH", "became NEG")]


def test_operators_are_found_by_what_they_read() -> None:
    """All names are others, and there is one more operator of the same kind in front."""
    def chain(names: Sequence[str], extra: bool) -> Model:
        main = (builder := circlet.ModelBuilder()).subgraph("main")
        x = main.input("x", np.float32, (1,))
        if extra:
            main.apply(Neg(), main.constant([1.0]))
        for name, op in zip(names, (Tanh(), Neg(), Tanh()), strict=True):
            x = _named(main, main.apply(op, x), name)
        main.output(x)
        return builder.build()

    found = told(chain(["a", "b", "c"], False), chain(["d", "e", "f"], True))
    assert found[:1] == [("operator", "@0[0] NEG", "is new, at this place of the other model")]
    assert [each[1:] for each in found[1:]] == [
        ("@0[0] TANH, result 0", "a is called d"), ("@0[1] NEG, result 0", "b is called e"),
        ("@0[2] TANH, result 0", "c is called f")]


def test_signatures_and_subgraphs() -> None:
    found = circlet.load(Path(__file__).parents[2] / COLLATZ)
    main, other, *rest = found.subgraphs
    assert told(found, replace(found, signatures=())) == [("signature", "signature serving_default", "is gone")]
    assert told(found, replace(found, description="mine")) == [
        ("model", "description", "'MLIR Converted.' became 'mine'")]
    assert told(replace(found, subgraphs=(*found.subgraphs, other)), found)[0] == (
        "subgraph", "@5 while_cond_false_320", "is gone")
    renamed = replace(found, subgraphs=(main, replace(other, name="odd"), *rest))
    assert told(found, renamed) == [("subgraph", "@1 while_cond_false_320", "is called odd")]


def test_subgraphs_in_another_order_are_the_same() -> None:
    def loop(swapped: bool) -> Model:
        builder = circlet.ModelBuilder()
        main = builder.subgraph("main")
        names = ("body", "other") if swapped else ("other", "body")
        graphs = {name: builder.subgraph(name) for name in names}
        cond = builder.subgraph("cond")
        x = main.input("x", np.bool_, ())
        for graph in (*graphs.values(), cond):
            graph.output(graph.input("x", np.bool_, ()))
        main.output(*main.op(While(cond.index, graphs["body"].index), x, count=1))
        return builder.build()

    assert differences_of(loop(False), loop(True)) == []


def test_the_command(program: Program, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("one.tflite", "other.tflite")]
    for path, weights in zip(paths, (WEIGHTS, WEIGHTS + 1), strict=True):
        circlet.save(model(weights), path)
    text = program.text("inspect", paths[0], "--diff", paths[1])
    assert text.splitlines()[0] == f"{paths[0]} and {paths[1]} differ: 1 constant"
    assert "4 of 4 elements differ, by 1 at the most" in text
    found = program.json("inspect", paths[0], "--diff", paths[1])
    assert found == {"model": str(paths[0]), "other": str(paths[1]), "differences": [
        {"kind": "constant", "place": "@0[0] MUL, input 1 %1 weights",
         "text": "4 of 4 elements differ, by 1 at the most", "largest": 1.0}]}
    assert program.text("inspect", COLLATZ, "--diff", COLLATZ) == f"no differences between {COLLATZ} and {COLLATZ}\n"
    assert program.error("inspect", COLLATZ, "--diff", "nosuch.tflite").startswith("nosuch.tflite: ")


@pytest.mark.slow
def test_ten_thousand_operators_are_quick() -> None:
    def chain() -> Model:
        main = (builder := circlet.ModelBuilder()).subgraph("main")
        x = main.input("x", np.float32, (1,))
        for _ in range(10_000):
            x = main.apply(Tanh(), x)
        main.output(x)
        return builder.build()

    one, other = chain(), chain()
    nameless = [replace(each, name="") for each in other.subgraphs[0].tensors]
    other = with_main(other, replace(other.subgraphs[0], tensors=tuple(nameless)))
    started = time.process_time()
    found = differences_of(one, other)
    assert time.process_time() - started < 5  # takes 0.5
    assert {each.kind for each in found} == {"tensor"}
