"""Operators like one that was written before call its function; those that code tells apart have their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

import circlet
from circlet.backends.native.emit.value import Value as Lowered
from circlet.backends.native.lower.alike.repeats import Repeats, Written
from circlet.backends.native.lower.operators import OperatorLowering
from circlet.backends.native.rules.families import MODULES, OF_STORED
from circlet.backends.native.rules.rule import RULES
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, DType, Padding
from circlet.runtime.late import imported
from circlet.runtime.ops import comparison, conv, elementwise, index, layout, matmul, normalize, reduce, shape, unary
from tests.exec import graphs as g
from tests.exec.graphs import Array
from tests.native.test_budget import compare, session_of
from tests.native.test_outlined import defined

ROWS, WIDTH = 5, 24
X = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32)
Body = Callable[[SubgraphBuilder, Value, int], Value]
"""A layer, given its number."""


def numbers(*size: int, seed: int = 0) -> Array:
    return (np.random.default_rng(seed).normal(size=size) / 16).astype(np.float32)


def stack(body: Body, count: int, is_open: bool = False, x: Array = X) -> Model:
    """Layers, one behind the other."""
    b = ModelBuilder()
    main = b.subgraph("main")
    v = main.tensor(Tensor("x", DType.FLOAT32, x.shape, (-1, *x.shape[1:]) if is_open else None))
    main.feed(v)
    for k in range(count):
        v = body(main, v, k)
    main.output(v)
    return b.build()


def written(model: Model, x: Array = X) -> int:
    """How many functions of operators there are in all; the results are compared with numpy's."""
    return sum(defined(each).count("operator") for each in compare(model, [x]).listings)


def normalized(s: SubgraphBuilder, v: Value, k: int) -> Value:
    """Layer normalisation."""
    axis = s.constant(np.array([-1], np.int32))
    v = s.apply(elementwise.Sub(), v, s.apply(reduce.Mean(keep_dims=True), v, axis))
    spread = s.apply(reduce.Mean(keep_dims=True), s.apply(elementwise.Mul(), v, v), axis)
    v = s.apply(elementwise.Mul(), v, s.apply(unary.Rsqrt(), g.add(s, spread, s.constant(np.float32(1e-5)))))
    return g.add(s, s.apply(elementwise.Mul(), v, s.constant(numbers(WIDTH, seed=k))), s.constant(numbers(WIDTH)))


def attention(s: SubgraphBuilder, v: Value, k: int) -> Value:
    """Attention of one head, a product with a bias, and a normalised sum."""
    q, key, value = (s.apply(matmul.FullyConnected(), v, s.constant(numbers(WIDTH, WIDTH, seed=3 * k + part)),
                             s.constant(numbers(WIDTH, seed=part))) for part in range(3))
    scores = s.apply(normalize.Softmax(beta=1.0), s.apply(matmul.BatchMatMul(adj_y=True), q, key))
    mixed = s.apply(matmul.BatchMatMul(), scores, value)
    found = g.add(s, v, s.apply(matmul.BatchMatMul(), mixed, s.constant(numbers(WIDTH, WIDTH, seed=90 + k))))
    return normalized(s, found, k)


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("body", [normalized, attention])
def test_layers_are_written_once(body: Body, is_open: bool) -> None:
    # The first layer's input is that of the model, and the last one's result is an output: other layers are alike.
    few, many = (written(stack(body, count, is_open)) for count in (3, 6))
    assert 0 < few == many


