"""The tests of ONNX Runtime of Loop, If and Scan that the cases beside them leave out, under their names.

Where ONNX Runtime expects otherwise than the specification the specification counts; the case says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import circlet
from tests.schema.onnx.graphs import Case, check, f32, i64, load, same
from tests.schema.onnx.test_loop import EXITED, START, exiting

LIMITED = exiting().replace("M = Constant<value = int64 {5}>() ", "").replace("g (", "g (int64 M, ")
SHADOWED = """g (float[1] a, float[1] b, int64[1] max, bool[1] go) => (float[1] last, float[n, 1] seen) {
    last, seen = Loop(max, go, b) <body = body (int64[1] i, bool[1] g, float[1] b)
        => (bool[1] next, float[1] b_out, float[1] value) {
        mine = Add(a, b) b_out = Sub(a, b) next = Greater(mine, b_out) value = Add(b_out, b_out) }> }"""
PASSED = """g (int64[1] M, bool[1] c, float[1] a) => (float[1] y) {
    y = Loop(M, c, a) <body = body (int64[1] i, bool[1] k, x) => (bool[1] d, z) {
        z = If(k) <then_branch = t () => (float p) { p = Identity(x) },
                   else_branch = e () => (float q) { q = Identity(x) }> d = Identity(k) }> }"""
IMPLICIT = """g (float[1] a) => (float[1] y) { one = Constant<value = float[1] {1.0}>()
    M = Constant<value = int64 {1}>() yes = Constant<value = bool {1}>()
    y = Loop(M, yes, a) <body = body (int64 i, bool k, float[1] x) => (bool d, float[1] z) {
        w = Add(one, one) z = If(k) <then_branch = t () => (float[1] p) { p = Add(x, w) },
                                     else_branch = e () => (float[1] q) { q = Identity(one) }>
        d = Identity(k) }> }"""
OVERRIDE = """g (int64[1] M, double[1] fake, double[1] outer) => (double[1] y, double[n, 1] s) {
    y, s = Loop(M, "", fake) <body = body (int64[1] i, bool[1] k, x) => (bool[1] d, z, o) {
        d = Identity(k) z = Identity(x) o = Identity(outer) }> }"""
TYPED = OVERRIDE.replace(", x) => (bool[1] d, z, o)", ", float[1] x) => (bool[1] d, float[1] z, float[1] o)")
GATHER = """g (int64[1] M, bool[1] c) => (seq(float) y) { none = SequenceEmpty()
    y = Loop(M, c, none) <body = body (int64[1] i, bool[1] k, seq(float[1]) x) => (bool[1] d, seq(float[1]) z)
        <float[1] one = {1.0}> { z = SequenceInsert(x, one) d = Identity(k) }> }"""
KEPT = """g (int64[1] M, bool[1] c, optional(KIND) a) => (optional(KIND) y) {
    y = Loop(M, c, a) <body = body (int64[1] i, bool[1] k, optional(KIND) x) => (bool[1] d, optional(KIND) z) {
        z = Identity(x) d = Identity(k) }> }"""
THREE = {"M": i64([3]), "c": [True]}
VALUE = f32(-1.0856307, 0.99734545)
IN_BODY = "float x, float[n] y) => (bool cond_out, float x_out, float[m] y_out, float[2] both)"
ENDS = [
    Case(f"Loop-ExitDueToCond_{name}{i}{c}", exiting(f"int64{i} i", f"bool{c} c_in").replace(
        "\n            => (", " => (").replace(IN_BODY, types), START, EXITED)
    for name, types in (("DimsInMainGraph", "x, y) => (cond_out, x_out, y_out, both)"), ("DimsInSubGraph", IN_BODY))
    for i in ("", "[1]") for c in ("", "[1]")
]
LOOPS = [
    *ENDS,
    Case("Loop-LoopSubgraphRankMismatch-outside", LIMITED.replace("int64 M", "int64[1] M"), {**START, "M": i64([5])},
         EXITED),
    Case("Loop-LoopSubgraphRankMismatch-inside", LIMITED.replace("int64 i, bool c_in", "int64[1] i, bool[1] c_in"),
         {**START, "M": i64(5)}, EXITED),
    Case("Loop-ExitDueToMaxIterations", LIMITED, {**START, "M": i64(2)},
         [f32(6), f32(0, 3, 6), f32([[0, 0], [1, 3]])]),
    Case("Loop-ZeroIterations", LIMITED, {**START, "M": i64(0)}, [f32(0), f32([0]), np.zeros((0, 2), np.float32)]),
    Case("Loop-SubgraphInputShadowsOuterScopeValue", SHADOWED, {"a": f32([3]), "b": f32([6]), "max": i64([10]),
                                                                "go": [True]}, [f32([6]), f32([[-6], [12]])]),
    Case("Loop-Opset11WithNoVariadicInputsAndOutputs", """g (int64[1] M, bool[1] c) => (float[n] s) {
        s = Loop(M, c) <body = body (int64[1] i, bool[1] k) => (bool[1] d, float z) {
            d = Identity(k) z = Constant<value = float {1.0}>() }> }""", {"M": i64([1]), "c": [True]}, [f32([1])], 11),
    Case("Loop-PassThroughSubgraphInputNoTypeOrShape", PASSED, {"M": i64([1]), "c": [True], "a": f32([123])},
         [f32([123])], 11),
    Case("Loop-BugFixIssue4031_implicit_input_handling", IMPLICIT, {"a": f32([123])}, [f32([125])]),
    Case("Loop-IterationCountAsOutput", """g (int64[1] M, bool[1] c) => (int64[n, 1] s) {
        s = Loop(M, c) <body = body (int64[1] i, bool[1] k) => (bool[1] d, int64[1] z) {
            z = Identity(i) d = Identity(k) }> }""", THREE, [i64([[0], [1], [2]])], 11),
    Case("Loop-SubgraphTypeOverride-untyped", OVERRIDE, {"M": i64([1]), "fake": np.zeros(1), "outer": np.full(1, 3.0)},
         [np.zeros(1), np.full((1, 1), 3.0)]),
    Case("Loop-SequenceAsLoopCarriedDependency", GATHER, THREE, [[f32([1])] * 3], 13),
]


def chosen(two: str, one: str, body: str) -> str:
    """The graph of ONNX Runtime's tests of If: a value is added to one half of another."""
    return f"""g (float{two} split, bool[1] c, float{one} x) => (float{one} y) {{ p, q = Split<axis = 0>(split)
        z = Identity(x) y = If(c) <then_branch = t () => (float{body} u) {{ u = Add(p, z) }},
                                   else_branch = e () => (float{body} v) {{ v = Add(q, z) }}> }}"""


