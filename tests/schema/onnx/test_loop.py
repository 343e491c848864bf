"""ONNX Loop, by the cases that other runtimes test.

Where OpenVINO's expectations contradict the specification the specification counts: its Loop whose condition is false
gives no row (OpenVINO: one), a growing carry starts at iteration 0 (OpenVINO: 1), and scan outputs of different shapes
are an error (OpenVINO joins them). Its loop that never ends is one.
"""

from __future__ import annotations

import numpy as np
import pytest

import circlet
from tests.schema.onnx.graphs import Case, check, f32, i64, load, parse

INT64_MAX = np.iinfo(np.int64).max


def adding(head: str, loop: str, cond: str = "cond_out = Identity(c_in)", before: str = "", one: str = "") -> str:
    """A loop that adds [[1, 1]] to a value of shape (1, 2) and collects the sums."""
    constant = one or "one = Constant<value = float[1, 2] {1.0, 1.0}>()"
    return f"""g ({head}) => (float[1, 2] a_final, float[n, 1, 2] a_values) {{ {before}
        a_final, a_values = Loop({loop}, a) <body = body (int64 i, bool c_in, float[1, 2] a_in)
            => (bool cond_out, float[1, 2] a_out, float[1, 2] v) {{
            {constant}
            a_out = Add(a_in, one)
            v = Identity(a_out)
            {cond} }}> }}"""


def rows(count: int) -> np.ndarray:
    return np.repeat(np.arange(1, count + 1, dtype=np.float32), 2).reshape(count, 1, 2)


ZEROS, TWO = f32([[0, 0]]), f32([[1, 1]])
BELOW_6 = """six = Constant<value = float {6.0}>()
    most = ReduceMax<keepdims = 0>(a_out)
    cond_out = Less(most, six)"""
SIX = [6 * TWO, rows(6)]