@pytest.mark.parametrize("is_timed", [False, True])
def test_what_is_timed_is_written_for_each(is_timed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    again, called = Repeats._again, []

    def counted(self: Repeats, o: OperatorLowering, found: Written) -> Sequence[Lowered]:
        called.append(o.name)
        return again(self, o, found)

    monkeypatch.setattr(Repeats, "_again", counted)
    monkeypatch.setenv("CIRCLET_CACHE_DIR", "")
    session = circlet.Session(stack(normalized, 4), "native")
    with circlet.profile(session) if is_timed else nullcontext():
        session.run([X])
    assert bool(called) is not is_timed


def filtered(s: SubgraphBuilder, v: Value, k: int) -> Value:
    """A convolution with padding around, and one of each channel."""
    v = s.apply(conv.Conv2D(padding=Padding.SAME, stride_h=1, stride_w=1), v, s.constant(numbers(32, 3, 3, 32, seed=k)),
                s.constant(numbers(32, seed=k)))
    return s.apply(conv.DepthwiseConv2D(padding=Padding.SAME, stride_h=1, stride_w=1, depth_multiplier=1), v,
                   s.constant(numbers(1, 3, 3, 32, seed=k + 7)), s.constant(numbers(32, seed=k)))


IMAGE = numbers(1, 6, 5, 32, seed=8)


def taking(count: int, is_open: bool) -> Model:
    """Layers that take rows by indices, each by its own, and multiply twice of them."""
    b = ModelBuilder()
    main = b.subgraph("main")
    v = main.tensor(Tensor("x", DType.FLOAT32, X.shape, (-1, WIDTH) if is_open else None))
    main.feed(v)
    for place in [main.input(f"at{k}", DType.INT32, (ROWS,)) for k in range(count)]:
        taken = main.apply(index.Gather(), v, place)
        v = main.apply(matmul.FullyConnected(), g.add(main, taken, taken), main.constant(numbers(WIDTH, WIDTH)),
                       main.constant(numbers(WIDTH)))
    main.output(v)
    return b.build()


@pytest.mark.parametrize("is_open", [False, True])
def test_what_may_fail_is_written_once(is_open: bool) -> None:
    """Each says of which operator, alone or of a group, a check failed, and with which number."""
    within = np.arange(ROWS, dtype=np.int32)
    beyond = np.where(within == 3, ROWS, within).astype(np.int32)
    few, many = (sum(defined(each).count("operator") for each in compare(
        taking(count, is_open), [X, *[within] * count]).listings) for count in (3, 6))
    assert 0 < few == many
    session, _ = session_of(taking(4, is_open))
    for number in range(4):
        given = [beyond if k == number else within for k in range(4)]
        with pytest.raises(circlet.ExecutionError, match=rf"operator {3 * number} \(GATHER\).*{ROWS} is out of range"):
            session.invoke(0, [X, *given])


def grouped(s: SubgraphBuilder, v: Value, k: int) -> Value:
    """A convolution in groups, with a bias."""
    return s.apply(conv.Conv2D(padding=Padding.SAME, stride_h=1, stride_w=1), v,
                   s.constant(numbers(32, 3, 3, 8, seed=k)), s.constant(numbers(32, seed=k)))


@pytest.mark.parametrize("body", [filtered, grouped])
def test_convolutions_are_written_once(body: Body) -> None:
    few, many = (written(stack(body, count, x=IMAGE), IMAGE) for count in (3, 6))
    assert 0 < few == many


def test_a_filter_that_is_not_finite_is_another_operator() -> None:
    def body(s: SubgraphBuilder, v: Value, k: int) -> Value:
        filter = numbers(32, 3, 3, 32, seed=k)
        filter[0, 0, 0, 0] = np.inf if k == 2 else filter[0, 0, 0, 0]
        return s.apply(conv.Conv2D(padding=Padding.SAME, stride_h=1, stride_w=1), v, s.constant(filter),
                       s.constant(numbers(32)))

    assert written(stack(body, 3, x=IMAGE), IMAGE) > written(stack(body, 2, x=IMAGE), IMAGE)


def test_weights_of_halves_are_another_operator() -> None:
    def body(s: SubgraphBuilder, v: Value, k: int) -> Value:
        weights = numbers(256, 256, seed=k)
        weights = weights.astype(np.float16).astype(np.float32) if k != 1 else weights
        return s.apply(unary.Tanh(), s.apply(matmul.FullyConnected(), v, s.constant(weights), s.constant(numbers(256))))

    x = numbers(4, 256)
    assert written(stack(body, 3, x=x), x) > written(stack(body, 1, x=x), x)


def scaled(by: Array) -> Body:
    return lambda s, v, _: s.apply(elementwise.Mul(), s.apply(unary.Tanh(), v), s.constant(by))


def product(activation: Activation) -> Body:
    return lambda s, v, _: s.apply(matmul.FullyConnected(fused_activation_function=activation), v,
                                   s.constant(numbers(WIDTH, WIDTH)), s.constant(numbers(WIDTH)))


def picked(rows: Array) -> Body:
    return lambda s, v, _: s.apply(index.Gather(), v, s.constant(rows.astype(np.int32)))


def turned(order: Sequence[int]) -> Body:
    def body(s: SubgraphBuilder, v: Value, _: int) -> Value:
        cube = s.apply(shape.Reshape(), v, s.constant(np.array([ROWS, 4, 6], np.int32)))
        cube = s.apply(layout.Transpose(), cube, s.constant(np.array(order, np.int32)))
        return s.apply(shape.Reshape(), cube, s.constant(np.array([ROWS, WIDTH], np.int32)))
    return body


DIFFERENT: Mapping[str, tuple[Body, Body]] = {
    "small constants": (scaled(np.float32(2)), scaled(np.float32(3))),
    "zeros of either sign": (scaled(np.float32(0)), scaled(np.float32(-0.0))),
    "shapes of constants": (scaled(numbers(WIDTH)), scaled(numbers(ROWS, WIDTH))),
    "options": (product(Activation.NONE), product(Activation.RELU)),
    "constants that rules look at": (picked(np.arange(ROWS)), picked(np.arange(ROWS)[::-1])),
    "parameters": (turned([0, 2, 1]), turned([1, 0, 2])),
}


@pytest.mark.parametrize("bodies", DIFFERENT.values(), ids=DIFFERENT)
def test_what_differs_is_told_apart(bodies: tuple[Body, Body]) -> None:
    compare(stack(lambda s, v, k: bodies[k % 2](s, v, k), 4), [X])


def opaque() -> Iterator[tuple[type[Op], frozenset[int]]]:
    """The operators with rules that promise not to look at some constants, and which."""
    for families in (MODULES, OF_STORED):
        for each in dict.fromkeys(name for names in families.values() for name in names):
            imported(f"circlet.backends.native.rules.{each}")
    for op, rules in sorted(RULES.items(), key=lambda each: each[0].__name__):
        for rule in rules:
            if rule.opaque:
                yield op, rule.opaque


def single(op: Op, inputs: Sequence[Array], constant: frozenset[int]) -> tuple[Model, list[Array]]:
    """An operator of which some inputs are constants; what the others are given."""
    b = ModelBuilder()
    main = b.subgraph("main")
    given = [k for k in range(len(inputs)) if k not in constant]
    values = [main.tensor(Tensor(f"x{k}", DType(each.dtype.name), each.shape, data=each if k in constant else None))
              for k, each in enumerate(inputs)]
    main.feed(*(values[k] for k in given))
    main.output(main.apply(op, *values))
    return b.build(), [inputs[k] for k in given]


def twice(op: Op, given: tuple[int, ...], *constants: tuple[int, ...]) -> Model:
    """An operator on an input of any length, and one like it with other constants."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.tensor(Tensor("x", DType.FLOAT32, given, (-1, *given[1:])))
    main.feed(x)
    main.output(*(main.apply(op, x, *(main.constant(numbers(*size, seed=7 * k + seed))
                                      for k, size in enumerate(constants))) for seed in range(3)))
    return b.build()


def closed(model: Model) -> Model:
    """The model for the shape that its input has as declared."""
    (main,) = model.subgraphs
    tensors = [replace(each, shape_signature=None) for each in main.tensors]
    return replace(model, subgraphs=(replace(main, tensors=tuple(tensors)),))


def window(padding: Padding, stride: int) -> Op:
    return conv.Conv2D(padding=padding, stride_h=stride, stride_w=stride)


def each_channel(stride: int, times: int) -> Op:
    return conv.DepthwiseConv2D(padding=Padding.SAME, stride_h=stride, stride_w=stride, depth_multiplier=times)


WEIGHED: Mapping[str, tuple[Op, Sequence[tuple[int, ...]]]] = {
    **{f"{rows} rows of {depth} by {columns}{' with a bias' * bias}": (
        matmul.FullyConnected(), [(rows, depth), (columns, depth), *[(columns,)] * bias])
       for rows, depth, columns, bias in [(1, 20, 30, 0), (1, 200, 300, 1), (2, 33, 47, 1), (7, 40, 64, 0),
                                          (13, 130, 17, 1), (40, 24, 200, 1)]},
    **{f"matrices {size} by {other}{', turned' * turned}": (matmul.BatchMatMul(adj_y=turned), [size, other])
       for size, other, turned in [((2, 3, 20), (20, 31), False), ((1, 20), (31, 20), True), ((9, 65), (65, 18), False),
                                   ((2, 5, 24), (2, 24, 24), False)]},
    **{f"{padding.name} of {kernel} by {stride}": (window(padding, stride), [
        (2, 9, 8, channels), (columns, kernel, kernel, channels), (columns,)])
       for padding, kernel, stride, channels, columns in [
           (Padding.SAME, 3, 1, 5, 17), (Padding.SAME, 1, 1, 24, 40), (Padding.SAME, 5, 2, 3, 20),
           (Padding.VALID, 3, 1, 16, 33), (Padding.VALID, 1, 2, 32, 18)]},
    "groups": (window(Padding.SAME, 1), [(1, 6, 6, 16), (32, 3, 3, 4), (32,)]),
    **{f"depthwise of {kernel} by {stride}, each {times} times": (
        each_channel(stride, times), [(2, 9, 8, 18), (1, kernel, kernel, 18 * times), (18 * times,)])
       for kernel, stride, times in [(3, 1, 1), (5, 2, 1), (3, 1, 2)]},
}
"""An operator, the shape of its input, and those of its constants."""


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize(("op", "sizes"), WEIGHED.values(), ids=WEIGHED)
def test_each_has_its_weights(op: Op, sizes: Sequence[tuple[int, ...]], is_open: bool) -> None:
    model = twice(op, *sizes)
    compare(model if is_open else closed(model), [numbers(*sizes[0], seed=5) * 16])


IMAGES, SQUARE = (2, 7, 6, 32), (32, 32)
CHOICES = (comparison.Select, comparison.SelectV2, comparison.StablehloSelect)
"""Operators whose first operand is of booleans."""
OPERANDS: Mapping[type[Op], tuple[Op, Sequence[tuple[int, ...]]]] = {
    conv.Conv2D: (conv.Conv2D(padding=Padding.SAME, stride_h=1, stride_w=1), [IMAGES, (32, 3, 3, 32), (32,)]),
    conv.DepthwiseConv2D: (conv.DepthwiseConv2D(padding=Padding.SAME, stride_h=1, stride_w=1, depth_multiplier=1),
                           [IMAGES, (1, 3, 3, 32), (32,)]),
    matmul.FullyConnected: (matmul.FullyConnected(), [SQUARE, SQUARE, (32,)]),
    elementwise.StablehloClamp: (elementwise.StablehloClamp(), [SQUARE] * 3),
    **{each: (each(), [SQUARE] * 3) for each in CHOICES},
}
"""Operators whose operands are no two squares."""
WHOLE = {elementwise.BitwiseXor, elementwise.RightShift, elementwise.StablehloAnd, elementwise.StablehloOr,
         elementwise.StablehloShiftLeft}
"""Those of integers alone."""


@pytest.mark.parametrize(("op", "constant"), [pytest.param(*each, id=f"{each[0].name}-{k}")
                                          for k, each in enumerate(opaque())])
def test_code_hangs_on_no_value_of_opaque_constants(op: type[Op], constant: frozenset[int]) -> None:
    made, shapes = OPERANDS.get(op, (None, [SQUARE, SQUARE]))
    kind = np.int32 if op in WHOLE else np.float32
    for chosen in sorted(constant & set(range(len(shapes)))):
        texts: set[str] = set()
        for seed, scale in ((1, 0), (2, 3), (3, -1e30), (4, 1e-30)):
            values = np.random.default_rng(seed).uniform(1, 3, size=shapes[chosen]) * scale
            with np.errstate(invalid="ignore"):
                inputs = [(values if k == chosen else numbers(*size, seed=k)).astype(
                    np.bool_ if op in CHOICES and k == 0 else kind) for k, size in enumerate(shapes)]
            model, given = single(made or op(), inputs, frozenset({chosen}))
            session, backend = session_of(model)
            session.invoke(0, given)
            texts.update(each.module for each in backend.listings)
        assert len(texts) == 1
