"""A short campaign finds nothing, what was found once stays away, and all that can be found is told."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import circlet
from circlet.backends.native.emit.emitter import Emitter
from circlet.runtime.exec.session import Session
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.text import to_text
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.matmul import FullyConnected
from circlet.runtime.ops.quantize import Cast
from circlet.runtime.ops.unary import Sqrt
from circlet.schema.files import dump_model
from tests.fuzz import corpus
from tests.fuzz.case import NATIVE, SHARES, Checks, Kitchen, Subject
from tests.fuzz.judge import Finding, judge
from tests.fuzz.pool import Died, Worker
from tests.fuzz.seeds import few

CORPUS = corpus.entries()


@pytest.fixture(autouse=True)
def uncached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept on the disk, and what `judge` says of bounds checks is forgotten."""
    monkeypatch.setenv("CIRCLET_CACHE_DIR", "")
    monkeypatch.setenv("CIRCLET_CHECK_BOUNDS", os.environ.get("CIRCLET_CHECK_BOUNDS", "0"))


def campaign(seed: int, cases: int, few: bool) -> Counter[str]:
    """Tries cases, none of which may be a finding; says how far they came."""
    with Worker(few=few) as worker:
        words = list(worker.numbers(seed, 0, cases))
    assert not [each for each in words if "key" in each]
    counts: Counter[str] = Counter()
    for name, count in words[-1]["counts"].items():
        counts[name.partition(" ")[2]] += count
    assert counts["cases"] == cases
    assert min(counts[name] for name in ("loaded", "refused", "ran", "failed", "native", "bounds")) > 0
    return counts


@pytest.mark.parametrize("cases", [50, pytest.param(300, marks=pytest.mark.slow)])
def test_changed_and_generated_models(cases: int) -> None:
    campaign(3, cases, few=True)


def test_cases_are_always_the_same() -> None:
    seeds = few()[::7]
    one, other = Kitchen(seeds), Kitchen(seeds)
    for number in range(40):
        made, again = (each.subject(each.recipe(3, number)) for each in (one, other))
        assert (made is None) == (again is None)
        if made is not None and again is not None:
            assert (made.content, made.weights, made.checks) == (again.content, again.weights, again.checks)
            assert (made.model and to_text(made.model)) == (again.model and to_text(again.model))
    assert set(SHARES) == set(NATIVE)
    assert sum(SHARES.values()) == pytest.approx(1)


@pytest.mark.parametrize("entry", [each for k, each in enumerate(CORPUS) if k % 3 == 0], ids=lambda each: each.name)
def test_some_of_what_was_found(entry: corpus.Entry) -> None:
    assert corpus.outcome(judge(entry.subject())) == entry.outcome, entry.found


@pytest.mark.slow
@pytest.mark.parametrize("entry", CORPUS, ids=lambda each: each.name)
def test_all_that_was_found(entry: corpus.Entry) -> None:
    with Worker() as worker:
        word = worker.subject(entry.subject())
    assert word.get("key") is None, word
    assert corpus.outcome(word["counts"]) == entry.outcome, entry.found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 104))
def test_more_changed_and_generated_models(seed: int) -> None:
    counts = campaign(seed, 1500, few=False)
    assert counts["unmade"] < 10


def subject(**checks: bool) -> Subject:
    """`y = x + x`, run natively."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", np.float32, (5,))
    main.output(main.apply(Add(), x, x))
    return Subject("flatbuffer", dump_model(b.build(), "tflite"), None, (), 1,
                   Checks(**{"native": True, "bounds": True, **checks}))


def test_a_right_model_gives_no_finding() -> None:
    counts = judge(subject())
    assert (counts["ran"], counts["native"], counts["bounds"]) == (1, 1, 1)


def _raise(error: Exception) -> Callable[..., Any]:
    def function(*_: Any, **__: Any) -> Any:
        raise error

    return function


FAULTS = [("load", KeyError("x"), "KeyError"), ("load", MemoryError(), "MemoryError"),
          ("Session", AssertionError(), "AssertionError"),
          ("load", circlet.ModelError("..."), "wrapped NameError"),
          ("load", circlet.ModelError("f() missing 1 required positional argument: 'x'"), "wrapped ModelError")]


@pytest.mark.parametrize(("name", "error", "key"), FAULTS, ids=[key for _, _, key in FAULTS])
def test_an_exception_that_is_not_circlets_is_found(monkeypatch: pytest.MonkeyPatch, name: str, error: Exception,
                                                    key: str) -> None:
    if key == "wrapped NameError":
        error.__cause__ = NameError()
    monkeypatch.setattr(circlet, name, _raise(error))
    with pytest.raises(Finding) as caught:
        judge(subject())
    assert caught.value.key.startswith(key)


def test_other_results_of_native_code_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    invoke = Session.invoke

    def changed(self: Session, index: int, arrays: Any, listener: Any = None) -> Any:
        results = invoke(self, index, arrays, listener)
        return [each * np.float32(1.001) for each in results] if "native" in self.backend_of(0) else results

    monkeypatch.setattr(Session, "invoke", changed)
    with pytest.raises(Finding) as caught:
        judge(subject())
    assert caught.value.key == "differs: ADD"
    assert caught.value.given is not None


def truncated(number: int) -> Subject:
    """Twice the root of a number, cut to a whole one: all of its floats are made of integers."""
    b = ModelBuilder()
    main = b.subgraph("main")
    root = main.apply(Sqrt(), main.op(Cast(), main.input("x", DType.INT32, (1,)),
                                      outputs=[Tensor("real", DType.FLOAT32, (1,))])[0])
    main.output(*main.op(Cast(), main.apply(Add(), root, root), outputs=[Tensor("whole", DType.INT32, (1,))]))
    return Subject("flatbuffer", dump_model(b.build(), "tflite"), None, (), 1, Checks(native=True),
                   given=(0, (np.array([number], np.int32),)))


def test_whole_numbers_that_hang_on_the_last_bit_are_left_to_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 2.83 no backend makes 1, but of 4.0 it may make 3."""
    invoke = Session.invoke

    def less(self: Session, index: int, arrays: Any, listener: Any = None) -> Any:
        results = invoke(self, index, arrays, listener)
        return [each - 1 for each in results] if "native" in self.backend_of(0) else results

    monkeypatch.setattr(Session, "invoke", less)
    assert judge(truncated(4))["undecided"] > 0
    with pytest.raises(Finding, match=r"first np.int32\(2\) and np.int32\(1\)"):
        judge(truncated(2))


