"""ONNX If, by the cases that other runtimes test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import circlet
from tests.schema.onnx.graphs import Case, check, f32, i64, load


def choosing(then: str, other: str, head: str = "bool c, float[n] a, float[m] b", out: str = "float[k] y") -> str:
    """A graph that returns what one of two branches makes of the inputs."""
    return f"""g ({head}) => ({out}) {{
        y = If(c) <then_branch = t () => (p) {{ {then} }}, else_branch = e () => (q) {{ {other} }}> }}"""


ADD_SUB = choosing("p = Add(a, b)", "q = Sub(a, b)")
TWO = {"a": f32(1, 2), "b": f32(3, 4)}
SPLIT = """g (bool c, float[1] a) => (float[1] y) { one = Constant<value = float[1] {1.0}>()
    two = Constant<value = float[1] {10.0}>()
    y = If(c) <then_branch = t () => (p) { p = Add(a, one) }, else_branch = e () => (q) { q = Add(a, two) }> }"""
NESTED = """g (bool c, bool d, float a) => (float y) {
    y = If(c) <then_branch = t () => (p) {
        p = If(d) <then_branch = u () => (r) { r = Add(a, a) }, else_branch = v () => (s) { s = Mul(a, a) }> },
        else_branch = e () => (q) { q = Neg(a) }> }"""
ANY_RANK = """g (bool c, float[n] a, int64[m] pads) => (float[k] y) {
    first = Constant<value = int64[1] {0}>() five = Constant<value = float {5.0}>()
    x = If(c) <then_branch = t () => (p) { p = Identity(a) }, else_branch = e () => (q) { q = Unsqueeze(a, first) }>
    y = Pad(x, pads, five) }"""
"""x is a or, if c is not so, the row of it."""
ADDED_UP = """g (bool c, float[n] a) => (float y, float z, float s) {
    first = Constant<value = int64[1] {0}>()
    x = If(c) <then_branch = t () => (p) { p = Identity(a) }, else_branch = e () => (q) { q = Unsqueeze(a, first) }>
    y = ReduceSum<keepdims = 0>(x) z = ReduceMax<keepdims = 0>(x) s = ReduceSumSquare<keepdims = 0>(x) }"""
BOUNDS = """g (bool c, float[n] a, float[m] b) => (float[k] y) {
    zero = Constant<value = int64 {0}>() one = Constant<value = int64[1] {1}>()
    two = Constant<value = int64[2] {2, 2}>()
    x = If(c) <then_branch = t () => (p) { p = Identity(a) }, else_branch = e () => (q) { q = Gather(a, zero) }>
    z = Concat<axis = 0>(x, b)
    begin = If(c) <then_branch = t () => (p) { p = Identity(one) }, else_branch = e () => (q) { q = Identity(two) }>
    end = Add(begin, one) y = Slice(z, begin, end) }"""
"""a and b from the second number to the next one; where b is, that there are two bounds would be an error."""
CASES = [
    Case("same-inputs-then", ADD_SUB, {"c": True, **TWO}, [f32(4, 6)]),
    Case("same-inputs-else", ADD_SUB, {"c": False, **TWO}, [f32(-2, -2)]),
    Case("other-inputs", choosing("p = Neg(a)", "q = Neg(b)"), {"c": False, **TWO}, [f32(-3, -4)]),
    Case("no-inputs", choosing("p = Constant<value = float[1] {1.0}>()", "q = Constant<value = float[1] {2.0}>()"),
         {"c": False, **TWO}, [f32([2])]),
    Case("branch-returns-outer-value", choosing("p = Identity(a)", "q = Identity(b)").replace("(q) { q = Identity(b) }",
                                                                                         "(b) { }"),
         {"c": False, **TWO}, [f32(3, 4)]),
    Case("initializer-as-output", choosing("p = Identity(a)", "").replace("=> (q)", "=> (q) <float[2] q = {7.0, 8.0}>"),
         {"c": False, **TWO}, [f32(7, 8)]),
    Case("other-shapes", choosing("p = Concat<axis = 0>(a, b)", "q = Identity(a)"), {"c": True, **TWO},
         [f32(1, 2, 3, 4)]),
    Case("other-ranks", choosing("p = Neg(a)", "k = Constant<value = int64[1] {0}>() q = Unsqueeze(a, k)"),
         {"c": False, **TWO}, [f32([[1, 2]])]),
    Case("the-other-branch-would-fail", choosing("p = Neg(a)", "q = MatMul(a, b)"),
         {"c": True, "a": f32(1, 2), "b": f32([3])}, [f32(-1, -2)]),
    *(Case(f"other-ranks-added-up-{c}", ADDED_UP, {"c": c, "a": f32(1, 2, 4)}, [f32(7).reshape(()), f32(4).reshape(()),
                                                                                f32(21).reshape(())])
      for c in (False, True)),
    Case("nothing-added-up", ADDED_UP, {"c": False, "a": f32()}, [np.float32(0), np.float32(-np.inf), np.float32(0)]),
    Case("other-ranks-padded", ANY_RANK, {"c": False, "a": f32(1, 2), "pads": i64(0, 1, 1, 0)},
         [f32([[5, 1, 2], [5, 5, 5]])]),
    Case("other-ranks-cut", ANY_RANK, {"c": True, "a": f32(1, 2, 3), "pads": i64(-2, 1)}, [f32(3, 5)]),
    Case("bounds-of-any-number", BOUNDS, {"c": True, "a": f32(1, 2, 3), "b": f32(4, 5)}, [f32([2])]),
    Case("cond-of-rank-2", ADD_SUB.replace("bool c", "bool[1, 1] c"), {"c": [[True]], **TWO}, [f32(4, 6)]),
    Case("constant-cond", choosing("p = Neg(a)", "q = MatMul(a, b)").replace("bool c, ", "").replace(
        "y = If", "c = Constant<value = bool {1}>() y = If"), TWO, [f32(-1, -2)]),
    Case("split-then", SPLIT, {"c": True, "a": f32([1])}, [f32([2])]),
    Case("split-else", SPLIT, {"c": False, "a": f32([1])}, [f32([11])]),
    Case("nested-then-else", NESTED, {"c": True, "d": False, "a": f32(3)}, [f32(9)]),
    Case("nested-else", NESTED, {"c": False, "d": True, "a": f32(3)}, [f32(-3)]),
    Case("two-outputs", """g (bool c, float a) => (float y, int64 z) {
        y, z = If(c) <then_branch = t () => (p, r) { p = Neg(a) r = Constant<value = int64 {1}>() },
                      else_branch = e () => (q, s) { q = Abs(a) s = Constant<value = int64 {2}>() }> }""",
         {"c": False, "a": f32(-5)}, [f32(5), i64(2)]),
    Case("sequences", choosing("p = SequenceConstruct(a, b)", "q = SequenceConstruct(b)", out="seq(float) y"),
         {"c": True, **TWO}, [[f32(1, 2), f32(3, 4)]]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_if(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(("found", "value"), [("ReduceMax(k)", 3), ("ReduceMin(k)", -2), ("ReduceSum(k)", 1),
                                              ("ReduceProd(k)", -6), ("ReduceMin(size)", 2)])
def test_conditions_that_follow_from_constants(found: str, value: int) -> None:
    """Only the branch that they choose is read."""
    model = load(f"""g (float[n] a) => (float[m] y) {{
        k = Constant<value = int64[2] {{-2, 3}}>() size = Abs(k) number = {found}
        wanted = Constant<value = int64[1] {{{value}}}>() c = Equal(number, wanted)
        y = If(c) <then_branch = t () => (p) {{ p = Neg(a) }}, else_branch = e () => (q) {{ q = Exp(a) }}> }}""")
    assert [each.op.name for each in model.subgraphs[0].operators if each.op.name in ("IF", "NEG", "EXP")] == ["NEG"]


@pytest.mark.parametrize("cond", [[True, False], []], ids=["two", "none"])
def test_the_condition_has_one_element(cond: Any) -> None:
    session = circlet.Session(load(ADD_SUB.replace("bool c", "bool[l] c")))
    with pytest.raises(circlet.ExecutionError, match="exactly one element"):
        session.run({"c": np.array(cond, np.bool_), **TWO})


FUNCTION = """<ir_version: 8, opset_import: ["" : 16, "own" : 1]>
    g (bool c, float[n] a) => (float[n] y) { y = own.twice<by = 3.0>(c, a) }
    <domain: "own", opset_import: ["" : 16]>
    twice <by> (d, x) => (z) { k = Constant<value_float : float = @by>()
        z = If(d) <then_branch = t () => (p) { p = Mul(x, k) }, else_branch = e () => (q) { q = own.half(x) }> }
    <domain: "own", opset_import: ["" : 16]>
    half (x) => (y) { two = Constant<value = float {2.0}>() y = Div(x, two) }"""


def test_functions_are_called_with_attributes_and_call_functions() -> None:
    import onnx.parser

    proto = onnx.parser.parse_model(FUNCTION.replace('<domain: "own", opset_import: ["" : 16]>\n    twice',
                                                     '<domain: "own", opset_import: ["" : 16, "own" : 1]>\n    twice'))
    session = circlet.Session(circlet.load(proto.SerializeToString()))
    np.testing.assert_array_equal(session.run({"c": True, "a": f32(1, 2)})["y"], f32(3, 6))
    np.testing.assert_array_equal(session.run({"c": False, "a": f32(1, 2)})["y"], f32(0.5, 1))
