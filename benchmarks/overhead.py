"""Measures what a run costs beside computing: a small model run in each way, models with state, a loop that grows.

    python -m benchmarks.overhead [--rounds N] [--models DIR]
"""

from __future__ import annotations

import os

os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")})

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier, Thread
from typing import Any, TypeAlias

import numpy as np

import circlet
from benchmarks.cases import EXTERNAL, Array, suite
from circlet.interpreter import Interpreter
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Less
from circlet.runtime.ops.controlflow import CallOnce, While
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.index import DynamicUpdateSlice
from circlet.runtime.ops.layout import Concatenation
from circlet.runtime.ops.shape import Fill
from circlet.runtime.ops.variable import AssignVariable, ReadVariable, VarHandle
from circlet.tools.measuring.environment import environment
from circlet.tools.tables import duration_text

Run: TypeAlias = Callable[[], object]
Inputs: TypeAlias = Mapping[str, Array]
Way: TypeAlias = Callable[[Path, Inputs], Run]
"""Makes a model ready to be run in one way on these inputs."""

LARGE, SMALL = (25_000, 1_000), (4,)
"""The shapes of variables; the large one has 100 MB."""
TURNS, ROW = 28, 8
"""Of a loop whose value grows by a row in each."""
BATCH = 0.002
"""Seconds for which a run is repeated between two looks at the clock."""
WARM = 20
"""Runs before the first that are measured."""
THREADS, SHARE = 8, 1_000
"""Threads that run one session, and the runs of each."""


def _session(path: Path, inputs: Inputs) -> Run:
    return partial(circlet.Session(path).run, dict(inputs))


def _timed_session(path: Path, inputs: Inputs) -> Run:
    return partial(circlet.Session(path, limits=circlet.Limits(deadline=60)).run, dict(inputs))


def _signature(path: Path, inputs: Inputs) -> Run:
    session = circlet.Session(path)
    key = session.model.signatures[0].key
    return lambda: session.signature(key)(**inputs)


