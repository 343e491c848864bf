"""Recurrent operators. Expectations are LiteRT's, of a second run that continues with the state of the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Activation
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


def state(*shape: int) -> T:
    return T(np.zeros(shape, np.float32), variable=True)


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
        return [state(batch, 2 if self.projected else 3), state(batch, 3)]

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
            state(2, 3)]


def row(sequence: T) -> T:
    return T(sequence.array[:, 0])


def svdf(weights: Weights, bias: bool) -> list[T | None]:
    return [row(X), weights.matrix(0, 4, 2), weights.matrix(1, 4, 3), weights.vector(2, 2) if bias else None,
            state(2, 12)]


def lstm(**options: float) -> UnidirectionalSequenceLstm:
    return UnidirectionalSequenceLstm(TANH, **options)  # type: ignore[arg-type]


GIVEN: dict[str, tuple[Op, Sequence[T | None]]] = {
    "plain": (lstm(), sequence(PLAIN)),
    "live-weights": (lstm(), sequence(replace(PLAIN, constant=False))),
    "time-major": (lstm(time_major=True), sequence(PLAIN)),
    "clipped": (lstm(cell_clip=0.25), sequence(PLAIN)),
    "relu6": (UnidirectionalSequenceLstm(Activation.RELU6), sequence(PLAIN)),
    "coupled": (lstm(), sequence(Weights(coupled=True, peephole=True))),
    "peephole": (lstm(), sequence(Weights(peephole=True))),
    "projected": (lstm(proj_clip=0.5), sequence(Weights(projected=True))),
    "norm": (lstm(), sequence(Weights(norm=True, peephole=True))),
    "everything": (lstm(cell_clip=1.0, proj_clip=0.5, asymmetric_quantize_inputs=True),
                   sequence(Weights(True, True, True, True, True))),
    "hybrid": (lstm(), sequence(HYBRID)),
    "hybrid-asymmetric": (lstm(asymmetric_quantize_inputs=True), sequence(HYBRID)),
    "lstm-step": (Lstm(TANH), [row(X), *PLAIN.lstm(), *PLAIN.state()]),
    "lstm-kernel-1": (Lstm(TANH, kernel_type=1), [
        T([[1.0, 0.5, -1]]), T([[0.25, -0.5]]), T((np.arange(40, dtype=np.float32) % 7 - 3).reshape(8, 5) / 4),
        T(np.arange(8, dtype=np.float32) / 8), T([[0.5, -1]])]),
    "rnn-step": (Rnn(TANH), [row(X), *rnn(PLAIN)]),
    "rnn": (UnidirectionalSequenceRnn(Activation.RELU), [X, *rnn(PLAIN)]),
    "rnn-hybrid": (UnidirectionalSequenceRnn(TANH, True, time_major=True), [X, *rnn(HYBRID)]),
    "svdf": (Svdf(Activation.RELU, rank=2), svdf(PLAIN, bias=True)),
    "svdf-hybrid": (Svdf(rank=2), svdf(HYBRID, bias=False)),
    "both": (BidirectionalSequenceLstm(TANH), both(PLAIN)),
    "both-merged": (BidirectionalSequenceLstm(TANH, merge_outputs=True), both(HYBRID)),
    "both-crossed": (BidirectionalSequenceLstm(TANH), both(Weights(projected=True), T(-X.array))),
    "both-auxiliary": (BidirectionalSequenceLstm(TANH), both(PLAIN, X_OF_3, own=True)),
    "both-rnn": (BidirectionalSequenceRnn(TANH, merge_outputs=True),
                 [X, *rnn(PLAIN), *rnn(PLAIN, 10), None, None, None]),
    "both-rnn-auxiliary": (BidirectionalSequenceRnn(TANH, time_major=True), [
        X, *rnn(PLAIN), *rnn(PLAIN, 10), T(-X.array), PLAIN.matrix(20, 3, 2), PLAIN.matrix(21, 3, 2)]),
}

EXPECTED: dict[str, Sequence[npt.ArrayLike]] = {
    "plain": [
        [[[-0.01071141, 0.1065214, 0.04525219], [0.03964234, 0.03755415, 0.123373]], [[0.4400085, -0.247714,
        0.08129384], [0.4569926, -0.2678964, 0.1237797]]]
    ],
    "live-weights": [
        [[[-0.01071141, 0.1065214, 0.04525219], [0.03964234, 0.03755415, 0.123373]], [[0.4400085, -0.247714,
        0.08129384], [0.4569926, -0.2678964, 0.1237797]]]
    ],
    "time-major": [
        [[[0.06355626, 0.08065787, 0.004678593], [0.2313242, -0.1961762, 0.1621046]], [[0.3359107, -0.005971865,
        0.1587443], [0.2612042, -0.2385808, 0.1672028]]]
    ],
    "clipped": [
        [[[-0.01873541, 0.08905637, 0.005569969], [0.01561046, 0.02136473, 0.04507076]], [[0.129526, -0.1967924,
        0.109485], [0.1694046, -0.1798373, 0.07618582]]]
    ],
    "relu6": [
        [[[0.007949647, 0.1750598, 0.1256556], [0.09440518, 0.1753204, 0.2696818]], [[0.9638175, 0.0,
        0.06466342], [0.8367752, 0.0, 0.1489028]]]
    ],
    "coupled": [
        [[[-0.001841923, 0.04529741, 0.04388251], [0.02444786, -0.1923617, 0.2186802]], [[0.2918656, -0.3509639,
        0.0884124], [0.3526956, -0.3748195, 0.1712333]]]
    ],
    "peephole": [
        [[[-0.001188761, 0.1286113, 0.03775428], [0.05181721, 0.04368974, 0.2241488]], [[0.3271569, -0.2520734,
        0.08138992], [0.4396379, -0.2730017, 0.1582193]]]
    ],
    "projected": [[[[-0.1782264, 0.5], [-0.06206241, 0.5]], [[0.2377805, 0.5], [0.3020595, 0.5]]]],
    "norm": [
        [[[-0.06113716, 0.4532163, 0.01455004], [0.01767736, 0.1658958, 0.02985321]], [[0.2866384, -0.09559005,
        0.1034358], [0.2471522, -0.09318435, 0.06509445]]]
    ],
    "everything": [[[[-0.4149745, 0.4097636], [-0.05337889, 0.5]], [[0.2408607, 0.5], [0.2221622, 0.5]]]],
    "hybrid": [
        [[[-0.01065439, 0.1073107, 0.04514578], [0.03893113, 0.03840831, 0.1231291]], [[0.4393396, -0.2480397,
        0.08000274], [0.4567336, -0.2681408, 0.1237772]]]
    ],
    "hybrid-asymmetric": [
        [[[-0.01074523, 0.1065127, 0.04524327], [0.03914133, 0.03751456, 0.1232886]], [[0.440345, -0.2475422,
        0.08222736], [0.4568487, -0.2677993, 0.1239626]]]
    ],
    "lstm-step": [[[-0.0293226, 0.1059788, -0.01832743], [0.4357525, -0.1809329, 0.08102132]]],
    "lstm-kernel-1": [
        [[0.23693748, -0.37175912]], [[0.51505566, -0.95830142]], [[1.0, 0.5, -1, 0.25, -0.5]],
        [[-0.875, 1.75, 0.4375, -0.4375, 1.3125, 0.4375, 0, 0]],
    ],
    "rnn-step": [[[-0.8892998, 0.7785618, -0.6493491], [-0.5053474, -0.9774524, 0.9519929]]],
    "rnn": [[[[0.0, 0.350344, 0.07438398], [0.0, 0.0, 1.631767]], [[0.0, 0.0, 0.898368], [0.0, 0.0, 1.18813]]]],
    "rnn-hybrid": [
        [[[-0.9820642, 0.1333173, 0.7991508], [-0.9945791, -0.9962316, 0.9761114]], [[0.1316137, -0.9256261,
        0.3675825], [-0.9862335, -0.9863477, 0.9123272]]]
    ],
    "svdf": [[[0.0, 0.5350001], [0.0, 0.0]]],
    "svdf-hybrid": [[[0.3577953, 0.697685], [-0.3654048, -0.8693149]]],
    "both": [
        [[[0.06355626, 0.08065787, 0.004678593], [0.2313242, -0.1961762, 0.1621046]], [[0.3359107, -0.005971865,
        0.1587443], [0.2612042, -0.2385808, 0.1672028]]], [[[-0.1631312, 0.1252919, -0.2834162], [0.3337404,
        0.08207367, -0.4276937]], [[-0.2561458, 0.09493642, -0.1969045], [0.3232102, 0.1137732, -0.2910438]]]
    ],
    "both-merged": [
        [[[0.06328586, 0.08144487, 0.004387901, -0.1638942, 0.1253445, -0.2829569], [0.2307714, -0.1962036,
        0.1618684, 0.3334914, 0.08202869, -0.4279678]], [[0.3351131, -0.005263329, 0.1578473, -0.2578402,
        0.09508602, -0.1964443], [0.2610009, -0.2386101, 0.1672098, 0.3233954, 0.1137441, -0.2910908]]]
    ],
    "both-crossed": [
        [[[-0.1189754, 0.6499304], [0.09910329, 0.8845443]], [[0.1193696, 0.9634141], [0.1108593, 0.8934273]]],
        [[[1.029909, -0.2485757], [0.7286221, -0.6534165]], [[1.065483, -0.2719122], [0.8352302, -0.5266027]]]
    ],
    "both-auxiliary": [
        [[[0.02351603, 0.3204181, 0.2652497], [-0.1586008, -0.07682648, 0.03961546]], [[0.2736219, 0.1396032,
        0.181957], [-0.1554426, -0.1591768, 0.02326195]]], [[[0.09557102, 0.6137798, -0.04230569], [0.1133201,
        0.0246061, -0.1212249]], [[0.3401033, 0.03669517, 0.02202512], [0.1551785, 0.00608594, 0.009198151]]]
    ],
    "both-rnn": [
        [[[-0.99365, -0.5236594, 0.4069347, -0.7153712, 0.7887723, -0.7639161], [-0.9817532, -0.9875371,
        0.9531172, -0.8002775, -0.8194904, -0.9988634]], [[-0.6753575, -0.9920672, 0.8535532, 0.3957126,
        -0.8614665, -0.9644884], [-0.9838001, -0.9825588, 0.9347239, 0.5830222, 0.4993525, -0.9201711]]]
    ],
    "both-rnn-auxiliary": [
        [[[-0.9862252, 0.4152672, 0.07972997], [-0.9997319, -0.9978647, 0.9900126]], [[0.3228002, -0.9676173,
        0.9457013], [-0.9968969, -0.9909175, 0.9544183]]], [[[-0.2618674, 0.01686848, -0.6095139], [0.1767187,
        0.6145967, -0.9998662]], [[-0.7807106, -0.4986124, -0.9957653], [-0.3504383, 0.3336998, -0.9948544]]]
    ],
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
    return [source, *found, None, None, T(np.full((2, 3), -5, np.int8), q=q(0.007, -5), variable=True),
            T(np.zeros((2, 3), np.int16), q=q(2.0**-11), variable=True)]


INT8 = {
    "int8": (lstm(), int8_lstm()),
    "int8-coupled": (lstm(cell_clip=0.5), int8_lstm(coupled=True)),
    "int8-peephole": (lstm(time_major=True), int8_lstm(peephole=True)),
}
INT8_EXPECTED = {
    "int8": [[[-14, 33, 2], [-46, 48, 16]], [[64, -54, 55], [52, -63, 40]]],
    "int8-coupled": [[[-27, 20, -1], [-65, 7, 7]], [[32, -48, 54], [10, -57, 22]]],
    "int8-peephole": [[[2, 38, 2], [-62, -51, 26]], [[42, 78, 68], [-71, -60, 36]]],
}


def hidden(scale: float, zero_point: int = 0) -> list[T]:
    """The intermediates of an LSTM whose hidden state is quantised so."""
    return [*[T(np.zeros(0, np.float32))] * 4, T(np.zeros(0, np.int8), q=q(scale, zero_point))]


def changed(inputs: Sequence[T | None], position: int, value: T | None) -> list[T | None]:
    return [value if k == position else each for k, each in enumerate(inputs)]


ONES = np.ones((2, 2, 3), np.float32)
INT8_OUT = T(np.zeros((2, 2, 3), np.int8), q=q(0.007, -5))

WRONG = [
    Case("source", lstm(), changed(sequence(PLAIN), 0, row(X)), [ONES], error="input 0 must have 3 dimensions"),
    Case("weights", lstm(), changed(sequence(PLAIN), 2, row(X)), [ONES],
         error=r"input 2 must have shape \(3, 2\), found \(2, 2\)"),
    Case("state", lstm(), changed(sequence(PLAIN), 18, row(X)), [ONES], error=r"input 18 must have shape \(2, 3\)"),
    Case("unprojected", lstm(), changed(sequence(Weights(projected=True)), 16, None), [ONES],
         error="3 cells without a projection give 3 units, input 8 takes 2"),
    Case("half-coupled", lstm(), changed(sequence(PLAIN), 5, None), [ONES], error="only one of the inputs 1 and 5"),
    Case("mixed", lstm(), changed(sequence(PLAIN), 3, HYBRID.matrix(2, 3, 2)), [ONES],
         error="weights of float32, int8"),
    Case("diagonal", lstm(diagonal_recurrent_tensors=True), sequence(PLAIN), [ONES],
         error="diagonal recurrent weights"),
    Case("auxiliary", BidirectionalSequenceLstm(TANH), both(PLAIN, row(X)), [ONES, ONES],
         error="inputs 0 and 39 must be sequences of the same batch and time"),
    Case("sign", Rnn(Activation.SIGN_BIT), [row(X), *rnn(PLAIN)], [ONES[0]], error="fused activation SIGN_BIT"),
    Case("rank", Svdf(rank=3), svdf(PLAIN, bias=True), [ONES[0]], error="4 filters do not divide into units of rank 3"),
    Case("int8-activation", UnidirectionalSequenceLstm(), int8_lstm(), [INT8_OUT], error="fused activation NONE"),
    Case("int8-projection", lstm(), changed(int8_lstm(), 16, T(np.zeros((3, 3), np.int8), q=q(1))), [INT8_OUT],
         error="an int8 projection"),
    Case("int8-cells", lstm(), changed(int8_lstm(), 19, T(np.zeros((2, 3), np.int16), q=q(0.001))), [INT8_OUT],
         error="cells whose scale is not a power of two"),
    Case("int8-output", lstm(), int8_lstm(), [replace(INT8_OUT, q=q(0.007))],
         error="an output that is not quantised as the output state"),
    Case("int8-hidden", lstm(), int8_lstm(), [INT8_OUT], intermediates=hidden(0.008, -5),
         error=r"a hidden state quantised by \(0.00800\d*, -5\), the output state by \(0.007\d*, -5\)"),
    Case("int8-no-hidden", lstm(), int8_lstm(), [INT8_OUT], intermediates=hidden(0.007)[:4],
         error="4 intermediates without the hidden state"),
    Case("int8-bias", lstm(), changed(int8_lstm(), 13, PLAIN.vector(0, 3)), [INT8_OUT],
         error="element type float32 of input 13"),
]

NETWORKS = [Case(id, op, inputs, [np.array(each, np.float32) for each in EXPECTED[id]], TOLERANCE)
            for id, (op, inputs) in GIVEN.items()]
INT8_NETWORKS = [Case(id, op, inputs, [replace(INT8_OUT, value=np.array(INT8_EXPECTED[id], np.int8))],
                      intermediates=hidden(0.007, -5) if id == "int8" else ())
                 for id, (op, inputs) in INT8.items()]
test_networks = case_test(NETWORKS)
test_int8 = case_test(INT8_NETWORKS)
test_errors = case_test(WRONG)
