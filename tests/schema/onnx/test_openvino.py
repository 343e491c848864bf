"""The cases of OpenVINO's ONNX importer of Loop and If that the cases beside them leave out, under their names."""

from __future__ import annotations

import numpy as np
import pytest

from tests.schema.onnx.graphs import Case, check, f32, i64
from tests.schema.onnx.test_loop import BELOW_6, INT64_MAX, SIX, TWO, ZEROS, adding, rows

COUNT = "M = Constant<value = int64 {3}>()"
ADDED = [3 * TWO, rows(3)]
PARENT = """g (float[1, 2] a, float[1] b) => (float[1, 2] a_final, float[n, 1, 2] a_values, float[1] p) {
    M = Constant<value = int64 {3}>() outer = Identity(b) p = Mul(outer, outer)
    a_final, a_values = Loop(M, "", a) <body = body (int64 i, bool c_in, float[1, 2] a_in)
            => (bool cond_out, float[1, 2] a_out, float[1, 2] v) {
        one = Add(outer, outer) a_out = Add(a_in, one) v = Identity(a_out) cond_out = Identity(c_in) }> }"""
BOTH = adding("int64 M, bool c, float[1, 2] a", "M, c", BELOW_6)
TEN = {"M": i64(10), "c": True, "a": ZEROS}
UNTYPED = "(int64 i, bool c_in, a_in)\n            => (cond_out, a_out, v)"
TYPED = "(int64 i, bool c_in, float[1, 2] a_in)\n            => (bool cond_out, float[1, 2] a_out, float[1, 2] v)"


def last_only(text: str) -> str:
    """A loop of which the first output alone is taken."""
    return text.replace(", float[n, 1, 2] a_values)", ")", 1)


X, Y = np.full((4, 10), 2, np.float32), np.arange(-20, 20, dtype=np.float32).reshape(4, 10)
LOW, HIGH = np.arange(-40, 0, dtype=np.float32).reshape(4, 10), np.arange(1, 41, dtype=np.float32).reshape(4, 10)
PLANES = np.arange(36, dtype=np.float32).reshape(6, 6)
IMAGE = np.arange(20, dtype=np.float32).reshape(1, 5, 2, 2)
IN_IF = """g (bool c, float[4, 10] x, float[4, 10] y) => (float[4, 10] z) { z = If(c) <then_branch = t () => (p) {
        more = Greater(x, y) ones = Cast<to = 1>(more) most = ReduceMax<keepdims = 0>(ones) any = Cast<to = 9>(most)
        p = If(any) <then_branch = u () => (r) { r = Mul(x, y) }, else_branch = v () => (s) { s = Add(x, y) }> },
    else_branch = e () => (q) { q = Sub(x, y) }> }"""
PARTS = """g (bool c, float[6, 6] x) => (float[k, l] y0, float[k, l] y1, float[k, l] y2) {
    y0, y1, y2 = If(c) <then_branch = t () => (a, b, d) { a, b, d = Split<axis = 0>(x) },
        else_branch = e () => (f, g, h) { i, j, k = Split<axis = 1>(x)
            f = Transpose(i) g = Transpose(j) h = Transpose(k) }> }"""
DIFFERENT = """g (bool c, float[4, 10] x, float[4, 10] y) => (float[4, 10] z) { z = If(c) <
    then_branch = t () => (u) { u = Add(x, y) }, else_branch = e () => (v) { v = Abs(y) }> }"""
POOLED = """g (float[1, 5, 2, 2] x) => (float[1, 5, 2, 2] y) { axis = Constant<value = int64[1] {1}>()
    flat = Unsqueeze(x, axis) pads = Constant<value = int64[10] {0, 0, 1, 0, 0, 0, 0, 1, 0, 0}>()
    wide = Pad(flat, pads) mean = AveragePool<kernel_shape = [3, 1, 1]>(wide) shape = Shape(mean)
    one = Constant<value = int64 {1}>() size = Gather<axis = 0>(shape, one) single = Equal(size, one)
    z = If(single) <then_branch = t () => (p) { p = Squeeze(mean, axis) },
                    else_branch = e () => (q) { q = Identity(mean) }> y = Add(x, z) }"""