def _threads(path: Path, inputs: Inputs) -> Run:
    """All threads' runs; see `PARTS`."""
    session, given = circlet.Session(path), dict(inputs)

    def part(start: Barrier) -> None:
        start.wait()
        for _ in range(SHARE):
            session.run(given)

    def run() -> None:
        start = Barrier(THREADS)
        threads = [Thread(target=part, args=(start,)) for _ in range(THREADS)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()

    return run


def _runner(kind: Any, path: Path, inputs: Inputs) -> Run:
    return partial(ready(kind, path).get_signature_runner(), **inputs)


def _invoke(kind: Any, path: Path, inputs: Inputs) -> Run:
    """`invoke` alone, once values are set."""
    interpreter = ready(kind, path)
    _whole(interpreter, inputs)()
    run: Run = interpreter.invoke
    return run


def _set_and_get(kind: Any, path: Path, inputs: Inputs) -> Run:
    return _whole(ready(kind, path), inputs)


def ready(kind: Any, path: Path) -> Any:
    """An interpreter of that class whose tensors are allocated."""
    interpreter = kind(model_path=str(path), num_threads=1)
    interpreter.allocate_tensors()
    return interpreter


def _whole(interpreter: Any, inputs: Inputs) -> Run:
    details = interpreter.get_signature_runner().get_input_details()
    values = [(details[name]["index"], value) for name, value in inputs.items()]
    results = [each["index"] for each in interpreter.get_output_details()]

    def run() -> list[Array]:
        for index, value in values:
            interpreter.set_tensor(index, value)
        interpreter.invoke()
        return [interpreter.get_tensor(each) for each in results]

    return run


STATELESS: dict[str, tuple[Way, Callable[[Any, Path, Inputs], Run]]] = {
    "Session.run(dict)": (_session, _runner),
    "Session.run, a deadline": (_timed_session, _runner),
    "Session.run, 8 threads": (_threads, _runner),
    "Session.signature(key)(...)": (_signature, _runner),
    "Interpreter, signature runner": (partial(_runner, Interpreter), _runner),
    "Interpreter.invoke": (partial(_invoke, Interpreter), _invoke),
    "Interpreter, set, invoke, get": (partial(_set_and_get, Interpreter), _set_and_get),
}
"""Ways of running a model, and how LiteRT is run beside."""
PARTS = {"Session.run, 8 threads": THREADS * SHARE}
"""How many runs one call of some ways makes."""


def _variable(s: SubgraphBuilder, name: str) -> Value:
    return s.op(VarHandle("", name), outputs=[Tensor(f"handle_{name}", DType.RESOURCE, ())])[0]


def _read(s: SubgraphBuilder, name: str, shape: tuple[int, ...]) -> Value:
    return s.op(ReadVariable(), _variable(s, name), outputs=[Tensor(f"value_{name}", DType.FLOAT32, shape)])[0]


def _stateful(writes_large: bool) -> Model:
    """Adds x to a small variable, or writes it to a row of the large one."""
    b = ModelBuilder()
    main, init = b.subgraph("main"), b.subgraph("init")
    for name, shape in (("large", LARGE), ("small", SMALL)):
        zeros = init.apply(Fill(), init.constant(np.array(shape, np.int32)), init.constant(np.float32(0)))
        init.op(AssignVariable(), _variable(init, name), zeros, outputs=[])
    main.op(CallOnce(init.index), outputs=[])
    x = main.input("x", DType.FLOAT32, (1, LARGE[1]) if writes_large else SMALL)
    if writes_large:
        start = main.constant(np.array([7, 0], np.int32))
        made = main.apply(DynamicUpdateSlice(), _read(main, "large", LARGE), x, start)
        main.op(AssignVariable(), _variable(main, "large"), made, outputs=[])
        found = main.apply(Add(), x, x)
    else:
        found = main.apply(Add(), _read(main, "small", SMALL), x)
        main.op(AssignVariable(), _variable(main, "small"), found, outputs=[])
    main.output(found)
    b.signature("serving_default", main, {"x": x}, {"y": found})
    return b.build()


def _growing() -> Model:
    """A loop of n turns that puts a row in front of x and adds something to all rows."""
    b = ModelBuilder()
    main, cond, body = (b.subgraph(each) for each in ("main", "cond", "body"))
    carried = (("k", DType.INT32, ()), ("n", DType.INT32, ()), ("x", DType.FLOAT32, (-1, ROW)))
    k, n, x = (body.input(*each) for each in carried)
    longer, added = ([Tensor(name, DType.FLOAT32, (1, ROW), (-1, ROW))] for name in ("longer", "added"))
    (value,) = body.op(Concatenation(0), body.constant(np.ones((1, ROW), np.float32)), x, outputs=longer)
    (value,) = body.op(Add(), value, body.constant(np.float32(1)), outputs=added)
    body.output(body.apply(Add(), k, body.constant(1)), n, value)
    cond.output(cond.apply(Less(), *[cond.input(*each) for each in carried][:2]))
    turns, first = main.input("n", DType.INT32), main.input("x", DType.FLOAT32, (1, ROW))
    results = [Tensor(name, dtype, tuple(max(size, 1) for size in shape), shape or None)
               for name, dtype, shape in carried]
    found = main.op(While(cond.index, body.index), main.constant(0), turns, first, outputs=results)[2]
    main.output(found)
    b.signature("serving_default", main, {"n": turns, "x": first}, {"y": found})
    return b.build()


def _least(sides: Sequence[tuple[Run, int]], rounds: int) -> list[float]:
    """Seconds that a run of each side takes, measured in turns: of CPU time, or of the wall's where threads may wait.
    Each side is a call and the number of runs that it makes."""
    clocks = [time.process_time if runs == 1 else time.perf_counter for _, runs in sides]
    repeats = [repeats_of(run) for run, _ in sides]
    best = [float("inf")] * len(sides)
    for _ in range(rounds):
        for side, (run, _) in enumerate(sides):
            clock, repeat = clocks[side], range(repeats[side])
            begin = clock()
            for _ in repeat:
                run()
            best[side] = min(best[side], clock() - begin)
    return [found / count / runs for found, count, (_, runs) in zip(best, repeats, sides, strict=True)]


def repeats_of(run: Run, seconds: float = BATCH) -> int:
    """How many runs take so long, once they are as quick as they get."""
    times = []
    for _ in range(WARM):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return max(1, int(seconds / max(min(times), 1e-7)))


def _print(name: str, own: tuple[Run, int], other: Run | None, rounds: int) -> None:
    found = _least([own] if other is None else [own, (other, 1)], rounds)
    print(_line(name, found[0], found[1] if len(found) > 1 else None), flush=True)


def _line(name: str, own: float, other: float | None) -> str:
    beside = "" if other is None else f"{duration_text(other):>12}{own / other:>8.2f}"
    return f"{name:40}{duration_text(own):>12}{beside}"


def _lines(path: Path, inputs: Inputs, peer: Any, rounds: int) -> None:
    for name, (way, beside) in STATELESS.items():
        other = None if peer is None else beside(peer, path, inputs)
        _print(name, (way(path, inputs), PARTS.get(name, 1)), other, rounds)


def _stateful_lines(folder: Path, peer: Any, rounds: int) -> None:
    for name, writes_large in (("a counter beside a variable of 100 MB", False), ("a row of 100 MB", True)):
        path = folder / f"state_{writes_large:d}.tflite"
        circlet.save(circlet.convert(_stateful(writes_large)), path)
        inputs = {"x": np.ones((1, LARGE[1]) if writes_large else SMALL, np.float32)}
        other = None if peer is None else _set_and_get(peer, path, inputs)
        _print(name, (_session(path, inputs), 1), other, rounds)


def _growing_line(folder: Path, peer: Any, rounds: int) -> None:
    path, inputs = folder / "growing.tflite", {"n": np.array(TURNS, np.int32), "x": np.ones((1, ROW), np.float32)}
    circlet.save(circlet.convert(_growing()), path)
    other = None if peer is None else _set_and_get(peer, path, inputs)
    _print(f"a loop that grows, {TURNS} turns", (_session(path, inputs), 1), other, rounds)


def litert() -> Any:
    """LiteRT's class; None if it is not installed."""
    try:
        from ai_edge_litert.interpreter import Interpreter as Peer
    except ImportError:
        return None
    return Peer


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100, help="batches of runs of each (default: %(default)s)")
    parser.add_argument("--models", type=Path, default=EXTERNAL, metavar="DIR",
                        help="folder of models (default: %(default)s)")
    options = parser.parse_args()
    folder, cases = suite(options.models)
    case = next(each for each in cases if each.name in ("if", "cond"))
    peer = litert()
    print(", ".join(f"{name} {value}" for name, value in environment().items()))
    print(f"{case.name}: {case.what}; the least of {options.rounds} batches, CPU time but for threads\n")
    print(f"{'':40}{'circlet':>12}{'LiteRT':>12}{'ratio':>8}")
    _lines(case.file(folder), case.inputs(folder), peer, options.rounds)
    with TemporaryDirectory() as made:
        _stateful_lines(Path(made), peer, options.rounds)
        _growing_line(Path(made), peer, options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