IFS = [
    Case(f"If-{name}_{c}", chosen(*shapes), {"split": f32(1, 10), "c": [c], "x": f32([1])}, [f32([2 if c else 11])], 11)
    for name, shapes in (("ShapeInMainGraph_NoShapeInSubgraph", ("[2]", "[1]", "[k]")),
                         ("NoShapeInMainGraph_ShapeInSubgraph", ("[m]", "[n]", "[1]")),
                         ("SymbolicShapeInMainGraph_NoShapeInSubgraph", ("[m]", "[n]", "[k]")))
    for c in (True, False)
]
IFS += [
    Case(f"If-Opset11ThenAndElseBranchesProduceDifferentOutputShapes_{c}", """g (bool[1] c) => (float[n] y) {
        y = If(c) <then_branch = t () => (p) { p = Constant<value = float[1] {1.0}>() },
                   else_branch = e () => (q) { q = Constant<value = float[2] {10.0, 11.0}>() }> }""", {"c": [c]},
         [f32([1]) if c else f32(10, 11)], 11)
    for c in (True, False)
]


@pytest.mark.parametrize("case", [*LOOPS, *IFS], ids=str)
def test_loop_and_if(case: Case) -> None:
    check(case)


def test_the_types_of_a_subgraph_are_not_overridden() -> None:
    """`Loop-SubgraphTypeOverride`: only an option of ONNX Runtime's tests lets a body be of another type."""
    with pytest.raises(circlet.ModelError, match="'x': expected float64, which the node passes, found float32"):
        load(TYPED)


