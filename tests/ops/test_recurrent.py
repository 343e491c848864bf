"""Recurrent operators. Expectations are LiteRT's, of a second run that continues with the state of the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Activation, DType, Quantization
from circlet.runtime.ops.recurrent import (
    BidirectionalSequenceLstm,
    BidirectionalSequenceRnn,
    Lstm,
    Rnn,
    Svdf,
    UnidirectionalSequenceLstm,
    UnidirectionalSequenceRnn,
)
from tests.ops.cases import Case, T, q
from tests.ops.run_cases import case_test

TOLERANCE = 1e-6
TANH = Activation.TANH


def weights(seed: int, *shape: int) -> npt.NDArray[np.int8]:
    """Small integers, the same on every machine."""
    count = int(np.prod(shape))
    return ((np.arange(count) * 37 + seed * 53) % 101 - 50).astype(np.int8).reshape(shape)


@dataclass(frozen=True)
class Weights:
    """How a network's weights are made."""

    hybrid: bool = False
    coupled: bool = False
    peephole: bool = False
    norm: bool = False
    projected: bool = False
    constant: bool = True

    def matrix(self, seed: int, *shape: int) -> T:
        value = weights(seed, *shape)
        if self.hybrid:
            return T(value, q=q(0.02), constant=self.constant)
        return T((value * 0.02).astype(np.float32), constant=self.constant)

    def vector(self, seed: int, count: int, offset: float = 0.0) -> T:
        return T((weights(seed, count) * 0.02 + offset).astype(np.float32), constant=self.constant)

    def lstm(self, seed: int = 0, inputs: int = 2) -> list[T | None]:
        """Inputs 1 to 17 of an LSTM of 3 cells, projected to 2 units if to any."""
        units = 2 if self.projected else 3
        gates = [self.matrix(seed + k, 3, inputs) for k in range(4)] + [self.matrix(seed + 4 + k, 3, units)
                                                                       for k in range(4)]
        peepholes = [self.matrix(seed + 8 + k, 3) if self.peephole else None for k in range(3)]
        found = [*gates, *peepholes, *(self.vector(seed + 11 + k, 3) for k in range(4)),
                 *((self.matrix(seed + 15, 2, 3), self.vector(seed + 16, 2)) if self.projected else (None, None))]
        return [None if self.coupled and k in (0, 4, 8, 11) else each for k, each in enumerate(found)]

    def state(self, batch: int = 2) -> list[T]:
        return [T(np.zeros((batch, 2 if self.projected else 3), np.float32)), T(np.zeros((batch, 3), np.float32))]

    def norms(self) -> list[T | None]:
        return [None if self.coupled and k == 0 else self.vector(20 + k, 3, 1.0) for k in range(4)] if self.norm else []


X = T(np.array([[[1, -0.5], [0.25, 2]], [[-1.5, 0.5], [0, 1]]], np.float32))
X_OF_3 = T(np.array([[[1, -0.5, 2], [0.25, 2, 0.5]], [[-1.5, 0.5, 0], [0, 1, -1]]], np.float32))
PLAIN, HYBRID = Weights(), Weights(hybrid=True)


def sequence(weights: Weights) -> list[T | None]:
    return [X, *weights.lstm(), *weights.state(), *weights.norms()]


def both(weights: Weights, second: T | None = None, own: bool = False) -> list[T | None]:
    """The inputs of a bidirectional LSTM; a second sequence has weights of its own or is for the backward LSTM."""
    width = 3 if second is X_OF_3 and not own else 2
    auxiliary = [weights.matrix(40 + k, 3, 3) if own else None for k in range(8)]
    return [X, *weights.lstm(), *weights.lstm(20, width), *weights.state(), *weights.state(), second, *auxiliary]


def rnn(weights: Weights, seed: int = 0) -> list[T]:
    return [weights.matrix(seed, 3, 2), weights.matrix(seed + 1, 3, 3), weights.vector(seed + 2, 3),
            T(np.zeros((2, 3), np.float32))]


def row(sequence: T) -> T:
    return T(sequence.array[:, 0])


def svdf(weights: Weights, bias: bool) -> list[T | None]:
    return [row(X), weights.matrix(0, 4, 2), weights.matrix(1, 4, 3), weights.vector(2, 2) if bias else None,
            T(np.zeros((2, 12), np.float32))]


