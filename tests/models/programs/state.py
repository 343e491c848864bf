"""Models that keep state from run to run, or offer several signatures."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.models.expectations import Array
from tests.models.options import resource_variables
from tests.models.program import DEFAULT, Call, Program, normal, program


class _Counter(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = tf.Variable(10, name="count")

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32, "by")])
    def increment(self, by: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"count": self.count.assign_add(by)}

    @tf.function(input_signature=[])
    def get(self) -> dict[str, tf.Tensor]:
        return {"count": self.count.read_value()}


def _stateful(owner: Any, names: list[str], calls: list[tuple[str, dict[str, Any]]]) -> Program:
    known = {name: DEFAULT if len(names) == 1 else name for name in names}
    return Program(
        {known[name]: getattr(owner, name) for name in names},
        [Call({key: np.asarray(value) for key, value in inputs.items()}, known[name]) for name, inputs in calls],
        owner=owner, configure=resource_variables,
    )


@program
def counter() -> Program:
    """A counter that starts at 10: two signatures share a variable."""
    by = [np.int32(value) for value in (1, 5, -3)]
    return _stateful(_Counter(), ["increment", "get"], [
        ("get", {}), ("increment", {"by": by[0]}), ("increment", {"by": by[1]}), ("get", {}),
        ("increment", {"by": by[2]}), ("get", {}),
    ])


class _Memory(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = tf.Variable(tf.zeros([3, 2]), name="rows")
        self.total = tf.Variable(0.0, name="total")

    @tf.function(input_signature=[tf.TensorSpec([2], tf.float32, "row")])
    def push(self, row: tf.Tensor) -> dict[str, tf.Tensor]:
        self.rows.assign(tf.concat([self.rows[1:], row[tf.newaxis]], axis=0))
        self.total.assign_add(tf.reduce_sum(row))
        return {"rows": self.rows.read_value()}

    @tf.function(input_signature=[])
    def mean(self) -> dict[str, tf.Tensor]:
        return {"mean": tf.reduce_mean(self.rows, axis=0), "total": self.total.read_value()}

    @tf.function(input_signature=[])
    def clear(self) -> dict[str, tf.Tensor]:
        self.rows.assign(tf.zeros([3, 2]))
        return {"rows": self.rows.read_value()}


@program
def window() -> Program:
    """A sliding window over rows, a running total, and a way to clear the window: three signatures."""
    rows = normal(4, 2, seed=110)
    pushes: list[tuple[str, dict[str, Array]]] = [("push", {"row": row}) for row in rows]
    return _stateful(_Memory(), ["push", "mean", "clear"], [
        ("mean", {}), *pushes, ("mean", {}), ("clear", {}), ("mean", {}), pushes[0],
    ])


class _Loop(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.state = tf.Variable([1.0, 2.0], name="state")
        self.turns = tf.Variable(0, name="turns")

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32, "n")])
    def advance(self, n: tf.Tensor) -> dict[str, tf.Tensor]:
        for _ in tf.range(n):
            self.state.assign(self.state[::-1] * 0.5 + 1.0)
            self.turns.assign_add(1)
        return {"state": self.state.read_value(), "turns": self.turns.read_value()}


@program
def variable_loop() -> Program:
    """Variables that the body of a While reads and assigns."""
    calls = [("advance", {"n": np.int32(n)}) for n in (2, 0, 1, 3)]
    return _stateful(_Loop(), ["advance"], calls)


class _Choice(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.best = tf.Variable(0.0, name="best")

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32, "x")])
    def offer(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        tf.cond(x > self.best, lambda: self.best.assign(x), lambda: self.best.read_value())
        return {"best": self.best.read_value()}


@program
def variable_cond() -> Program:
    """A variable that one branch of an If assigns."""
    return _stateful(_Choice(), ["offer"], [("offer", {"x": np.float32(x)}) for x in (2.5, 1.0, -4.0, 7.0, 3.0)])


class _Signatures(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x"), tf.TensorSpec([], tf.float32, "factor")])
    def encode(self, x: tf.Tensor, factor: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"code": x * factor + 1.0}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "code"), tf.TensorSpec([], tf.int32, "n")])
    def decode(self, code: tf.Tensor, n: tf.Tensor) -> dict[str, tf.Tensor]:
        for _ in tf.range(n):
            code = code * 0.5
        return {"x": code, "sum": tf.reduce_sum(code)}


@program
def signatures() -> Program:
    """Two signatures without state, one of them a loop; lengths are not known."""
    x = normal(3, seed=111)
    calls = [
        Call({"x": x, "factor": np.float32(2)}, "encode"), Call({"code": x, "n": np.int32(3)}, "decode"),
        Call({"code": x[:1], "n": np.int32(0)}, "decode"), Call({"x": x[:2], "factor": np.float32(-1)}, "encode"),
    ]
    owner = _Signatures()
    return Program({"encode": owner.encode, "decode": owner.decode}, calls, owner=owner)


class _Table(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        keys, values = tf.constant([b"zero", b"one", b"two"]), tf.constant([0, 1, 2], tf.int64)
        self.numbers = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), -1)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "words")])
    def lookup(self, words: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"numbers": self.numbers.lookup(words), "size": tf.reshape(self.numbers.size(), [1])}


@program
def hash_table() -> Program:
    """A hash table from strings to int64."""
    calls = [Call({"words": np.array(words, object)}) for words in ([b"two", b"zero"], [b"ten", b"one", b""])]
    owner = _Table()
    return Program({DEFAULT: owner.lookup}, calls, owner=owner)
