"""Graphs of which a run tells the lengths: what is imported of them beside their ranks."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import circlet
from circlet.runtime.exec.observe.regions import Kind
from tests.needs import NATIVE
from tests.schema.onnx.graphs import Case, check, f32, load

PICKED = """g (float[n, 3] x, float[n] score) => (float[k, 3] y) {
    zero = Constant<value = float {0.0}>() is = Greater(score, zero) at = NonZero(is)
    rows = Transpose<perm = [1, 0]>(at) y = GatherND(x, rows) }"""
SPLIT = """g (float[n, 3] x, int64 M) => (float[3] y) {
    none = Constant<value = float[3] {0.0, 0.0, 0.0}>() on = Constant<value = bool {1}>()
    y = Loop(M, on, none) <body = b (int64 i, bool c, float[3] a) => (bool d, float[3] z) {
        d = Identity(c) level = Cast<to = 1>(i) last = Constant<value_ints = [1]>() first = Constant<value_ints = [0]>()
        total = ReduceSum<keepdims = 0>(x, last)
        more = Greater(total, level) at = NonZero(more) rows = Transpose(at) above = GatherND(x, rows)
        less = LessOrEqual(total, level) at2 = NonZero(less) rows2 = Transpose(at2) below = GatherND(x, rows2)
        turned = Transpose(below) product = MatMul(above, turned) bounded = Tanh(product)
        one = MatMul(bounded, below) two = MatMul(product, below) both = Add(one, two)
        sums = ReduceSum<keepdims = 0>(both, first) z = Add(a, sums) }> }"""
RESIZED = """g (float[b, 2, h, w] x, float[b, c, h2, w2] like) => (float[b, 1, h2, w2] y) {
    begin = Constant<value = int64[1] {0}>() two = Constant<value = int64[1] {2}>()
    end = Constant<value = int64[1] {4}>()
    shape = Shape(x) same = Slice(shape, begin, two) wanted = Shape(like) size = Slice(wanted, two, end)
    sizes = Concat<axis = 0>(same, size)
    up = Resize<coordinate_transformation_mode = "asymmetric", mode = "nearest", nearest_mode = "floor">(
        x, "", "", sizes)
    both = Concat<axis = 1>(up, like)
    kernel = Constant<value = float[1, 3, 1, 1] {1.0, 2.0, 3.0}>() y = Conv(both, kernel) }"""

CACHED = """g (float[b, n, 8] x, float[b, 2, p, 4] keys) => (float[b, m, 8] y) {
    split = Constant<value = int64[4] {0, 0, 2, 4}>() heads = Reshape(x, split)
    ours = Transpose<perm = [0, 2, 1, 3]>(heads) all = Concat<axis = 2>(keys, ours)
    back = Transpose<perm = [0, 2, 1, 3]>(all) joined = Constant<value = int64[3] {0, -1, 8}>()
    rows = Reshape(back, joined) scale = Constant<value = float[8] {1, 1, 1, 1, 1, 1, 1, 1}>()
    y = LayerNormalization<axis = -1, epsilon = 0.0>(rows, scale) }"""
RECURRENT = """g (float[t, b, 1] x, int32[b] lens) => (float[t, 1, b, 1] y) {
    w = Constant<value = float[1, 3, 1] {0.5, 1.0, 2.0}>() r = Constant<value = float[1, 3, 1] {0.0, 0.0, 0.0}>()
    none = Constant<value = float[1, 6] {0.0, 0.0, 0.0, 0.0, 0.0, 0.0}>()
    y = GRU<hidden_size = 1, linear_before_reset = 1>(x, w, r, none, lens) }"""
BLOCKS = """g (float[b, c, h, w] x) => (float[b, c2, h2, w2] wide, float[b, c, h, w] back) {
    wide = DepthToSpace<blocksize = 2, mode = "CRD">(x) deep = SpaceToDepth<blocksize = 2>(wide)
    flat = DepthToSpace<blocksize = 2>(deep) back = SpaceToDepth<blocksize = 2, mode = "CRD">(flat) }"""
TRACED = """g (float[t, b, 4] x) => (float[t, b, 2, 2] y) {
    shape = Shape(x) zero = Constant<value = int64[1] {0}>() last = Constant<value = int64[1] {-1}>()
    rank = Constant<value = int64[1] {3}>() one = Constant<value = int64[1] {-1}>()
    at = Mod(last, rank) end = Reshape(at, one) first = Slice(shape, zero, end)
    split = Constant<value = int64[2] {2, 2}>() all = Concat<axis = 0>(first, split) z = Reshape(x, all)
    scale = Constant<value = float[2] {1.0, 1.0}>() y = LayerNormalization<axis = -1, epsilon = 0.0>(z, scale) }"""
BITS = "g (float[n, 3] x) => (int32[n, 3] y) { y = BitCast<to = 6>(x) }"
LISTED = """g (float[n, 3] x) => (float[m, 3] y) {
    sizes = Shape(x) zero = Constant<value = int64 {0}>() n = Gather(sizes, zero) yes = Constant<value = bool {1}>()
    empty = ConstantOfShape(sizes)
    y = Loop(n, yes, empty)<body = body (int64 i, bool c, float[k, 3] list) => (bool more, float[k2, 3] next) {
        more = Identity(yes) first = Constant<value = int64[1] {0}>() begin = Constant<value = int64[2] {0, 0}>()
        rest = Constant<value = int64[1] {-1}>() one = Constant<value = int64 {1}>()
        at = Unsqueeze(i, first) ends = Concat<axis = 0>(at, rest) low = Less(ends, first) shape = Shape(list)
        end = Where(low, shape, ends) head = Slice(list, begin, end)
        taken = Gather(x, i) double = Add(taken, taken) row = Unsqueeze(double, first)
        j = Add(i, one) next_at = Unsqueeze(j, first) start = Concat<axis = 0>(next_at, first)
        tail = Slice(list, start, shape) next = Concat<axis = 0>(head, row, tail) }> }"""
"""As OpenVINO spells what TensorFlow's lists are: sizes of which some follow from shapes, and one from an index."""

