"""Decoders whose caches grow by concatenation, so that every turn has other shapes."""

from __future__ import annotations

import tensorflow as tf

from tests.models.program import I32, f32, i32, model, normal

_WEIGHTS = [normal(8, 8, seed=30 + k, scale=0.35) for k in range(4)]
_EMBEDDING, _PLACES = normal(12, 8, seed=34), normal(100, 8, seed=35, scale=0.3)
_GATES = [normal(16, 8, seed=36 + k, scale=0.3) for k in range(3)]
_START = [normal(1, 8, seed=40 + k, scale=0.5) for k in range(2)]
_ANY = tf.TensorShape([None, 8])


def _gru(x: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
    both = tf.concat([x, state], 1)
    update, reset = (tf.sigmoid(tf.matmul(both, each)) for each in _GATES[:2])
    return update * state + (1.0 - update) * tf.tanh(tf.matmul(tf.concat([x, reset * state], 1), _GATES[2]))


@model(f32(1, 8), I32, calls=[(_START[0], 5), (_START[0], 0), (_START[1], 70)])
def cache_gru(x: tf.Tensor, steps: tf.Tensor) -> dict[str, tf.Tensor]:
    """A GRU that attends to all its earlier states."""
    def turn(i: tf.Tensor, state: tf.Tensor, states: tf.Tensor) -> tuple[tf.Tensor, ...]:
        weights = tf.nn.softmax(tf.matmul(tf.matmul(state, _WEIGHTS[0]), states, transpose_b=True))
        state = _gru(tf.matmul(weights, states), state)
        return i + 1, state, tf.concat([states, state], 0)

    _, state, states = tf.while_loop(lambda i, *_: i < steps, turn, (0, x, x),
                                     shape_invariants=(tf.TensorShape([]), tf.TensorShape([1, 8]), _ANY))
    return {"state": state, "states": states}


@model(f32(1, 8), f32(None, 8), I32, calls=[
    (_START[0], normal(3, 8, seed=42, scale=0.5), 4), (_START[1], normal(1, 8, seed=43, scale=0.5), 66)])
def cache_heads(x: tf.Tensor, prompt: tf.Tensor, steps: tf.Tensor) -> dict[str, tf.Tensor]:
    """Attention with two heads to keys and values that a prompt of any length begins."""
    def heads(rows: tf.Tensor) -> tf.Tensor:
        return tf.transpose(tf.reshape(rows, [-1, 2, 4]), [1, 0, 2])

    def turn(i: tf.Tensor, x: tf.Tensor, keys: tf.Tensor, values: tf.Tensor) -> tuple[tf.Tensor, ...]:
        keys, values = (tf.concat([cache, tf.matmul(x, weights)], 0)
                        for cache, weights in ((keys, _WEIGHTS[1]), (values, _WEIGHTS[2])))
        scores = tf.matmul(heads(tf.matmul(x, _WEIGHTS[0])), heads(keys), transpose_b=True) * 0.5
        mixed = tf.matmul(tf.nn.softmax(scores), heads(values))
        x = tf.tanh(0.5 * x + tf.matmul(tf.reshape(tf.transpose(mixed, [1, 0, 2]), [1, 8]), _WEIGHTS[3]))
        return i + 1, x, keys, values

    first = tuple(tf.matmul(prompt, weights) for weights in _WEIGHTS[1:3])
    _, x, keys, values = tf.while_loop(lambda i, *_: i < steps, turn, (0, x, *first),
                                       shape_invariants=(tf.TensorShape([]), tf.TensorShape([1, 8]), _ANY, _ANY))
    return {"x": x, "keys": keys, "values": values}


@model(f32(1, 8), I32, calls=[(_START[0], 6), (_START[1], 0)])
def cache_additive(x: tf.Tensor, steps: tf.Tensor) -> dict[str, tf.Tensor]:
    """Additive attention to a list of states that begins empty, and their mean and maximum."""
    def turn(i: tf.Tensor, x: tf.Tensor, states: tf.Tensor) -> tuple[tf.Tensor, ...]:
        states = tf.concat([states, x[:, tf.newaxis]], 1)
        energy = tf.tanh(tf.tensordot(states, _WEIGHTS[0], 1) + tf.matmul(x, _WEIGHTS[1])[:, tf.newaxis])
        weights = tf.nn.softmax(tf.reduce_sum(energy, 2, keepdims=True), 1)
        length = tf.cast(tf.shape(states)[1], tf.float32)
        context = tf.reduce_sum(weights * states, 1) + tf.reduce_sum(states, 1) / length
        return i + 1, tf.tanh(tf.matmul(context, _WEIGHTS[2]) + 0.1 * tf.reduce_max(states, 1)), states

    _, x, states = tf.while_loop(
        lambda i, *_: i < steps, turn, (0, x, tf.zeros([1, 0, 8])),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([1, 8]), tf.TensorShape([1, None, 8])))
    return {"x": x, "states": states}


@model(i32(1, 2), I32, calls=[([[1, 2]], 9), ([[3, 4]], 2), ([[5, 0]], 0)])
def cache_tokens(first: tf.Tensor, limit: tf.Tensor) -> dict[str, tf.Tensor]:
    """A causal transformer that reads all tokens again for each that it appends."""
    def turn(tokens: tf.Tensor) -> tuple[tf.Tensor]:
        length = tf.shape(tokens)[1]
        x = tf.gather(tf.constant(_EMBEDDING), tokens) + tf.constant(_PLACES)[:length]
        query, key, value = (tf.matmul(x, each[tf.newaxis]) for each in _WEIGHTS[:3])
        places = tf.range(length)
        seen = places[:, tf.newaxis] >= places
        scores = tf.where(seen, tf.matmul(query, key, transpose_b=True), -1e9)
        x += tf.matmul(tf.nn.softmax(scores), value)
        last = tf.matmul(x[:, -1], _EMBEDDING, transpose_b=True)
        return (tf.concat([tokens, tf.argmax(last, 1, output_type=tf.int32)[:, tf.newaxis]], 1),)

    (tokens,) = tf.while_loop(lambda tokens: tf.shape(tokens)[1] < limit, turn, (first,),
                              shape_invariants=(tf.TensorShape([1, None]),))
    return {"tokens": tokens}
