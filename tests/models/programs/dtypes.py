"""Element types other than float32 and int32 in control flow."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.models.program import BOOL, I32, I64, f32, model


def _of(dtype: tf.DType, *shape: int | None) -> tf.TensorSpec:
    return tf.TensorSpec(shape, dtype)


@model(I64, calls=[(20,), (0,), (25,)])
def factorial_int64(n: tf.Tensor) -> dict[str, tf.Tensor]:
    """A factorial in int64; 25! wraps around."""
    result, i = tf.constant(1, tf.int64), tf.constant(1, tf.int64)
    while i <= n:
        result *= i
        i += 1
    return {"factorial": result}


@model(I64, I32, I64, calls=[(3, 200, 1000007), (2, 10, 1000), (5, 0, 7)])
def power_modulo_int64(base: tf.Tensor, exponent: tf.Tensor, modulus: tf.Tensor) -> dict[str, tf.Tensor]:
    """Modular exponentiation in int64: an If in a While."""
    result = tf.constant(1, tf.int64)
    while exponent > 0:
        if exponent % 2 == 1:
            result = result * base % modulus
        base = base * base % modulus
        exponent //= 2
    return {"result": result}


@model(BOOL, BOOL, I32, calls=[(True, False, 3), (False, False, 5), (True, True, 0)])
def bool_carries(a: tf.Tensor, b: tf.Tensor, n: tf.Tensor) -> dict[str, tf.Tensor]:
    """Boolean carries through a loop of logic: a shift and an exclusive or."""
    for _ in tf.range(n):
        a, b = b, (a | b) & tf.logical_not(a & b)
    return {"a": a, "b": b}


@model(BOOL, I32, calls=[(True, 10), (False, 10), (True, 0)])
def bool_condition(going: tf.Tensor, limit: tf.Tensor) -> dict[str, tf.Tensor]:
    """A While whose condition is a carry."""
    i = 0
    while going:
        i += 3
        going = i < limit
    return {"i": i, "going": going}


@model(_of(tf.uint8, 4), I32, calls=[([1, 100, 200, 255], n) for n in (2, 0)])
def uint8_carry(x: tf.Tensor, n: tf.Tensor) -> dict[str, tf.Tensor]:
    """A uint8 carry; arithmetic by way of int32."""
    for _ in tf.range(n):
        x = tf.cast((tf.cast(x, tf.int32) * 3 + 1) % 256, tf.uint8)
    return {"x": x, "large": tf.cast(x, tf.int32) > 127}


@model(_of(tf.int8, 3), _of(tf.int16, 3), calls=[([1, -2, 127], [300, -4, 32767])])
def narrow_integers(x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
    """Casts, selections and concatenations of int8 and int16."""
    wide = tf.cast(x, tf.int16)
    y = tf.where(tf.cast(x, tf.int32) > 0, y, wide)
    return {"y": tf.concat([wide, y], 0), "x": tf.cast(tf.cast(y, tf.int32) // 2, tf.int8)}


@model(_of(tf.float64, 2), I32, calls=[([1.5, -2.25], n) for n in (3, 0)])
def float64_carry(x: tf.Tensor, n: tf.Tensor) -> dict[str, tf.Tensor]:
    """A float64 carry; arithmetic by way of float32."""
    for _ in tf.range(n):
        x = tf.cast(tf.cast(x, tf.float32) * 0.5 + 0.25, tf.float64)
    return {"x": x}


@model(_of(tf.float16, 2), I32, calls=[([1.5, -2.25], n) for n in (3, 0)])
def float16_carry(x: tf.Tensor, n: tf.Tensor) -> dict[str, tf.Tensor]:
    """A float16 carry; arithmetic by way of float32."""
    for _ in tf.range(n):
        x = tf.cast(tf.cast(x, tf.float32) * 0.5 + 0.25, tf.float16)
    return {"x": x}


@model(_of(tf.complex64, 2), calls=[([1 + 2j, -0.5j],)])
def complex_parts(z: tf.Tensor) -> dict[str, tf.Tensor]:
    """Real part, imaginary part and magnitude of complex numbers."""
    return {"re": tf.math.real(z), "im": tf.math.imag(z), "abs": tf.abs(z)}


@model(f32(8), calls=[(np.arange(8) ** 0.5,)])
def spectrum(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """The real Fourier transform of a window."""
    return {"power": tf.abs(tf.signal.rfft(x * tf.constant([0.5] * 8)))}


@model(_of(tf.string, None), I32, calls=[([b"a", b"bc", b""], 1), ([b"x"], 0)])
def string_gather(words: tf.Tensor, index: tf.Tensor) -> dict[str, tf.Tensor]:
    """Strings: a choice by an index, and how many there are."""
    return {"word": tf.gather(words, index), "count": tf.size(words)}