INDEXED = """g (float[b, n, 3] x, int64[b, 5] at) => (float[b, 5, 3] y) {
    sizes = Shape(x) zero = Constant<value = int64 {0}>() one = Constant<value = int64 {1}>()
    b = Gather(sizes, zero) rows = Range(zero, b, one) last = Constant<value = int64[1] {-1}>()
    column = Unsqueeze(rows, last) both = Max(column, at) shape = Shape(both) wide = Expand(column, shape)
    first = Unsqueeze(wide, last) second = Unsqueeze(at, last) places = Concat<axis = -1>(first, second)
    y = GatherND(x, places) }"""
"""As PyTorch's exporter writes x[arange(b)[:, None], at]: what is joined has lengths that only one part knows."""

SAMPLED = """g (float[b, 1, h, w] x, float[b, c, k] places) => (float[b, 1, 1, 1] y) {
    one = Constant<value = int64[1] {1}>() two = Constant<value = int64[1] {2}>() sizes = Shape(places)
    zero = Constant<value = int64[1] {0}>() three = Constant<value = int64[1] {3}>() b = Slice(sizes, zero, one)
    c = Slice(sizes, one, two) k = Slice(sizes, two, three) all = Concat<axis = 0>(b, one, k, c)
    turned = Transpose<perm = [0, 2, 1]>(places) grid = Reshape(turned, all)
    found = GridSample<align_corners = 1>(x, grid) y = GlobalAveragePool(found) }"""
"""A grid of which only a run tells how many coordinates a place has."""

FRAMED = """g (float[1, l] x) => (float[1, 1, n] y) {
    one = Constant<value = int64[1] {1}>() row = Unsqueeze(x, one)
    size = Constant<value = int64[3] {258, 1, 256}>() wide = ConstantOfShape<value = float[1] {1.0}>(size)
    frames = Conv<strides = [128]>(row, wide)
    more = Constant<value = int64[3] {1, 258, 3}>() next = ConstantOfShape<value = float[1] {1.0}>(more)
    y = Conv<strides = [2], pads = [1, 1]>(frames, next) }"""
