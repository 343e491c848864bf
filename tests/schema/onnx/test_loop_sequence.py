"""Sequences in and around ONNX's Loop and If, by the cases of OpenVINO's importer (whose names they have)."""

from __future__ import annotations

import pytest

import circlet
from circlet.runtime.errors import UnsupportedError
from circlet.runtime.passes.transforms.eliminate_dead import eliminate_dead
from tests.schema.onnx.graphs import Case, check, f32, i64, load

RUN = {"M": i64(3), "c": True}
THREE = {"a": f32(1, 2), "b": f32(3, 4), "c": f32(5, 6)}
HEAD = "float[2] a, float[2] b, float[2] c"


def collecting(element: str, out: str, concat: str) -> str:
    """A loop that appends an element made of the iteration number `f`, of shape (1,), and joins them."""
    return f"""g (int64 M, bool c) => ({out} y) {{ none = SequenceEmpty()
        s = Loop(M, c, none) <body = body (int64 i, bool k, seq(float) x) => (bool d, seq(float) z) {{
            axis = Constant<value = int64[1] {{0}}>() j = Unsqueeze(i, axis) f = Cast<to = 1>(j)
            {element} z = SequenceInsert(x, e) d = Identity(k) }}>
        y = ConcatFromSequence<{concat}>(s) }}"""


def cached(then: str) -> str:
    """A loop that carries two slots, and changes them in even iterations by `then`, of `f` and the slots `s`."""
    return f"""g (int64 M, bool c, float[1] a, float[1] b) => (float[1] y) {{
        first = SequenceConstruct(a, b) zero = Constant<value = int64 {{0}}>() one = Constant<value = int64 {{1}}>()
        last = Loop(M, c, first) <body = body (int64 i, bool k, seq(float) s) => (bool d, seq(float) r) {{
            axis = Constant<value = int64[1] {{0}}>() j = Unsqueeze(i, axis) f = Cast<to = 1>(j)
            two = Constant<value = int64 {{2}}>() rest = Mod(i, two) even = Equal(rest, zero)
            r = If(even) <then_branch = t () => (seq(float) p) {{ {then} }},
                          else_branch = e () => (seq(float) q) {{ q = Identity(s) }}>
            d = Identity(k) }}>
        p = SequenceAt(last, zero) q = SequenceAt(last, one) y = Add(p, q) }}"""


SLOTS = {**RUN, "a": f32([10]), "b": f32([20])}
GATED = """g (int64 M, bool c, float[1] a, float[1] b, float[1] start) => (float[1] y) {
    none = SequenceEmpty() zero = Constant<value = int64 {0}>()
    r, y = Loop(M, c, none, start) <body = body (int64 i, bool k, seq(float) s, float[1] x)
        => (bool d, seq(float) z, float[1] sum) {
        length = SequenceLength(s) filled = Greater(length, zero)
        z = If(filled) <then_branch = t () => (seq(float) p) { p = Identity(s) },
                        else_branch = e () => (seq(float) q) { q = SequenceConstruct(a, b) }>
        slot = SequenceAt(z, zero) sum = Add(x, slot) d = Identity(k) }> }"""
OTHER_RANKS = """g (bool c, float[2] a, float[2] b) => (float[n] y, int64 length) {
    y = If(c) <then_branch = t () => (p) { p = Constant<value = float[2] {1.0, 2.0}>() },
               else_branch = e () => (q) { q = Constant<value = float {0.0}>() }>
    s = SequenceConstruct(a, b) length = SequenceLength(s) }"""
AT = """g (float[2] a, float[2] b, float[2] c, int64 M, float[2] start) => (float[2] y) {
    s = SequenceConstruct(a, b, c)
    r, y = Loop(M, "", s, start) <body = body (int64 i, bool k, seq(float) t, float[2] u)
        => (bool d, seq(float) z, float[2] v) {
        slot = SequenceAt(t, i) v = Add(u, slot) z = Identity(t) d = Identity(k) }> }"""
UNITS = """g (float[n] x, int64 M, float[1] start) => (float[1] y) { shape = Shape(x)
    ones = ConstantOfShape<value = int64[1] {1}>(shape) s = SplitToSequence<axis = 0, keepdims = 1>(x, ones)
    y = Loop(M, "", start) <body = body (int64[1] i, bool k, float[1] u) => (bool d, float[1] v) {
        slot = SequenceAt(s, i) v = Add(u, slot) d = Identity(k) }> }"""
