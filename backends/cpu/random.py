"""Numpy rules of the operators that draw random numbers."""

from __future__ import annotations

from math import pi
from secrets import randbits
from typing import Any

import numpy as np

from circlet.backends.cpu.rule import Node, rule
from circlet.backends.cpu.steps import chain, promised
from circlet.backends.refusal import names, only
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.kernel import Call
from circlet.runtime.exec.state.variables import Variables
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops import random as ops
from circlet.runtime.records import dataclass

_WORD = 32
_MASK = (1 << _WORD) - 1
_BITS = frozenset({DType.INT32, DType.INT64, DType.UINT32, DType.UINT64})
"""Types of which numbers are made of random bits."""
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""By how many bits Threefry rotates words, in turns."""


def philox(seed: int, seed2: int, position: Array) -> Array:
    """Philox 4x32-10: four words for each block; the counter is the block's position below `seed2`, the key is `seed`.

    Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
    """
    a, b = position & _MASK, position >> _WORD
    c, d = (np.full_like(position, half) for half in _halves(seed2))
    low, high = _halves(seed)
    for _ in range(10):
        first, second = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = second >> _WORD ^ b ^ low, second & _MASK, first >> _WORD ^ d ^ high, first & _MASK
        low, high = low + 0x9E3779B9 & _MASK, high + 0xBB67AE85 & _MASK
    return np.stack([a, b, c, d], axis=1).astype(np.uint32)


def threefry(seed: int, position: Array) -> Array:
    """Threefry 2x32-20, of the same article: two words for each block; the counter is its position."""
    keys = [np.uint32(each) for each in _halves(seed)]
    keys.append(keys[0] ^ keys[1] ^ np.uint32(0x1BD11BDA))
    a, b = (position & _MASK).astype(np.uint32) + keys[0], (position >> _WORD).astype(np.uint32) + keys[1]
    for turn in range(5):
        for distance in ROTATIONS[turn % 2]:
            a = a + b
            b = (b << distance | b >> _WORD - distance) ^ a
        a, b = a + keys[(turn + 1) % 3], b + keys[(turn + 2) % 3] + np.uint32(turn + 1)
    return np.stack([a, b], axis=1)


def _halves(seed: int) -> tuple[int, int]:
    return seed & _MASK, seed >> _WORD & _MASK


@dataclass(frozen=True, eq=False)
class Stream:
    """The random words of one operator in one session; how many were drawn is a variable of the session."""

    variables: Variables
    handle: int
    seed: int
    seed2: int

    @classmethod
    def of(cls, node: Node[Any]) -> Stream:
        place, variables = node.call.place, node.run.variables
        handle = variables.handle(node.op.name, f"{place.subgraph}/{place.operator}")
        seeds = [_signed(node.op.seed), _signed(node.op.seed2)]
        if not any(seeds):
            seeds = [randbits(64), randbits(64)]
        return cls(variables, handle, *seeds)

    def draw(self, blocks: int, advance: int | None = None) -> Array:
        """The next words, (blocks, 4); the stream goes on after `advance` blocks, by default those drawn."""
        drawn = int(self.variables.values.get(self.handle, np.int64(0)))
        self.variables.values[self.handle] = np.array(drawn + (blocks if advance is None else advance))
        return philox(self.seed, self.seed2, np.arange(drawn, drawn + blocks, dtype=np.uint64))


def _signed(seed: int) -> int:
    """The low 32 bits as a signed number."""
    return (seed & _MASK ^ 1 << 31) - (1 << 31)


def _unit(words: Array) -> Array:
    """Multiples of 2 ** -23 in [0, 1)."""
    numbers: Array = (words & 0x7FFFFF).astype(np.float32) * np.float32(2**-23)
    return numbers


def _normal(words: Array) -> Array:
    """The Box-Muller transform of pairs of words."""
    numbers = _unit(words)
    radius = np.sqrt(np.float32(-2) * np.log(np.maximum(numbers[:, ::2], np.float32(1e-7))))
    angle = np.float32(2 * pi) * numbers[:, 1::2]
    pairs: Array = np.stack([np.sin(angle) * radius, np.cos(angle) * radius], axis=2)
    return pairs


def _fill(node: Node[Any]) -> Step:
    stream, out = Stream.of(node), node.out
    values = _normal if isinstance(node.op, ops.RandomStandardNormal) else _unit

    def step() -> None:
        words = stream.draw(-(-out.size // 4))
        np.copyto(out, values(words).ravel()[:out.size].reshape(out.shape))

    return chain(promised(node), step)


rule(ops.RandomUniform, accepts={DType.INT32, DType.INT64})(_fill)
rule(ops.RandomStandardNormal, accepts={DType.INT32, DType.INT64})(_fill)


def _accepts_classes(call: Call) -> str | None:
    found = call.outputs[0].dtype
    if found not in (DType.INT32, DType.INT64):
        return f"output type {found.value} (supported: int32, int64)"
    return only({DType.FLOAT32})(call)


@rule(ops.Multinomial, accepts=_accepts_classes)
def multinomial(node: Node[ops.Multinomial]) -> Step:
    """Inverts the distribution function. A run uses up 512 blocks for each sample, in fours, as in LiteRT."""
    stream, logits, out = Stream.of(node), node.input(0), node.out
    rows, samples = out.shape

    def step() -> None:
        words = stream.draw(-(-out.size // 2), 512 * rows * -(-samples // 4) * 4).astype(np.uint64)
        fractions = ((words[:, ::2] & 0xFFFFF) << _WORD | words[:, 1::2]).astype(np.float64) * 2.0**-52
        for row, numbers in enumerate(fractions.ravel()[:out.size].reshape(out.shape)):
            shares = _cumulative_shares(row, logits[row])
            out[row] = np.searchsorted(shares, numbers * shares[-1], "right")

    return chain(promised(node), step)


def _cumulative_shares(row: int, logits: Array) -> Array:
    finite = np.isfinite(logits)
    if not finite.any():
        raise ExecutionError(f"input 0: row {row} of the logits has no finite element")
    return np.cumsum(np.where(finite, np.exp(logits.astype(np.float64) - logits[finite].max()), 0.0))


def _accepts_bits(call: Call) -> str | None:
    found = call.outputs[1].dtype
    if found not in _BITS:
        return f"output type {found.value} (supported: {names(_BITS)})"
    return only({DType.UINT64})(call)


@rule(ops.StablehloRngBitGenerator, accepts=_accepts_bits)
def rng_bit_generator(node: Node[ops.StablehloRngBitGenerator]) -> Step:
    state, (after, out), words = node.input(0), node.outputs, node.op.words
    if after.shape != state.shape:
        raise ExecutionError(f"the model declares a state of shape {after.shape} after one of {state.shape}")
    blocks = -(-out.nbytes // (4 * words))
    counted, low = np.arange(blocks, dtype=np.uint64), out.reshape(-1).view(np.uint32)

    def step() -> None:
        key, position, above = int(state[0]), counted + state[1], int(state[2] if len(state) > 2 else state[0])
        found = threefry(key, position) if words == 2 else philox(key, above, position)
        after[...] = state
        after[1] = (int(state[1]) + blocks) % (1 << 64)
        low[...] = found.reshape(-1)[:low.size]

    return step