"""Frames as an exported short-time Fourier transform makes them: filters that are longer than most sizes known."""
RANKED = """g (float[b, 2, l] x, float[b, 2] h, bool flag) => (float[l2, 1, b, 1] y, float[b, 1, k] z) {
    signal = If(flag)<then_branch = given () => (float[b, 2, l] same) { same = Identity(x) },
                      else_branch = flat () => (float[b, 2] last) { last = Identity(h) }>
    filter = Constant<value = float[1, 2, 3] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}>() z = Conv(signal, filter)
    steps = Transpose<perm = [2, 0, 1]>(x)
    way = If(flag)<then_branch = many () => (float[l, b, 2] all) { all = Identity(steps) },
                   else_branch = few () => (float[b, 2] one) { one = Identity(h) }>
    w = Constant<value = float[1, 1, 2] {0.5, 0.25}>() r = Constant<value = float[1, 1, 1] {0.0}>()
    y = RNN<hidden_size = 1>(way, w, r) }"""
"""Branches of different ranks, of which what follows takes one."""

SQUEEZED = """g (float[b, 2, h, w] x) => (float[b, 2, w2] y) {
    pooled = MaxPool<kernel_shape = [3, 2], strides = [3, 2]>(x) two = Constant<value = int64[1] {2}>()
    flat = Squeeze(pooled, two) twice = Add(flat, flat) y = Relu(twice) }"""
"""A height that must be 1, which only the run tells."""

TRANSFORMED = """g (float[b, n] x) => (float[b, m] y) {
    last = Constant<value = int64[1] {-1}>() one = Constant<value = int64 {1}>() numbers = Unsqueeze(x, last)
    sizes = Shape(x) n = Gather(sizes, one) bins = DFT<axis = 1, onesided = 1>(numbers, n)
    zero = Constant<value = int64[1] {0}>() first = Constant<value = int64[1] {1}>()
    real = Slice(bins, zero, first, last) y = Squeeze(real, last) }"""
"""As many bins as follow from the shape, of which the real parts are taken."""

BATCHED = """g (float[b, n, 2] x, int64[b, k, 1] at) => (float[b, k, 2] y) { y = GatherND<batch_dims = 1>(x, at) }"""

BOXED = """g (float[1, n, 4] boxes, float[1, 1, n] scores) => (float[k, 4] y) {
    most = Constant<value = int64 {9}>() over = Constant<value = float {0.5}>() least = Constant<value = float {0.5}>()
    found = NonMaxSuppression(boxes, scores, most, over, least) columns = Constant<value = int64[2] {0, 2}>()
    at = Gather<axis = 1>(found, columns) y = GatherND(boxes, at) }"""


MIRRORED = """g (float[b, 2, l] x) => (float[b, 1, m] y) {
    given = Constant<value = int64[2] {2, 1}>() four = Constant<value = int64[1] {4}>()
    more = ConstantOfShape<value = int64[1] {0}>(four) all = Concat<axis = 0>(given, more)
    two = Constant<value = int64[2] {-1, 2}>() pairs = Reshape(all, two)
    first = Constant<value = int64[1] {0}>() last = Constant<value = int64[1] {-1}>()
    end = Constant<value = int64[1] {-9223372036854775807}>() back = Slice(pairs, last, end, first, last)
    sides = Transpose<perm = [1, 0]>(back) flat = Reshape(sides, last) pads = Cast<to = 7>(flat)
    wide = Pad<mode = "reflect">(x, pads) kernel = Constant<value = float[1, 2, 1] {1.0, 2.0}>()
    y = Conv(wide, kernel) }"""
"""What exporters make of paddings for the last axes: amounts for all of them, computed from constants."""

SCORED = """g (float[b, l, 2] x) => (float[b, l] y) {
    weights = Constant<value = float[2, 1] {1.0, 2.0}>() scores = MatMul(x, weights) shape = Shape(scores)
    two = Constant<value = int64 {2}>() one = Constant<value = int64 {1}>() size = Gather(shape, two)
    is = Equal(size, one) axes = Constant<value = int64[1] {2}>()
    flat = If(is)<then_branch = squeezed () => (float[b, l] less) { less = Squeeze(scores, axes) },
                  else_branch = kept () => (float[b, l, k] same) { same = Identity(scores) }>
    y = Softmax<axis = 1>(flat) }"""
