"""Loops that build or read arrays: TensorArray, growing tensors, scans, scatters."""

from __future__ import annotations

import tensorflow as tf

from tests.models.options import update_in_place
from tests.models.program import I32, f32, i32, model, normal


def _squares(n: tf.Tensor) -> dict[str, tf.Tensor]:
    array = tf.TensorArray(tf.float32, size=5, element_shape=[2])
    for i in tf.range(5):
        array = array.write(i, tf.cast(i * n, tf.float32) * tf.constant([1.0, -1.0]))
    return {"rows": array.stack()}


@model(I32, calls=[(2,), (0,)])
def list_write(n: tf.Tensor) -> dict[str, tf.Tensor]:
    """A TensorArray of fixed size, written row by row: slices and concatenations."""
    return _squares(n)


@model(I32, calls=[(2,), (0,)], configure=update_in_place)
def list_update(n: tf.Tensor) -> dict[str, tf.Tensor]:
    """A TensorArray of fixed size, written row by row: DYNAMIC_UPDATE_SLICE."""
    return _squares(n)


@model(I32, calls=[(4,), (1,), (0,)])
def list_dynamic(n: tf.Tensor) -> dict[str, tf.Tensor]:
    """A TensorArray whose size is an input."""
    array = tf.TensorArray(tf.int32, size=n, element_shape=[])
    for i in tf.range(n):
        array = array.write(i, i * i)
    return {"squares": array.stack()}


@model(I32, calls=[(4,), (1,), (0,)], configure=update_in_place)
def list_dynamic_update(n: tf.Tensor) -> dict[str, tf.Tensor]:
    """A TensorArray whose size is an input, by DYNAMIC_UPDATE_SLICE."""
    array = tf.TensorArray(tf.float32, size=n, element_shape=[3])
    for i in tf.range(n):
        array = array.write(i, tf.cast(i, tf.float32) + tf.constant([0.0, 0.25, 0.5]))
    return {"rows": array.stack()}


@model(f32(4, 3), calls=[(normal(4, 3),)])
def list_read(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """A TensorArray made of the rows of a tensor and read backwards."""
    rows = tf.TensorArray(tf.float32, size=4, element_shape=[3]).unstack(x)
    out = tf.TensorArray(tf.float32, size=4, element_shape=[3])
    total = tf.zeros([3])
    for i in tf.range(4):
        total += rows.read(3 - i)
        out = out.write(i, total)
    return {"sums": out.stack(), "total": total}


@model(I32, calls=[(5,), (0,), (1,)])
def grow_concat(n: tf.Tensor) -> dict[str, tf.Tensor]:
    """A carry that grows by concatenation in each turn."""
    _, x = tf.while_loop(
        lambda i, x: i < n, lambda i, x: (i + 1, tf.concat([x, [i * i]], 0)), (0, tf.constant([100])),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])),
    )
    return {"x": x, "size": tf.size(x)}


@model(f32(2, 2), I32, calls=[([[1, 2], [3, 4]], n) for n in (3, 0)])
def grow_pad(x: tf.Tensor, n: tf.Tensor) -> dict[str, tf.Tensor]:
    """A carry that grows in two dimensions by padding."""
    _, x = tf.while_loop(
        lambda i, x: i < n, lambda i, x: (i + 1, tf.pad(x, [[1, 0], [0, 1]]) + 1.0), (0, x),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, None])),
    )
    return {"x": x}


