"""Loops that generate a sequence, and the blocks that models of language are made of."""

from __future__ import annotations

import tensorflow as tf

from tests.models.expectations import Array
from tests.models.options import update_in_place
from tests.models.program import I32, f32, i32, model, normal

_EMBEDDING, _OUTPUT = normal(12, 8, seed=10), normal(8, 12, seed=11)
_STATE = normal(8, 8, seed=16, scale=0.5)
_QUERY, _KEY, _VALUE = (normal(8, 8, seed=seed, scale=0.5) for seed in (13, 14, 15))


@model(I32, I32, calls=[(2, 10), (3, 4), (5, 0), (0, 3), (1, 10)])
def greedy(first: tf.Tensor, limit: tf.Tensor) -> dict[str, tf.Tensor]:
    """Greedy decoding: embedding, recurrence, argmax, until an end token; returns tokens and their number."""
    token, count = first, tf.constant(0)
    state = tf.zeros([1, 8])
    tokens = tf.fill([10], -1)
    while count < limit and token != 0:
        state = tf.tanh(tf.gather(_EMBEDDING, tf.reshape(token, [1])) + tf.matmul(state, _STATE))
        token = tf.argmax(tf.matmul(state, _OUTPUT)[0], output_type=tf.int32)
        tokens = tf.tensor_scatter_nd_update(tokens, [[count]], [token])
        count += 1
    return {"tokens": tokens, "count": count}


def _attend(query: tf.Tensor, keys: tf.Tensor, values: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    scores = tf.matmul(query, keys, transpose_b=True) * 8 ** -0.5
    scores = tf.where(tf.range(6)[tf.newaxis] <= length, scores, -1e9)
    return tf.matmul(tf.nn.softmax(scores), values)


@model(I32, I32, calls=[(1, 6), (7, 3), (2, 0)])
def cached_attention(first: tf.Tensor, limit: tf.Tensor) -> dict[str, tf.Tensor]:
    """Greedy decoding with cached keys and values, rows of which are replaced by a scatter."""
    token = first
    keys, values = tf.zeros([6, 8]), tf.zeros([6, 8])
    tokens = tf.fill([6], -1)
    for step in tf.range(limit):
        x = tf.gather(_EMBEDDING, tf.reshape(token, [1]))
        keys = tf.tensor_scatter_nd_update(keys, [[step]], tf.matmul(x, _KEY))
        values = tf.tensor_scatter_nd_update(values, [[step]], tf.matmul(x, _VALUE))
        x += _attend(tf.matmul(x, _QUERY), keys, values, step)
        token = tf.argmax(tf.matmul(x, _OUTPUT)[0], output_type=tf.int32)
        tokens = tf.tensor_scatter_nd_update(tokens, [[step]], [token])
    return {"tokens": tokens, "keys": keys}


@model(I32, I32, calls=[(1, 6), (7, 3), (2, 0)], configure=update_in_place)
def cached_attention_update(first: tf.Tensor, limit: tf.Tensor) -> dict[str, tf.Tensor]:
    """Greedy decoding with cached keys and values, rows of which are replaced by DYNAMIC_UPDATE_SLICE."""
    token = first
    keys = tf.TensorArray(tf.float32, size=6, element_shape=[8]).unstack(tf.zeros([6, 8]))
    values = tf.TensorArray(tf.float32, size=6, element_shape=[8]).unstack(tf.zeros([6, 8]))
    for step in tf.range(limit):
        x = tf.gather(_EMBEDDING, tf.reshape(token, [1]))
        keys = keys.write(step, tf.matmul(x, _KEY)[0])
        values = values.write(step, tf.matmul(x, _VALUE)[0])
        x += _attend(tf.matmul(x, _QUERY), keys.stack(), values.stack(), step)
        token = tf.argmax(tf.matmul(x, _OUTPUT)[0], output_type=tf.int32)
    return {"token": token, "keys": keys.stack()}


@model(I32, I32, calls=[(1, 4), (5, 4), (3, 0)])
def beam(first: tf.Tensor, steps: tf.Tensor) -> dict[str, tf.Tensor]:
    """A beam search of width three: top-k over all continuations, gathers of the survivors."""
    scores = tf.constant([0.0, -1e9, -1e9])
    tokens = tf.fill([3], first)
    history = tf.zeros([3, 4], tf.int32)
    for step in tf.range(steps):
        logits = tf.nn.log_softmax(tf.matmul(tf.gather(_EMBEDDING, tokens), _OUTPUT))
        scores, best = tf.math.top_k(tf.reshape(scores[:, tf.newaxis] + logits, [36]), k=3)
        tokens = best % 12
        history = tf.gather(history, best // 12)
        history = tf.where(tf.range(4)[tf.newaxis] == step, tokens[:, tf.newaxis], history)
    return {"scores": scores, "history": history}


def _normalized(x: tf.Tensor, scale: Array | float, shift: Array | float) -> tf.Tensor:
    mean = tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(tf.math.squared_difference(x, mean), -1, keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-5) * scale + shift


def _heads(x: tf.Tensor) -> tf.Tensor:
    return tf.transpose(tf.reshape(x, [2, 4, 2, 4]), [0, 2, 1, 3])


def _block(x: tf.Tensor) -> tf.Tensor:
    normed = _normalized(x, 1.0 + normal(8, seed=12, scale=0.1), normal(8, seed=17, scale=0.1))
    query, key, value = (_heads(tf.matmul(normed, weights)) for weights in (_QUERY, _KEY, _VALUE))
    scores = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) * 0.5)
    mixed = tf.reshape(tf.transpose(tf.matmul(scores, value), [0, 2, 1, 3]), [2, 4, 8])
    x += tf.matmul(mixed, _STATE)
    hidden = tf.nn.gelu(tf.matmul(_normalized(x, 1.0, 0.0), normal(8, 16, seed=18, scale=0.4)))
    return x + tf.matmul(hidden, normal(16, 8, seed=19, scale=0.4))


@model(f32(2, 4, 8), calls=[(normal(2, 4, 8, seed=20),)])
def transformer(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """A transformer block: layer normalisation, attention with two heads, GELU."""
    return {"y": _block(x)}


@model(f32(2, 4, 8), I32, calls=[(normal(2, 4, 8, seed=20), n) for n in (3, 0)])
def transformer_loop(x: tf.Tensor, depth: tf.Tensor) -> dict[str, tf.Tensor]:
    """One transformer block, applied as often as an input says."""
    for _ in tf.range(depth):
        x = _block(x)
    return {"y": x}


@model(i32(None), calls=[([1, 2, 3],), ([4],), ([0, 5, 11, 2, 2, 7],)])
def embed_mean(tokens: tf.Tensor) -> dict[str, tf.Tensor]:
    """The mean of embeddings of any number of tokens, classified."""
    x = tf.reduce_mean(tf.gather(_EMBEDDING, tokens), axis=0, keepdims=True)
    return {"scores": tf.nn.softmax(tf.matmul(x, _OUTPUT))}
