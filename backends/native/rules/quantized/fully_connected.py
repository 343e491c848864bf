"""Products of int8 rows with constant int8 weights, by the processor's dot products of four bytes.

Those of most processors take one factor unsigned: the activations are moved up by 128 on their way into scratch memory,
and what that and their zero point add to each sum, a multiple of the sum of the weights, is part of what the sums start
with. Processors without such dot products have some of two 16-bit integers; for these both factors are kept that wide,
unless constants are to be small: then signed bytes are multiplied where they lie, whatever it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from math import gcd, prod
from typing import TypeAlias

import numpy as np
from llvmlite import ir

from circlet.backends.arithmetic.fixed_point import Int32s, quantized_range
from circlet.backends.native.emit.emitter import I8, I32, POINTER, Emitter, register_type
from circlet.backends.native.emit.lanes import DOUBLE, Lanes
from circlet.backends.native.emit.loops import independent
from circlet.backends.native.emit.parallel import parallel
from circlet.backends.native.emit.value import Value
from circlet.backends.native.gemm.dot_products import OFFSET, dot, dot_of_bytes, dot_of_magnitudes, dot_of_pairs
from circlet.backends.native.gemm.functions import VectorLoop, internal_function
from circlet.backends.native.gemm.grouped import ALONE, Group
from circlet.backends.native.gemm.matrix_tile import by_matrices
from circlet.backends.native.gemm.microkernel import Arithmetic, lanes
from circlet.backends.native.gemm.operands import Filtered, Grid, Left, Put, Result
from circlet.backends.native.gemm.plan import CACHE, Plan
from circlet.backends.native.gemm.product import multiply
from circlet.backends.native.gemm.stored import Integers
from circlet.backends.native.gemm.vectors import WORD
from circlet.backends.native.rules.figures.figure import (
    Figure,
    figured,
    looking_at,
    quantization,
    real,
    real_number,
    stored,
)
from circlet.backends.native.rules.function import Function, Made
from circlet.backends.native.rules.preferences import INT8
from circlet.backends.native.rules.quantized.double_scale import Factors
from circlet.backends.native.rules.quantized.requantize import SHORT_SUMS_BELOW, SUMS_BELOW
from circlet.backends.native.rules.refusals import constant_inputs, largest, outputs_only, sums_below
from circlet.backends.native.rules.rule import Node, Sink, nest
from circlet.backends.native.targets.target import Goal, Target
from circlet.backends.refusal import all_of, only
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.length import is_length, may_be_less, may_differ
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, Array, DType, Shape
from circlet.runtime.ops.matmul import FullyConnected
from circlet.runtime.records import dataclass, replace

I16 = ir.IntType(16)
"""An element of pairs."""
OVERRUN = 64
"""Bytes behind activations that may be read, and multiplied by zero: those of the widest vector register."""
_PARTS = 64
"""How many runs an image without margins is cut into, if they can be equally long, so that threads can share them out:
as `parallel._ENOUGH`."""
_RUN_BYTES = 1 << 12
"""Of a run where how many there are is open: a choice, a fraction of a first-level cache."""
_LOST = 2.0**-33
"""Multipliers of sums that are smaller are 0 as quantised ones, whatever they are rounded to before."""
_RUN_ROWS = 16
"""Pixels of a run where their channels are open too; a choice."""
_FEWEST_ROWS, _SHORTEST_RUN = 8, 32
"""Half of the rows of a matrix, and half of their bytes: a choice."""

Run: TypeAlias = Callable[[Emitter, ir.Value, ir.Value, ir.Value, ir.Value | int], None]
"""Writes elements of a tensor: given the image, the position in row-major order, where to, and how many."""


@dataclass(frozen=True, eq=False)
class Source:
    """A tensor as unsigned elements of a form.

    Attributes:
        begin: prepares an image, given its number; gives the element that stands for zero.
        run: writes elements.
    """

    begin: Callable[[Emitter, ir.Value], ir.Value]
    run: Run


@dataclass(frozen=True)
class Form:
    """What the factors of a product are kept as.

    Attributes:
        arithmetic: multiplies words.
        element: the type of an element, of which a word holds several.
        taken: what is subtracted from elements of the left factor before they are multiplied.
        offset: what is added to stored activations; the elements are unsigned but for 0.
    """

    arithmetic: Arithmetic
    element: ir.IntType
    taken: int = 0
    offset: int = OFFSET

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return int(self.element.width) // 8

    def constant(self, value: int) -> ir.Constant:
        """An element as a constant."""
        return ir.Constant(self.element, value)

    def run(self, count: int) -> int:
        """The bytes that a run of so many elements takes in a product: whole words."""
        return -(-count * self.size // WORD) * WORD

    def depth(self, shape: Shape) -> int:
        """Words for a column of weights of shape (columns, taps, elements)."""
        return shape[1] * self.run(shape[2]) // WORD

    def words(self, weights: Array) -> Array:
        """Weights of shape (columns, taps, elements) as words (columns, depth)."""
        columns, taps, count = weights.shape
        padded = np.zeros((columns, taps, self.run(count) // self.size), f"i{self.size}")
        padded[..., :count] = weights
        return padded.view(np.int32).reshape(columns, taps * (self.run(count) // WORD))


BYTES = Form(Arithmetic("u8s8", I32, I32, dot, align=1), I8)
"""Words of four unsigned bytes times words of four signed ones."""
PAIRS = Form(Arithmetic("s16s16", I32, I32, dot_of_pairs, align=1, spare=1), I16)
"""Words of two signed 16-bit integers."""


MAGNITUDES = Form(Arithmetic("s8s8", I32, I32, dot_of_magnitudes, align=1, spare=1), I8, taken=OFFSET)
"""Words of four unsigned bytes, made signed, times words of four signed ones that are at least -127."""


SIGNED = Form(Arithmetic("s8s8d", I32, I32, dot_of_bytes, align=1, spare=1), I8, offset=0)
"""Words of four signed bytes, as tensors have them."""


def form_of(target: Target, rows: int, weights: Array) -> Form:
    """What is fastest for a product of so many rows with weights. Where bytes are multiplied by halves, it is better to
    take them apart once, beforehand; but a single row waits for its weights, so these stay short."""
    if target.dot_bytes(lanes(target)) is not None:
        return BYTES
    if target.goal is not Goal.HERE:
        return SIGNED
    has_magnitudes = target.dot_magnitudes(lanes(target)) is not None and weights.min(initial=0) >= -127
    if not may_differ(rows, 1):
        return MAGNITUDES if has_magnitudes else BYTES
    return PAIRS


def rows_as_taps(call: Call) -> Made:
    """Weights (columns, k) as of one tap: (columns, 1, k)."""
    return Made(call, lambda call: stored_data(call.input(1))[:, None])


def zero_point(call: Call) -> int:
    """That of the first input."""
    return quantization(call.input(0)).zero_point


def first_of(call: Call, form: Form, zero_point: Callable[[Call], int]) -> Made:
    """What the sum of each column of an operator's weights starts with."""
    return Made(call, lambda call: start(stored_data(call.input(1)), zero_point(call),
                                         call.input(2).data if call.has(2) else None, form.offset))