OPENVINO = [
    Case("count", adding("float[1, 2] a", 'M, ""', before="M = Constant<value = int64 {3}>()"),
         {"a": ZEROS}, [3 * TWO, rows(3)]),
    Case("cond", adding("bool c, float[1, 2] a", '"", c', BELOW_6), {"c": True, "a": ZEROS}, SIX),
    Case("count-max-int", adding("int64 M, bool c, float[1, 2] a", "M, c", BELOW_6),
         {"M": i64(INT64_MAX), "c": True, "a": ZEROS}, SIX),
    Case("cond-false", adding("bool c, float[1, 2] a", '"", c', BELOW_6), {"c": False, "a": f32([[3, 4]])},
         [f32([[3, 4]]), np.zeros((0, 1, 2), np.float32)]),
    Case("do-while", adding("float[1, 2] a", '"", c', BELOW_6.replace("6.0", "4.0"),
                            "c = Constant<value = bool {1}>()"), {"a": ZEROS}, [4 * TWO, rows(4)]),
    Case("cond-and-count", adding("int64 M, bool c, float[1, 2] a", "M, c", BELOW_6),
         {"M": i64(10), "c": True, "a": ZEROS}, SIX),
    Case("count-ends-first", adding("int64 M, bool c, float[1, 2] a", "M, c", BELOW_6),
         {"M": i64(2), "c": True, "a": ZEROS}, [2 * TWO, rows(2)]),
    Case("node-of-parent", adding("float[1, 2] a", 'M, ""', one="one = Add(outer, outer)", before=(
        "M = Constant<value = int64 {3}>() outer = Constant<value = float[1, 2] {2.0, 2.0}>()")),
         {"a": ZEROS}, [12 * TWO, 4 * rows(3)]),
    Case("input-of-parent", adding("float[1, 2] a, float[1, 2] one", 'M, ""', one="unused = Identity(one)",
                                   before="M = Constant<value = int64 {3}>()"),
         {"a": ZEROS, "one": TWO}, [3 * TWO, rows(3)]),
    Case("count-of-rank-1", adding("int64[1] M, float[1, 2] a", 'M, ""').replace("int64 i, bool c_in, float[1, 2] a_in",
                                                                              "int64 i, bool c_in, a_in"),
         {"M": i64([3]), "a": ZEROS}, [3 * TWO, rows(3)]),
    Case("negative-count", adding("int64 M, float[1, 2] a", 'M, ""'), {"M": i64(-1), "a": ZEROS},
         [ZEROS, np.zeros((0, 1, 2), np.float32)]),
    Case("wrong-declarations", adding("float[1, 2] a", 'M, ""', before="M = Constant<value = int64 {3}>()")
         .replace("float[1, 2] a_final, float[n, 1, 2] a_values", "float a_final, float a_values"),
         {"a": ZEROS}, [3 * TWO, rows(3)]),
    Case("scalars", """g (float a) => (float b, float[n] s) { M = Constant<value = int64 {3}>()
        b, s = Loop(M, "", a) <body = body (int64 i, bool c, float x) => (bool d, float y, float z) {
            one = Constant<value = float {1.0}>() y = Add(x, one) z = Identity(y) d = Identity(c) }> }""",
         {"a": f32(0)}, [f32(3), f32(1, 2, 3)]),
    Case("growing", """g (float[k] a) => (float[n] b) { M = Constant<value = int64 {5}>()
        b = Loop(M, "", a) <body = body (int64 i, bool c, float[n] x) => (bool d, float[m] y) {
            axis = Constant<value = int64[1] {0}>() j = Unsqueeze(i, axis) f = Cast<to = 1>(j)
            y = Concat<axis = 0>(x, f) d = Identity(c) }> }""",
         {"a": f32([0])}, [f32(0, 0, 1, 2, 3, 4)]),
    Case("growing-rank", """g (float a) => (float[1, 1, 1] b) { M = Constant<value = int64 {3}>()
        b = Loop(M, "", a) <body = body (int64 i, bool c, x) => (bool d, y) {
            axis = Constant<value = int64[1] {0}>() y = Unsqueeze(x, axis) d = Identity(c) }> }""",
         {"a": f32(7)}, [f32([[[7]]])]),
    Case("power", """g () => (float[n] s) { M = Constant<value = int64 {5}>()
        s = Loop(M, "") <body = body (int64 i, bool c) => (bool d, float z) {
            f = Cast<to = 1>(i) z = Mul(f, f) d = Identity(c) }> }""", {}, [f32(0, 1, 4, 9, 16)]),
    Case("if-inside", """g (float[2] a) => (float[2] b, float[n] s) { M = Constant<value = int64 {3}>()
        b, s = Loop(M, "", a) <body = body (int64 i, bool c, float[2] x) => (bool d, float[2] y, float[2] z) {
            one = Constant<value = int64 {1}>() even = Less(i, one)
            y = If(even) <then_branch = t () => (float[2] u) { u = Mul(x, a) },
                          else_branch = e () => (float[2] v) {
                              four = Constant<value = float {4.0}>() v = Mul(x, four) }>
            z = Identity(y) d = Identity(c) }> }""",
         {"a": f32(2, 2)}, [f32(64, 64), f32([[4, 4], [16, 16], [64, 64]])]),
    Case("initializer-as-output", """g (float a) => (float b, float[n] s) { M = Constant<value = int64 {2}>()
        b, s = Loop(M, "", a) <body = body (int64 i, bool c, float x) => (bool d, float y, float k)
            <float k = {5.0}> { y = Add(x, k) d = Identity(c) }> }""", {"a": f32(1)}, [f32(11), f32(5, 5)]),
    Case("sequence", """g () => (seq(float) s) { M = Constant<value = int64 {3}>() e = SequenceEmpty()
        s = Loop(M, "", e) <body = body (int64 i, bool c, seq(float) x) => (bool d, seq(float) y) {
            f = Cast<to = 1>(i) y = SequenceInsert(x, f) d = Identity(c) }> }""", {}, [[f32(0), f32(1), f32(2)]]),
]


