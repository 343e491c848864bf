"""Networks without loops, in float and quantised; integer results are those of LiteRT's reference kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.models.expectations import Array
from tests.models.options import dynamic_range, float16_weights, full_integer
from tests.models.program import DEFAULT, Call, Program, f32, keras, model, normal, program, traced

_IMAGES = [normal(1, 8, 8, 3, seed=seed) for seed in range(70, 86)]


def _layers() -> list[Any]:
    layers = tf.keras.layers
    return [
        layers.Conv2D(8, 3, strides=2, padding="same", activation="relu6"),
        layers.DepthwiseConv2D(3, padding="same", activation="relu"),
        layers.Conv2D(8, 1),
        layers.MaxPool2D(2),
        layers.AveragePooling2D(2, padding="same"),
        layers.Flatten(),
        layers.Dense(5),
        layers.Softmax(),
    ]


@program
def cnn() -> Program:
    """A small CNN in float32."""
    return keras(_layers(), _IMAGES[:2])


@program
def cnn_batch() -> Program:
    """The CNN with a batch size that is not known."""
    return keras(_layers(), [_IMAGES[0], np.concatenate(_IMAGES[:3])], shape=(None, 8, 8, 3))


@program
def cnn_float16() -> Program:
    """The CNN with weights stored as float16."""
    return keras(_layers(), _IMAGES[:2], configure=float16_weights)


@program
def cnn_int8() -> Program:
    """The CNN in int8, with int8 inputs and outputs."""
    return _integer(_layers(), np.int8)


@program
def cnn_int8_float_border() -> Program:
    """The CNN in int8, with float inputs and outputs: QUANTIZE and DEQUANTIZE."""
    return keras(_layers(), _IMAGES[:2], configure=full_integer(_IMAGES), reference="litert")


@program
def cnn_int16x8() -> Program:
    """The CNN with int16 activations and int8 weights."""
    return keras(_layers(), _IMAGES[:2], configure=full_integer(_IMAGES, wide=True), reference="litert")


def _integer(layers: list[Any], dtype: type) -> Program:
    built = keras(layers, _IMAGES[:1], configure=full_integer(_IMAGES, tf.as_dtype(dtype)), reference="litert")
    limits = np.iinfo(dtype)
    random = np.random.default_rng(0)
    inputs = [random.integers(limits.min, limits.max, (1, 8, 8, 3), dtype, endpoint=True) for _ in range(2)]
    return Program(built.functions, [Call({"x": x}) for x in inputs], network=built.network,
                   configure=built.configure, reference=built.reference)


@program
def cnn_uint8_border() -> Program:
    """The CNN in int8, with uint8 inputs and outputs."""
    return _integer(_layers(), np.uint8)


@program
def residual_int8() -> Program:
    """A residual block in int8: additions, products, concatenation, resize, padding, logistic, mean."""
    weights = tf.constant(normal(3, 3, 3, 3, seed=90, scale=0.3))

    def call(x: tf.Tensor) -> dict[str, tf.Tensor]:
        y = tf.nn.conv2d(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), weights, 1, "VALID")
        x = tf.nn.relu(x + y)
        x = tf.concat([x * y, tf.sigmoid(x)], axis=3)
        x = tf.image.resize(x[:, ::2, ::2], [8, 8], method="nearest") - x
        return {"y": tf.reduce_mean(tf.tanh(x), [1, 2])}

    return Program({DEFAULT: traced(call, [f32(1, 8, 8, 3)])}, [Call({"x": x}) for x in _IMAGES[:2]],
                   configure=full_integer(_IMAGES), reference="litert")


@program
def transpose_conv_int8() -> Program:
    """A transposed convolution with bias and a leaky ReLU in int8."""
    layers = [tf.keras.layers.Conv2DTranspose(4, 3, strides=2, padding="same"), tf.keras.layers.LeakyReLU(0.25)]
    return keras(layers, _IMAGES[:2], configure=full_integer(_IMAGES), reference="litert")


@program
def dense_hybrid() -> Program:
    """Dense layers with int8 weights and float activations."""
    layers = [tf.keras.layers.Dense(40, activation="relu"), tf.keras.layers.Dense(32, activation="tanh")]
    return keras(layers, [normal(2, 32, seed=91), normal(2, 32, seed=92, scale=5.0)], configure=dynamic_range,
                 reference="litert")


@program
def conv_hybrid() -> Program:
    """A convolution with int8 weights per channel and float activations."""
    return keras([tf.keras.layers.Conv2D(16, 3, activation="relu")], [normal(1, 6, 6, 16, seed=93)],
                 configure=dynamic_range, reference="litert")


@model(f32(None, 8), calls=[(normal(rows, 8, seed=94),) for rows in (3, 1, 5)])
def dense_batch(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """Dense layers over a batch size that is not known."""
    hidden = tf.nn.relu(tf.matmul(x, normal(8, 6, seed=95)) + normal(6, seed=96))
    return {"y": tf.nn.softmax(tf.matmul(hidden, normal(6, 4, seed=97)))}


@program
def loop_int8() -> Program:
    """A While whose body is quantised to int8 around float carries."""
    weights = tf.constant(normal(6, 6, seed=98, scale=0.4))

    def call(x: tf.Tensor) -> dict[str, tf.Tensor]:
        for _ in tf.range(4):
            x = tf.tanh(tf.matmul(x, weights) + 0.25)
        return {"y": x}

    samples: list[Array] = [normal(2, 6, seed=seed) for seed in range(99, 110)]
    return Program({DEFAULT: traced(call, [f32(2, 6)])}, [Call({"x": x}) for x in samples[:2]],
                   configure=full_integer(samples), reference="litert")
