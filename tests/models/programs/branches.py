"""Conditionals: nested, of many ways, with results of different shapes, and loops within."""

from __future__ import annotations

import tensorflow as tf

from tests.models.program import BOOL, F32, I32, f32, i32, model


@model(BOOL, f32(4), calls=[(flag, [1, -2, 3, -4]) for flag in (True, False)])
def cond(flag: tf.Tensor, x: tf.Tensor) -> dict[str, tf.Tensor]:
    """One If."""
    return {"y": tf.cond(flag, lambda: x + 1.0, lambda: x * 2.0)}


@model(F32, calls=[(x,) for x in (-20.0, -5.0, 0.0, 5.0, 20.0)])
def cond_nested(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """If in If in If."""
    if x < 0.0:
        if x < -10.0:
            code, y = 1, -x
        else:
            code, y = 2, x * 2.0
    else:
        if x > 1.0:
            if x > 10.0:
                code, y = 5, x - 10.0
            else:
                code, y = 4, x + 10.0
        else:
            code, y = 3, x
    return {"code": code, "y": y}


@model(I32, f32(3), calls=[(index, [1, 2, 3]) for index in (0, 1, 2, 3, 4, -1)])
def switch(index: tf.Tensor, x: tf.Tensor) -> dict[str, tf.Tensor]:
    """A choice of four by an index, the last one the default: If in If in If."""
    branches = [lambda: x + 1.0, lambda: x * x, lambda: -x]
    pairs = [(tf.equal(index, number), branch) for number, branch in enumerate(branches)]
    return {"y": tf.case(pairs, default=lambda: x[::-1])}


@model(BOOL, f32(4), calls=[(True, [1, 2, 3, 4]), (False, [1, 2, 3, 4])])
def cond_shapes(flag: tf.Tensor, x: tf.Tensor) -> dict[str, tf.Tensor]:
    """Branches whose results differ in length; the total of the result follows."""
    y = tf.cond(flag, lambda: x[:2], lambda: tf.concat([x, x], 0))
    return {"y": y, "sum": tf.reduce_sum(y)}


@model(BOOL, f32(2, 3), calls=[(True, [[1, 2, 3], [4, 5, 6]]), (False, [[1, 2, 3], [4, 5, 6]])])
def cond_transposed(flag: tf.Tensor, x: tf.Tensor) -> dict[str, tf.Tensor]:
    """Branches whose results differ in every dimension; a product with the result follows."""
    y = tf.cond(flag, lambda: tf.transpose(x), lambda: x * 2.0)
    return {"y": y, "square": tf.matmul(y, y, transpose_b=True)}


@model(BOOL, f32(3), f32(3), calls=[(flag, [1, 2, 3], [4, 5, 6]) for flag in (True, False)])
def cond_forward(flag: tf.Tensor, x: tf.Tensor, y: tf.Tensor) -> dict[str, tf.Tensor]:
    """Branches that only forward their inputs: a swap or none."""
    a, b = tf.cond(flag, lambda: (y, x), lambda: (x, y))
    return {"a": a, "b": b}


@model(BOOL, f32(3), calls=[(True, [1, 2, 3]), (False, [1, 2, 3])])
def cond_duplicate(flag: tf.Tensor, x: tf.Tensor) -> dict[str, tf.Tensor]:
    """A branch that gives one tensor twice."""
    def twice() -> tuple[tf.Tensor, tf.Tensor]:
        y = x + 1.0
        return y, y

    a, b = tf.cond(flag, twice, lambda: (x, x * 2.0))
    return {"a": a, "b": b}


@model(BOOL, f32(3), calls=[(True, [1, 2, 3]), (False, [1, 2, 3])])
def cond_constant(flag: tf.Tensor, x: tf.Tensor) -> dict[str, tf.Tensor]:
    """Branches that give a constant or an input."""
    y = tf.cond(flag, lambda: tf.constant([7.0, 8.0, 9.0]), lambda: x)
    return {"y": y, "next": y + 1.0}


@model(BOOL, I32, calls=[(True, 5), (False, 5), (True, 0), (False, 0)])
def cond_loops(up: tf.Tensor, n: tf.Tensor) -> dict[str, tf.Tensor]:
    """A While in each branch of an If."""
    def double() -> tf.Tensor:
        return tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * 2), (0, 1))[1]

    def subtract() -> tf.Tensor:
        return tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x - i), (0, 100))[1]

    return {"y": tf.cond(up, double, subtract)}


@model(i32(6), calls=[([1, 2, 3, 4, 5, 6],), ([2, -4, 0, 7, 1, 1],)])
def loop_switch(ops: tf.Tensor) -> dict[str, tf.Tensor]:
    """A small interpreter: a choice of four in each turn of a loop."""
    accumulator, memory = 0, 1
    for i in tf.range(6):
        code = ops[i] % 4
        if code == 0:
            accumulator += memory
        elif code == 1:
            accumulator, memory = accumulator * 2, memory + 1
        elif code == 2:
            accumulator, memory = memory, accumulator
        else:
            accumulator, memory = accumulator - 1, memory * 3
    return {"accumulator": accumulator, "memory": memory}


@model(BOOL, BOOL, f32(2), calls=[(a, b, [1, 2]) for a in (False, True) for b in (False, True)])
def cond_logic(a: tf.Tensor, b: tf.Tensor, x: tf.Tensor) -> dict[str, tf.Tensor]:
    """Conditions that are computed from booleans."""
    both = tf.cond(a & b, lambda: x + 1.0, lambda: x)
    either = tf.cond(a | b, lambda: both * 2.0, lambda: both)
    return {"y": tf.cond(tf.logical_not(a), lambda: -either, lambda: either)}