@model(i32(None), calls=[([1, 2, 3, 4, 5, 6, 7],), ([1],), ([4, 4],)])
def shrink(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """A carry that shrinks: neighbours are added until one is left."""
    x, turns = tf.while_loop(
        lambda x, i: tf.size(x) > 1, lambda x, i: (x[1:] + x[:-1], i + 1), (x, 0),
        shape_invariants=(tf.TensorShape([None]), tf.TensorShape([])),
    )
    return {"x": x, "turns": turns}


@model(f32(5, 3), calls=[(normal(5, 3, seed=1),)])
def map_rows(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """tf.map_fn over the rows of a tensor."""
    return {"y": tf.map_fn(lambda row: row * 2.0 - tf.reduce_sum(row), x)}


@model(f32(None, 2), calls=[(normal(4, 2, seed=2),), (normal(1, 2, seed=3),)])
def map_rows_dynamic(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """tf.map_fn over a number of rows that is not known."""
    return {"y": tf.map_fn(lambda row: row[::-1] + 1.0, x)}


@model(f32(3, 4), calls=[(normal(3, 4, seed=8),)])
def map_nested(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """tf.map_fn in tf.map_fn: a list of rows, each made as a list."""
    return {"y": tf.map_fn(lambda row: tf.map_fn(lambda value: value * value - 1.0, row), x)}


@model(f32(6, 2), calls=[(normal(6, 2, seed=4),)], configure=update_in_place)
def scan_rows(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """tf.scan: the running mix of rows."""
    return {"y": tf.scan(lambda state, row: state * 0.5 + row, x)}


@model(i32(6), calls=[([3, 1, 4, 1, 5, 9],)])
def scan_reverse(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """tf.scan from the end, with an initial value."""
    return {"y": tf.scan(lambda total, value: total + value, x, initializer=tf.constant(100), reverse=True)}


@model(f32(4, 3), calls=[(normal(4, 3, seed=5),)])
def fold_left(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """tf.foldl over rows."""
    return {"y": tf.foldl(lambda total, row: total * tf.constant([1.0, 0.5, -1.0]) + row, x)}


@model(i32(5), calls=[([5, 4, 3, 2, 1],)])
def fold_right(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """tf.foldr of a difference."""
    return {"y": tf.foldr(lambda total, value: value - total, x, initializer=tf.constant(0))}


@model(i32(6), I32, calls=[([1, 2, 3, 4, 5, 0], n) for n in (3, 0, 7)])
def gather_chase(links: tf.Tensor, n: tf.Tensor) -> dict[str, tf.Tensor]:
    """Follows links: an index that was read is the next one to read."""
    at = tf.constant(0)
    visits = tf.zeros([6], tf.int32)
    for _ in tf.range(n):
        visits = tf.tensor_scatter_nd_add(visits, [[at]], [1])
        at = tf.gather(links, at)
    return {"at": at, "visits": visits}


@model(f32(4, 3), i32(None), calls=[(normal(4, 3, seed=6), [0, 2, 0]), (normal(4, 3, seed=6), [])])
def scatter_rows(x: tf.Tensor, order: tf.Tensor) -> dict[str, tf.Tensor]:
    """Rows of a carried tensor are replaced by tensor_scatter_nd_update in an order that is an input."""
    for i in tf.range(tf.size(order)):
        row = order[i]
        x = tf.tensor_scatter_nd_update(x, [[row]], [x[row] * 2.0 + 1.0])
    return {"x": x}


@model(f32(None, 3), I32, calls=[(normal(rows, 3, seed=9), n) for rows, n in ((2, 3), (4, 0), (1, 1))])
def loop_batch(x: tf.Tensor, n: tf.Tensor) -> dict[str, tf.Tensor]:
    """A carry whose first dimension is not known, but stays."""
    for _ in tf.range(n):
        x = tf.nn.relu(x) - tf.reduce_mean(x, axis=0, keepdims=True)
    return {"x": x}


@model(f32(3, 4), I32, calls=[(normal(3, 4, seed=7), n) for n in (2, 0)])
def cumulate(x: tf.Tensor, n: tf.Tensor) -> dict[str, tf.Tensor]:
    """Cumulative sums and products of a carried tensor."""
    product = tf.ones([3, 4])
    for _ in tf.range(n):
        x = tf.cumsum(x, axis=1) * 0.5
        product = tf.math.cumsum(product + x, axis=0, exclusive=True, reverse=True)
    return {"sums": x, "product": product}


@model(i32(8), calls=[([3, 0, 0, 5, 0, 1, 0, 0],), ([0] * 8,), ([1] * 8,)])
def non_zero(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """How many elements are not zero decides a shape, over which a loop runs."""
    where = tf.where(x > 0)[:, 0]
    total = tf.constant(0)
    for i in tf.range(tf.size(where)):
        total += tf.cast(where[i], tf.int32) * x[where[i]]
    return {"where": where, "total": total}