def start(weights: Array, zero_point: int, bias: Array | None, offset: int = OFFSET) -> Int32s:
    """What the sum of each column of weights (columns, ...) starts with, where so much is added to activations."""
    moved = weights.sum(axis=tuple(range(1, weights.ndim)), dtype=np.int64) * (offset + zero_point)
    begin: Int32s = ((0 if bias is None else bias.reshape(-1)) - moved).astype(np.int32)
    return begin


def each_element(e: Emitter, form: Form, target: ir.Value, count: ir.Value | int,
                 make: Callable[[ir.Value], ir.Value]) -> None:
    """Writes a run of elements, each made from its number."""
    with independent(e, count) as k:
        e.builder.store(make(k), e.address(target, form.element, k))


def unsigned(function: Function, form: Form, value: Value, zero_point: int) -> Source:
    """The stored values of an int8 tensor, moved up by what the form says: vector by vector where it lies in memory,
    else as they are computed."""
    memory = None if value.memory is None and value.flat else function.pointer(value)

    def run(e: Emitter, image: ir.Value, position: ir.Value, target: ir.Value, count: ir.Value | int) -> None:
        if memory is not None and not form.offset:
            e.copy(target, e.address(memory, I8, position), count)
            return
        if memory is not None:
            e.builder.call(_unsigned(e, form), [e.address(memory, I8, position), target, e.register(count)])
            return
        each_element(e, form, target, count,
                     lambda k: _moved(e, form, value.linear(e, e.builder.add(position, k))))

    return Source(lambda e, image: form.constant(zero_point + form.offset), run)