def exiting(i: str = "int64 i", c: str = "bool c_in", out: str = "bool cond_out") -> str:
    """The loop of ONNX Runtime's tests, which ends when its condition fails."""
    return f"""g (float outer, float a, float[1] b) => (float a_final, float[n] b_final, float[n, 2] seen) {{
        M = Constant<value = int64 {{5}}>() yes = Constant<value = bool {{1}}>()
        a_final, b_final, seen = Loop(M, yes, a, b) <body = body ({i}, {c}, float x, float[n] y)
            => ({out}, float x_out, float[m] y_out, float[2] both) {{
            axis = Constant<value = int64[1] {{0}}>() none = Constant<value = int64[0] {{}}>()
            x_out = Add(x, outer)
            column = Unsqueeze(x_out, axis) y_out = Concat<axis = 0>(y, column)
            minus = Constant<value = int64[1] {{-1}}>() flat = Reshape(i, minus)
            j = Cast<to = 1>(flat) k = Unsqueeze(x, axis) both = Concat<axis = 0>(j, k)
            limit = Constant<value = float {{9.0}}>() less = Less(x_out, limit) cond_out = Identity(less) }}> }}"""


EXITED = [f32(9), f32(0, 3, 6, 9), f32([[0, 0], [1, 3], [2, 6]])]
START = {"outer": f32(3), "a": f32(0), "b": f32([0])}
ONNX_RUNTIME = [
    Case("exit-by-cond", exiting(), START, EXITED),
    Case("exit-by-cond-undeclared", exiting("i", "c_in", "cond_out"), START, EXITED),
    Case("iteration-of-rank-1", exiting("int64[1] i", "bool c_in"), START, EXITED),
    Case("cond-of-rank-1", exiting("int64 i", "bool[1] c_in"), START, EXITED),
    Case("shadowing", """g (float b) => (float x, float[n] s) { M = Constant<value = int64 {2}>()
        x, s = Loop(M, "", b) <body = body (int64 i, bool c, float b) => (bool d, float y, float z) {
            one = Constant<value = float {-6.0}>() y = Mul(b, one) z = Identity(y) d = Identity(c) }> }""",
         {"b": f32(1)}, [f32(36), f32(-6, 36)]),
    Case("iteration-as-output", """g () => (int64[n] s) { M = Constant<value = int64 {3}>()
        s = Loop(M, "") <body = body (int64 i, bool c) => (bool d, int64 z) { z = Identity(i) d = Identity(c) }> }""",
         {}, [i64(0, 1, 2)]),
    Case("swap", """g (float a, float b, int64 M) => (float c, float d) {
        c, d = Loop(M, "", a, b) <body = body (int64 i, bool k, float x, float y) => (bool k, float y, float x) { }>
        }""",
         {"a": f32(1), "b": f32(2), "M": i64(3)}, [f32(2), f32(1)]),
    Case("unnamed-output", """g (float a) => (float[n] s) { M = Constant<value = int64 {2}>()
        "", s = Loop(M, "", a) <body = body (int64 i, bool c, float x) => (bool d, float y, float x) {
            y = Add(x, x) d = Identity(c) }> }""", {"a": f32(1)}, [f32(1, 2)]),
    Case("outer-value-as-output", """g (float a, float b) => (float c, float[n] s) { M = Constant<value = int64 {2}>()
        c, s = Loop(M, "", a) <body = body (int64 i, bool c, float x) => (bool d, float b, float x) {
            d = Identity(c) }> }""", {"a": f32(1), "b": f32(5)}, [f32(5), f32(1, 5)]),
    Case("nested", """g (float a) => (float b) { M = Constant<value = int64 {3}>()
        b = Loop(M, "", a) <body = outer (int64 i, bool c, float x) => (bool c, float y) {
            y = Loop(i, "", x) <body = inner (int64 j, bool k, float u) => (bool k, float v) {
                f = Cast<to = 1>(i) w = Add(u, f) v = Add(w, a) }> }> }""", {"a": f32(1)}, [f32(9)]),
    Case("optional", """g (optional(float[1]) o) => (bool b) { M = Constant<value = int64 {1}>()
        p = Loop(M, "", o) <body = body (int64 i, bool c, optional(float[1]) x) => (bool c, optional(float[1]) y) {
            y = Identity(x) }> b = OptionalHasElement(p) }""", {"o": None}, [np.bool_(False)]),
]


@pytest.mark.parametrize("case", [*OPENVINO, *ONNX_RUNTIME], ids=str)
def test_loop(case: Case) -> None:
    check(case)


def test_native_code_agrees() -> None:
    for case in (OPENVINO[1], OPENVINO[13], ONNX_RUNTIME[0]):
        check(case, "native")


STOPPING = adding("int64 M, float[1, 2] a", 'M, ""', "cond_out = Constant<value = bool {0}>()")