"""A branch on a length that is known, as scripts of a `squeeze` are exported."""


GROWN = """g (float[b, 2] x, int64 n) => (float[b, m, 3] y) {
    sizes = Shape(x) zero = Constant<value = int64[1] {0}>() one = Constant<value = int64[1] {1}>()
    three = Constant<value = int64[1] {3}>() five = Constant<value = int64[1] {5}>() b = Slice(sizes, zero, one)
    state = Concat<axis = 0>(b, five) first = ConstantOfShape(state) yes = Constant<value = bool {1}>()
    none = Concat<axis = 0>(b, zero, three) begin = ConstantOfShape(none)
    w = Constant<value = float[5, 3] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}>()
    all, last = Loop(n, yes, begin, first)<body = body (int64 i, bool c, float[b, k, 3] rows, float[b, h] v)
        => (bool more, float[b, k2, 3] longer, float[b, h2] next) {
        more = Identity(yes) unit = Constant<value = float {1}>() next = Add(v, unit) out = MatMul(next, w)
        row = Unsqueeze(out, one) longer = Concat<axis = 1>(rows, row) }>
    y = Identity(all) }"""
"""A loop that grows from nothing, with a state whose width is a constant in a shape that is computed."""


BAGGED = """g (float[n, 2] x, int64[k] ends) => (float[m, 2] y, float[m, 2] z) {
    one = Constant<value = int64[1] {1}>() zero = Constant<value = int64[1] {0}>() all = Concat<axis = 0>(zero, ends)
    count = Size(ends) yes = Constant<value = bool {1}>()
    y = Loop(count, yes)<body = body (int64 i, bool c) => (bool more, float[2] sum) { more = Identity(yes)
        at = Reshape(i, one) next = Add(at, one) after = Add(next, one)
        start = Slice(all, at, next) end = Slice(all, next, after)
        rows = Slice(x, start, end) sum = ReduceSum<keepdims = 0>(rows, zero) }>
    z = Loop(count, yes)<body = rest (int64 j, bool d) => (bool again, float[2] most) { again = Identity(yes)
        from = Reshape(j, one) to = Add(from, one) begin = Slice(all, from, to) wide = Shape(x)
        first = Slice(wide, zero, one) last = Slice(x, begin, first)
        most = ReduceMax<axes = [0], keepdims = 0>(last) }> }"""
"""Sums between offsets that are sliced out of a vector, and maxima of the rows from each on, as PyTorch's exporter
writes of an EmbeddingBag."""


def bagged(length: int) -> Case:
    x = np.arange(4 * length, dtype=np.float32).reshape(2 * length, 2)
    ends = np.array([length - 2, length, 2 * length])
    sums = [each.sum(0) for each in np.split(x, ends[:-1])]
    most = np.repeat(x[-1:], len(ends), 0)
    return Case(f"bags of {length}", BAGGED, {"x": x, "ends": ends}, [np.stack(sums), most])


def grown(length: int) -> Case:
    state = np.arange(1, length + 1, dtype=np.float32)[:, None] * np.ones(5, np.float32)
    rows = state @ np.arange(1, 16, dtype=np.float32).reshape(5, 3)
    inputs = {"x": np.ones((2, 2), np.float32), "n": np.int64(length)}
    return Case(f"grown to {length}", GROWN, inputs, [np.stack([rows, rows])])


def indexed(length: int) -> Case:
    x = np.arange(6 * length, dtype=np.float32).reshape(2, length, 3)
    at = np.arange(10).reshape(2, 5) * 3 % length
    return Case(f"rows of {length}, by axis", INDEXED, {"x": x, "at": at}, [x[np.arange(2)[:, None], at]])


def sampled(length: int) -> Case:
    x = np.arange(length, dtype=np.float32).reshape(1, 1, 1, length)
    places = np.stack([np.linspace(-1, 1, 5), np.zeros(5)])[None].astype(np.float32)
    return Case(f"samples of {length}", SAMPLED, {"x": x, "places": places}, [f32([[[[(length - 1) / 2]]]])])