REPEATED = """g (float[n, 2] x, int64[n] r, float[2] w, int64 M) => (float[m, 2] y, int64 length) { shape = Shape(r)
    none = SequenceEmpty() ones = ConstantOfShape<value = int64[1] {1}>(shape)
    xs = SplitToSequence<axis = 0>(x, ones) rs = SplitToSequence(r, ones) length = SequenceLength(rs)
    s = Loop(M, "", none) <body = body (int64[1] i, bool k, seq(float) t) => (bool d, seq(float) u) {
        row = SequenceAt(xs, i) count = SequenceAt(rs, i) two = Constant<value = int64[1] {2}>()
        sizes = Concat<axis = 0>(count, two) e = Expand(row, sizes) u = SequenceInsert(t, e) d = Identity(k) }>
    all = ConcatFromSequence<axis = 0>(s) y = LayerNormalization<epsilon = 0.0>(all, w) }"""
SLICE = """g (float[n, 2] x, int64 p) => (float[2] y, float[1, 2] z) { zero = Constant<value = int64[1] {0}>()
    shape = Shape(x) rows = Gather<axis = 0>(shape, zero) ones = ConstantOfShape<value = int64[1] {1}>(rows)
    s = SplitToSequence<axis = 0, keepdims = 0>(x) t = SplitToSequence<axis = 0>(x, ones)
    y = SequenceAt(s, p) z = SequenceAt(t, p) }"""
ATTENDED = """g (float[t, 2] x, int64 M) => (float[t, 2] y) {
    none = SequenceEmpty() zero = Constant<value = int64 {0}>()
    s = Loop(M, "", none) <body = body (int64 i, bool k, seq(float) s) => (bool d, seq(float) z) {
        row = Gather(x, i) later = Greater(i, zero)
        e = If(later) <then_branch = t () => (p) { all = ConcatFromSequence<axis = 0, new_axis = 1>(s)
                           weights = Softmax<axis = 0>(all) axis = Constant<value = int64[1] {0}>()
                           parts = Mul(all, weights) sum = ReduceSum<keepdims = 0>(parts, axis) p = Add(row, sum) },
                       else_branch = e () => (q) { q = Identity(row) }>
        z = SequenceInsert(s, e) d = Identity(k) }>
    y = ConcatFromSequence<axis = 0, new_axis = 1>(s) }"""
"""Rows that are added to what a list of all before comes to, of which only the first turn, that does not take it, tells
the rank."""
NEVER_FILLED = """g (int64 M, float[1] start) => (float[1] y) {
    none = SequenceEmpty() zero = Constant<value = int64 {0}>()
    s, y = Loop(M, "", none, start) <body = body (int64 i, bool k, seq(float) s, float[1] u)
        => (bool d, seq(float) z, float[1] v) { later = Greater(i, zero)
        v = If(later) <then_branch = t () => (p) { all = ConcatFromSequence<axis = 0>(s) p = Softmax<axis = 0>(all) },
                       else_branch = e () => (q) { q = Identity(u) }>
        z = Identity(s) d = Identity(k) }> }"""
PRODUCT = """g (seq(float) s) => (y) { zero = Constant<value = int64 {0}>() one = Constant<value = int64 {1}>()
    a = SequenceAt(s, zero) b = SequenceAt(s, one) y = MatMul(a, b) }"""
APPLIED = """g (float[2, 3] w, seq(float) s) => (y) { zero = Constant<value = int64 {0}>()
    b = SequenceAt(s, zero) y = MatMul(w, b) }"""
MATRIX, COLUMNS, VECTOR = f32([[1, 2, 3], [4, 5, 6]]), f32([[1, 0], [0, 1], [1, 1]]), f32(1, 0, 2)
PRODUCTS = [
    Case("matrices", PRODUCT, {"s": [MATRIX, COLUMNS]}, [f32([[4, 5], [10, 11]])]),
    Case("row", PRODUCT, {"s": [VECTOR, COLUMNS]}, [f32(3, 2)]),
    Case("column", PRODUCT, {"s": [MATRIX, VECTOR]}, [f32(7, 16)]),
    Case("row_by_column", PRODUCT, {"s": [VECTOR, VECTOR]}, [f32(5)]),
    Case("matrices_by_column", PRODUCT, {"s": [f32([MATRIX, -MATRIX]), VECTOR]}, [f32([[7, 16], [-7, -16]])]),
    Case("row_by_matrices", PRODUCT, {"s": [VECTOR, f32([COLUMNS, -COLUMNS])]}, [f32([[3, 2], [-3, -2]])]),
    Case("known_matrix_by_column", APPLIED, {"w": MATRIX, "s": [VECTOR]}, [f32(7, 16)]),
    Case("known_matrix_by_matrix", APPLIED, {"w": MATRIX, "s": [COLUMNS]}, [f32([[4, 5], [10, 11]])]),
]
"""Products of tensors of which the run tells whether they are vectors."""
SUM = {**THREE, "M": i64(3), "start": f32(0, 0)}
SLICES = """g (float[n, 2] x) => (float[n, 2] y) { s = SplitToSequence<axis = 0, keepdims = 0>(x)
        M = SequenceLength(s) none = SequenceEmpty()
        r = Loop(M, "", none) <body = body (int64 i, bool k, seq(float) u) => (bool d, seq(float) v) {
            part = SequenceAt(s, i) twice = Add(part, part) v = SequenceInsert(u, twice) d = Identity(k) }>
        y = ConcatFromSequence<axis = 0, new_axis = 1>(r) }"""