def test_an_absent_condition_is_ignored_or_not_as_asked() -> None:
    inputs = {"M": i64(3), "a": ZEROS}
    check(Case("spec", STOPPING, inputs, [3 * TWO, rows(3)]))
    check(Case("ort", STOPPING, inputs, [TWO, rows(1)], options={"absent_cond": "ort"}))


def test_a_loop_that_never_ends_is_told_of_when_it_is_read() -> None:
    endless = adding("float[1, 2] a", '"", ""', BELOW_6)
    with pytest.raises(circlet.ModelError, match=r"\(Loop\): expected a trip count or a condition, found neither"):
        load(endless)
    check(Case("ort", endless, {"a": ZEROS}, SIX, options={"absent_cond": "ort"}))


def test_a_long_loop_is_limited() -> None:
    model = load(adding("int64 M, bool c, float[1, 2] a", "M, c"))
    session = circlet.Session(model, limits=circlet.Limits(max_iterations=100))
    with pytest.raises(circlet.LimitError):
        session.run({"M": i64(INT64_MAX), "c": True, "a": ZEROS})


def test_scan_outputs_of_different_shapes_are_an_error() -> None:
    text = OPENVINO[13].text.replace("=> (float[n] b)", "=> (float[n] b, float[n, m] s)")
    for old, new in (("b = Loop", "b, s = Loop"), ("float[m] y)", "float[m] y, float[m] z)"),
                     ("d = Identity", "z = Identity(y) d = Identity")):
        text = text.replace(old, new)
    model = load(text)
    with pytest.raises(circlet.ExecutionError):
        circlet.Session(model).run({"a": f32([0])})


ONE_TURN = """g (float[n, m] x, float s) => (float[k, l] y, float[a, b, c] seen, float t) {{
    M = Constant<value = int64 {{1}}>() always = Constant<value = bool {{1}}>()
    y, t, seen = Loop(M, {cond}, x, s) <body = body (int64{one} i, bool{one} c_in, float[k, l] y_in, float t_in)
        => (bool cond_out, float[k, l] y_out, float t_out, float[b, c] v) {{
        ends = Constant<value = bool {{0}}>() cond_out = Identity(ends)
        sizes = Shape(y_in) zero = Constant<value = int64[1] {{0}}>() two = Constant<value = int64[1] {{2}}>()
        one = Constant<value = int64[1] {{1}}>() flat = Constant<value = int64[1] {{-1}}>()
        row = Reshape(i, flat) first = Slice(sizes, row, two, zero, one) whole = ReduceProd<keepdims = 1>(first)
        target = Concat<axis = 0>(whole, one) v = Reshape(y_in, target)
        y_out = Concat<axis = 0>(y_in, y_in) t_out = Add(t_in, s) }}> }}"""
"""Shapes in the loop follow from the number of the turn, which is 0."""


@pytest.mark.parametrize("cond", ["always", '""'])
@pytest.mark.parametrize("one", ["", "[1]"])
@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_a_loop_of_one_turn_is_what_its_body_does(cond: str, one: str, backend: str) -> None:
    model = load(ONE_TURN.format(cond=cond, one=one))
    assert [each.name for each in model.subgraphs] == ["g"]
    session = circlet.Session(model, backend)
    for shape in ((2, 3), (1, 1), (4, 2), (0, 3), (2, 3)):
        x = np.random.default_rng(0).random(shape, np.float32)
        y, seen, t = session.run({"x": x, "s": np.float32(2)}).values()
        np.testing.assert_array_equal(y, np.concatenate([x, x]), strict=True)
        np.testing.assert_array_equal(seen, x.reshape(1, -1, 1), strict=True)
        assert t == 4


def test_a_loop_of_one_turn_gives_what_it_takes() -> None:
    with pytest.raises(circlet.ModelError, match="carried value 0: expected float32"):
        load(adding("float[1, 2] a", 'M, ""', before="M = Constant<value = int64 {1}>()").replace(
            "a_out = Add(a_in, one)", "b = Add(a_in, one) a_out = Cast<to = 7>(b)"))


def test_files_are_recognised_by_content() -> None:
    assert circlet.load(parse(OPENVINO[0].text)).format == "onnx"