DEEP = """g (float[1] a) => (float[1] y, float[n, 1] s) { M = Constant<value = int64 {5}>()
    y, s = Loop(M, "", a) <body = body (int64 i, bool k, float[1] x) => (bool d, float[1] z, float[1] w) {
        two = Constant<value = int64 {2}>() late = Greater(i, two) d = Identity(k) w = Identity(z0) z = Identity(z0)
    }> }""".replace("d = Identity(k)", """three = Constant<value = int64 {3}>() f = Cast<to = 1>(i)
        z0 = If(late) <then_branch = t () => (p) { last = Greater(i, three)
            p = If(last) <then_branch = u () => (r) { m = Mul(i, two) n = Cast<to = 1>(m) r = Mul(x, n) },
                          else_branch = v () => (o) { m = Mul(i, three) n = Cast<to = 1>(m) o = Mul(x, n) }> },
                       else_branch = e () => (q) { q = Add(x, x) }> d = Identity(k)""")
CHOSEN = "g (bool c, float[3] x) => (float[3] y) { y = If(c) <then_branch = t () => (p) { p = Identity(x) }, " \
         "else_branch = e () => (q) <float[3] q = {0.0, 0.0, 0.0}> { }> }"
CASES = [
    Case("loop_2d_add_no_identity_termination_cond_static_shapes",
         last_only(adding("bool c, float[1, 2] a", '"", c', BELOW_6)), {"c": True, "a": ZEROS}, SIX[:1]),
    Case("loop_2d_add_trip_count_max_int", adding("bool c, float[1, 2] a", "M, c", BELOW_6, before=(
        f"M = Constant<value = int64 {{{INT64_MAX}}}>()")), {"c": True, "a": ZEROS}, SIX),
    # OpenVINO gives the row [3, 4] of an iteration that there is not.
    Case("loop_2d_add_no_identity_termination_cond_false", adding(
        "float[1, 2] a", '"", c', BELOW_6, before="c = Constant<value = bool {0}>()"), {"a": f32([[3, 4]])},
         [f32([[3, 4]]), np.zeros((0, 1, 2), np.float32)]),
    Case("loop_2d_add_const_no_identity_termination_cond_static_shapes", last_only(adding(
        "float[1, 2] a", '"", c', BELOW_6.replace("6.0", "4.0"), "c = Constant<value = bool {1}>()")), {"a": ZEROS},
         [4 * TWO]),
    Case("loop_2d_add_cond_and_trip_count_as_inputs_static_shapes", last_only(BOTH), TEN, SIX[:1]),
    Case("loop_2d_add_const_cond", adding(
        "float[1, 2] a", "M, c", before=f"{COUNT} c = Constant<value = bool {{1}}>()"), {"a": ZEROS}, ADDED),
    Case("loop_2d_add_initializer_from_parent_scope", adding(
        "float[1, 2] a", 'M, ""', one="unused = Identity(one)", before=COUNT).replace(
        "a_values) {", "a_values) <float[1, 2] one = {2.0, 2.0}> {", 1), {"a": ZEROS}, [6 * TWO, 2 * rows(3)]),
    Case("loop_add_node_from_parent_scope_used_in_parent_and_in_body", PARENT, {"a": ZEROS, "b": f32([3])},
         [18 * TWO, 6 * rows(3), f32([9])]),
    Case("loop_add_node_from_parent_scope_infer_types", PARENT.replace(TYPED, UNTYPED), {"a": ZEROS, "b": f32([3])},
         [18 * TWO, 6 * rows(3), f32([9])]),
    Case("onnx_controlflow_loop_2d_infer_types", last_only(BOTH.replace(TYPED, UNTYPED)), TEN, SIX[:1]),
    Case("loop_2d_add_the_same_name", adding("float[1, 2] a", 'M, ""', before=(
        f"{COUNT} one = Constant<value = float[1, 2] {{7.0, 7.0}}>() unused = Neg(one)")), {"a": ZEROS}, ADDED),
    Case("loop_concat_growing_merged_dim", """g (float[1] a) => (float[n] y) <int64[1] M = {3}, bool[1] c = {1}> {
        y = Loop(M, c, a) <body = body (int64 i, bool k, float[] x) => (bool d, float[m] z) <float[1] step = {2.0}> {
            d = Identity(k) z = Concat<axis = 0>(x, step) }> }""".replace("float[] x", "float[j] x"),
         {"a": f32([1])}, [f32(1, 2, 2, 2)], 13),
    # OpenVINO begins at iteration 1, and joins the rows of each iteration where they are collected.
    Case("loop_concat_values", """g (int64[1] M, bool[1] c, int64[1] a) => (int64[n] y) {
        y = Loop(M, c, a) <body = body (int64[1] i, bool[1] k, int64[m] x) => (bool[1] d, int64[j] z) {
            d = Identity(k) z = Concat<axis = 0>(x, i) }> }""", {"M": i64([5]), "c": [True], "a": i64([0])},
         [i64(0, 0, 1, 2, 3, 4)]),
    Case("loop_pow", """g (int64 M, int64 a) => (int64 y, int64[n] s) {
        y, s = Loop(M, "", a) <body = body (int64 i, bool k, int64 x) => (bool d, int64 z, int64 w) {
            z = Mul(i, i) w = Identity(z) d = Identity(k) }> }""", {"M": i64(5), "a": i64(5)},
         [i64(16), i64(0, 1, 4, 9, 16)]),
    *(Case(f"if_inside_if-{name}", IN_IF, {"c": c, "x": x, "y": y}, [z]) for name, c, x, y, z in (
        ("then-then", True, X, Y, X * Y), ("then-else", True, LOW, HIGH, LOW + HIGH),
        ("else", False, LOW, HIGH, LOW - HIGH))),
    Case("if_branches_with_multiple_outputs-then", PARTS, {"c": True, "x": PLANES},
         [PLANES[k:k + 2] for k in (0, 2, 4)]),
    Case("if_branches_with_multiple_outputs-else", PARTS, {"c": False, "x": PLANES},
         [PLANES[:, k:k + 2].T for k in (0, 2, 4)]),
    *(Case(f"if_dynamic_inputs-{name}", """g (bool c, float[k, l] x, float[m, n] y) => (float[o, p] z) {
        z = If(c) <then_branch = t () => (u) { u = Add(x, y) }, else_branch = e () => (v) { v = Mul(x, y) }> }""",
           {"c": c, "x": X, "y": Y}, [z]) for name, c, z in (("then", True, X + Y), ("else", False, X * Y))),
    *(Case(f"if_branches_with_different_inputs-{name}", DIFFERENT, {"c": c, "x": X, "y": Y}, [z])
      for name, c, z in (("then", True, X + Y), ("else", False, np.abs(Y)))),
    Case("if_with_only_indentity_in_else_branch", POOLED, {"x": IMAGE}, [IMAGE + f32([
        4, 6, 8, 10, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45, 28, 30, 32, 34]).reshape(1, 5, 2, 2) / 3]),
    Case("if_inside_if_inside_loop", DEEP, {"a": f32([1])}, [f32([576]), f32([[2], [4], [8], [72], [576]])]),
    Case("if_with_initializer_as_output-then", CHOSEN, {"c": True, "x": f32(1, 2, 3)}, [f32(1, 2, 3)]),
    Case("if_with_initializer_as_output-else", CHOSEN, {"c": False, "x": f32(1, 2, 3)}, [f32(0, 0, 0)]),
    Case("scan_with_initializer_as_output", """g (float[1] s, float[n, 1] x) => (float[1] t, float[n, 1] y, z) {
        t, y, z = Scan<num_scan_inputs = 1, body = body (a, b) => (c, d, leak) <float[1] leak = {7.0}> {
            c = Add(a, b) d = Identity(c) }> (s, x) }""", {"s": f32([0]), "x": f32([[1], [2], [3]])},
         [f32([6]), f32([[1], [3], [6]]), f32([[7], [7], [7]])]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_import(case: Case) -> None:
    check(case)
