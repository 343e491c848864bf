"""How many arithmetic operations an operator makes, estimated from the shapes of its operands.

A multiplication, an addition, a comparison and a function of one element, however that is computed, count 1 each, so
that a multiply-accumulate counts 2; integers count as floats do. What only moves elements counts 0. The formulas are in
the docstrings; `x` is an input's number of elements, `y` the result's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, log2, prod
from typing import TypeAlias

from circlet.runtime.ir.op import Op, Operand, Skip
from circlet.runtime.ir.types import Activation
from circlet.runtime.ops import (
    comparison,
    controlflow,
    conv,
    detection,
    elements,
    elementwise,
    index,
    lookup,
    matmul,
    normalize,
    pool,
    quantize,
    random,
    recurrent,
    reduce,
    reduce_window,
    resize,
    scatter,
    segment,
    sort,
    spectral,
    unary,
    updates,
)
from circlet.runtime.ops.resample import Interpolation, Resample
from circlet.runtime.ops.sample import GridSample, RegionMax, RoiAlign

Inputs: TypeAlias = "Sequence[Operand | None]"
Rule: TypeAlias = "Callable[[Op, Inputs, Sequence[Operand]], int]"

MOVES = frozenset({
    "index", "layout", "lists", "loop_steps", "pad", "sequence", "shape", "spatial", "table", "variable"})
"""The families of operators that compute nothing, but for those that have a rule."""
PER_PAIR = 12
"""Of two boxes: 4 comparisons and 2 subtractions for the sides of what they share, 1 product for its area, 3 operations
for that of both together, 1 quotient, 1 comparison of that."""


def flops(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int | None:
    """The operations of one operator; those of subgraphs that it invokes are not counted. None where there is no
    estimate, as of operators that circlet cannot run.

    Args:
        op: the operator.
        inputs: None where one is absent.
        outputs: its results.
    """
    rule = _rule(type(op))
    return None if rule is None else rule(op, inputs, outputs)


def formula(op: type[Op]) -> str:
    """How the operations of an operator are counted; empty where there is no estimate."""
    rule = _rule(op)
    return "" if rule is None else (rule.__doc__ or "").strip()


def _rule(op: type[Op]) -> Rule | None:
    own = next((RULES[each] for each in op.__mro__ if each in RULES), None)
    return _nothing if own is None and op.__module__.rpartition(".")[2] in MOVES else own


def _invokes(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """0 itself: the subgraphs that it invokes count."""
    return 0


def _count(operand: Operand | None) -> int:
    return 0 if operand is None else prod(operand.shape)


def _given(inputs: Inputs, position: int) -> Operand:
    found = inputs[position]
    assert found is not None
    return found


def _activated(op: Op, outputs: Sequence[Operand]) -> int:
    """y where the operator applies a function to its result, else 0."""
    options: Mapping[str, object] = vars(op)
    has = options.get("fused_activation_function", Activation.NONE) is not Activation.NONE
    return _count(outputs[0]) if has else 0


def _per_result(each: int, what: str) -> Rule:
    def rule(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
        return each * _count(outputs[0]) + _activated(op, outputs)

    rule.__doc__ = f"{each} y: {what}; y more for an activation."
    return rule


def _per_element(each: int, what: str) -> Rule:
    def rule(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
        return each * _count(inputs[0])

    rule.__doc__ = f"{each} x: {what}."
    return rule


def _nothing(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """0: elements are moved."""
    return 0


def _looked_up(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """2 n c for n ids of rows of c columns: product, sum. What sums are divided by hangs on the places."""
    ids, table = inputs[0], inputs[4]
    assert ids is not None
    assert table is not None
    return 2 * _count(ids) * prod(table.shape[1:])


def _projected(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """s (x + 2 n) for s seeds and n items of x elements: a function of each element, product, sum."""
    seeds, items = inputs[:2]
    assert seeds is not None
    assert items is not None
    return _count(seeds) * (_count(items) + 2 * items.shape[0])


def _sum_of_many(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """y for each input but the first."""
    return (len(inputs) - 1) * _count(outputs[0])


def _convolution(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """2 y k, k the elements of the filter for one element of the result (positions times channels of a group); y more
    for a bias, y for an activation. Padding counts as elements do."""
    filter = _given(inputs, 1).shape
    taps = prod(filter[:4]) if isinstance(op, conv.Conv3D) else prod(filter[1:])
    if isinstance(op, conv.DepthwiseConv2D):
        taps = prod(filter[1:3])
    return 2 * _count(outputs[0]) * taps + _biased(op, inputs, 2, outputs)


def _transposed(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """2 x k, k the elements of the filter that one element of the input meets; y more for a bias, y for an
    activation."""
    filter, data = _given(inputs, 1).shape, 2 if isinstance(op, conv.Transposed) else 0
    taps = prod(filter[:4]) if isinstance(op, conv.Conv3DTranspose) else prod(filter[:3])
    return 2 * _count(inputs[data]) * taps + _biased(op, inputs, 3 if data else 2, outputs)


def _fully_connected(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """2 y k, k the columns of the weights; y more for a bias, y for an activation."""
    return 2 * _count(outputs[0]) * _given(inputs, 1).shape[1] + _biased(op, inputs, 2, outputs)


def _by_blocks(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """2 y k, and 2 y for each block; y more for a bias, y for an activation."""
    steps = _given(inputs, 1).shape[1] + _given(inputs, 2).shape[1]
    return 2 * _count(outputs[0]) * steps + _biased(op, inputs, 3, outputs)


def _biased(op: Op, inputs: Inputs, bias: int, outputs: Sequence[Operand]) -> int:
    has = len(inputs) > bias and inputs[bias] is not None
    return (_count(outputs[0]) if has else 0) + _activated(op, outputs)


def _batch_matmul(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """2 y k, k the columns of the left factors."""
    assert isinstance(op, matmul.BatchMatMul)
    return 2 * _count(outputs[0]) * _given(inputs, 0).shape[-2 if op.adj_x else -1]


def _windows(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """y k, k the elements of the window, padding included: each is combined with those before it."""
    assert isinstance(op, reduce_window.SlidingReduction)
    return _count(outputs[0]) * prod(op.window_dimensions)


def _windows_of_inputs(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """As for those that options tell; once for each result if only a run tells their sizes."""
    sizes = _given(inputs, 2).known
    return _count(outputs[0]) * (1 if sizes is None else prod(sizes.reshape(-1).tolist()))


def _pooling(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """y k of a maximum, k the positions of the window, padding too; y (k + 1) of a mean; y (2 k + 2) of the root of the
    mean square; y more for an activation."""
    assert isinstance(op, pool.Pool)
    window = op.filter_height * op.filter_width
    per_result = {pool.AveragePool2D: window + 1, pool.L2Pool2D: 2 * window + 2}.get(type(op), window)
    return per_result * _count(outputs[0]) + _activated(op, outputs)


def _mean(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """x + y."""
    return _count(inputs[0]) + _count(outputs[0])


def _local_response(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """x (w + 5), w the elements of the window: a square and w sums, a product and a sum, a power, a product."""
    assert isinstance(op, normalize.LocalResponseNormalization)
    window = min(2 * op.radius + 1, _given(inputs, 0).shape[-1])
    return (window + 5) * _count(inputs[0])


def _sorting(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """x ceil(log2 n), n the elements that are sorted together: a row, or all of them."""
    shape = _given(inputs, 0).shape
    together = (shape[-1] if isinstance(op, sort.TopKV2) and shape else prod(shape)) or 1
    return prod(shape) * ceil(log2(together))


def _bucketize(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """x ceil(log2(b + 1)), b the number of boundaries."""
    assert isinstance(op, sort.Bucketize)
    return _count(inputs[0]) * ceil(log2(len(op.boundaries) + 1))


def _interpolation(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """2 y t, t the elements that one is made of: 2 or 4 (cubic) for each axis, none where the nearest is taken."""
    if isinstance(op, Resample):
        axes, kind = len(op.axes), op.interpolation
    elif isinstance(op, GridSample):
        axes, kind = _given(inputs, 1).shape[-1], op.interpolation
    else:
        axes, kind = 2, Interpolation.LINEAR
    if kind is Interpolation.NEAREST:
        return 0
    return int(2 * _count(outputs[0]) * (4 if kind is Interpolation.CUBIC else 2) ** axes)


def _regions(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """8 y s s, s the samples along an axis of a cell, four elements each; those that boxes decide are taken for one."""
    assert isinstance(op, RoiAlign)
    return 8 * _count(outputs[0]) * max(op.samples, 1) ** 2


def _rfft2d(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """2.5 n log2 n for each matrix of n = h w elements, half of what a complex transform takes by Cooley and Tukey."""
    *outer, height, half = outputs[0].shape
    lengths = _given(inputs, 1).known
    width = int(lengths.reshape(-1)[1]) if lengths is not None else 2 * (half - 1)
    size = height * width
    return prod(outer) * round(2.5 * size * log2(size)) if size else 0


def _dft(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """5 n log2 n for each line of n complex numbers, by Cooley and Tukey; half of it where one side is real."""
    assert isinstance(op, spectral.Dft)
    axis = _given(inputs, 2).known
    shape = outputs[0].shape if op.inverse or not op.onesided else _given(inputs, 0).shape
    length = shape[int(axis.item())] if axis is not None else max(shape)
    if not length:
        return 0
    lines = prod(shape[:-1]) // length
    is_real = 1 in (_given(inputs, 0).shape[-1], outputs[0].shape[-1])
    return lines * round((2.5 if is_real else 5) * length * log2(length))


def _recurrent(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """For each time and batch 2 for each element of a matrix or vector of weights, then 9 for each cell of an LSTM (3
    products, a sum, 5 functions), 1 for each unit of a simple network."""
    networks: tuple[recurrent.NetworkInputs, ...]
    if isinstance(op, recurrent.BidirectionalSequenceLstm):
        networks = recurrent.FORWARD_LSTM, recurrent.BACKWARD_LSTM
    elif isinstance(op, recurrent.BidirectionalSequenceRnn):
        networks = recurrent.FORWARD_RNN, recurrent.BACKWARD_RNN
    else:
        networks = (recurrent.LSTM if isinstance(op, recurrent.LstmBase) else recurrent.RNN,)
    steps = prod(_given(inputs, 0).shape[:-1])
    return steps * sum(_of_network(each, inputs) for each in networks)


def _of_network(network: recurrent.NetworkInputs, inputs: Inputs) -> int:
    def at(position: int) -> Operand | None:
        return inputs[position] if position < len(inputs) else None

    weights = sum(_count(at(each)) for each in (*network.matrices(), *network.vectors()))
    state = network.cell_state if isinstance(network, recurrent.LstmInputs) else None
    if state is None:
        assert isinstance(network, recurrent.RnnInputs)
        return 2 * weights + _given(inputs, network.state).shape[-1]
    return 2 * weights + 9 * _given(inputs, state).shape[-1]


def _lstm(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """As a sequence of one time; the step whose state is passed in and out has one matrix and one bias."""
    assert isinstance(op, recurrent.Lstm)
    if op.kernel_type != 1:
        return _recurrent(op, inputs, outputs)
    batch, units = _given(inputs, 1).shape
    return batch * (2 * _count(inputs[2]) + 2 * _count(inputs[3]) + 9 * units)


def _svdf(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """For each batch 2 for each element of the two matrices, 1 for each filter, 2 for each unit."""
    (filters, _), (batch, units) = _given(inputs, 1).shape, outputs[0].shape
    return batch * (2 * _count(inputs[1]) + 2 * _count(inputs[2]) + filters + 2 * units)


def _suppression(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """12 n s and n ceil(log2 n) for sorting, n the boxes and s those that are selected at the most."""
    boxes = _given(inputs, 0).shape[0]
    return _pairs(boxes, min(boxes, _count(outputs[0])))


def _select_boxes(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """As NON_MAX_SUPPRESSION, for each batch and class; where there is no limit, all boxes may be selected."""
    batches, classes, boxes = _given(inputs, 1).shape
    limit = inputs[2] if len(inputs) > 2 else None
    known = None if limit is None else limit.known
    return batches * classes * _pairs(boxes, boxes if known is None else min(boxes, max(int(known.item()), 0)))


def _detections(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """18 for each box that is decoded, and as NON_MAX_SUPPRESSION: for each class if selection is regular, else once,
    with 1 for each score to find a box's best."""
    assert isinstance(op, detection.DetectionPostProcess)
    _, boxes, classes = _given(inputs, 1).shape
    if op.use_regular_nms:
        return 18 * boxes + op.num_classes * _pairs(boxes, min(boxes, op.detections_per_class))
    return 18 * boxes + boxes * classes + _pairs(boxes, min(boxes, op.max_detections))


