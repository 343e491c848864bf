"""What `verify` checks across the borders of subgraphs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from circlet.runtime.errors import ModelError
from circlet.runtime.ir.model import ABSENT, Model, Subgraph
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ir.verify import verify
from circlet.runtime.ops.controlflow import (
    CallOnce,
    CallSubgraph,
    Composite,
    If,
    PreTestedLoop,
    StablehloCase,
    StablehloWhile,
    While,
)
from tests.ir.toys import BOOL, F32, I32, Add, Less, graph, model, run, t

P, X, Y, N, M = t("p", BOOL, ()), t("x"), t("y"), t("n", I32, ()), t("m", I32, ())
KEEP_X = graph([X], [0], [0], name="keep_x")
KEEP_N = graph([N], [0], [0], name="keep_n")
DOUBLE = graph([X, Y], [0], [1], run(Add(), [0, 0], [1]), name="double")
BODY = graph([N, X], [0, 1], [0, 1], name="body")
LESS = graph([N, X, P], [0, 1], [2], run(Less(), [0, 0], [2]), name="less")
NOTHING = graph([], [], [], name="nothing")


def main(op: Op, inputs: list[Tensor], outputs: list[Tensor]) -> Subgraph:
    """A subgraph that applies one operator to its inputs and returns the results."""
    own, all_ = range(len(inputs)), range(len(inputs) + len(outputs))
    return graph([*inputs, *outputs], own, all_[len(own):], run(op, own, all_[len(own):]))


def branch(*branches: Subgraph, condition: Tensor = P) -> Model:
    return model(main(If(1, 2), [condition, X], [Y]), *branches)


def case(*branches: Subgraph, index: Tensor = N) -> Model:
    return model(main(StablehloCase(tuple(range(1, len(branches) + 1))), [index, X], [Y]), *branches)


def loop(cond: Subgraph, body: Subgraph, op: type[PreTestedLoop] = While) -> Model:
    return model(main(op(1, 2), [N, X], [M, Y]), cond, body)


def calls(*edges: tuple[int, ...]) -> Model:
    """Subgraphs `a`, `b`, ... without operands, each of which invokes others."""
    return model(*(
        graph([], [], [], *(run(CallSubgraph(each), [], []) for each in callees), name=chr(ord("a") + k))
        for k, callees in enumerate(edges)))


def nested(depth: int) -> Model:
    """A chain of subgraphs, each invoking the next one."""
    links = [graph([X, Y], [0], [1], run(CallSubgraph(k + 1), [0], [1]), name=str(k)) for k in range(depth - 1)]
    return model(*links, KEEP_X)


IF, WHILE = "subgraph 0 ('main'), operator 0 (IF)", "subgraph 0 ('main'), operator 0 (WHILE)"
SELECTS = "input 0 selects the subgraph: expected"

REFUSED = {
    "callee out of range": (branch(KEEP_X), f"{IF}: else: expected the index of a subgraph, below 2, found 2"),
    "callee not given": (
        model(main(CallSubgraph(), [], [])),
        "operator 0 (CALL): callee: expected the index of a subgraph, below 1, found -1"),
    "if: condition of another type": (
        branch(KEEP_X, DOUBLE, condition=N), f"{IF}: {SELECTS} bool with exactly one element, found int32 of shape ()"),
    "if: condition of two elements": (
        branch(KEEP_X, DOUBLE, condition=replace(P, shape=(2,))),
        f"{IF}: {SELECTS} bool with exactly one element, found bool of shape (2,)"),
    "if: condition without elements": (
        branch(KEEP_X, DOUBLE, condition=replace(P, shape=(0,))), "exactly one element, found bool of shape (0,)"),
    "if: condition absent": (
        model(graph([X], [0], [0], run(If(1, 2), [ABSENT], [])), NOTHING, NOTHING), "input 0 is required"),
    "if: branch takes too much": (
        branch(KEEP_X, BODY), f"{IF}: else, subgraph 2 ('body'): expected 1 input as the operator has, found 2"),
    "if: branch takes too little": (
        branch(NOTHING, KEEP_X), f"{IF}: then, subgraph 1 ('nothing'): expected 1 input as the operator has, found 0"),
    "if: branch gives too little": (
        branch(graph([X], [0], [], name="sink"), KEEP_X),
        f"{IF}: then, subgraph 1 ('sink'): expected 1 output as the operator has, found 0"),
    "if: branch takes another type": (
        branch(KEEP_X, KEEP_N),
        f"{IF}: else, subgraph 2 ('keep_n'), input 0, tensor 0 ('n'): expected float32 as tensor 1 ('x') of the "
        "operator is, found int32"),
    "if: branches give different types": (
        branch(KEEP_X, graph([X, P], [0], [1], run(Less(), [0, 0], [1]), name="less")),
        f"{IF}: else, subgraph 2 ('less'), output 0, tensor 1 ('p'): expected float32 as tensor 2 ('y') of the "
        "operator is, found bool"),
    "case: no branches": (case(), "(STABLEHLO_CASE): expected at least one subgraph to select from, found none"),
    "case: index of another type": (
        case(KEEP_X, index=t("n", DType.INT64, ())), f"{SELECTS} int32 with exactly one element, found int64"),
    "case: index of several elements": (
        case(KEEP_X, index=t("n", I32, (1, 3))), "exactly one element, found int32 of shape (1, 3)"),
    "case: branch of another type": (
        case(KEEP_X, DOUBLE, KEEP_N), "branch 2, subgraph 3 ('keep_n'), input 0, tensor 0 ('n'): expected float32"),
    "while: condition takes other values": (
        loop(KEEP_X, BODY), f"{WHILE}: cond, subgraph 1 ('keep_x'): expected 2 inputs as the operator has, found 1"),
    "while: condition takes other types": (
        loop(replace(LESS, inputs=(1, 0)), BODY),
        f"{WHILE}: cond, subgraph 1 ('less'), input 0, tensor 1 ('x'): expected int32 as tensor 0 ('n') of the "
        "operator is, found float32"),
    "while: condition gives two values": (
        loop(replace(LESS, outputs=(2, 2)), BODY), f"{WHILE}: cond, subgraph 1 ('less'): expected 1 output, found 2"),
    "while: condition of another type": (
        loop(replace(LESS, outputs=(0,)), BODY),
        f"{WHILE}: cond, subgraph 1 ('less'), output 0, tensor 0 ('n'): expected bool with exactly one element, "
        "found int32 of shape ()"),
    "while: condition of two elements": (
        loop(replace(LESS, tensors=(N, X, t("p", BOOL, (2,)))), BODY), "exactly one element, found bool of shape (2,)"),
    "while: body gives too little": (
        loop(LESS, replace(BODY, outputs=(0,))),
        f"{WHILE}: body, subgraph 2 ('body'): expected 2 outputs as the operator has, found 1"),
    "while: body changes a type": (
        loop(LESS, replace(BODY, outputs=(1, 0))),
        f"{WHILE}: body, subgraph 2 ('body'), output 0, tensor 1 ('x'): expected int32 as tensor 2 ('m') of the "
        "operator is, found float32"),
    "while: results of other types than carried": (
        model(main(While(1, 2), [N, X], [M, N]), LESS, BODY),
        f"{WHILE}, tensor 3 ('n'): output 1 has element type int32, expected float32"),
    "while: other results than carried": (
        model(main(While(1, 2), [N, X], [M]), LESS, BODY),
        f"{WHILE}: expected 2 outputs from its inputs and options, found 1"),
    "while: value absent": (
        model(graph([N, M], [0], [1], run(While(1, 2), [ABSENT], [1])), LESS, BODY), "input 0 is required"),
    "stablehlo while": (loop(LESS, LESS, StablehloWhile), "(STABLEHLO_WHILE): body, subgraph 2 ('less'): exp"),
    "call": (model(main(CallSubgraph(1), [X], [M]), KEEP_X), "(CALL): callee, subgraph 1 ('keep_x'), output 0, tensor"),
    "composite": (
        model(main(Composite("f", 1), [X, X], [Y]), KEEP_X), "decomposition, subgraph 1 ('keep_x'): expected 2 inputs"),
    "call once: takes something": (
        model(main(CallOnce(1), [], []), KEEP_X), "(CALL_ONCE): init, subgraph 1 ('keep_x'): expected 0 inputs as"),
    "call once: gives something": (
        model(main(CallOnce(1), [], []), graph([X], [], [0, 0], run(CallSubgraph(2), [], [0]), name="init"),
              graph([X], [], [])), "init, subgraph 1 ('init'): expected 0 outputs as the operator has, found 2"),
    "cycle of one": (
        calls((0,)), "subgraph 0 ('a'), operator 0 (CALL): callee, subgraph 0 ('a'): expected subgraphs that do not "
        "invoke each other in a cycle, found 0 ('a') -> 0 ('a')"),
    "cycle beside the entry": (calls((), (3,), (1,), (2,)), "found 1 ('b') -> 3 ('d') -> 2 ('c') -> 1 ('b')"),
    "cycle behind a shared callee": (
        calls((1, 2), (3,), (3,), (4,), (5, 1), ()),
        "subgraph 4 ('e'), operator 1 (CALL): callee, subgraph 1 ('b'): expected subgraphs that do not invoke each "
        "other in a cycle, found 1 ('b') -> 3 ('d') -> 4 ('e') -> 1 ('b')"),
    "cycle through a loop": (
        model(main(If(1, 1), [P], []), main(While(2, 3), [N], [M]), replace(LESS, inputs=(0,)),
              graph([N, P], [0], [0], run(CallOnce(1), [], []), name="body")),
        "found 1 ('main') -> 3 ('body') -> 1 ('main')"),
    "a long cycle": (
        calls(*((k,) for k in range(1, 12)), (0,)),
        "0 ('a') -> 1 ('b') -> 2 ('c') -> 3 ('d') -> 4 ('e') -> 5 ('f') -> 6 ('g') -> (5 more) -> 0 ('a')"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name: str) -> None:
    found, message = REFUSED[name]
    with pytest.raises(ModelError) as raised:
        verify(found)
    assert message in str(raised.value)


def test_a_cycle_may_be_deep() -> None:
    deep = nested(10_000)
    last = replace(deep.subgraphs[-1], tensors=(X, Y), outputs=(1,), operators=(run(CallSubgraph(0), [0], [1]),))
    with pytest.raises(ModelError, match=r"\(9993 more\) -> 0 \('0'\)$"):
        verify(replace(deep, subgraphs=(*deep.subgraphs[:-1], last)))


ACCEPTED = {
    "if": branch(KEEP_X, DOUBLE),
    "if: one element of another rank": branch(KEEP_X, DOUBLE, condition=replace(P, shape=(1, 1))),
    "if: condition of unknown length": branch(
        KEEP_X, DOUBLE, condition=replace(P, shape=(1,), shape_signature=(-1,))),
    "if: one subgraph for both branches": model(main(If(1, 1), [P, X], [Y]), KEEP_X),
    "if: branches of other shapes": branch(
        graph([t("x", F32, (5, 5))], [0], [0]), graph([t("x", F32, (7,))], [0], [0])),
    "if: nothing passed": model(main(If(1, 1), [P], []), NOTHING),
    "case": case(KEEP_X, DOUBLE, KEEP_X),
    "while": loop(LESS, BODY),
    "while: swap": model(main(While(1, 2), [N, N], [M, M]),
                         graph([N, M, P], [0, 1], [2], run(Less(), [0, 1], [2])), graph([N, M], [0, 1], [1, 0])),
    "while: condition of unknown length": loop(
        replace(LESS, tensors=(N, X, t("p", BOOL, (1,), shape_signature=(-1,)))), BODY),
    "while: one subgraph is condition and body": model(main(While(1, 1), [P], [P]), graph([P], [0], [0])),
    "stablehlo while": loop(LESS, BODY, StablehloWhile),
    "call": model(main(CallSubgraph(1), [X], [Y]), DOUBLE),
    "composite": model(main(Composite("f", 1), [X], [Y]), DOUBLE),
    "call once": model(main(CallOnce(1), [], []), NOTHING),
    "a shared callee": calls((1, 2, 1), (3,), (3,), ()),
    "deep nesting": nested(10_000),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepts(name: str) -> None:
    verify(ACCEPTED[name])