@pytest.mark.parametrize(("kind", "value"), [
    ("float[2]", None), ("float[2]", VALUE), ("seq(float[1])", None), ("seq(float[1])", [f32([1])] * 3),
], ids=["tensor-none", "tensor", "sequence-none", "sequence"])
def test_optional_type_as_loop_carried_dependency(kind: str, value: Any) -> None:
    (found,) = circlet.Session(load(KEPT.replace("KIND", kind)), backend="cpu").run({**THREE, "a": value}).values()
    if value is None:
        assert found is None
    else:
        same(found, value)


def splitting(main: str = "float[1] t, y0, y1, y2, y3", head: str = "float[1] n, float[2, 2] a, float[2, 2] b",
              body: str = "(m, x, z) => (o, p, q, r, s)", attributes: str = "", given: str = "n, a, b",
              add: float = 0) -> str:
    """A Scan that counts, and splits what its two inputs are together into four outputs.

    `add`: a constant of the main graph, added in the body where it is not 0.
    """
    join = "both = Concat<axis = 0>(x, z)" if not add else "part = Concat<axis = 0>(x, z) both = Add(part, outer)"
    return f"""g ({head}) => ({main}) {{ outer = Constant<value = float[1] {{{add:.1f}}}>()
        t, y0, y1, y2, y3 = Scan<num_scan_inputs = 2 {attributes}, body = body {body} {{ {join}
            one = Constant<value = float[1] {{1.0}}>() o = Add(m, one) p, q, r, s = Split<axis = 0>(both) }}> ({given})
        }}"""


def columns(*outputs: list[float]) -> list[Any]:
    return [f32([[each] for each in values]) for values in outputs]


SHORT = {"n": f32([0]), "a": f32([[1, 2], [4, 3]]), "b": f32([[3, 4], [2, 1]])}
SPLIT = [f32([2]), *columns([1, 4], [2, 3], [3, 2], [4, 1])]
ADDED = [f32([2]), *columns([4, 7], [5, 6], [6, 5], [7, 4])]
OPEN: dict[str, Any] = {"head": "float[k] n, float[l, m] a, float[o, p] b", "main": "t, y0, y1, y2, y3"}
TYPES: dict[str, Any] = {
    "body": "(float[1] m, float[2] x, float[2] z) => (float[1] o, float[1] p, float[1] q, float[1] r, float[1] s)"}
