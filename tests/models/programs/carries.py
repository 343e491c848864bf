"""Loops that permute, forward or ignore their carried values."""

from __future__ import annotations

import tensorflow as tf

from tests.models.program import F32, I32, f32, model


@model(I32, calls=[(0,), (1,), (2,), (10,), (60,)])
def fibonacci_shift(n: tf.Tensor) -> dict[str, tf.Tensor]:
    """Fibonacci numbers by the carries (a, b) -> (b, a + b); 60 steps wrap around."""
    _, a, b = tf.while_loop(lambda i, a, b: i < n, lambda i, a, b: (i + 1, b, a + b), (0, 0, 1))
    return {"a": a, "b": b}


@model(I32, calls=[(10,), (0,), (1,), (2,)])
def fibonacci_push(n: tf.Tensor) -> dict[str, tf.Tensor]:
    """Fibonacci numbers by the carries (a, b) -> (a + b, a)."""
    _, a, b = tf.while_loop(lambda i, a, b: i < n, lambda i, a, b: (i + 1, a + b, a), (0, 1, 0))
    return {"a": a, "b": b}


@model(I32, f32(3), f32(3), calls=[(n, [1, 2, 3], [4, 5, 6]) for n in (1, 2, 0, 7)])
def swap(n: tf.Tensor, x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
    """The carries (x, y) -> (y, x)."""
    _, x, y = tf.while_loop(lambda i, x, y: i < n, lambda i, x, y: (i + 1, y, x), (0, x, y))
    return {"x": x, "y": y}


@model(I32, calls=[(1,), (0,), (2,), (3,), (100,)])
def rotate(n: tf.Tensor) -> dict[str, tf.Tensor]:
    """The carries (a, b, c) -> (b, c, a)."""
    _, a, b, c = tf.while_loop(lambda i, a, b, c: i < n, lambda i, a, b, c: (i + 1, b, c, a), (0, 1, 2, 3))
    return {"a": a, "b": b, "c": c}


@model(I32, f32(2, 2), calls=[(3, [[1, 2], [3, 4]]), (0, [[1, 2], [3, 4]])])
def duplicate(n: tf.Tensor, x: tf.Tensor) -> dict[str, tf.Tensor]:
    """One tensor of the body becomes two carries."""
    def body(i: tf.Tensor, a: tf.Tensor, b: tf.Tensor) -> tuple[tf.Tensor, ...]:
        total = a + b
        return i + 1, total, total

    _, a, b = tf.while_loop(lambda i, a, b: i < n, body, (0, x, x))
    return {"a": a, "b": b}


@model(F32, F32, calls=[(0.5, 4.0), (2.0, 1.5)])
def invariant(step: tf.Tensor, limit: tf.Tensor) -> dict[str, tf.Tensor]:
    """Values captured from outside the loop are carried unchanged."""
    count, x = tf.while_loop(lambda i, x: x < limit, lambda i, x: (i + 1, x * 1.25 + step), (0, 0.0))
    return {"count": count, "x": x, "step": step}


@model(I32, calls=[(0,), (5,)])
def countdown_constant(n: tf.Tensor) -> dict[str, tf.Tensor]:
    """A carry is overwritten by a constant in the first iteration."""
    left, mark = tf.while_loop(lambda i, mark: i > 0, lambda i, mark: (i - 1, tf.constant(7)), (n, -1))
    return {"left": left, "mark": mark}