UNBOUND = "SplitToSequence<axis = 0, keepdims = 0>(x, one) one = Constant<value = int64 {1}>()"
"""As PyTorch's exporter writes a tensor that is gone through; it means that the axis goes."""
PIECES = """g (float[n, 4] x) => (float[n, m] y, int64 count, float[n, 4] z) {
        sizes = Constant<value = int64SIZES>() s = SplitToSequence<axis = -1>(x, sizes) count = SequenceLength(s)
        place = Constant<value = int64 {0}>() part = SequenceAt(s, place) last = Constant<value = int64 {-1}>()
        w = Transpose(part) final = SequenceAt(s, last) y = MatMul(w, final)
        z = ConcatFromSequence<axis = 1>(s) }"""
PRODUCTS_OF_PIECES = [
    (" {2}", [[38, 44], [48, 56]], 2),
    (" {3}", [[44], [56], [68]], 2),
    (" {9}", [[26, 32, 38, 44], [32, 40, 48, 56], [38, 48, 58, 68], [44, 56, 68, 80]], 1),
    ("[2] {1, 3}", [[32, 38, 44]], 2),
    ("[3] {2, 1, 1}", [[44], [56]], 3),
]
"""Lengths of pieces of four columns, the first piece times the last one, and how many there are."""
CASES = [
    Case("loop_attends_to_its_list", ATTENDED, {"x": f32([[1, 2], [0, 1], [1, 0]]), "M": i64(3)}, [f32(
        [[1, 2], [1, 3], [2, 2.7310586]])]),
    Case("slices_repeated_by_a_loop", REPEATED,
         {"x": f32([[1, 2], [4, 3], [5, 6]]), "r": i64([2, 0, 1]), "w": f32(2, 3), "M": i64(3)},
         [f32([[-2, 3], [-2, 3], [-2, 3]]), i64(3)], opset=17),
    *(Case(f"slice_{place}", SLICE, {"x": f32([[1, 2], [3, 4]]), "p": i64(place)}, [f32(*row), f32([row])])
      for place, row in ((1, [3, 4]), (-1, [3, 4]), (-2, [1, 2]))),
    Case("loop_sequence_insert_direct", collecting("e = Unsqueeze(f, axis)", "float[1, n]", "axis = 1"),
         {**RUN, "M": i64(5)}, [f32([[0, 1, 2, 3, 4]])]),
    Case("loop_sequence_concat_no_new_axis", collecting(
        "half = Constant<value = float {0.5}>() g = Add(f, half) e = Concat<axis = 0>(f, g)", "float[n]",
        "axis = 0, new_axis = 0"), RUN, [f32(0, .5, 1, 1.5, 2, 2.5)]),
    Case("loop_sequence_stacked", collecting("e = Identity(f)", "float[n, 1]", "axis = 0, new_axis = 1"), RUN,
         [f32([[0], [1], [2]])]),
    Case("sequence_construct_concat", f"""g ({HEAD}) => (float[3, 2] y) {{ s = SequenceConstruct(a, b, c)
        y = ConcatFromSequence<axis = 0, new_axis = 1>(s) }}""", THREE, [f32([[1, 2], [3, 4], [5, 6]])]),
    Case("sequence_insert_chain_concat", f"""g ({HEAD}, float[2] d) => (float[8] y) {{ s = SequenceConstruct(a, b)
        t = SequenceInsert(s, c) u = SequenceInsert(t, d) y = ConcatFromSequence<axis = 0>(u) }}""",
         {**THREE, "d": f32(7, 8)}, [f32(1, 2, 3, 4, 5, 6, 7, 8)]),
    Case("sequence_insert_chain_new_axis", f"""g ({HEAD}) => (float[3, 2] y) {{ e = SequenceEmpty()
        s = SequenceInsert(e, a) t = SequenceInsert(s, b) u = SequenceInsert(t, c)
        y = ConcatFromSequence<axis = 0, new_axis = 1>(u) }}""", THREE, [f32([[1, 2], [3, 4], [5, 6]])]),
    Case("sequence_empty_insert_concat", f"""g ({HEAD}) => (float[n] y) {{ e = SequenceEmpty()
        zero = Constant<value = int64 {{0}}>() s = SequenceInsert(e, a) t = SequenceInsert(s, b, zero)
        y = ConcatFromSequence<axis = 0>(t) }}""", THREE, [f32(3, 4, 1, 2)]),
    Case("loop_if_multi_slot_kv_update", cached("""unit = Constant<value = float {1.0}>() g = Add(f, unit)
        p = SequenceConstruct(f, g)"""), SLOTS, [f32([5])]),
    Case("loop_if_kv_erase_insert", cached("o = SequenceErase(s) p = SequenceInsert(o, f)"), SLOTS, [f32([12])]),
    Case("sal_sequence_length_static_n", f"""g ({HEAD}) => (int64 n) {{ s = SequenceConstruct(a, b, c)
        n = SequenceLength(s) }}""", THREE, [i64(3)]),
    Case("sal_sequence_length_runtime_gate", GATED, {**SLOTS, "start": f32([0])}, [f32([30])]),
    Case("sal_sequence_length_runtime_gate-no-trips", GATED, {**SLOTS, "M": i64(0), "start": f32([7])}, [f32([7])]),
    Case("sal_if_rank_mismatch_repair", OTHER_RANKS, {"c": True, "a": f32(7, 8), "b": f32(9, 0)},
         [f32(1, 2), i64(2)]),
    Case("sal_if_rank_mismatch_repair-else", OTHER_RANKS.replace("float[n] y", "y"),
         {"c": False, "a": f32(7, 8), "b": f32(9, 0)}, [f32(0), i64(2)]),
    Case("sal_sequence_at_loop_iter_index", AT, SUM, [f32(9, 12)]),
    Case("sal_sequence_at_loop_iter_index-rank-1", AT.replace("int64 i", "int64[1] i"), SUM, [f32(9, 12)]),
    Case("sal_dynamic_unit_split_loop_idiom", UNITS, {"x": f32(1, 2, 3), "M": i64(3), "start": f32([10])},
         [f32([16])]),
    *(Case(f"pieces-of-{sizes}", PIECES.replace("SIZES", sizes), {"x": f32([[1, 2, 3, 4], [5, 6, 7, 8]])}, [
        f32(product), i64(count), f32([[1, 2, 3, 4], [5, 6, 7, 8]])]) for sizes, product, count in PRODUCTS_OF_PIECES),
    Case("sequence-of-slices", SLICES, {"x": f32([[1, 2], [3, 4]])}, [f32([[2, 4], [6, 8]])]),
    Case("sequence-of-slices-of-one", SLICES.replace("SplitToSequence<axis = 0, keepdims = 0>(x)", UNBOUND),
         {"x": f32([[1, 2], [3, 4]])}, [f32([[2, 4], [6, 8]])]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_sequences(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize("case", PRODUCTS, ids=str)
def test_products_of_any_rank(case: Case, backend: str) -> None:
    check(case, backend)


def test_a_position_past_the_end_is_an_error_of_the_run() -> None:
    session = circlet.Session(load(AT))
    with pytest.raises(circlet.ExecutionError, match=r"SEQUENCE_AT.*expected -3 to 2 for 3 elements, found 3"):
        session.run({**SUM, "M": i64(4)})


@pytest.mark.parametrize("sizes", [each for each, *_ in PRODUCTS_OF_PIECES])
def test_pieces_of_known_lengths_are_no_sequence(sizes: str) -> None:
    main = eliminate_dead(load(PIECES.replace("SIZES", sizes))).subgraphs[0]
    assert not [each.name for each in main.operators if each.name.startswith("SEQUENCE")]


@pytest.mark.parametrize("backend", ["cpu", "native"])
@pytest.mark.parametrize("place", [2, -3])
def test_no_such_slice(place: int, backend: str) -> None:
    session = circlet.Session(load(SLICE), backend=backend)
    with pytest.raises(circlet.ExecutionError, match="index"):
        session.run({"x": f32([[1, 2], [3, 4]]), "p": i64(place)})


def test_a_list_that_stays_empty_tells_no_rank() -> None:
    with pytest.raises(UnsupportedError, match=r"graph 't', node 1 .*rank only a run tells: 'all'"):
        load(NEVER_FILLED)


def test_lists_of_branches_tell_what_is_in_them() -> None:
    model = load("""g (bool c, float[n, 3] a, float[m, 3] b) => (float[k, 3] y) {
        zero = Constant<value = int64 {0}>()
        s = If(c) <then_branch = t () => (seq(float) p) { p = SequenceConstruct(a) },
                   else_branch = e () => (seq(float) q) { both = SequenceConstruct(a, b)
                       q = Identity(both) }>
        y = SequenceAt(s, zero) }""", 17)
    main = model.subgraphs[0]
    assert main.tensors[main.outputs[0]].declared == (-1, 3)