def _pairs(boxes: int, selected: int) -> int:
    return PER_PAIR * boxes * selected + boxes * ceil(log2(boxes or 1))


def _scatter(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """1 for each element of the updates where they are combined with what there is."""
    assert isinstance(op, (elements.ScatterElements, elements.ScatterSlices, scatter.ScatterWindows))
    return 0 if op.combine is elements.Combine.REPLACE else _count(inputs[2])


def _scatter_by_subgraph(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """1 for each element of the updates, of which the subgraph makes one with what there is."""
    return _count(inputs[2])


def _random_bits(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """1 for each number."""
    return _count(outputs[1])


def _scatter_sums(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """1 for each element of the updates."""
    return _count(inputs[1])


def _update(op: Op, inputs: Inputs, outputs: Sequence[Operand]) -> int:
    """What the operator does that writes over the variable."""
    assert isinstance(op, updates.UpdateVariable)
    value = Operand(op.value.dtype, op.value.shape)
    return flops(op.update, (value, *inputs[1:]), (value,)) or 0


RULES: Mapping[type[object], Rule] = {
    Skip: _nothing,
    controlflow.ControlFlow: _invokes,
    unary.Unary: _per_result(1, "a function of each element"),
    unary.ZerosLike: _nothing,
    elementwise.Elementwise: _per_result(1, "an operation for each element"),
    elementwise.AddN: _sum_of_many,
    elementwise.SquaredDifference: _per_result(2, "difference, product"),
    elementwise.Prelu: _per_result(2, "comparison, product"),
    elementwise.StablehloClamp: _per_result(2, "two comparisons"),
    comparison.Selection: _per_result(1, "a choice for each element"),
    quantize.Quantize: _per_result(2, "quotient, sum"),
    quantize.Dequantize: _per_result(2, "difference, product"),
    quantize.FakeQuant: _per_result(4, "quotient, sum, difference, product"),
    conv.Conv2D: _convolution,
    conv.DepthwiseConv2D: _convolution,
    conv.Conv3D: _convolution,
    conv.Transposed: _transposed,
    conv.BiasedTransposeConv: _transposed,
    matmul.FullyConnected: _fully_connected,
    matmul.BlockFullyConnected: _by_blocks,
    matmul.BatchMatMul: _batch_matmul,
    matmul.EmbeddingLookup: _nothing,
    matmul.BlockEmbeddingLookup: _per_result(1, "a product with the scale"),
    lookup.EmbeddingLookupSparse: _looked_up,
    lookup.LshProjection: _projected,
    recurrent.Recurrent: _recurrent,
    recurrent.Lstm: _lstm,
    recurrent.Svdf: _svdf,
    pool.Pool: _pooling,
    reduce_window.SlidingReduction: _windows,
    reduce_window.ReduceWindow: _windows_of_inputs,
    reduce.Reduction: _per_element(1, "each element is combined with the others"),
    reduce.Mean: _mean,
    reduce.Arg: _per_element(1, "a comparison"),
    reduce.Cumsum: _per_element(1, "each element is combined with those before it"),
    segment.SegmentSum: _per_element(1, "a sum"),
    segment.UnsortedSegment: _per_element(1, "each element is combined with others"),
    normalize.Softmax: _per_element(5, "maximum, difference, exp, sum, quotient"),
    normalize.LogSoftmax: _per_element(5, "maximum, difference, exp, sum, difference"),
    normalize.L2Normalization: _per_element(3, "square, sum, quotient"),
    normalize.LocalResponseNormalization: _local_response,
    normalize.InstanceNorm: _per_element(7, "sum; difference, square, sum; difference, product, sum"),
    normalize.RmsNorm: _per_element(4, "square, sum, two products"),
    sort.TopKV2: _sorting,
    sort.Unique: _sorting,
    sort.UniqueSlices: _sorting,
    sort.Bucketize: _bucketize,
    resize.ResizeBilinear: _interpolation,
    resize.ResizeNearestNeighbor: _nothing,
    Resample: _interpolation,
    GridSample: _interpolation,
    RegionMax: _per_result(1, "a comparison; how many there are hangs on the cells"),
    RoiAlign: _regions,
    spectral.Rfft2D: _rfft2d,
    spectral.Dft: _dft,
    spectral.ComplexAbs: _per_result(4, "two squares, sum, root"),
    spectral.ComplexToReal: _nothing,
    random.StablehloRngBitGenerator: _random_bits,
    random.Random: _per_result(1, "a number for each element"),
    detection.NonMaxSuppression: _suppression,
    detection.SelectBoxes: _select_boxes,
    detection.DetectionPostProcess: _detections,
    elements.GatherElements: _nothing,
    elements.Scattering: _scatter,
    scatter.ScatterWindows: _scatter,
    scatter.StablehloScatter: _scatter_by_subgraph,
    index.ScatterNd: _scatter_sums,
    updates.UpdateVariable: _update,
}
"""By operator, or what it is derived from: the most derived one counts."""