def mirrored(length: int) -> Case:
    x = np.sin(np.arange(4 * length, dtype=np.float32)).reshape(2, 2, length)
    wide = np.pad(x, ((0, 0), (0, 0), (2, 1)), "reflect")
    return Case(f"mirror of {length}", MIRRORED, {"x": x}, [wide[:, :1] + 2 * wide[:, 1:]])


def scored(length: int) -> Case:
    x = np.sin(np.arange(4 * length, dtype=np.float32)).reshape(2, length, 2)
    scores = np.exp(x[..., 0] + 2 * x[..., 1])
    return Case(f"scores of {length}", SCORED, {"x": x}, [scores / scores.sum(1, keepdims=True)])


def batched(length: int) -> Case:
    x = np.arange(2 * length * (length + 1), dtype=np.float32).reshape(length, length + 1, 2)
    at = (np.arange(3 * length).reshape(length, 3, 1) * 5) % length - 2
    return Case(f"rows of {length} batches", BATCHED, {"x": x, "at": at}, [np.take_along_axis(x, at, 1)])


def transformed(length: int) -> Case:
    x = np.sin(np.arange(2 * length, dtype=np.float32)).reshape(2, length)
    return Case(f"bins of {length}", TRANSFORMED, {"x": x}, [np.fft.rfft(x).real.astype(np.float32)], 17)


def boxed(length: int) -> Case:
    """Boxes that are apart, of which every other one has a score, the last one the best."""
    corner = 4 * np.arange(length, dtype=np.float32)[:, None]
    boxes = np.concatenate([corner, corner, corner + 2, corner + 2], 1)
    scores = np.where(np.arange(length) % 2, 1 + corner[:, 0], 0)
    return Case(f"boxes of {length}", BOXED, {"boxes": boxes[None], "scores": f32([[scores]])}, [boxes[1::2][::-1]])


def squeezed(length: int) -> Case:
    x = np.sin(np.arange(32 * length, dtype=np.float32)).reshape(2, 2, 4, 2 * length)
    pooled = x[:, :, :3].reshape(2, 2, 3, length, 2).max((2, 4))
    return Case(f"rows of {length}", SQUEEZED, {"x": x}, [np.maximum(2 * pooled, 0)])


def framed(length: int) -> Case:
    x = (np.arange(128 * length + 128) % 3).astype(np.float32)
    frames = np.array([x[128 * k:128 * k + 256].sum() for k in range(length)])
    around = np.pad(frames, 1)
    expected = [258 * around[k:k + 3].sum() for k in range(0, length, 2)]
    return Case(f"{length} frames", FRAMED, {"x": x[None]}, [f32([[expected]])])


def ranked(length: int) -> Case:
    x = np.sin(np.arange(4 * length, dtype=np.float32)).reshape(2, 2, length)
    filters = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    z = np.stack([(x[:, :, k:k + 3] * filters).sum((1, 2)) for k in range(length - 2)], -1)[:, None]
    y = np.tanh(0.5 * x[:, 0] + 0.25 * x[:, 1]).T[:, None, :, None]
    return Case(f"ranks at {length}", RANKED, {"x": x, "h": x[:, :, 0], "flag": np.array(True)}, [y, z])


def blocks(length: int) -> Case:
    x = np.arange(8 * length * (length + 1), dtype=np.float32).reshape(1, 8, length, length + 1)
    split = x.reshape(1, 2, 2, 2, length, length + 1).transpose(0, 1, 4, 2, 5, 3)
    wide = split.reshape(1, 2, 2 * length, 2 * length + 2)
    return Case(f"blocks of {length}", BLOCKS, {"x": x}, [wide, _again(wide)])