PLAIN = {"n": f32([0]), "a": f32([[1, 2], [3, 4]]), "b": f32([[11, 12], [13, 14]])}
PLAIN_SPLIT = [f32([2]), *columns([1, 3], [2, 4], [11, 13], [12, 14])]
DECLARED: list[tuple[str, dict[str, Any]]] = [
    ("NoShapeInMainGraph_TypeAndShapeInSubgraph", {**OPEN, **TYPES}),
    ("ShapeInMainGraph_NoTypeAndShapeInSubgraph", {}), ("NoShapeInMainGraph_NoTypeAndShapeInSubgraph", OPEN),
]
SCANS = [
    *(Case(f"Scan9-ShortSequenceOneInBatchOneLoopStateVar_{name}", splitting(**how), SHORT, SPLIT, 9)
      for name, how in DECLARED),
    *(Case(f"Scan9-OuterScopeAccess_{name}", splitting(**how, add=3), SHORT, ADDED, 9) for name, how in DECLARED),
    # ONNX Runtime refuses it, since it checks what is declared of values that are computed.
    Case("Scan9-BadShape", splitting(**TYPES).replace(" { part", " <float[1, 4] both> { part").replace(
        " { both", " <float[1, 4] both> { both"), SHORT, SPLIT, 9),
    Case("Scan9-OnnxScalarLoopState", splitting("float t, y0, y1, y2, y3", "float n, float[2, 2] a, float[2, 2] b")
         .replace("float[1] {1.0}", "float {1.0}"), {**SHORT, "n": f32(0)}, [f32(2), *SPLIT[1:]], 9),
    Case("Scan9-ReversedInput", splitting(attributes=", scan_input_directions = [0, 1]"), PLAIN,
         [f32([2]), *columns([1, 3], [2, 4], [13, 11], [14, 12])], 9),
    Case("Scan9-ReversedOutput", splitting(attributes=", scan_output_directions = [0, 1, 1, 0]"), PLAIN,
         [f32([2]), *columns([1, 3], [4, 2], [13, 11], [12, 14])], 9),
    Case("Scan9-TransposeInput", splitting(attributes=", scan_input_axes = [1, -1]"),
         {"n": f32([0]), "a": PLAIN["a"].T.copy(), "b": PLAIN["b"].T.copy()}, PLAIN_SPLIT, 9),
    Case("Scan9-TransposeOutput", splitting(attributes=", scan_output_axes = [1, -1, 0, 0]"), PLAIN,
         [f32([2]), f32([[1, 3]]), f32([[2, 4]]), *PLAIN_SPLIT[3:]], 9),
    Case("Scan9-TransposeOutputDim2", """g (float[2, 1, 1] a) => (float[1, 1, 2] y) {
        y = Scan<num_scan_inputs = 1, scan_output_axes = [2], body = body (float[1, 1] x) => (float[1, 1] z) {
            z = Identity(x) }> (a) }""", {"a": f32([[[1]], [[2]]])}, [f32([[[1, 2]]])], 9),
    Case("Scan9-MixedTypeInputs", """g (float[1] s, int64[1] i, float[3, 1] a, int64[3, 1] b)
        => (float[1] t, int64[1] j, float[3, 1] y, int64[3, 1] z) { t, j, y, z = Scan<num_scan_inputs = 2, body = body
        (float[1] u, int64[1] v, float[1] c, int64[1] d) => (float[1] e, int64[1] f, float[1] g, int64[1] h) {
            g = Identity(u) h = Identity(v) e = Identity(c) f = Identity(d) }> (s, i, a, b) }""",
         {"s": f32([0]), "i": i64([0]), "a": f32([[1], [2], [3]]), "b": i64([[1], [2], [3]])},
         [f32([3]), i64([3]), f32([[0], [1], [2]]), i64([[0], [1], [2]])], 9),
    Case("Scan9-UnknownDimInSubgraphOutput", """g (float[k] s, float[n, 1] a) => (float[1] t, float[3, 1] y) {
        t, y = Scan<num_scan_inputs = 1, body = body (float[param] u, float[param] c) => (float[param] e,
            float[param] g) { g = Identity(u) e = Identity(c) }> (s, a) }""",
         {"s": f32([0]), "a": f32([[1], [2], [3]])}, [f32([3]), f32([[0], [1], [2]])], 9),
]


def batched(attributes: str = "", lengths: str = '""', add: float = 0) -> str:
    """The Scan of operator set 8 that does so for each batch."""
    return splitting("t, y0, y1, y2, y3", "int64[k] l, float[k, 1] n, float[k, 2, 2] a, float[k, 2, 2] b",
                     attributes=attributes, given=f"{lengths}, n, a, b", add=add)


def each(*outputs: list[list[float]]) -> list[Any]:
    return [f32([[[one] for one in row] for row in batches]) for batches in outputs]


def pairs(*rows: list[list[float]]) -> np.ndarray:
    return np.array(rows, np.float32)


ONE = {"l": i64([2]), **{name: value[None] for name, value in SHORT.items()}}
LENGTHS = {"l": i64(1, 2, 2), "n": f32([[0], [10], [1]]),
           "a": pairs([[1, 2], [4, 3]], [[-1, -2], [-4, -3]], [[10, 11], [12, 13]]),
           "b": pairs([[3, 4], [2, 1]], [[-3, -4], [-2, -1]], [[22, 33], [44, 55]])}
