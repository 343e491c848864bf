"""Native rules of products of float32 rows with int8 weights, equal to the bit to the numpy backend's.

Each row, or image, is quantised to int8 as it is staged; the sums are scaled back in single precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import dropwhile
from math import inf, prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from circlet.backends.arithmetic.quantization import unpack_int4
from circlet.backends.native.emit.emitter import I8, I32, POINTER, Emitter
from circlet.backends.native.emit.lanes import DOUBLE, SINGLE, Lanes
from circlet.backends.native.emit.loops import carry, independent, rolled
from circlet.backends.native.emit.positions import Index
from circlet.backends.native.emit.value import Value
from circlet.backends.native.gemm.functions import VectorLoop, internal_function
from circlet.backends.native.gemm.grouped import ALONE, Group, each_group
from circlet.backends.native.gemm.microkernel import lanes
from circlet.backends.native.gemm.operands import Block, Collected, Left, Put
from circlet.backends.native.gemm.vectors import WORD, Vectors, broadcast
from circlet.backends.native.rules.figures.figure import quantization
from circlet.backends.native.rules.function import Function, Made
from circlet.backends.native.rules.preferences import HYBRID
from circlet.backends.native.rules.quantized.conv import Taps, images
from circlet.backends.native.rules.quantized.fully_connected import (
    PAIRS,
    Form,
    Source,
    constant,
    each_element,
    form_of,
    known,
    multiply_integers,
    round_half_away,
    rows_of,
    stage,
)
from circlet.backends.native.rules.quantized.wide import bits_of, many_taps, window_sums
from circlet.backends.native.rules.quantized.zero_point import zero_point
from circlet.backends.native.rules.real.elementwise import activate
from circlet.backends.native.rules.refusals import constant_inputs
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.native.targets.target import Goal
from circlet.backends.refusal import Refusal, all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, Array, DType, Shape
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D
from circlet.runtime.ops.matmul import BatchMatMul, FullyConnected
from circlet.runtime.records import dataclass

_SCALE, _INVERSE, _ZERO, _MOVED = range(4)
"""What is kept of each row, a word each: its scale, what elements are multiplied by, and its zero point, as a float
and as the integer that it is once bytes are unsigned."""
_CHAINS = 4
"""Vectors that are compared at a time, so that comparisons need not wait for each other. Of 1, 2, 4 and 8 for rows of
512 and 4096 it is the best or within 4 %; 1 takes up to 11 % longer on AVX2."""
LONGEST = 1 << 15
"""Elements of a row of which the sums of products fit into 32 bits: 2 ** 15 times 255 times 128 is just below 2 **
30."""

Place: TypeAlias = Callable[[Emitter, ir.Value], ir.Value]
"""From the number of a row to that of the row that is staged as this one."""
OfRow: TypeAlias = Callable[[Emitter, ir.Value], Callable[[ir.Value, ir.Value], ir.Value]]
"""From a row, to a function from a column and its sum, to the result."""
Rescale: TypeAlias = Callable[[Lanes, Lanes, Lanes], Lanes]
"""From a sum, the scale of its column of weights and that of its row to a result."""


def staged(function: Function, form: Form, value: Value, size: int, asymmetric: bool,
           place: Place | None = None) -> tuple[Source, ir.Value]:
    """Rows or images of `size` elements as integers, and where their parameters will be: four words for each, found
    when its staging begins, before any of its elements is quantised. With a `place`, rows are in another order, each a
    run."""
    memory, rows = function.pointer(value), value.size // max(size, 1)
    parameters = function.reserve(rows * 4 * WORD)

    def position_of(e: Emitter, row: ir.Value) -> ir.Value:
        return e.builder.mul(row if place is None else place(e, row), e.number(size))

    def begin(e: Emitter, row: ir.Value) -> ir.Value:
        source = e.address(memory, SINGLE, position_of(e, row))
        mine = _of_row(e, parameters, row)
        e.builder.call(_measuring(e, form, asymmetric), [source, e.number(size), mine])
        return e.builder.trunc(e.load(mine, DType.INT32, _MOVED), form.element)

    def run(e: Emitter, row: ir.Value, position: ir.Value, target: ir.Value, count: ir.Value | int) -> None:
        source = e.address(memory, SINGLE, position if place is None else position_of(e, row))
        e.builder.call(_quantizing(e, form), [source, e.register(count), _of_row(e, parameters, row), target])

    return Source(begin, run), parameters


def centred_rows(function: Function, value: Value, size: int) -> tuple[Source, ir.Value]:
    """`staged` as pairs, so that int8 is used up, of elements from which the zero point of their row is taken off."""
    source, parameters = staged(function, PAIRS, value, size, True)

    def run(e: Emitter, row: ir.Value, position: ir.Value, target: ir.Value, count: ir.Value | int) -> None:
        source.run(e, row, position, target, count)
        zero = e.builder.trunc(e.load(_of_row(e, parameters, row), DType.INT32, _MOVED), PAIRS.element)
        each_element(e, PAIRS, target, count,
                     lambda k: e.builder.sub(e.load(target, DType.INT16, k), zero))

    def begin(e: Emitter, row: ir.Value) -> ir.Value:
        source.begin(e, row)
        return PAIRS.constant(0)

    return Source(begin, run), parameters


def _of_row(e: Emitter, parameters: ir.Value, row: ir.Value) -> ir.Value:
    """Where the parameters of a row are."""
    return e.address(parameters, I32, e.builder.mul(row, e.number(4)))


def parameters_of(e: Emitter, parameters: ir.Value, row: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The scale of a row and its zero point, moved as its elements are."""
    mine = _of_row(e, parameters, row)
    return e.load(mine, DType.FLOAT32, _SCALE), e.load(mine, DType.INT32, _MOVED)