def lstm(**options: float) -> UnidirectionalSequenceLstm:
    return UnidirectionalSequenceLstm(TANH, **options)  # type: ignore[arg-type]


GIVEN: dict[str, tuple[Op, Sequence[T | None], int]] = {
    "plain": (lstm(), sequence(PLAIN), 1),
    "live-weights": (lstm(), sequence(replace(PLAIN, constant=False)), 1),
    "time-major": (lstm(time_major=True), sequence(PLAIN), 1),
    "clipped": (lstm(cell_clip=0.25), sequence(PLAIN), 1),
    "relu6": (UnidirectionalSequenceLstm(Activation.RELU6), sequence(PLAIN), 1),
    "coupled": (lstm(), sequence(Weights(coupled=True, peephole=True)), 1),
    "peephole": (lstm(), sequence(Weights(peephole=True)), 1),
    "projected": (lstm(proj_clip=0.5), sequence(Weights(projected=True)), 1),
    "norm": (lstm(), sequence(Weights(norm=True, peephole=True)), 1),
    "everything": (lstm(cell_clip=1.0, proj_clip=0.5, asymmetric_quantize_inputs=True),
                   sequence(Weights(True, True, True, True, True)), 1),
    "hybrid": (lstm(), sequence(HYBRID), 1),
    "hybrid-asymmetric": (lstm(asymmetric_quantize_inputs=True), sequence(HYBRID), 1),
    "lstm-step": (Lstm(TANH), [row(X), *PLAIN.lstm(), *PLAIN.state()], 1),
    "rnn-step": (Rnn(TANH), [row(X), *rnn(PLAIN)], 1),
    "rnn": (UnidirectionalSequenceRnn(Activation.RELU), [X, *rnn(PLAIN)], 1),
    "rnn-hybrid": (UnidirectionalSequenceRnn(TANH, True, time_major=True), [X, *rnn(HYBRID)], 1),
    "svdf": (Svdf(Activation.RELU, rank=2), svdf(PLAIN, bias=True), 1),
    "svdf-hybrid": (Svdf(rank=2), svdf(HYBRID, bias=False), 1),
    "both": (BidirectionalSequenceLstm(TANH), both(PLAIN), 2),
    "both-merged": (BidirectionalSequenceLstm(TANH, merge_outputs=True), both(HYBRID), 1),
    "both-crossed": (BidirectionalSequenceLstm(TANH), both(Weights(projected=True), T(-X.array)), 2),
    "both-auxiliary": (BidirectionalSequenceLstm(TANH), both(PLAIN, X_OF_3, own=True), 2),
    "both-rnn": (BidirectionalSequenceRnn(TANH, merge_outputs=True),
                 [X, *rnn(PLAIN), *rnn(PLAIN, 10), None, None, None], 1),
    "both-rnn-auxiliary": (BidirectionalSequenceRnn(TANH, time_major=True), [
        X, *rnn(PLAIN), *rnn(PLAIN, 10), T(-X.array), PLAIN.matrix(20, 3, 2), PLAIN.matrix(21, 3, 2)], 2),
}


def int8_lstm(coupled: bool = False, peephole: bool = False) -> list[T | None]:
    """An LSTM of 3 cells whose state starts at real zeros."""
    def matrix(seed: int, inputs: int) -> T:
        return T(weights(seed, 3, inputs), q=q(0.011 + seed / 1000), constant=True)

    gates = [matrix(k, 2) for k in range(4)] + [matrix(k, 3) for k in range(4, 8)]
    cells = [T(weights(k, 3).astype(np.int16) * 300, q=q(3e-5), constant=True) if peephole else None for k in range(3)]
    biases = [T(weights(k, 3).astype(np.int32) * 50, q=q(0.001), constant=True) for k in range(4)]
    found = [None if coupled and k in (0, 4, 8, 11) else each for k, each in enumerate([*gates, *cells, *biases])]
    source = T(np.array([[[100, -50], [25, 127]], [[-128, 50], [3, 99]]], np.int8), q=q(0.03, 3))
    return [source, *found, None, None, T(np.full((2, 3), -5, np.int8), q=q(0.007, -5)),
            T(np.zeros((2, 3), np.int16), q=q(2.0**-11))]


INT8 = {
    "int8": (lstm(), int8_lstm()),
    "int8-coupled": (lstm(cell_clip=0.5), int8_lstm(coupled=True)),
    "int8-peephole": (lstm(time_major=True), int8_lstm(peephole=True)),
}
