"""Operators without control flow, a family each, as the converter writes them."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.models.program import BOOL, F32, I32, f32, i32, model, normal

_POSITIVE = np.abs(normal(2, 3, seed=120)) + 0.25


@model(f32(2, 3), f32(3), calls=[(normal(2, 3, seed=121), [0.5, -2.0, 1.5])])
def elementwise_float(x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
    """Unary and binary arithmetic on floats, with broadcasting."""
    return {
        "sum": tf.sin(x) + tf.cos(y), "power": tf.pow(tf.abs(x), y), "exp": tf.exp(x) - tf.square(y),
        "ratio": tf.math.divide_no_nan(x, y), "floor": tf.floor(x) * tf.math.ceil(y), "round": tf.round(x * 2.5),
        "sign": tf.sign(x), "atan2": tf.atan2(x, tf.square(x) - 0.5), "least": tf.minimum(x, y),
        "modulo": tf.math.floormod(x, y), "quotient": tf.math.floordiv(x, y),
    }


@model(f32(2, 3), calls=[(_POSITIVE,)])
def elementwise_positive(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """Functions of positive floats."""
    return {"log": tf.math.log(x), "sqrt": tf.sqrt(x), "rsqrt": tf.math.rsqrt(x)}


@model(i32(4), i32(4), calls=[([7, -7, 5, -2147483648], [2, 2, -3, 3]), ([0, 1, -1, 6], [1, -1, 5, -4])])
def elementwise_int(x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
    """Arithmetic on integers, whose quotients and remainders round towards minus infinity."""
    return {"sum": x + y, "product": x * y, "quotient": x // y, "modulo": x % y, "largest": tf.maximum(x, y),
            "absolute": tf.abs(x), "negative": -y, "truncated": tf.truncatediv(x, y), "sign": tf.sign(y),
            "xor": tf.bitwise.bitwise_xor(x, y)}


@model(f32(3), f32(2, 3), calls=[([1, 2, 3], [[1.0, 3.0, 2.0], [float("nan"), 2.0, 3.0]])])
def comparisons(x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
    """Comparisons with broadcasting and NaN, and logic on their results."""
    less, equal = x < y, tf.equal(x, y)
    return {"less": less, "equal": equal, "other": tf.not_equal(x, y), "least": x <= y, "greater": x > y,
            "greatest": x >= y, "any": tf.reduce_any(less, axis=1), "all": tf.reduce_all(less | equal, axis=0)}


@model(f32(3, 4), calls=[(normal(3, 4, seed=122) * 3,)])
def activations(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """Activation functions."""
    return {"relu": tf.nn.relu(x), "relu6": tf.nn.relu6(x), "elu": tf.nn.elu(x), "leaky": tf.nn.leaky_relu(x, 0.1),
            "swish": x * tf.nn.relu6(x + 3.0) / 6.0, "gelu": tf.nn.gelu(x, approximate=True), "tanh": tf.tanh(x),
            "sigmoid": tf.sigmoid(x), "softmax": tf.nn.softmax(x), "log": tf.nn.log_softmax(x),
            "prelu": tf.nn.relu(x) - tf.constant([0.1, 0.2, 0.3, 0.4]) * tf.nn.relu(-x),
            "plus": tf.nn.softplus(x), "clipped": tf.clip_by_value(x, -1.0, 1.0)}


@model(f32(2, 3, 4), calls=[(normal(2, 3, 4, seed=123),)])
def reductions(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """Reductions over some axes and over all."""
    return {"sum": tf.reduce_sum(x, [0, 2]), "mean": tf.reduce_mean(x, -1, keepdims=True),
            "product": tf.reduce_prod(x, 1), "max": tf.reduce_max(x), "min": tf.reduce_min(x, [1, 2]),
            "argmax": tf.argmax(x, 2), "argmin": tf.argmin(x, 1, output_type=tf.int32),
            "deviation": tf.math.reduce_std(x, 0), "logsum": tf.reduce_logsumexp(x, 2)}


@model(f32(2, 3, 4), calls=[(normal(2, 3, 4, seed=124),)])
def layout(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """Operators that move elements."""
    a, b = tf.split(x, [1, 3], axis=2)
    return {"transposed": tf.transpose(x, [2, 0, 1]), "tiled": tf.tile(a, [1, 2, 2]), "stacked": tf.stack([x, -x], 1),
            "padded": tf.pad(b, [[0, 1], [1, 0], [2, 0]], constant_values=7.0),
            "mirrored": tf.pad(x, [[0, 0], [1, 2], [3, 1]], "REFLECT"), "reversed": tf.reverse(x, [0, 2]),
            "first": tf.unstack(x, axis=1)[0], "broadcast": tf.broadcast_to(a, [2, 3, 2]),
            "symmetric": tf.pad(x, [[1, 1], [0, 0], [0, 2]], "SYMMETRIC"), "rolled": tf.roll(x, 1, 2)}


@model(f32(4, 5), i32(3), calls=[(normal(4, 5, seed=125), [3, 0, 3]), (normal(4, 5, seed=126), [1, 1, 2])])
def indexing(x: tf.Tensor, at: tf.Tensor) -> dict[str, tf.Tensor]:
    """Slices, gathers and scatters."""
    return {"strided": x[3:0:-1, ::2], "corner": x[-2:, :1], "new": x[tf.newaxis, 1, ..., tf.newaxis],
            "gathered": tf.gather(x, at, axis=1), "points": tf.gather_nd(x, tf.stack([at, at], 1)),
            "batched": tf.gather(x[:3], at[:, tf.newaxis], batch_dims=1), "hot": tf.one_hot(at, 4, 2.0, -1.0),
            "scattered": tf.scatter_nd(at[:, tf.newaxis], x[:3], [4, 5]),
            "segments": tf.math.segment_sum(x, tf.constant([0, 0, 1, 2])), "slice": tf.slice(x, [1, 1], [2, -1]),
            "best": tf.math.top_k(x, 2).values, "order": tf.argsort(x, axis=1, direction="DESCENDING")}


@model(I32, I32, calls=[(2, 3), (0, 4), (1, 1)])
def computed_shapes(rows: tf.Tensor, columns: tf.Tensor) -> dict[str, tf.Tensor]:
    """Shapes that are inputs: RANGE, FILL, RESHAPE, BROADCAST_TO."""
    numbers = tf.range(rows * columns)
    table = tf.reshape(numbers, tf.stack([rows, columns]))
    return {"table": table, "fill": tf.fill(tf.stack([columns, 2]), 0.5), "sums": tf.reduce_sum(table, axis=1),
            "spread": tf.broadcast_to(tf.range(columns), tf.stack([rows, columns])), "size": tf.size(table)}


@model(i32(7), calls=[([3, 1, 3, 7, 1, 1, 9],), ([5] * 7,)])
def unique(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """Values without repetition, and where each is to be found."""
    values, at = tf.unique(x)
    return {"values": values, "at": at, "back": tf.gather(values, at)}


@model(BOOL, f32(2), F32, calls=[(True, [1, 2], 3.0), (False, [1, 2], 3.0)])
def select(flag: tf.Tensor, x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
    """A choice without a branch, by a scalar that is broadcast."""
    return {"y": tf.where(flag, x, y), "z": tf.where(x > 1.5, x, 0.0)}


@model(f32(1, 6, 6, 2), calls=[(normal(1, 6, 6, 2, seed=127),)])
def images(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """Windows over images: dilation, transposition, pooling, resizing, blocks."""
    kernel = tf.constant(normal(3, 3, 2, 4, seed=128))
    wide = tf.nn.conv2d(x, kernel, 1, "SAME", dilations=2)
    return {"dilated": wide, "transposed": tf.nn.conv2d_transpose(wide, kernel, [1, 13, 13, 2], 2, "VALID"),
            "depthwise": tf.nn.depthwise_conv2d(x, tf.constant(normal(2, 2, 2, 3, seed=129)), [1, 2, 2, 1], "VALID"),
            "pooled": tf.nn.avg_pool2d(x, 3, 2, "SAME"), "largest": tf.nn.max_pool2d(x, 2, 1, "VALID"),
            "bilinear": tf.image.resize(x, [9, 4]), "nearest": tf.image.resize(x, [3, 11], "nearest"),
            "blocks": tf.nn.space_to_depth(x, 2), "pixels": tf.nn.depth_to_space(wide, 2),
            "batches": tf.space_to_batch(x, [2, 3], [[0, 0], [0, 0]])}


@model(f32(1, 4, 4, 4, 1), calls=[(normal(1, 4, 4, 4, 1, seed=130),)])
def volumes(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """Convolutions over volumes."""
    kernel = tf.constant(normal(2, 2, 2, 1, 3, seed=131))
    y = tf.nn.conv3d(x, kernel, [1, 1, 1, 1, 1], "SAME")
    return {"y": y, "back": tf.nn.conv3d_transpose(y, kernel, [1, 4, 4, 4, 1], [1, 1, 1, 1, 1], "SAME")}


@model(f32(2, 4, 6), calls=[(normal(2, 4, 6, seed=132),)])
def normalizations(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """Normalisations, products of batches and sums over named axes."""
    return {"unit": tf.math.l2_normalize(x, -1), "product": tf.matmul(x, x, transpose_b=True),
            "einsum": tf.einsum("btc,bsc->ts", x, x), "local": tf.nn.local_response_normalization(x[tf.newaxis], 2),
            "cumulative": tf.cumsum(x, 1, reverse=True), "reverse": tf.reverse_sequence(x, [3, 1], seq_axis=1),
            "lower": tf.linalg.band_part(x, -1, 0), "diagonal": tf.linalg.diag(x[0, 0]),
            "onto": tf.linalg.set_diag(x[:, :, :4], x[:, 0, :4])}