def _again(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """To channels by rows and columns, from there to places by columns last, and back with channels first."""
    b, c, h, w = x.shape
    deep = x.reshape(b, c, h // 2, 2, w // 2, 2).transpose(0, 3, 5, 1, 2, 4).reshape(b, 4 * c, h // 2, w // 2)
    flat = deep.reshape(b, 2, 2, c, h // 2, w // 2).transpose(0, 3, 4, 1, 5, 2).reshape(b, c, h, w)
    found = flat.reshape(b, c, h // 2, 2, w // 2, 2).transpose(0, 1, 3, 5, 2, 4)
    return np.ascontiguousarray(found.reshape(b, 4 * c, h // 2, w // 2))


def traced(length: int) -> Case:
    x = np.sin(np.arange(8 * length, dtype=np.float32)).reshape(length, 2, 4)
    pairs = x.reshape(length, 2, 2, 2)
    expected = (pairs - pairs.mean(-1, keepdims=True)) / pairs.std(-1, keepdims=True)
    return Case(f"a shape of {length}", TRACED, {"x": x}, [expected])


def listed(length: int) -> Case:
    x = np.arange(3 * length, dtype=np.float32).reshape(length, 3)
    return Case(f"a list of {length}", LISTED, {"x": x}, [2 * x])


def bits(length: int) -> Case:
    x = np.sin(np.arange(3 * length, dtype=np.float32)).reshape(length, 3)
    return Case(f"bits of {length}", BITS, {"x": x}, [x.view(np.int32)], 26)


def picked(length: int) -> Case:
    x, score = np.arange(3 * length, dtype=np.float32).reshape(length, 3), np.sin(np.arange(length)).astype(np.float32)
    return Case(f"rows at {length}", PICKED, {"x": x, "score": score}, [x[score > 0]])


def resized(length: int) -> Case:
    x = np.arange(2 * length * length, dtype=np.float32).reshape(1, 2, length, length)
    like = np.ones((1, 1, 2 * length, 2 * length), np.float32)
    up = x.repeat(2, 2).repeat(2, 3)
    return Case(f"images at {length}", RESIZED, {"x": x, "like": like}, [up[:, :1] + 2 * up[:, 1:] + f32(3)])


def cached(length: int) -> Case:
    numbers = np.sin(np.arange(16 * length + 48, dtype=np.float32))
    x, keys = numbers[48:].reshape(2, length, 8), numbers[:48].reshape(2, 2, 3, 4)
    every = np.concatenate([keys, x.reshape(2, length, 2, 4).transpose(0, 2, 1, 3)], 2)
    rows = every.transpose(0, 2, 1, 3).reshape(2, -1, 8)
    expected = (rows - rows.mean(-1, keepdims=True)) / rows.std(-1, keepdims=True)
    return Case(f"cache and {length}", CACHED, {"x": x, "keys": keys}, [expected])


def recurrent(length: int) -> Case:
    """Of two rows, the second one shorter; nothing of the state is multiplied, so that a gate is one of the input."""
    x = np.sin(np.arange(2 * length, dtype=np.float32)).reshape(length, 2, 1)
    state, expected = np.zeros((2, 1)), np.zeros((length, 1, 2, 1), np.float32)
    for t, step in enumerate(x):
        kept = 1 / (1 + np.exp(-0.5 * step))
        state = (1 - kept) * np.tanh(2.0 * step) + kept * state
        expected[t, 0] = state
    expected[length - 2:, 0, 1] = 0
    return Case(f"GRU of {length}", RECURRENT, {"x": x, "lens": np.array([length, length - 2], np.int32)}, [expected])


CASES = (picked, bits, resized, cached, recurrent, blocks, traced, listed, framed, ranked, squeezed, batched, boxed,
         mirrored, scored, grown, sampled, transformed, bagged, indexed)


@pytest.mark.parametrize("backend", ["cpu", pytest.param("native", marks=NATIVE)])
@pytest.mark.parametrize("case", [make(length) for make in CASES for length in (4, 7)], ids=str)
def test_open(case: Case, backend: str) -> None:
    check(case, backend)


@NATIVE
def test_loops_that_tell_lengths_are_timed_as_they_are() -> None:
    """Their bodies are written twice, timed and not; each tells its lengths, of which there are products."""
    session, other = (circlet.Session(load(SPLIT), "native") for _ in range(2))
    for count, turns in ((7, 3), (12, 20), (40, 5)):
        x = np.sin(np.arange(3 * count, dtype=np.float32)).reshape(count, 3)
        with circlet.profile(session) as profile:
            found = session.invoke(0, [x, np.int64(turns)])
        np.testing.assert_array_equal(found, other.invoke(0, [x, np.int64(turns)]))
        assert all(each.is_native for each in profile.root.walk() if each.region.kind is Kind.OPERATOR)