def combined(op: Op, *numbers: float) -> Subject:
    """An operator on a row of numbers and itself."""
    b = ModelBuilder()
    main = b.subgraph("main")
    x = main.input("x", np.float32, (1, len(numbers)))
    main.output(main.apply(op, x, x))
    return Subject("flatbuffer", dump_model(b.build(), "tflite"), None, (), 1, Checks(native=True),
                   given=(0, (np.array([numbers], np.float32),)))


def test_sums_that_overflow_in_one_order_are_left_to_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a square overflows, a sum of squares may be anything that is not finite; other operators add nothing up."""
    invoke = Session.invoke

    def wrong(self: Session, index: int, arrays: Any, listener: Any = None) -> Any:
        results = invoke(self, index, arrays, listener)
        is_huge = (np.abs(arrays[0][np.isfinite(arrays[0])]) > 1e20).any()
        return [each * np.nan for each in results] if "native" in self.backend_of(0) and is_huge else results

    monkeypatch.setattr(Session, "invoke", wrong)
    assert judge(combined(FullyConnected(), np.inf, 1e30))["undecided"] > 0
    with pytest.raises(Finding, match=r"inf.*nan"):
        judge(combined(Add(), np.inf, 1e30))


def test_a_sum_that_is_wrong_of_modest_numbers_too_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    invoke = Session.invoke

    def wrong(self: Session, index: int, arrays: Any, listener: Any = None) -> Any:
        results = invoke(self, index, arrays, listener)
        return [each * np.nan for each in results] if "native" in self.backend_of(0) else results

    monkeypatch.setattr(Session, "invoke", wrong)
    with pytest.raises(Finding, match=r"inf.*nan"):
        judge(combined(FullyConnected(), np.inf, 1e30))


def test_a_failure_of_one_backend_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    invoke = Session.invoke

    def failing(self: Session, index: int, arrays: Any, listener: Any = None) -> Any:
        if "native" in self.backend_of(0):
            raise circlet.ExecutionError("no")
        return invoke(self, index, arrays, listener)

    monkeypatch.setattr(Session, "invoke", failing)
    with pytest.raises(Finding, match="only native fails: no"):
        judge(subject())


def test_warnings_and_changed_inputs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    invoke = Session.invoke

    def warning(self: Session, index: int, arrays: Any, listener: Any = None) -> Any:
        warnings.warn("overflow", RuntimeWarning, stacklevel=1)
        return invoke(self, index, arrays, listener)

    def changing(self: Session, index: int, arrays: Any, listener: Any = None) -> Any:
        arrays[0][0] += 1
        return invoke(self, index, arrays, listener)

    monkeypatch.setattr(Session, "invoke", warning)
    with pytest.raises(Finding, match="RuntimeWarning: overflow"):
        judge(subject())
    monkeypatch.setattr(Session, "invoke", changing)
    with pytest.raises(Finding, match="a run changed its inputs"):
        judge(subject())


def test_bounds_checks_are_on(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Emitter.load

    def load(e: Emitter, base: Any, dtype: Any, offset: Any = 0) -> Any:
        return right(e, base, dtype, offset if isinstance(offset, int) else e.builder.add(offset, e.number(1)))

    monkeypatch.setattr(Emitter, "load", load)
    with pytest.raises(Finding) as caught:
        judge(subject())
    assert caught.value.key.startswith("BoundsError")


@pytest.mark.slow
def test_a_worker_that_ends_or_hangs_is_noticed() -> None:
    with Worker(hang=60.0) as worker:
        worker._process.kill()
        with pytest.raises(Died, match="SIGKILL"):
            worker.subject(subject())
    with Worker(hang=0.01) as worker, pytest.raises(Died, match="no word"):
        worker.subject(subject())