TWO = {name: value[:2] for name, value in LENGTHS.items()}
SCANS_8 = [
    Case("Scan8-ShortSequenceOneInBatchOneLoopStateVar", batched(), ONE, [value[None] for value in SPLIT], 8),
    Case("Scan8-OuterScopeAccess", batched(add=3), ONE, [value[None] for value in ADDED], 8),
    Case("Scan8-ShortSequenceTwoInBatchOneLoopStateVar", batched(), TWO, [f32([[2], [12]]), *each(
        [[1, 4], [-1, -4]], [[2, 3], [-2, -3]], [[3, 2], [-3, -2]], [[4, 1], [-4, -1]])], 8),
    Case("Scan8-MixedSequenceLens", batched(lengths="l"), LENGTHS, [f32([[1], [12], [3]]), *each(
        [[1, 0], [-1, -4], [10, 12]], [[2, 0], [-2, -3], [11, 13]], [[3, 0], [-3, -2], [22, 44]],
        [[4, 0], [-4, -1], [33, 55]])], 8),
    Case("Scan8-MixedSequenceLensReverse", batched(", directions = [1, 1]", "l"), TWO, [f32([[1], [12]]), *each(
        [[1, 0], [-4, -1]], [[2, 0], [-3, -2]], [[3, 0], [-2, -3]], [[4, 0], [-1, -4]])], 8),
    Case("Scan8-ShortSequenceTwoInBatchOneLoopStateVarReverseFirstInput", batched(", directions = [1, 0]"), TWO,
         [f32([[2], [12]]), *each([[4, 1], [-4, -1]], [[3, 2], [-3, -2]], [[3, 2], [-3, -2]], [[4, 1], [-4, -1]])], 8),
]


@pytest.mark.parametrize("case", [*SCANS, *SCANS_8], ids=str)
def test_scan(case: Case) -> None:
    check(case)


INVALID = [
    ("InvalidInputDirectionsValue", "scan_input_directions = [2, 1]", "expected 0 or 1"),
    ("InvalidOutputDirectionsValue", "scan_output_directions = [0, 2, 1, 0]", "expected 0 or 1"),
    ("InvalidNumEntriesInInputDirections", "scan_input_directions = [1, 0, 1]", "expected 2 entries, found 3"),
    ("InvalidNumEntriesInOutputDirections", "scan_output_directions = [1, 0, 1]", "expected 4 entries, found 3"),
    ("InvalidEntryInInputAxes", "scan_input_axes = [2, -1]", "expected -2 to 1 for rank 2, found 2"),
    ("InvalidNumEntriesInInputAxes", "scan_input_axes = [0, 1, 2]", "expected 2 entries, found 3"),
    ("InvalidEntryInOutputAxes", "scan_output_axes = [3, -1, 0, 0]", "expected -2 to 1 for rank 2, found 3"),
    ("InvalidNumEntriesInOutputAxes", "scan_output_axes = [0, 1, 2]", "expected 4 entries, found 3"),
]


@pytest.mark.parametrize(("attribute", "message"), [case[1:] for case in INVALID], ids=[case[0] for case in INVALID])
def test_invalid_scans(attribute: str, message: str) -> None:
    with pytest.raises(circlet.ModelError, match=message):
        load(splitting(attributes=f", {attribute}"), 9)


@pytest.mark.parametrize(("attribute", "message"), [
    ("directions = [2, 1]", "expected 0 or 1"), ("directions = [1, 0, 1]", "expected 2 entries, found 3"),
], ids=["InvalidDirectionsValue", "InvalidNumEntriesInDirections"])
def test_invalid_scans_of_batches(attribute: str, message: str) -> None:
    with pytest.raises(circlet.ModelError, match=message):
        load(batched(f", {attribute}"), 8)