def _measuring(e: Emitter, form: Form, asymmetric: bool) -> ir.Function:
    """`void(source, count, parameters)`: finds the parameters of a row of `count` floats, by its extremes, and stores
    them."""
    name = f"measure_{'asymmetric' if asymmetric else 'symmetric'}{'' if form.offset else '_signed'}"
    function, inner = _function(e, name, [POINTER, e.index, POINTER])
    if inner is None:
        return function
    source, count, parameters = function.args
    low, high, mark = _range(inner, source, count)
    find = _asymmetric if asymmetric else _symmetric
    scale, inverse, zero = find(low, high)
    moved = Lanes(inner, inner.builder.fptosi(zero.value, I32)) + form.offset
    for place, value in ((_SCALE, scale + mark), (_INVERSE, inverse), (_ZERO, zero), (_MOVED, moved)):
        inner.builder.store(value.value, inner.address(parameters, I32, place))
    inner.builder.ret_void()
    return function


def _function(e: Emitter, name: str, kinds: Sequence[ir.Type]) -> tuple[ir.Function, Emitter | None]:
    """The function of a name, and what writes it if nothing has."""
    if name in e.module.globals:
        return e.module.globals[name], None
    function = internal_function(e, name, kinds, VectorLoop)
    return function, Emitter(e.module, function, e.target)


def _range(e: Emitter, source: ir.Value, count: ir.Value) -> list[Lanes]:
    """The least and the greatest of zero and `count` floats, and what is zero unless one of them is not finite; then
    it is NaN."""
    b, width = e.builder, lanes(e.target)
    vectors = Vectors(e, SINGLE, width)

    def extended(values: Sequence[ir.Value], found: ir.Value) -> list[ir.Value]:
        x, low, high, mark = (Lanes(e, each) for each in (found, *values))
        return [each.value for each in (_least(x, low), _greatest(x, high), x.fma(0.0, mark))]

    def several(number: ir.Value, values: list[ir.Value]) -> list[ir.Value]:
        begin = e.address(source, SINGLE, b.mul(number, e.number(_CHAINS * width)))
        return [each for k in range(_CHAINS)
                for each in extended(values[3 * k:3 * k + 3], vectors.load(vectors.address(begin, k * width * WORD)))]

    def one(number: ir.Value, values: list[ir.Value]) -> list[ir.Value]:
        place = b.add(done, b.mul(number, e.number(width)))
        return extended(values, vectors.load_some(e.address(source, SINGLE, place), b.sub(count, place)))

    often = b.udiv(count, e.number(_CHAINS * width))
    values = carry(e, often, [vectors.splat(0)] * (3 * _CHAINS), several)
    done = b.mul(often, e.number(_CHAINS * width))
    left = b.udiv(b.add(b.sub(count, done), e.number(width - 1)), e.number(width))
    values = [*carry(e, left, values[:3], one), *values[3:]]
    combinations = ((_least, "fmin"), (_greatest, "fmax"), (Lanes.__add__, "fadd"))
    return [_over_lanes(reduce(combine, [Lanes(e, each) for each in values[k::3]]), name)
            for k, (combine, name) in enumerate(combinations)]


