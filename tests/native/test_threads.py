"""Threads: results have the same bits for any number of them, limits and errors are the same, and nothing hangs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Timer
from typing import TypeAlias, TypeVar

import numpy as np
import pytest

import circlet
from circlet.backends.native.check.watched import are_checked
from circlet.backends.native.load import team
from circlet.backends.native.load.team import Team, Teams
from circlet.backends.platform import Feature, current
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.types import Activation, DType, Padding
from circlet.runtime.ops import elementwise, layout, normalize, pool, reduce, unary
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D
from circlet.runtime.ops.matmul import BatchMatMul, FullyConnected
from circlet.runtime.ops.resize import ResizeBilinear
from circlet.runtime.ops.shape import Reshape
from tests.exec import graphs as g
from tests.native.against_cpu import Formula, applied, values
from tests.native.quantized_models import Array, Network, stored
from tests.native.test_quantized_conv import bias, weights
from tests.ops.cases import q

Made: TypeAlias = "tuple[Model, list[Array]]"
"""A model, and what it is given."""
T = TypeVar("T")
ROOT = Path(__file__).parents[2]
TEAMS = 0 if are_checked() or not current().has(Feature.THREADS) else 1
"""How many a run takes: code that checks bounds shares no loops, so that it says which access was wrong."""
pytestmark = pytest.mark.filterwarnings("ignore:native code runs in one thread")


def real(formula: Formula, *shapes: tuple[int, ...]) -> Made:
    """A model of one subgraph on floats of some shapes."""
    b = ModelBuilder()
    main = b.subgraph("main")
    given = [values(shape, np.float32, number) for number, shape in enumerate(shapes)]
    main.output(*formula(main, *(main.input(f"x{k}", DType.FLOAT32, each.shape) for k, each in enumerate(given))))
    return b.build(), given


def weighted(op: Op, image: tuple[int, ...], *constants: tuple[int, ...]) -> Made:
    """A model of one operator on an image and constant weights of some shapes."""
    return real(applied(op, *(values(each, np.float32, 9) for each in constants)), image)


def integers(op: Op, image: tuple[int, ...], filter: tuple[int, ...], axis: int, is_real: bool = False) -> Made:
    """A model of one operator on an image, of int8 or of floats, and int8 weights."""
    network, channels = Network(), filter[axis]
    x = (network.input(values(image, np.float32, 1)) if is_real
         else network.input(stored(image, DType.INT8, 1), q(0.02, 3)))
    parameters = weights(network, filter, axis, True, 2, 0.01)
    if is_real:
        network.op(op, x, parameters)
    else:
        made = network.op(op, x, parameters, bias(network, channels, 3), quantization=q(0.09, -4))
        network.op(unary.Logistic(), made, quantization=q(1 / 256, -128))
    return network.finished()


def sum_of_bytes() -> Made:
    network = Network()
    one, other = (network.input(stored((500, 700), DType.INT8, seed), q(0.1 * seed)) for seed in (1, 2))
    network.op(elementwise.Add(), one, other, quantization=q(0.3, 5))
    return network.finished()


def gated(s: SubgraphBuilder, x: Value) -> Sequence[Value]:
    """Elementwise, over rows, and with broadcasts, that end in memory twice."""
    row = s.constant(values((1, 700), np.float32, 5))
    column = s.constant(values((500, 1), np.float32, 6))
    gate = s.apply(unary.Tanh(), s.apply(elementwise.Mul(), x, row))
    return [gate, s.apply(elementwise.Maximum(), s.apply(elementwise.Add(), gate, column), x)]


SAME = Padding.SAME
CASES: dict[str, Callable[[], Made]] = {
    "elementwise": partial(real, gated, (500, 700)),
    "rows": partial(weighted, FullyConnected(Activation.RELU), (300, 200), (130, 200), (130,)),
    "columns": partial(weighted, FullyConnected(), (1, 900), (1100, 900), (1100,)),
    "rows_given": partial(real, applied(FullyConnected()), (40, 300), (150, 300), (150,)),
    "few_rows_given": partial(real, applied(FullyConnected()), (3, 900), (401, 900), (401,)),
    "matrices": partial(real, applied(BatchMatMul()), (3, 5, 70, 60), (3, 5, 60, 90)),
    "transposed_matrices": partial(real, applied(BatchMatMul(adj_x=True, adj_y=True)), (6, 60, 70), (6, 90, 60)),
    "one_row": partial(real, applied(BatchMatMul()), (3, 1, 300), (3, 300, 3000)),
    "large_matrix": partial(real, applied(BatchMatMul()), (130, 600), (600, 170)),
    "convolution": partial(weighted, Conv2D(SAME, 2, 2, Activation.RELU6), (1, 61, 47, 12), (40, 3, 3, 12), (40,)),
    "deep_convolution": partial(weighted, Conv2D(SAME, 1, 1), (2, 7, 7, 300), (70, 3, 3, 300), (70,)),
    "positions": partial(weighted, Conv2D(SAME, 1, 1), (2, 40, 20, 24), (50, 1, 1, 24), (50,)),
    "depthwise": partial(weighted, DepthwiseConv2D(SAME, 1, 1), (1, 50, 50, 50), (1, 3, 3, 50), (50,)),
    "depthwise_clipped": partial(weighted, DepthwiseConv2D(SAME, 2, 2, Activation.RELU_N1_TO_1, 2), (1, 90, 90, 20),
                                 (1, 3, 3, 40), (40,)),
    "int8_rows": partial(integers, FullyConnected(), (300, 200), (130, 200), 0),
    "int8_columns": partial(integers, FullyConnected(), (1, 900), (2500, 900), 0),
    "int8_convolution": partial(integers, Conv2D(SAME, 2, 2), (1, 61, 47, 24), (60, 3, 3, 24), 0),
    "int8_positions": partial(integers, Conv2D(SAME, 1, 1), (1, 60, 60, 24), (70, 1, 1, 24), 0),
    "int8_depthwise": partial(integers, DepthwiseConv2D(SAME, 1, 1), (1, 60, 60, 120), (1, 3, 3, 120), 3),
    "int8_sum": sum_of_bytes,
    "hybrid_rows": partial(integers, FullyConnected(), (300, 200), (130, 200), 0, is_real=True),
    "hybrid_convolution": partial(integers, Conv2D(SAME, 1, 1), (2, 30, 30, 24), (60, 3, 3, 24), 0, is_real=True),
    "softmax": partial(real, applied(normalize.Softmax(1.0)), (300, 200)),
    "neighbours": partial(real, applied(normalize.LocalResponseNormalization(2, 1.0, 0.5, 0.5)), (50, 40, 1, 30)),
    "sums": partial(real, applied(reduce.Sum(), [1]), (300, 1000)),
    "means_beside": partial(real, applied(reduce.Mean(), [1]), (70, 90, 50)),
    "greatest": partial(real, lambda s, x: [s.apply(reduce.ArgMax(DType.INT32), x, s.constant(1))], (300, 1000)),
    "sums_so_far": partial(real, applied(reduce.Cumsum(), 1), (80, 90, 50)),
    "pools": partial(real, lambda s, x: [s.apply(op(SAME, 2, 2, filter_width=3, filter_height=3), x)
                                         for op in (pool.MaxPool2D, pool.AveragePool2D)], (1, 90, 70, 33)),
    "turned": partial(real, applied(layout.Transpose(), [2, 0, 1]), (60, 70, 90)),
    "turned_rows": partial(real, applied(layout.Transpose(), [1, 0, 2]), (60, 70, 90)),
    "joined": partial(real, applied(layout.Concatenation(1)), (300, 400), (300, 500)),
    "resized": partial(real, applied(ResizeBilinear(), [90, 110]), (1, 31, 47, 20)),
}


def native(model: Model, num_threads: int, limits: circlet.Limits | None = None) -> circlet.Session:
    return circlet.Session(model, backend="native", num_threads=num_threads, limits=limits)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Team]:
    """The teams that runs are given from now on."""
    found: list[Team] = []
    take = Teams.take

    def noted(teams: Teams) -> Team:
        found.append(take(teams))
        return found[-1]

    monkeypatch.setattr(Teams, "take", noted)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_results_do_not_depend_on_the_number_of_threads(make: Callable[[], Made], taken: list[Team]) -> None:
    model, given = make()
    wanted = [each.tobytes() for each in native(model, 1).invoke(0, given)]
    assert not taken
    for count in (2, 3):
        session = native(model, count)
        for _ in range(3):
            assert [each.tobytes() for each in session.invoke(0, given)] == wanted
    assert len(taken) == 6 * TEAMS


def attention(s: SubgraphBuilder, x: Value) -> Sequence[Value]:
    """Layers of attention among 200 places, of which one product gives queries, keys and values."""
    products = []
    for k in range(2):
        made = s.apply(FullyConnected(), x, s.constant(values((576, 192), np.float32, k) / 8), None)
        products.append(made)
        parts = s.apply(layout.Transpose(), s.apply(Reshape(), made, s.constant([200, 3, 3, 64])),
                        s.constant([1, 2, 0, 3]))
        query, key, value = (s.apply(Reshape(), s.apply(
            layout.Slice(), parts, s.constant([each, 0, 0, 0]), s.constant([1, 3, 200, 64])), s.constant([3, 200, 64]))
            for each in range(3))
        query = s.apply(elementwise.Mul(), query, s.constant(np.float32(0.5)))
        share = s.apply(normalize.Softmax(), s.apply(BatchMatMul(adj_y=True), query, key))
        heads = s.apply(layout.Transpose(), s.apply(BatchMatMul(), share, value), s.constant([1, 0, 2]))
        x = g.add(s, x, s.apply(Reshape(), heads, s.constant([200, 192])))
    return [x, *products]


def test_layers_that_are_large_enough_to_be_shared_out() -> None:
    """Each reads what it is given, though one function does for all."""
    model, given = real(attention, (200, 192))
    found, expected = (circlet.Session(model, each).invoke(0, given)[0] for each in ("native", "cpu"))
    np.testing.assert_allclose(found, expected, 1e-4, 1e-4)


def network(s: SubgraphBuilder, x: Value) -> Sequence[Value]:
    """A product that is large enough, and what follows it."""
    y = s.apply(FullyConnected(), x, s.constant(values((128, 128), np.float32, 7) / 16))
    return [s.apply(elementwise.Add(), x, s.apply(unary.Tanh(), y))]


SHAPE = (256, 128)


def repeated(s: SubgraphBuilder, v: Sequence[Value]) -> Sequence[Value]:
    return [g.plus(s, v[0]), *network(s, v[1])]


def loop(bound: int) -> Model:
    return g.while_model(g.below(bound), repeated, [g.i32(0), values(SHAPE, np.float32, 0)])


def run(session: circlet.Session, x: Array, start: int = 0) -> bytes:
    return session.invoke(0, [g.i32(start), x])[1].tobytes()


def test_more_threads_than_processors(taken: list[Team]) -> None:
    model, given = real(network, SHAPE)
    one, many = (native(model, count).invoke(0, given)[0].tobytes() for count in (1, 17))
    assert one == many
    assert len(taken) == TEAMS


@pytest.mark.skipif(not TEAMS, reason="no loops are shared out here")
def test_the_code_of_threads_is_soon_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All files are looked at once by an installation, which finds what another one of the same content compiled."""
    notes: list[str] = []

    def noted(name: str, made: Callable[[], T]) -> Callable[[], T]:
        def make() -> T:
            notes.append(name)
            return made()

        return make

    model, given = real(network, SHAPE)
    wanted, found = native(model, 1).invoke(0, given)[0].tobytes(), []
    monkeypatch.setattr(team, "_compiled", noted("compiled", team._compiled))
    monkeypatch.setattr(team, "toolchain", noted("files", lambda: "content"))
    try:
        for installation in (b"one", b"one", b"other", b"other"):
            team._library.cache_clear()
            monkeypatch.setattr(team, "installation", partial(bytes, installation))
            assert native(model, 2).invoke(0, given)[0].tobytes() == wanted
            found.append(tuple(notes))
            notes.clear()
    finally:
        team._library.cache_clear()
    assert found == [("files", "compiled"), (), ("files",), ()]