def placed(function: Function, form: Form, value: Value, zero_point: int, image: Shape, run: int,
           margins: Sequence[tuple[int, int]] = ((0, 0), (0, 0))) -> ir.Value:
    """Where an int8 tensor lies as elements of a form: where it is, if that will do for products of runs of so many
    elements, else staged; `image` and `margins` as for `stage`."""
    if form is SIGNED and value.memory is not None:
        has_margins = may_differ(sum(map(sum, margins)), 0)
        if not has_margins and not may_differ(form.run(run), run):
            return value.memory
    return stage(function, form, image, unsigned(function, form, value, zero_point), margins)


def _moved(e: Emitter, form: Form, value: ir.Value) -> ir.Value:
    """A byte, moved up by the form's offset, as an element."""
    if not form.offset:
        return value
    moved = e.builder.xor(value, ir.Constant(I8, -OFFSET))
    return moved if form.element is I8 else e.builder.zext(moved, form.element)


def _unsigned(e: Emitter, form: Form) -> ir.Function:
    """`void(source, target, count)`: makes int8 unsigned elements, bytes or pairs' halves, a vector at a time."""
    name = f"make_unsigned_{form.element.width}"
    if name in e.module.globals:
        return e.module.globals[name]
    function = internal_function(e, name, [POINTER, POINTER, e.index], VectorLoop)
    inner = Emitter(e.module, function, e.target)
    b, (source, target, count) = inner.builder, function.args
    with independent(inner, count) as k:
        value = b.load(inner.address(source, I8, k), typ=I8)
        b.store(_moved(inner, form, value), inner.address(target, form.element, k))
    b.ret_void()
    return function


def stage(function: Function, form: Form, image: Shape, source: Source,
          margins: Sequence[tuple[int, int]] = ((0, 0), (0, 0))) -> ir.Value:
    """Scratch memory filled with images of shape (n, h, w, c), with as many zeros before and after h and w as `margins`
    says: loops over n and over rows, both shared out, write a run of w c elements each."""
    e, b = function.e, function.e.builder
    (top, bottom), (left, right) = margins
    images, height, across, channels = image
    has_margins = may_differ(top + bottom + left + right, 0)
    if not has_margins and is_length(height * across):
        return _stage_runs(function, form, (images, height * across, channels), source)
    if not has_margins:
        parts = gcd(height * across, _PARTS)
        height, across = parts, height * across // parts
    high, wide = top + height + bottom, left + across + right
    size, count = high * wide * channels, across * channels
    memory = function.reserve(images * size * form.size + OVERRUN)
    with parallel(e, images, 2 * images * size) as number:
        zero = source.begin(e, number)
        if may_be_less(height * count, size):
            begin = e.address(memory, form.element, b.mul(number, e.number(size)))
            each_element(e, form, begin, size, lambda k: zero)
        with parallel(e, height, 2 * size) as row:
            position = e.linear([number, row, e.number(0)], (images, height, count))
            place = [number, b.add(row, e.number(top)), e.number(left * channels)]
            target = e.address(memory, form.element, e.linear(place, (images, high, wide * channels)))
            source.run(e, number, position, target, count)
    return memory