def _least(one: Lanes, other: Lanes) -> Lanes:
    """The lesser lanes of two."""
    return (one < other).where(one, other)


def _greatest(one: Lanes, other: Lanes) -> Lanes:
    """The greater lanes of two."""
    return (one > other).where(one, other)


def _over_lanes(value: Lanes, name: str) -> Lanes:
    """All lanes combined by one of LLVM's reductions; the extremes of numbers, none of which is NaN."""
    e, kind = value.e, value.value.type
    start = [ir.Constant(SINGLE, 0.0)] if name == "fadd" else []
    function = e.declare(f"llvm.vector.reduce.{name}.v{kind.count}f32",
                         ir.FunctionType(SINGLE, [*(each.type for each in start), kind]))
    flags = ("reassoc",) if name == "fadd" else ("nnan",)
    return Lanes(e, e.builder.call(function, [*start, value.value], fastmath=flags))


def _symmetric(low: Lanes, high: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """The scale, its inverse and the zero point where 127 is the greatest magnitude: TFLite's
    `SymmetricQuantizeFloats`."""
    bound = _greatest(-low, high)
    bound = bound.unless((127.0 / bound).equals(inf), 127.0)
    return bound / 127.0, 127.0 / bound, bound.constant(0.0)


def _asymmetric(low: Lanes, high: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """The same where all of int8 is used, and zero is represented exactly: TFLite's `AsymmetricQuantizeFloats`. A 255th
    is the same whether or not double precision is on the way (Figueroa, When is double rounding innocuous?, 1995)."""
    span = high - low
    if not low.e.target.has_doubles:
        span = span.unless((1.0 / (span / 255.0)).equals(inf), 255.0)
        number = zero_point(low.e, low.value, high.value, span.value)
        return span / 255.0, 1.0 / (span / 255.0), Lanes(low.e, number).to_real(SINGLE)
    inverse = 1.0 / (span.widen(DOUBLE) / 255.0).narrow(SINGLE)
    exact = span.unless(inverse.equals(inf), 255.0).widen(DOUBLE) / 255.0
    scale = exact.narrow(SINGLE)
    below, above = (each.widen(DOUBLE) / exact for each in (low, high))
    is_nearer = (-below + 128.0) < (above + 127.0)
    nearest = round_half_away(is_nearer.where(-below - 128.0, -above + 127.0))
    return scale, 1.0 / scale, _within(nearest).narrow(SINGLE)


def _within(value: Lanes) -> Lanes:
    """Clamped to int8; NaN becomes the least."""
    return (value > -128.0).where(value, -128.0).at_most(127.0)


def _quantizing(e: Emitter, form: Form) -> ir.Function:
    """`void(source, count, parameters, target)`: quantises `count` floats of a row to elements of a form, a vector of
    floats at a time, then one by one."""
    name = f"quantise_floats_{form.element.width}{'' if form.offset else 's'}"
    function, inner = _function(e, name, [POINTER, e.index, POINTER, POINTER])
    if inner is None:
        return function
    b, width = inner.builder, lanes(e.target)
    source, count, parameters, target = function.args
    target.add_attribute("noalias")
    inverse, zero = (inner.load(parameters, DType.FLOAT32, each) for each in (_INVERSE, _ZERO))

    def write(place: ir.Value, size: int) -> None:
        single, whole = ((ir.VectorType(each, size) if size > 1 else each) for each in (SINGLE, I32))
        factor, moved = (Lanes(inner, broadcast(inner, each, size) if size > 1 else each) for each in (inverse, zero))
        x = Lanes(inner, b.load(inner.address(source, SINGLE, place), typ=single, align=WORD))
        stored = _within(round_half_away(x * factor) + moved)
        element = (Lanes(inner, b.fptosi(stored.value, whole)) + form.offset).narrow(form.element)
        b.store(element.value, inner.address(target, form.element, place), align=form.size)

    full = b.udiv(count, inner.number(width))
    begin = b.mul(full, inner.number(width))
    with rolled(inner, full) as k:
        write(b.mul(k, inner.number(width)), width)
    with rolled(inner, b.sub(count, begin)) as k:
        write(b.add(begin, k), 1)
    b.ret_void()
    return function


@dataclass(frozen=True, eq=False)
class Scaling:
    """How the sums of quantised rows become floats.

    Attributes:
        function: where.
        weights: int8, of shape (columns, ...).
        scales: that of each column, or one.
        bias: of each column; none is zero.
        parameters: those of the rows.
        activation: is applied last; it clamps.
        is_centred: whether rows are stored around zero.
    """

    function: Function
    weights: Array
    scales: npt.NDArray[np.float32]
    bias: Array | None
    parameters: ir.Value
    activation: Activation
    is_centred: bool = False

    def rows(self, rescale: Rescale) -> OfRow:
        """How the sums of a quantised row become results: the zero point times the sum of the column's weights is taken
        off, the rest rescaled, the bias added, and the activation applied."""
        columns = len(self.weights)
        total = self.weights.sum(axis=tuple(range(1, self.weights.ndim)), dtype=np.int32)
        bias = np.zeros(1, np.float32) if self.bias is None else self.bias.reshape(-1)
        is_short = self.function.e.target.goal is not Goal.HERE and np.array_equal(total, total.astype(np.int16))
        kind = DType.INT16 if is_short else DType.INT32
        totals = None if self.is_centred else self.function.external(total.astype(kind.numpy))
        bias_of, factor_of = (self._by_column(each, columns) for each in (bias, self.scales))

        def of_row(e: Emitter, row: ir.Value) -> Callable[[ir.Value, ir.Value], ir.Value]:
            b, mine = e.builder, _of_row(e, self.parameters, row)
            zero, scale = e.load(mine, DType.INT32, _MOVED), Lanes(e, e.load(mine, DType.FLOAT32, _SCALE))

            def result(column: ir.Value, value: ir.Value) -> ir.Value:
                if totals is not None:
                    weighted = e.load(totals, kind, column)
                    value = b.sub(value, b.mul(zero, b.sext(weighted, I32) if is_short else weighted))
                factor, each = (Lanes(e, load(e, column)) for load in (factor_of, bias_of))
                found = rescale(Lanes(e, value).to_real(SINGLE), factor, scale) + each
                return activate(e, found.value, DType.FLOAT32, self.activation)

            return result

        return of_row

    def _by_column(self, numbers: npt.NDArray[np.float32], columns: int) -> Callable[[Emitter, ir.Value], ir.Value]:
        """What loads one of the numbers of columns, or gives the only one."""
        is_one = len(numbers) == 1 and (columns == 1 or self.function.e.target.goal is not Goal.HERE)
        if is_one:
            return lambda e, column: e.constant(numbers[0], DType.FLOAT32)
        memory = self.function.external(np.broadcast_to(numbers, (columns,)).copy())
        return lambda e, column: e.load(memory, DType.FLOAT32, column)


def refuses_types(*kinds: DType, data: int = 0, bias: int = 2) -> Refusal:
    """Refuses all but input `data` of float32, weights of some types and a bias that are constant, and activations that
    do not clamp."""
    return all_of(only((DType.FLOAT32,), data), only(kinds, 1), constant_inputs(1, bias), _other_activation)


def long_filters(call: Call) -> str | None:
    """Refuses rows that make sums too large."""
    return _too_long(prod(call.input(1).shape[1:]))


def _too_long(depth: int) -> str | None:
    """Refuses so many products in a sum."""
    return None if depth <= LONGEST else f"rows of {depth} weights (supported: up to {LONGEST})"


def _other_activation(call: Call) -> str | None:
    """Refuses activations that do not clamp."""
    found = getattr(call.op, "fused_activation_function", Activation.NONE)
    return f"fused activation {found.name}" if found >= Activation.TANH else None


def _matrix(tensor: Tensor) -> Array:
    """Constant weights as int8; unsigned ones are signed in truth."""
    assert tensor.data is not None, "the rule refuses other weights"
    return unpack_int4(tensor.data, tensor.shape) if tensor.dtype is DType.INT4 else tensor.data.view(np.int8)


@nest(FullyConnected, all_of(refuses_types(DType.INT8, DType.UINT8, DType.INT4), long_filters), name=HYBRID)
def fully_connected(node: Node[FullyConnected], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., k), float32, and weights (n, k) of 8 or 4 bits: (..., n), float32."""
    _multiply_rows(node, e, sinks[0], _matrix(node.call.input(1)))


def _other_matrices(call: Call) -> str | None:
    """Refuses matrices of weights that are neither one nor one for each along the last axes of x, columns that make
    sums too large, and a transposed x."""
    assert isinstance(call.op, BatchMatMul)
    x, y = (call.input(each).shape for each in (0, 1))
    if call.op.adj_x:
        return "x is transposed"
    own = _of_each(y)
    if own and (x[:-2][-len(own):] != own or 0 in own):
        return f"matrices of weights {y[:-2]} for others {x[:-2]} (supported: 1, or as many along the last axes)"
    return _too_long(y[-1 if call.op.adj_y else -2])


def _of_each(y: Shape) -> Shape:
    """The axes along which each of several matrices is another one."""
    return tuple(dropwhile(lambda size: size == 1, y[:-2]))


@nest(BatchMatMul, all_of(refuses_types(DType.INT8), _other_matrices), name=HYBRID)
def batch_matmul(node: Node[BatchMatMul], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., m, k), float32, and matrices y (k, n) or, transposed, (n, k) of int8: (..., m, n), float32. There is
    one, or one for each along the last axes of x."""
    matrices = constant(node.input(1))
    weights = matrices if node.op.adj_y else matrices.swapaxes(-1, -2)
    _multiply_rows(node, e, sinks[0], np.ascontiguousarray(weights).reshape(-1, weights.shape[-1]),
                   _of_each(matrices.shape))


def _multiply_rows(node: Node[Any], e: Emitter, sink: Sink, weights: Array, own: Shape = ()) -> None:
    """Of x (..., k), float32, and weights (n, k): (..., n), float32. Each row is quantised as it is staged; sums are
    multiplied by the scales of row and column. Of several matrices, one below the other, each is multiplied by the rows
    that have its place along the axes `own`, the last ones but that of rows: these are staged one behind the other."""
    function, count = node.function, prod(own)
    among = node.shape[:len(node.shape) - 2 - len(own)]
    outer = (*among, node.shape[-2]) if own else node.shape[:-1]
    rows, columns = prod(outer), len(weights) // count
    depth, form = weights.shape[1], form_of(e.target, rows, weights)

    def place(e: Emitter, row: ir.Value) -> ir.Value:
        number, first, last = e.delinear(row, (count, prod(among), node.shape[-2]))
        return e.linear([first, number, last], (prod(among), count, node.shape[-2]))

    source, parameters = staged(function, form, node.input(0), depth, node.op.asymmetric_quantize_inputs,
                                place if own and among else None)
    memory = stage(function, form, (count * rows, 1, 1, depth), source)
    scaling = _scaling(node, weights, parameters, not (form.offset or node.op.asymmetric_quantize_inputs))
    of_row = scaling.rows(by_product)
    with each_group(e, count) as group:
        before, first = group.begin(e, rows), group.begin(e, columns)
        matrix = e.delinear(group.number, own) if group.number is not None else []

        def take(e: Emitter, row: ir.Value, column: ir.Value, value: ir.Value) -> None:
            *index, last = e.delinear(row, outer)
            sink(e, [*index, *matrix, last, e.builder.sub(column, first) if matrix else column], value)

        def of_own(e: Emitter, row: ir.Value) -> Callable[[ir.Value, ir.Value], ir.Value]:
            return of_row(e, e.builder.add(before, row) if matrix else row)

        left = rows_of(function, form, group.address(e, memory, I8, rows * depth * form.size), depth)
        multiply_scaled(scaling, form, rows, left, weights[:, None], of_own, take, bits_of(node.call.input(1)), group)


def _scaling(node: Node[Any], weights: Array, parameters: ir.Value, is_centred: bool = False) -> Scaling:
    """How the sums of a call on input, weights and bias become floats."""
    scales = np.array(quantization(node.call.input(1)).scales, np.float32)
    scales = np.tile(scales, len(weights) // len(scales)) if len(scales) > 1 else scales
    return Scaling(node.function, weights, scales, known(node.optional(2)), parameters,
                   getattr(node.op, "fused_activation_function", Activation.NONE), is_centred)


def by_product(value: Lanes, factor: Lanes, scale: Lanes) -> Lanes:
    """The usual way from a sum to a result."""
    return value * (scale * factor)


def multiply_scaled(scaling: Scaling, form: Form, rows: int, left: Left, weights: Array, of_row: OfRow,
                    take: Put, bits: int = 8, group: Group = ALONE) -> None:
    """Emits a product of rows with the weights (columns, taps, elements) of a group, of so many bits in the model, and
    passes its scaled results on, tile by tile.

    What belongs to a row is read before its columns: they would else be thought to overwrite it.
    """
    def collect(e: Emitter, block: Block) -> None:
        with rolled(e, block.rows) as k:
            row = e.builder.add(block.row, k)
            sums = e.address(block.memory, I32, e.builder.mul(k, e.number(block.step)))
            result = of_row(e, row)
            begin = block.column if group.number is None else e.builder.add(block.column, first)
            with independent(e, block.columns, lanes(e.target)) as each:
                column = e.builder.add(begin, each)
                take(e, row, column, result(column, e.load(sums, DType.INT32, each)))

    first = group.begin(scaling.function.e, len(weights) // group.count)
    none = Made.fixed(np.zeros(len(weights), np.int32))
    multiply_integers(scaling.function, form, rows, left, Made.fixed(weights), none,
                      lambda plan, scratch: Collected(scratch, collect), bits, group)


@nest(Conv2D, all_of(refuses_types(DType.INT8), long_filters), name=HYBRID)
def conv_2d(node: Node[Conv2D], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of images (n, h, w, c), float32, and a filter (o, kh, kw, c / groups), int8: (n, i, j, o), float32. An image is
    quantised around 0 where the filter has one scale, else so that int8 is used up; each group is a product."""
    image, weights, function = node.input(0), constant(node.input(1)), node.function
    form = form_of(e.target, prod(node.shape[:-1]), weights)
    shape = images(image)
    taps = Taps(form, shape, node.op.windows(shape, weights.shape), weights.shape[3])
    symmetric = not quantization(node.call.input(1)).per_axis
    source, parameters = staged(function, form, image, prod(shape[1:]), not symmetric)
    memory = stage(function, form, shape, source, taps.margins)
    scaling = _scaling(node, weights, parameters, symmetric and not form.offset)

    def rescale(value: Lanes, factor: Lanes, scale: Lanes) -> Lanes:
        return value * (scale * factor) if symmetric else value * factor * scale

    def take(e: Emitter, row: ir.Value, column: ir.Value, value: ir.Value) -> None:
        sinks[0](e, [*e.delinear(row, node.shape[:-1]), column], value)

    def of_row(e: Emitter, row: ir.Value) -> Callable[[ir.Value, ir.Value], ir.Value]:
        return of_image(e, e.delinear(row, node.shape[:-1])[0])

    of_image, left = scaling.rows(rescale), taps.left(function, memory)
    with each_group(e, taps.groups) as group:
        multiply_scaled(scaling, form, prod(node.shape[:-1]), taps.of(e, left, group), taps.runs(weights), of_row, take,
                        group=group)


@nest(DepthwiseConv2D, all_of(refuses_types(DType.INT8), long_filters, many_taps), name=HYBRID)
def depthwise_conv_2d(node: Node[DepthwiseConv2D], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of images (n, h, w, c), float32, and a filter (1, kh, kw, c m), int8: (n, i, j, c m), float32. An image is
    quantised so that int8 is used up."""
    image, weights, function = node.input(0), constant(node.input(1))[0], node.function
    source, parameters = staged(function, PAIRS, image, prod(image.shape[1:]), True)
    of_image = _scaling(node, weights.reshape(-1, weights.shape[2]).T, parameters).rows(by_product)

    def put(e: Emitter, index: Index, total: ir.Value) -> None:
        sinks[0](e, index, of_image(e, index[0])(index[3], total))

    window_sums(node, e, source, weights.astype(np.int16), put)