def test_loops_keep_their_limits(taken: list[Team]) -> None:
    x = values(SHAPE, np.float32, 0)
    wanted = run(native(loop(30), 1), x)
    assert run(native(loop(30), 3, circlet.Limits(max_iterations=30)), x) == wanted
    session = native(loop(30), 3, circlet.Limits(max_iterations=29))
    for _ in range(2):
        with pytest.raises(circlet.LimitError, match="max_iterations=29 "):
            run(session, x)
    assert len(taken) == 3 * TEAMS


def test_cancel_stops_an_endless_loop() -> None:
    session, x, bound = native(loop(1 << 30), 3), values(SHAPE, np.float32, 0), 1 << 30
    for _ in range(2):
        assert run(session, x, bound) == x.tobytes()
        Timer(0.1, session.cancel).start()
        with pytest.raises(circlet.CancelledError):
            run(session, x)


def test_the_first_error_is_found() -> None:
    """Where a turn may fail, one thread takes all, so that it is the first one that fails."""
    b = ModelBuilder()
    main = b.subgraph("main")
    one, other = (main.input(name, DType.INT32, (600, 500)) for name in ("one", "other"))
    main.output(main.apply(elementwise.FloorDiv(), one, other), *network(main, main.input("x", DType.FLOAT32, SHAPE)))
    session, x = native(b.build(), 3), values(SHAPE, np.float32, 1)
    numbers = np.arange(1, 300001, dtype=np.int32).reshape(600, 500)
    bad = np.where(numbers % 1000 == 999, 0, numbers).astype(np.int32)
    for _ in range(2):
        with pytest.raises(circlet.ExecutionError, match=r"FLOOR_DIV.*division by zero"):
            session.invoke(0, [numbers, bad, x])
        assert np.array_equal(session.invoke(0, [numbers, numbers, x])[0], np.ones((600, 500)))


def test_sessions_run_at_the_same_time(taken: list[Team]) -> None:
    """Each run has a team of its own; no more are made than runs at a time."""
    inputs = [values(SHAPE, np.float32, seed) for seed in range(4)]
    alone = native(loop(5), 1)
    wanted = [run(alone, x) for x in inputs]
    sessions = [native(loop(5), count) for count in (2, 3)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            for session in sessions:
                assert list(pool.map(partial(run, session), inputs)) == wanted
    assert len(taken) == 24 * TEAMS
    assert len(set(taken)) <= 8


PROGRAM = """
import os, sys, threading
import numpy as np
from tests.native.test_threads import SHAPE, loop, native, run, values

x = values(SHAPE, np.float32, 0)
session = native(loop(5), 2)
wanted = run(session, x)
child = os.fork()
if not child:
    os._exit(0 if run(session, x) == wanted == run(session, x) else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert run(session, x) == wanted
endless = native(loop(1 << 30), 2)
threading.Thread(target=run, args=(endless, x), daemon=True).start()
while not endless._running:
    pass
print("left")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_a_forked_process_has_threads_of_its_own_and_programs_end() -> None:
    """The second session is in the midst of a run when the program ends."""
    found = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True,
                           timeout=100, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (0, "left\n", "")