def _stage_runs(function: Function, form: Form, shape: tuple[int, int, int], source: Source) -> ir.Value:
    """`stage` of images (n, pixels, c) without margins, of which a run has so many pixels, the last one what is
    left."""
    e, b = function.e, function.e.builder
    images, pixels, channels = shape
    some = _RUN_ROWS if is_length(channels) else max(_RUN_BYTES // max(channels, 1), 1)
    size = pixels * channels
    memory = function.reserve(images * size * form.size + OVERRUN)
    with parallel(e, images, 2 * images * size) as number:
        source.begin(e, number)
        with parallel(e, -(-pixels // some), 2 * size) as run:
            first = b.mul(run, e.number(some))
            count = e.intrinsic("smin", b.sub(e.number(pixels), first), e.number(some))
            position = e.linear([number, first, e.number(0)], shape)
            target = e.address(memory, form.element, position)
            source.run(e, number, position, target, b.mul(count, e.number(channels)))
    return memory


def kept_as(form: Form, target: Target, weights: Array, bits: int) -> Integers | None:
    """How weights, of so many bits in the model, are kept if not as words of a form: where constants are to be small,
    in as many bits as in the model."""
    parts = WORD // form.size
    is_kept = target.goal is not Goal.HERE and (parts, bits) != (WORD, 8)
    return Integers.of(parts, bits, weights) if is_kept else None


def _as_bytes(form: Form, rows: int, weights: Array) -> Integers | None:
    """Weights as the bytes that they are in the model, of which tiles make pairs: where they are too many to stay in
    the cache, and only the run tells whether a single row waits for them. That row takes a fifth less time with AVX2,
    and many rows take as long."""
    waits = form is PAIRS and is_length(rows) and weights.dtype == np.int8 and weights.size * form.size >= CACHE
    return Integers(WORD // form.size, 8) if waits else None


def _arithmetic(form: Form, target: Target, rows: int, run: int) -> Arithmetic:
    """What products of so many rows of words are computed with, whose runs have so many bytes: by matrices where they
    fill some of one."""
    is_many = is_length(rows) or rows >= _FEWEST_ROWS
    is_wide = not is_length(run) and run >= _SHORTEST_RUN
    is_for_matrices = form is BYTES and is_many and is_wide and target.matrices() is not None
    return by_matrices(form.arithmetic) if is_for_matrices else form.arithmetic


def multiply_integers(function: Function, form: Form, rows: int, left: Left, weights: Made, first: Made,
                      result: Callable[[Plan, ir.Value], Result], bits: int = 8, group: Group = ALONE) -> None:
    """Emits the product of rows of unsigned elements (rows, taps, elements) with weights, which gives (rows, columns)
    i32.

    Args:
        function: where.
        form: of the rows.
        rows: how many.
        left: where they are.
        weights: an array of shape (columns, taps, elements); int8, or int16 for pairs.
        first: what the sum of each column starts with.
        result: where the sums go, given how the product is cut and memory for those of a tile.
        bits: of the weights in the model.
        group: whose columns are multiplied; the weights are those of all groups.
    """
    e = function.e
    if form.taken:
        first = first.with_other(weights, lambda first, weights: first + form.taken * weights.sum(
            axis=(1, 2), dtype=np.int32))
    given = weights.array
    stored = kept_as(form, e.target, given, bits) or _as_bytes(form, rows, given)
    arithmetic = form.arithmetic if stored is not None else _arithmetic(form, e.target, rows, left.run)
    plan = Plan.of(e.target, arithmetic, rows, len(given) // group.count, form.depth(given.shape))
    packed = weights.then(form.words).then(
        lambda words: group.packed(words if stored is None else stored.kept(words), plan.pack)).memory(function)
    size = plan.panels * plan.packed(packed, stored).distance
    panels = plan.packed(group.address(e, packed, I8, size), stored)
    begin = first.then(
        lambda first: group.packed(first, lambda part: plan.pack_row(part, np.dtype(np.int32)))).kept(function)
    begin = group.address(e, begin, I32, plan.panels * plan.panel)
    multiply(e, plan, left, panels, begin, result(plan, function.scratch(plan.tile_bytes)))


def rows_of(function: Function, form: Form, memory: ir.Value, count: int) -> Left:
    """Rows of so many elements that lie one behind the other."""
    size = count * form.size
    if is_length(size):
        return Left(memory, None, size, form.run(count))
    return left_of(function, memory, Grid((1,), (size,)), form.run(count))


def left_of(function: Function, memory: ir.Value, grid: Grid, run: int, taps: tuple[ir.Value, int] | None = None
            ) -> Left:
    """Rows that begin at the places of a grid: known by a table, which is as long as a tile if all distances are equal;
    by arithmetic where constants are to be small."""
    e, is_even = function.e, len(grid.shape) == 1
    step = grid.steps[0] if is_even else None
    if e.target.goal is not Goal.HERE:
        return Left(memory, None, step, run, taps, None if is_even else grid)
    shape = (e.target.vector_registers,) if is_even else grid.shape
    parts = (each * step for each, step in zip(np.ogrid[tuple(map(slice, shape))], grid.steps, strict=True))
    table = function.external(np.array(sum(parts), e.index_dtype.numpy).reshape(-1))
    return Left(memory, table, step, run, taps)


takes_integers = all_of(only((DType.INT8,)), only((DType.INT8,), 1), outputs_only(DType.INT8), constant_inputs(1, 2))
"""Refuses operators on input, weights and bias unless factors are int8, and weights and bias constant."""


def reach(call: Call, depth: int) -> int:
    """A magnitude that no sum of `depth` products of bytes and the bias, input 2, exceeds."""
    return depth * 255 * 128 + largest_bias(call)


def largest_bias(call: Call, data: int = 0, bias: int = 2) -> int:
    """The largest magnitude in the bias, if there is one; of a convolution not that of channels whose sums are
    multiplied by 0: where all weights of one are nearly zero, converters make its bias as large as int32 holds."""
    found, made = call.input(bias) if call.has(bias) else None, call.outputs[0]
    most = largest(found)
    if found is None or most < SHORT_SUMS_BELOW or isinstance(call.op, FullyConnected) or made.dtype is DType.INT32:
        return most
    given, weighted = quantization(call.input(data)), quantization(call.input(1))
    scales = np.float64(given.scale) * np.array(weighted.scales, np.float64) / quantization(made).scale
    return largest(replace(found, data=np.where(scales < _LOST, 0, stored_data(found).reshape(-1))))


def fits(call: Call, depth: int) -> str | None:
    """Refuses sums of `depth` products and the bias, input 2, that may reach `SUMS_BELOW`."""
    return sums_below(SUMS_BELOW, reach(call, depth))


def known(value: Value | None) -> Array | None:
    """The value of an optional constant."""
    return None if value is None else value.known


def stored_data(tensor: Tensor) -> Array:
    """The value of an operand which the rule refuses if it is not constant, as the model has it."""
    assert tensor.data is not None
    return tensor.data


def constant(value: Value) -> Array:
    """The value of an operand which the rule refuses if it is not constant."""
    assert value.known is not None
    return value.known


def round_half_away(value: Lanes) -> Lanes:
    """The nearest whole number, halves away from zero."""
    kind = np.float64 if value.element is DOUBLE else np.float32
    below_half = float(np.nextafter(kind(0.5), kind(0)))
    return (value + value.constant(below_half).sign_of(value)).unary("trunc")


def long_rows(call: Call) -> str | None:
    """Refuses weights (n, ...) whose rows make sums too large."""
    return fits(call, prod(call.input(1).shape[1:]))


def _asymmetric(call: Call) -> str | None:
    """Refuses weights that have a zero point."""
    found = quantization(call.input(1)).zero_points
    return f"weights with zero points {sorted({*found})} (supported: 0)" if any(found) else None


def _quantized_as(call: Call, target: Target) -> Hashable:
    """What the code is made of but for shapes and types."""
    scales = None if target.has_doubles else (quantization(call.outputs[0]), _scales(call).tobytes())
    return looking_at(_of_result)(call, target), form_of(target, 1, stored_data(call.input(1))), scales


def _of_result(call: Call) -> Sequence[Figure]:
    """The zero point and the limits of results, as doubles."""
    made, dtype = quantization(call.outputs[0]), call.outputs[0].dtype
    low, high = quantized_range(getattr(call.op, "fused_activation_function", Activation.NONE), made, dtype)
    ends = np.iinfo(dtype.numpy)
    return (real(made.zero_point, made.zero_point == 0, DOUBLE), real(low, low == ends.min, DOUBLE),
            real(high, high == ends.max, DOUBLE))


@nest(FullyConnected, all_of(takes_integers, long_rows, _asymmetric), frozenset({1, 2}), name=INT8,
      opaque=frozenset({1, 2}), quantized_as=_quantized_as)
def fully_connected(node: Node[FullyConnected], e: Emitter, sinks: tuple[Sink, ...]) -> None:
    """Of x (..., k) and weights (n, k), int8: (..., n). Rows are staged, multiplied, and each sum is scaled by
    itself."""
    weights, function, rows = constant(node.input(1)), node.function, prod(node.shape[:-1])
    depth, form, zero = weights.shape[1], form_of(e.target, rows, weights), zero_point(node.call)
    source = placed(function, form, node.input(0), zero, (1, 1, rows, depth), depth)
    put = scaled(node, sinks[0])
    multiply_integers(function, form, rows, rows_of(function, form, source, depth), rows_as_taps(node.call),
                      first_of(node.call, form, zero_point), lambda plan, scratch: Filtered(scratch, put))


def scaled(node: Node[FullyConnected], sink: Sink) -> Put:
    """Takes the sums of a product and passes on its results; they are scaled as doubles, as the numpy backend does, or
    by integers that give the same where there are no instructions for doubles."""
    output = node.call.outputs[0]
    is_one = is_length(node.shape[-1])
    shape = (1,) if is_one else node.shape[-1:]
    scales = Made(node.call, lambda call: np.ascontiguousarray(np.broadcast_to(_scales(call), shape)))
    bits = 8 * output.dtype.numpy.itemsize
    factors = None if node.function.e.target.has_doubles else Factors.of(node.function, scales.array, bits)
    if factors is not None:
        return _scaled_by(factors, node, sink)
    scale, found = scales.memory(node.function), figured(node, _of_result)

    def put(e: Emitter, row: ir.Value, column: ir.Value, value: ir.Value) -> None:
        factor = Lanes(e, e.load(scale, DType.FLOAT64, e.number(0) if is_one else column))
        zero, low, high = (Lanes(e, real_number(e, each, DOUBLE)) for each in found)
        result = round_half_away(Lanes(e, value).to_real(DOUBLE) * factor) + zero
        stored = e.builder.trunc(e.builder.fptosi(result.clamp(low, high).value, I32), register_type(output.dtype))
        sink(e, [*e.delinear(row, node.shape[:-1]), column], stored)

    return put


def _scales(call: Call) -> Array:
    """What the sums of each column are multiplied by, or of all."""
    given, weighted, made = map(quantization, (call.input(0), call.input(1), call.outputs[0]))
    return np.asarray(np.float64(given.scale) * np.array(weighted.scales, np.float64) / made.scale)


def _scaled_by(factors: Factors, node: Node[FullyConnected], sink: Sink) -> Put:
    """`scaled` in integers."""
    def put(e: Emitter, row: ir.Value, column: ir.Value, value: ir.Value) -> None:
        activation, result = node.op.fused_activation_function, factors.scaled(e, value, column)
        sink(e, [*e.delinear(row, node.shape[:-1]), column], stored(e, result, node.call.outputs[0], activation))

    return put
