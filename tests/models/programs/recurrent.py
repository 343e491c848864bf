"""Recurrent layers: as loops the way the converter writes them, and as fused operators."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import polymorphic_function

from tests.models.options import dynamic_range, full_integer, update_in_place
from tests.models.program import DEFAULT, Call, Configure, Program, keras, normal, program, traced

_SEQUENCES = (normal(1, 5, 4, seed=30), normal(1, 5, 4, seed=31, scale=3.0))


@program
def lstm() -> Program:
    """A Keras LSTM that gives its last state: While."""
    return keras([tf.keras.layers.LSTM(3)], _SEQUENCES)


@program
def lstm_sequence() -> Program:
    """A Keras LSTM that gives its whole sequence: While with a list by slices and concatenations."""
    return keras([tf.keras.layers.LSTM(3, return_sequences=True)], _SEQUENCES)


@program
def lstm_stacked() -> Program:
    """Two LSTMs and a dense layer, lists by DYNAMIC_UPDATE_SLICE."""
    layers = [
        tf.keras.layers.LSTM(4, return_sequences=True),
        tf.keras.layers.LSTM(3, return_sequences=True, go_backwards=True),
        tf.keras.layers.Dense(2, activation="softmax"),
    ]
    return keras(layers, _SEQUENCES, configure=update_in_place)


@program
def lstm_time() -> Program:
    """An LSTM over a number of steps that is not known."""
    inputs = [normal(1, steps, 4, seed=32) for steps in (5, 1, 9)]
    return keras([tf.keras.layers.LSTM(3)], inputs, shape=(1, None, 4))


@program
def lstm_unrolled() -> Program:
    """An LSTM without a loop."""
    return keras([tf.keras.layers.LSTM(3, unroll=True)], _SEQUENCES)


@program
def lstm_hybrid() -> Program:
    """An LSTM as a While with int8 weights and float activations."""
    layers = [tf.keras.layers.LSTM(32, return_sequences=True), tf.keras.layers.Dense(32)]
    inputs = [normal(1, 4, 32, seed=33), normal(1, 4, 32, seed=34, scale=0.1)]
    return keras(layers, inputs, configure=dynamic_range, reference="litert")


@program
def gru() -> Program:
    """A Keras GRU that gives its last state."""
    return keras([tf.keras.layers.GRU(3)], _SEQUENCES)


@program
def gru_sequence() -> Program:
    """A Keras GRU, reset before the product, that gives its whole sequence."""
    return keras([tf.keras.layers.GRU(3, reset_after=False, return_sequences=True)], _SEQUENCES)


@program
def simple_rnn() -> Program:
    """A Keras SimpleRNN with ReLU."""
    return keras([tf.keras.layers.SimpleRNN(3, activation="relu")], _SEQUENCES)


@program
def bidirectional() -> Program:
    """A bidirectional LSTM: two loops, one of them over a reversed sequence."""
    return keras([tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(3, return_sequences=True))], _SEQUENCES)


@program
def conv_lstm() -> Program:
    """A convolutional LSTM over small images: eight convolutions in each turn."""
    return keras([tf.keras.layers.ConvLSTM2D(2, 3, padding="same")], [normal(1, 3, 4, 4, 1, seed=35)])


def _states(x: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor, weights: tf.Tensor, bias: tf.Tensor) -> list[tf.Tensor]:
    """The hidden states of an LSTM over x (time, batch, features), then its last cell state."""
    states = []
    for step in tf.unstack(x):
        gates = tf.split(tf.matmul(tf.concat([step, hidden], 1), weights) + bias, 4, axis=1)
        cell = tf.sigmoid(gates[1]) * cell + tf.sigmoid(gates[0]) * tf.tanh(gates[2])
        hidden = tf.sigmoid(gates[3]) * tf.tanh(cell)
        states.append(hidden)
    return [*states, cell]


def _fused(
    shape: tuple[int, int, int], units: int, *, time_major: bool = False, backwards: bool = False,
    configure: Configure = lambda converter: None,
) -> Program:
    """An LSTM in a function marked like Keras 2's, which the converter turns into UNIDIRECTIONAL_SEQUENCE_LSTM.

    The operator's state outlives a run, unlike the function's, so LiteRT is the reference.
    """
    batch, features = shape[1 if time_major else 0], shape[2]
    order = [0, 1, 2] if time_major else [1, 0, 2]

    def layer(x: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor, kernel: tf.Tensor, recurrent: tf.Tensor,
              bias: tf.Tensor) -> tuple[tf.Tensor, ...]:
        x = tf.transpose(x, order)
        weights = tf.concat([kernel, recurrent], 0)
        *states, cell = _states(x[::-1] if backwards else x, hidden, cell, weights, bias)
        return states[-1], tf.transpose(tf.stack(states), order), states[-1], cell, tf.constant(0.0)

    marked = polymorphic_function.function(layer, autograph=False, experimental_attributes={
        "api_implements": "lstm_", "api_preferred_device": "CPU", "time_major": time_major, "go_backwards": backwards,
    })
    weights = [tf.constant(normal(rows, 4 * units, seed=40 + rows, scale=rows ** -0.5)) for rows in (features, units)]

    def call(x: tf.Tensor) -> dict[str, tf.Tensor]:
        state = tf.zeros([batch, units])
        return {"y": marked(x, state, state, *weights, tf.constant(normal(4 * units, seed=39)))[1]}

    inputs = [normal(*shape, seed=36), normal(*shape, seed=37, scale=0.2)]
    return Program({DEFAULT: traced(call, [tf.TensorSpec(shape, tf.float32)])}, [Call({"x": x}) for x in inputs],
                   configure=configure, reference="litert")


@program
def lstm_fused() -> Program:
    """UNIDIRECTIONAL_SEQUENCE_LSTM over two sequences."""
    return _fused((2, 4, 3), 5)


@program
def lstm_fused_time_major() -> Program:
    """UNIDIRECTIONAL_SEQUENCE_LSTM with time as the first dimension, backwards."""
    return _fused((4, 2, 3), 5, time_major=True, backwards=True)


@program
def lstm_fused_hybrid() -> Program:
    """UNIDIRECTIONAL_SEQUENCE_LSTM with int8 weights and float activations."""
    return _fused((2, 4, 32), 32, configure=dynamic_range)


@program
def lstm_fused_int8() -> Program:
    """UNIDIRECTIONAL_SEQUENCE_LSTM in int8 with int16 cells."""
    samples = [normal(2, 4, 8, seed=seed) for seed in range(50, 66)]
    return _fused((2, 4, 8), 6, configure=full_integer(samples))
