"""Recurrent networks as single operators.

Their state lies in variable inputs, which each run reads and overwrites. Sequences are (batch, time, n) or, with
`time_major`, (time, batch, n). Gates are in the order input, forget, cell, output; without input weights the input
gate is 1 minus the forget gate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar, TypeVar

from circlet.runtime.ir.op import Count, Op, Operands, ShapeError, between, exactly
from circlet.runtime.ir.types import Activation, DType, Shape
from circlet.runtime.ops.registry import operator
from circlet.runtime.records import dataclass


def _span(start: int, count: int) -> tuple[int, ...]:
    return tuple(range(start, start + count))


def _expect(args: Operands, shapes: Mapping[int, Shape]) -> None:
    """Checks the shapes of the inputs that are there."""
    for position, shape in shapes.items():
        found = args.get(position)
        if found is not None and found.shape != shape:
            raise ShapeError(f"input {position} must have shape {shape}, found {found.shape}")


def _matrix(args: Operands, position: int) -> Shape:
    shape = args[position].shape
    if len(shape) != 2:
        raise ShapeError(f"input {position} must be a matrix, found shape {shape}")
    return shape


def _sequence(args: Operands, position: int, time_major: bool) -> Shape:
    """The shape of a sequence, as (time, batch, n)."""
    shape = args[position].shape
    if len(shape) != 3:
        raise ShapeError(f"input {position} must have 3 dimensions, found shape {shape}")
    return shape if time_major else (shape[1], shape[0], shape[2])


def _ordered(time: int, batch: int, units: int, time_major: bool) -> Shape:
    return (time, batch, units) if time_major else (batch, time, units)


@dataclass(frozen=True)
class NetworkInputs:
    """The positions of the inputs of one network among those of its operator."""

    source: int = 0
    auxiliary: int | None = None
    """A second sequence; may be absent."""
    auxiliary_weights: tuple[int, ...] = ()
    """(rows, auxiliary inputs) each, as the weights; may be absent."""

    def second(self, has: Callable[[int], bool]) -> int | None:
        """The position of a second input, in a call that `has` inputs at certain positions."""
        used = self.auxiliary is not None and has(self.auxiliary) and has(self.auxiliary_weights[-1])
        return self.auxiliary if used else None

    def crossed(self: Network, has: Callable[[int], bool]) -> Network:
        """The positions of a network that reads the auxiliary sequence instead where it has no weights of its own."""
        if self.auxiliary is None or not has(self.auxiliary) or self.second(has) is not None:
            return self
        return replace(self, source=self.auxiliary)

    def matrices(self) -> tuple[int, ...]:
        """The positions of the matrices of weights."""
        return self.auxiliary_weights

    def vectors(self) -> tuple[int, ...]:
        """The positions of the vectors of weights and biases."""
        return ()

    def _check_auxiliary(self, args: Operands, rows: int) -> None:
        if self.auxiliary is None or args.get(self.auxiliary) is None:
            return
        second = args[self.auxiliary].shape
        if second[:-1] != args[0].shape[:-1]:
            raise ShapeError(f"inputs 0 and {self.auxiliary} must be sequences of the same batch and time, found "
                             f"shapes {args[0].shape} and {second}")
        _expect(args, dict.fromkeys(self.auxiliary_weights, (rows, second[-1])))


Network = TypeVar("Network", bound=NetworkInputs)


@dataclass(frozen=True)
class LstmInputs(NetworkInputs):
    """The inputs of an LSTM. Groups of 4 are one for each gate."""

    weights: int = 1
    """4, (cells, inputs) each; the first is absent where the input gate is coupled to the forget gate."""
    recurrent: int = 5
    """4, (cells, units) each."""
    peephole: int = 9
    """3, (cells,) each, from the cells to the input, forget and output gates; may be absent."""
    bias: int = 12
    """4, (cells,) each."""
    projection: int = 16
    """2, (units, cells) and (units,), from the cells to the result; may be absent, then cells are units."""
    output_state: int = 18
    cell_state: int = 19
    norm: int | None = 20
    """4, (cells,) each, the scales of layer normalisation of the gates; may be absent."""

    def check(self, args: Operands, batch: int) -> int:
        """Checks the shapes of the inputs and gives the number of units.

        Raises:
            ShapeError: they do not fit together.
        """
        inputs = args[self.source].shape[-1]
        cells, units = _matrix(args, self.recurrent + 3)
        _expect(args, dict.fromkeys(_span(self.weights, 4), (cells, inputs)))
        _expect(args, dict.fromkeys(_span(self.recurrent, 4), (cells, units)))
        _expect(args, dict.fromkeys((*_span(self.peephole, 3), *_span(self.bias, 4)), (cells,)))
        _expect(args, {self.projection: (units, cells), self.projection + 1: (units,)})
        _expect(args, {self.output_state: (batch, units), self.cell_state: (batch, cells)})
        if self.norm is not None:
            _expect(args, dict.fromkeys(_span(self.norm, 4), (cells,)))
        self._check_auxiliary(args, cells)
        self._check_presence(args)
        if args.get(self.projection) is None and cells != units:
            raise ShapeError(f"{cells} cells without a projection give {cells} units, input {self.recurrent + 3} takes "
                             f"{units}")
        return units

    def _check_presence(self, args: Operands) -> None:
        """Checks that what belongs together is there, or absent, together."""
        def there(position: int) -> bool:
            return args.get(position) is not None

        pairs = [(self.weights, self.recurrent), (self.weights, self.bias)]
        groups = (_span(self.peephole, 3), () if self.norm is None else _span(self.norm, 4), self.auxiliary_weights)
        for first, *others in filter(None, groups):
            pairs += [(each, others[-1]) for each in (others if not there(self.weights) else (first, *others))]
        for one, other in pairs:
            if there(one) != there(other):
                raise ShapeError(f"only one of the inputs {one} and {other} is there")

    def matrices(self) -> tuple[int, ...]:
        return (*_span(self.weights, 4), *_span(self.recurrent, 4), self.projection, *self.auxiliary_weights)

    def vectors(self) -> tuple[int, ...]:
        norm = () if self.norm is None else _span(self.norm, 4)
        return (*_span(self.peephole, 3), *_span(self.bias, 4), self.projection + 1, *norm)

    def optional(self) -> frozenset[int]:
        """The positions that may be absent."""
        required = {*_span(self.weights + 1, 3), *_span(self.recurrent + 1, 3), *_span(self.bias + 1, 3)}
        auxiliary = () if self.auxiliary is None else (self.auxiliary,)
        return frozenset({*self.matrices(), *self.vectors(), *auxiliary} - required)


LSTM = LstmInputs()
FORWARD_LSTM = LstmInputs(output_state=35, cell_state=36, norm=None, auxiliary=39,
                          auxiliary_weights=_span(40, 4))
BACKWARD_LSTM = LstmInputs(weights=18, recurrent=22, peephole=26, bias=29, projection=33, output_state=37,
                           cell_state=38, norm=None, auxiliary=39, auxiliary_weights=_span(44, 4))


@dataclass(frozen=True)
class Recurrent(Op):
    """Base of the recurrent operators."""

    pure: ClassVar[bool] = False
    fused_activation_function: Activation = Activation.NONE
    asymmetric_quantize_inputs: bool = False
    """How float32 inputs meet integer weights: each row is quantised with a zero point of its own, or with none."""


@dataclass(frozen=True)
class LstmBase(Recurrent):
    """Base of the LSTMs. The activation is that of the cell gate and of the cells on their way out."""

    cell_clip: float = 0.0
    """Limits the magnitude of the cells where it is positive."""
    proj_clip: float = 0.0
    """Limits the magnitude of the projected result where it is positive."""


@operator
@dataclass(frozen=True)
class Lstm(LstmBase):
    """One step of an LSTM: (batch, n) gives (batch, units).

    With `kernel_type` 1, a step whose state is passed in and out: inputs x (batch, n), the previous result
    (batch, units), weights (4 * units, n + units), a bias (4 * units,) and the previous cells (batch, units) give the
    result, the cells, x joined with the previous result, and the gates, in the order input, cell, forget, output,
    before their activation.
    """

    name: ClassVar[str] = "LSTM"
    table: ClassVar[str | None] = "LSTMOptions"
    inputs: ClassVar[Count] = between(5, 24)
    results: ClassVar[Count] = between(1, 4)
    optional: ClassVar[frozenset[int]] = LSTM.optional()
    kernel_type: int = 0

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        if self.kernel_type == 1:
            return self._basic(args)
        batch, _ = _matrix(args, 0)
        return ((batch, LSTM.check(args, batch)),)

    def _basic(self, args: Operands) -> tuple[Shape, ...]:
        (batch, inputs), (_, units) = _matrix(args, 0), _matrix(args, 1)
        _expect(args, {1: (batch, units), 2: (4 * units, inputs + units), 3: (4 * units,), 4: (batch, units)})
        return ((batch, units), (batch, units), (batch, inputs + units), (batch, 4 * units))


@operator
@dataclass(frozen=True)
class UnidirectionalSequenceLstm(LstmBase):
    """An LSTM over a sequence: n inputs give `units` results at each time."""

    name: ClassVar[str] = "UNIDIRECTIONAL_SEQUENCE_LSTM"
    table: ClassVar[str | None] = "UnidirectionalSequenceLSTMOptions"
    inputs: ClassVar[Count] = between(20, 24)
    optional: ClassVar[frozenset[int]] = LSTM.optional()
    time_major: bool = False
    diagonal_recurrent_tensors: bool = False
    """The recurrent weights are the diagonals of matrices."""

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        time, batch, _ = _sequence(args, 0, self.time_major)
        return (_ordered(time, batch, LSTM.check(args, batch), self.time_major),)


@dataclass(frozen=True)
class Bidirectional(Recurrent):
    """Base of two networks of which one runs forwards in time, the other backwards.

    An auxiliary sequence, if there is one, is a second input to both where they have auxiliary weights; otherwise the
    backward network reads it instead of the input. `merge_outputs` joins both results in one.
    """

    results: ClassVar[Count] = between(1, 2)
    merge_outputs: bool = False
    time_major: bool = False

    def types(self, args: Operands) -> tuple[DType | None, ...]:
        return (args[0].dtype,) * (1 if self.merge_outputs else 2)

    def _results(self, time: int, batch: int, forward: int, backward: int) -> tuple[Shape, ...]:
        units = (forward + backward,) if self.merge_outputs else (forward, backward)
        return tuple(_ordered(time, batch, each, self.time_major) for each in units)


@operator
@dataclass(frozen=True)
class BidirectionalSequenceLstm(Bidirectional, LstmBase):
    """Two LSTMs over a sequence."""

    name: ClassVar[str] = "BIDIRECTIONAL_SEQUENCE_LSTM"
    table: ClassVar[str | None] = "BidirectionalSequenceLSTMOptions"
    inputs: ClassVar[Count] = exactly(48)
    optional: ClassVar[frozenset[int]] = FORWARD_LSTM.optional() | BACKWARD_LSTM.optional()
    time_major: bool = True

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        time, batch, _ = _sequence(args, 0, self.time_major)
        backward = BACKWARD_LSTM.crossed(lambda k: args.get(k) is not None)
        return self._results(time, batch, FORWARD_LSTM.check(args, batch), backward.check(args, batch))


@dataclass(frozen=True)
class RnnInputs(NetworkInputs):
    """The inputs of a simple recurrent network."""

    weights: int = 1
    """(units, inputs)"""
    recurrent: int = 2
    """(units, units)"""
    bias: int = 3
    state: int = 4
    """(batch, units)"""

    def matrices(self) -> tuple[int, ...]:
        return (self.weights, self.recurrent, *self.auxiliary_weights)

    def vectors(self) -> tuple[int, ...]:
        return (self.bias,)

    def check(self, args: Operands, batch: int) -> int:
        """Checks the shapes of the inputs and gives the number of units.

        Raises:
            ShapeError: they do not fit together.
        """
        units, _ = _matrix(args, self.weights)
        _expect(args, {self.weights: (units, args[self.source].shape[-1]), self.recurrent: (units, units),
                       self.bias: (units,), self.state: (batch, units)})
        self._check_auxiliary(args, units)
        return units


RNN = RnnInputs()
FORWARD_RNN = RnnInputs(auxiliary=9, auxiliary_weights=(10,))
BACKWARD_RNN = RnnInputs(weights=5, recurrent=6, bias=7, state=8, auxiliary=9, auxiliary_weights=(11,))


@operator
@dataclass(frozen=True)
class Rnn(Recurrent):
    """One step of a simple recurrent network: `h = activation(x @ w.T + h @ r.T + b)` of x (batch, n)."""

    name: ClassVar[str] = "RNN"
    table: ClassVar[str | None] = "RNNOptions"
    inputs: ClassVar[Count] = exactly(5)

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        batch, _ = _matrix(args, 0)
        return ((batch, RNN.check(args, batch)),)


@operator
@dataclass(frozen=True)
class UnidirectionalSequenceRnn(Recurrent):
    """A simple recurrent network over a sequence."""

    name: ClassVar[str] = "UNIDIRECTIONAL_SEQUENCE_RNN"
    table: ClassVar[str | None] = "SequenceRNNOptions"
    inputs: ClassVar[Count] = exactly(5)
    time_major: bool = False

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        time, batch, _ = _sequence(args, 0, self.time_major)
        return (_ordered(time, batch, RNN.check(args, batch), self.time_major),)


@operator
@dataclass(frozen=True)
class BidirectionalSequenceRnn(Bidirectional):
    """Two simple recurrent networks over a sequence."""

    name: ClassVar[str] = "BIDIRECTIONAL_SEQUENCE_RNN"
    table: ClassVar[str | None] = "BidirectionalSequenceRNNOptions"
    inputs: ClassVar[Count] = exactly(12)
    optional: ClassVar[frozenset[int]] = frozenset({9, 10, 11})

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        time, batch, _ = _sequence(args, 0, self.time_major)
        backward = BACKWARD_RNN.crossed(lambda k: args.get(k) is not None)
        return self._results(time, batch, FORWARD_RNN.check(args, batch), backward.check(args, batch))


SVDF = RnnInputs()
"""The weights over time take the place of the recurrent ones."""


@operator
@dataclass(frozen=True)
class Svdf(Recurrent):
    """Filters of rank `rank` over the last `memory` inputs: x (batch, n), weights (filters, n), weights over time
    (filters, memory), a bias (units,) or none, and the state (batch, memory * filters).

    Each step appends `x @ weights.T` to the state; a unit sums `rank` filters' products of state and weights over time.
    """

    name: ClassVar[str] = "SVDF"
    table: ClassVar[str | None] = "SVDFOptions"
    inputs: ClassVar[Count] = exactly(5)
    optional: ClassVar[frozenset[int]] = frozenset({3})
    rank: int = 0

    def infer(self, args: Operands) -> tuple[Shape, ...]:
        (batch, inputs), (filters, memory) = _matrix(args, 0), _matrix(args, 2)
        if self.rank < 1 or filters % self.rank:
            raise ShapeError(f"{filters} filters do not divide into units of rank {self.rank}")
        units = filters // self.rank
        _expect(args, {1: (filters, inputs), 3: (units,), 4: (batch, memory * filters)})
        return ((batch, units),)
