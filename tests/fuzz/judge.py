"""Tries a model in every way that circlet offers, and tells what is wrong."""

from __future__ import annotations

import os
import re
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np

import circlet
from circlet.backends.native.check.watched import VARIABLE
from circlet.backends.native.load import cache
from circlet.runtime.exec.state.store import NOW
from circlet.runtime.exec.state.variables import Snapshot
from circlet.runtime.ir.held import Held
from circlet.runtime.ir.model import ABSENT, Model, Operator, Subgraph
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.text import to_text
from circlet.runtime.ir.types import FLOATS, DType
from circlet.runtime.ops.elementwise import Mul
from circlet.schema.files import dump_model
from tests.fuzz import boundary
from tests.fuzz.boundary import Array
from tests.fuzz.case import Subject
from tests.fuzz.memory import changed_model

ITERATIONS, SECONDS = 60, 2.0
LIMITS = circlet.Limits(max_iterations=ITERATIONS, deadline=SECONDS, memory=64 << 20)
MOST_ELEMENTS = 1 << 16
"""Larger inputs are not passed in."""
SLOW = 20.0
"""Seconds of the processor's time that one case may take."""
TRIALS = 30
"""Of other last bits: what lies next to a whole number passes it in some of them only."""
TOLERANCES = {DType.FLOAT16: 4e-3, DType.BFLOAT16: 3e-2}
TOLERANCE = 2e-5
"""Of floats: relative, and absolute as a part of the largest value."""
ABSOLUTE = {"GELU": 4e-7}
"""By how much more elements may differ behind operators whose code is exact to so much, by docs/math.md."""
PYTHONS_WORDS = re.compile(
    r"positional argument|function argument|has no attribute|NoneType|unsupported operand|object is not|"
    r"not subscriptable|cannot be interpreted|to unpack|must be real number|(list|tuple) index out of|zip\(\) argument")
"""What Python says of mistakes in code."""
PLANNED = 3
"""One native case of so many is run from its file, too."""
RANDOM = ("RANDOM", "MULTINOMIAL", "BERNOULLI")
SUMS = re.compile("FULLY_CONNECTED|MATMUL|CONV|SUM|MEAN|POOL|LSTM|RNN|SVDF|RFFT|DFT")
"""Operators that add up numbers in an order of their own."""
MIXED = frozenset({"DFT", "RFFT2D"})
"""Operators that may make NaN of any infinity, as they add each number to others of every sign."""
MODEST = 1e9
"""Few products of numbers of this size, if any, overflow."""


class Finding(Exception):
    """Something that must not happen."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key
        """What is the same for all findings of one cause, as far as can be told."""
        self.given: tuple[int, tuple[Array, ...]] | None = None
        """The subgraph that ran, and what on."""


def judge(subject: Subject) -> Counter[str]:
    """Tries a model; counts how far it came.

    Raises:
        Finding: what was wrong.
    """
    counts: Counter[str] = Counter()
    begin = time.process_time()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            _Trial(subject, counts).run()
        except circlet.CircletError as error:
            counts["refused"] += 1
            _check_words(error)
        # circlet warns by UserWarnings; all others come from code that does not know what it does.
        unexpected = [each for each in heard if each.category is not UserWarning]
        if unexpected:
            first = unexpected[0]
            raise Finding(f"warning {first.category.__name__} {_file(first.filename)}:{first.lineno}",
                          f"{first.category.__name__}: {first.message} at {first.filename}:{first.lineno}")
    taken = time.process_time() - begin
    if taken > SLOW:
        raise Finding("slow", f"{taken:.1f} s of the processor's time")
    return counts


def _check_words(error: circlet.CircletError) -> None:
    """An error speaks of the model, not of the code that reads it."""
    cause = error.__cause__ or error
    if PYTHONS_WORDS.search(str(error)) or isinstance(cause, (NameError, AssertionError)):
        raise Finding(f"wrapped {type(cause).__name__} at {_origin(cause)}",
                      f"{type(error).__name__}: {error}, from {type(cause).__name__}: {cause}")


def _file(path: str) -> str:
    return "/".join(path.split("/")[-2:])


def _origin(error: BaseException) -> str:
    """The innermost place in circlet that an exception passed."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if "/circlet/" in each.filename and "site-packages" not in each.filename]
    last = (own or list(frames))[-1] if frames else None
    return "nowhere" if last is None else f"{_file(last.filename)}:{last.name}:{last.lineno}"


@contextmanager
def stage(name: str) -> Iterator[None]:
    """What is not an error of circlet's is a finding."""
    try:
        yield
    except (circlet.CircletError, Finding):
        raise
    except MemoryError as error:
        raise Finding(f"MemoryError {name} at {_origin(error)}", f"{name}: MemoryError: {error}") from error
    except Exception as error:
        raise Finding(f"{type(error).__name__} at {_origin(error)}",
                      f"{name}: {type(error).__name__}: {str(error)[:500]}\n"
                      f"{''.join(traceback.format_tb(error.__traceback__)[-4:])}") from error


class _Trial:
    """One model on its way through everything."""

    def __init__(self, subject: Subject, counts: Counter[str]) -> None:
        self.subject = subject
        self.checks = subject.checks
        self.counts = counts
        self.r = Random(subject.number)

    def run(self) -> None:
        with stage("load"):
            model = self.subject.model or circlet.load(self.subject.content, self.subject.weights)
            for each in self.subject.edits:
                model = changed_model(model, Random(each))
        self.counts["loaded"] += 1
        if self.checks.text:
            with stage("text"):
                to_text(model)
        with stage("session"):
            session = circlet.Session(model, "cpu", limits=LIMITS)
        if self.checks.text:
            with stage("copies"):
                session.copies()
        if self.checks.save:
            self.save(model)
        if self.subject.given is not None:
            self.enter(model, session, *self.subject.given)
            return
        for index in range(min(len(model.subgraphs), 4) if self.checks.entries else 1):
            given = self.inputs(model.subgraphs[index], self.subject.inputs if index == 0 else ())
            if given is None:
                self.counts["large"] += 1
                continue
            try:
                self.enter(model, session, index, given)
            except Finding as finding:
                finding.given = (index, tuple(given))
                raise

    def enter(self, model: Model, session: circlet.Session, index: int, given: Sequence[Array]) -> None:
        """Runs a subgraph on both backends."""
        numpy_results = self.attempt("run", session, index, given)
        self.counts["failed" if isinstance(numpy_results, circlet.CircletError) else "ran"] += 1
        if self.checks.native:
            self.compare_native(model, session, index, given, numpy_results)

    def attempt(self, name: str, session: circlet.Session, index: int,
                given: Sequence[Array]) -> list[Array] | circlet.CircletError:
        """What a run gives; a run that fails leaves variables and inputs as they were."""
        before, copies = session._variables.snapshot(), [each.copy() for each in given]
        try:
            with stage(name):
                return session.invoke(index, given)
        except circlet.CircletError as error:
            if not _is_same_state(before, session._variables.snapshot()):
                raise Finding(f"{name} state", f"a failed run changed variables: {error}") from None
            return error
        finally:
            for one, other in zip(given, copies, strict=True):
                if different(one, other, DType.INT32) is not None:
                    raise Finding(f"{name} inputs", "a run changed its inputs")

    def compare_native(self, model: Model, cpu: circlet.Session, index: int, given: Sequence[Array],
                       wanted: list[Array] | circlet.CircletError) -> None:
        os.environ[VARIABLE] = "1" if self.checks.bounds else "0"
        try:
            with stage("native session"):
                session = circlet.Session(model, "native", limits=LIMITS)
        except circlet.CircletError as error:
            raise Finding(f"native session {type(error).__name__}", f"only the native session fails: {error}") from None
        found = self.attempt("native", session, index, given)
        self.counts["native"] += 1
        self.counts["bounds"] += self.checks.bounds
        self.agree(model, cpu, index, given, wanted, found)
        if isinstance(found, list) and not _is_stateful(model):
            again = self.attempt("native again", session, index, given)
            self.agree(model, cpu, index, given, wanted, again)

        if not self.checks.bounds and self.subject.number % PLANNED == 0:
            self.compare_planned(model, cpu, index, given, wanted)

    def compare_planned(self, model: Model, cpu: circlet.Session, index: int, given: Sequence[Array],
                        wanted: list[Array] | circlet.CircletError) -> None:
        """Runs the file of a model in a session that leaves its plan, and in one that finds it."""
        try:
            content = dump_model(model, "tflite")
        except circlet.CircletError:
            return
        with TemporaryDirectory() as folder, patch.dict(os.environ, {cache.VARIABLE: folder}):
            for name in ("first", "planned"):
                with stage(f"{name} session"):
                    session = circlet.Session(content, "native", limits=LIMITS)
                self.agree(model, cpu, index, given, wanted, self.attempt(name, session, index, given))
            self.counts["planned"] += session._open is None

    def agree(self, model: Model, cpu: circlet.Session, index: int, given: Sequence[Array],
              wanted: list[Array] | circlet.CircletError, found: list[Array] | circlet.CircletError) -> None:
        """Raises Finding unless both backends give the same."""
        errors = [each for each in (wanted, found) if isinstance(each, circlet.CircletError)]
        if any(_is_of_the_machine(each) for each in errors) or _is_random(model):
            self.counts["undecided"] += 1
            return
        if len(errors) == 2:
            return
        operators = " ".join(sorted(_names(model))[:6])
        if isinstance(wanted, circlet.CircletError) or isinstance(found, circlet.CircletError):
            side = "numpy" if isinstance(wanted, circlet.CircletError) else "native"
            if not self.is_steady(model, cpu, index, given, wanted, None):
                return
            raise Finding(f"only {side} fails: {operators}", f"only {side} fails: {errors[0]}")
        graph = model.subgraphs[index]
        absolute = max((ABSOLUTE.get(name, 0.0) for name in _names(model)), default=0.0)
        for k, (one, other) in enumerate(zip(wanted, found, strict=True)):
            problem = different(one, other, graph.tensors[graph.outputs[k]].dtype, absolute)
            if problem is not None and self.is_steady(model, cpu, index, given, wanted, other, k):
                raise Finding(f"differs: {operators}", f"output {k}: {problem}\nnumpy: {str(one)[:600]}\n"
                                                       f"native: {str(other)[:600]}")

    def is_steady(self, model: Model, cpu: circlet.Session, index: int, given: Sequence[Array],
                  wanted: list[Array] | circlet.CircletError, found: Array | None, k: int = 0) -> bool:
        """Whether what differs stays as it is when floats change by a few units in the last place.

        What does not is left to chance: a sum of numbers that cancel each other, a floor at a whole number.
        """
        graph = model.subgraphs[index]
        for _ in range(TRIALS):
            try:
                other = circlet.Session(_shaken_model(model, self.r), "cpu", limits=LIMITS)
                trial = other.invoke(index, [_shaken(each, self.r) for each in given])
            except circlet.CircletError:
                if not isinstance(wanted, circlet.CircletError):
                    return self._undecided()
                continue
            if isinstance(wanted, circlet.CircletError):
                return self._undecided()
            if found is not None and _explains(wanted[k], trial[k], found,
                                               graph.tensors[graph.outputs[k]].dtype):
                return self._undecided()
        if found is not None and self.overflows(model, index, given, wanted, found, k):
            return self._undecided()
        return True

    def overflows(self, model: Model, index: int, given: Sequence[Array],
                  wanted: list[Array] | circlet.CircletError, found: Array, k: int) -> bool:
        """Whether what differs are sums that overflow in one order of adding and not in another, or of numbers that are
        infinite already, as docs/math.md allows: the backends agree where no number is so large."""
        dtype = model.subgraphs[index].tensors[model.subgraphs[index].outputs[k]].dtype
        if isinstance(wanted, circlet.CircletError) or found.dtype.kind != "f" or found.shape != wanted[k].shape \
                or not any(map(SUMS.search, _names(model))):
            return False
        wrong = _wrong(wanted[k], found, dtype)
        if (np.isfinite(wanted[k]) & np.isfinite(found))[wrong].any():
            return False
        keeps = not MIXED & _names(model)
        modest, arrays = _modest_model(model, keeps), [_modest(each, keeps) for each in given]
        try:
            one, other = (circlet.Session(modest, backend, limits=LIMITS).invoke(index, arrays)[k]
                          for backend in ("cpu", "native"))
        except circlet.CircletError:
            return False
        return different(one, other, dtype) is None

    def _undecided(self) -> bool:
        self.counts["undecided"] += 1
        return False

    def save(self, model: Model) -> None:
        """Converts, writes and reads again."""
        with stage("convert"):
            try:
                converted = circlet.convert(model)
            except circlet.UnsupportedError:
                converted = model
        for format in ("tflite", "circle"):
            with stage(f"write {format}"):
                try:
                    content = dump_model(converted, format)
                except circlet.UnsupportedError:
                    continue
            with stage(f"read {format}"):
                circlet.load(content)
            self.counts["saved"] += 1

    def inputs(self, graph: Subgraph, based: Sequence[Any]) -> list[Array] | None:
        """Arrays for the inputs of a subgraph; None where they would be large."""
        lengths = [self.r.choice((0, 1, 2, 2, 3, 4)) for _ in range(2)]
        found, total = [], 0.0
        for k, index in enumerate(graph.inputs):
            tensor = graph.tensors[index]
            shape = [each if each >= 0 else self.r.choice(lengths) for each in tensor.signature]
            if self.checks.reshape and shape and self.r.random() < 0.5:
                shape[self.r.randrange(len(shape))] = self.r.choice(boundary.LENGTHS)
            total += float(np.prod([each or 1 for each in shape], dtype=np.float64))
            if total > MOST_ELEMENTS:
                return None
            found.append(self.input(tensor, shape, based[k] if k < len(based) else None))
        return found

    def input(self, tensor: Tensor, shape: Sequence[int], base: Any) -> Array:
        if tensor.dtype is DType.VARIANT:
            held = np.empty((), object)
            held[()] = Held(tuple(np.asarray(each) for each in base)) if isinstance(base, (list, tuple)) else None
            return held
        if isinstance(base, np.ndarray) and self.r.random() < 0.75:
            open_lengths = [k for k, each in enumerate(tensor.signature) if each < 0]
            fits = base.ndim == len(shape) and all(k in open_lengths or base.shape[k] == each
                                                   for k, each in enumerate(shape))
            if base.dtype == tensor.dtype.numpy and (fits or not (tensor.has_rank or tensor.shape)):
                return np.array(boundary.sprinkled(self.r, base, 0.35))
        return boundary.values(self.r, tensor.dtype.numpy, shape)


def _is_same_state(before: Snapshot, after: Snapshot) -> bool:
    """Whether variables are what they were; there may be new ones without a value."""
    pairs = [*((value, after.values.get(key)) for key, value in before.values.items()),
             *((one, other[:len(one)]) for one, other in zip(before.content, after.content, strict=False)),
             *((one[:, NOW], other[:, NOW]) for one, other in zip(before.words, after.words, strict=False))]
    return before.values.keys() == after.values.keys() and all(
        one.tobytes() == other.tobytes() for one, other in pairs if not one.dtype.hasobject and other is not None)


def _is_of_the_machine(error: circlet.CircletError) -> bool:
    """Whether an error tells of time or memory, which the backends use differently."""
    text = str(error)
    return isinstance(error, circlet.LimitError) and "max_iterations" not in text


def _is_random(model: Model) -> bool:
    return any(each.startswith(RANDOM) for each in _names(model))


def _names(model: Model) -> set[str]:
    """Of all operators."""
    return {each.name for graph in model.subgraphs for each in graph.operators}


def _is_stateful(model: Model) -> bool:
    operators = (each.op for graph in model.subgraphs for each in graph.operators)
    return any(not each.pure and not each.calls() for each in operators) or any(
        each.is_variable for graph in model.subgraphs for each in graph.tensors)


def different(one: Any, other: Any, dtype: DType, absolute: float = 0.0) -> str | None:
    """How two values differ; None where they do not, or by no more than an absolute difference that is allowed."""
    if isinstance(one, Held) or isinstance(other, Held):
        return _held_different(one, other)
    if not (isinstance(one, np.ndarray) and isinstance(other, np.ndarray)):
        return None if one == other else f"{one!r} and {other!r}"
    if one.dtype != other.dtype or one.shape != other.shape:
        return f"{one.dtype} of {one.shape} and {other.dtype} of {other.shape}"
    if one.dtype.hasobject:
        pairs = zip(one.reshape(-1).tolist(), other.reshape(-1).tolist(), strict=True)
        return next((found for pair in pairs if (found := different(*pair, dtype)) is not None), None)
    wrong = _wrong(one, other, dtype, absolute)
    if not wrong.any():
        return None
    return f"{int(wrong.sum())} of {one.size} elements, first {one[wrong].flat[0]!r} and {other[wrong].flat[0]!r}"


def _held_different(one: Any, other: Any) -> str | None:
    if not (isinstance(one, Held) and isinstance(other, Held)) or len(one.items) != len(other.items):
        return f"{one!r} and {other!r}"
    return next((found for pair in zip(one.items, other.items, strict=True)
                 if (found := different(*pair, DType.FLOAT32)) is not None), None)


def _wrong(one: Array, other: Array, dtype: DType, absolute: float = 0.0) -> Array:
    """Which elements differ."""
    if dtype is DType.BFLOAT16 and one.dtype == np.uint16:
        one, other = ((each.astype(np.uint32) << 16).view(np.float32) for each in (one, other))
    if one.dtype.kind not in "fc":
        return np.asarray(one != other)
    tolerance = TOLERANCES.get(dtype, TOLERANCE)
    with np.errstate(all="ignore"):
        bound = float(np.max(np.abs(one[np.isfinite(one)]), initial=0.0)) * tolerance + absolute
        return np.asarray(~np.isclose(other, one, tolerance, min(bound, 1e300), equal_nan=True))


def _shaken(array: Array, r: Random) -> Array:
    if array.dtype.kind not in "fc" or not array.size:
        return array
    unit = float(np.finfo(array.dtype).eps) * 4
    factors = 1 + np.random.default_rng(r.getrandbits(32)).uniform(-unit, unit, array.shape)
    with np.errstate(all="ignore"):
        return np.asarray(array * factors.astype(array.real.dtype), array.dtype)


def _modest(array: Array, keeps: bool) -> Array:
    """With numbers brought near 0; `keeps`: but for infinities."""
    if array.dtype.kind != "f" or not array.size:
        return array
    return np.asarray(np.where(np.isinf(array) & keeps, array, np.clip(array, -MODEST, MODEST)), array.dtype)


def _modest_model(model: Model, keeps: bool) -> Model:
    """The model with such constants."""
    return replace(model, subgraphs=tuple(replace(graph, tensors=tuple(
        each if each.data is None or each.data.dtype.kind != "f" else replace(each, data=_modest(each.data, keeps))
        for each in graph.tensors)) for graph in model.subgraphs))


def _shaken_model(model: Model, r: Random) -> Model:
    """The model with other last bits of the floats that it begins with: constants, and what is made of integers."""
    graphs = [_with_shaken_sources(replace(graph, tensors=tuple(
        each if each.data is None or each.data.dtype.kind != "f" else replace(each, data=_shaken(each.data, r))
        for each in graph.tensors)), r) for graph in model.subgraphs]
    return replace(model, subgraphs=tuple(graphs))


def _with_shaken_sources(graph: Subgraph, r: Random) -> Subgraph:
    """The subgraph with factors of about 1 behind operators that make floats of integers, as CAST does."""
    tensors, operators = list(graph.tensors), list[Operator]()

    def is_real(index: int) -> bool:
        return index != ABSENT and tensors[index].dtype in FLOATS

    def added(tensor: Tensor) -> int:
        tensors.append(tensor)
        return len(tensors) - 1

    for each in graph.operators:
        if each.op.callees() or any(map(is_real, each.inputs)) or not any(map(is_real, each.outputs)):
            operators.append(each)
            continue
        made = {index: added(tensors[index]) for index in each.outputs if is_real(index)}
        operators.append(replace(each, outputs=tuple(made.get(index, index) for index in each.outputs)))
        for index, source in made.items():
            shape = tensors[index].shape if tensors[index].is_static else ()
            factors = _shaken(np.ones(shape, tensors[index].dtype.numpy), r)
            factor = added(Tensor("factors", tensors[index].dtype, shape, data=factors))
            operators.append(Operator(Mul(), (source, factor), (index,)))
    return replace(graph, tensors=tuple(tensors), operators=tuple(operators))


def _explains(wanted: Array, trial: Array, found: Array, dtype: DType) -> bool:
    """Whether elements that differ between backends change as much with the last bits of what is given."""
    if wanted.dtype.hasobject or wanted.shape != trial.shape or wanted.shape != found.shape:
        return wanted.shape != trial.shape
    wrong = _wrong(wanted, found, dtype)
    if wanted.dtype.kind != "f":
        return bool(np.any(wrong & (wanted != trial)))
    with np.errstate(all="ignore"):
        moved, off = np.abs(wanted - trial), np.abs(wanted - found)
        unsteady = (moved * 8 >= off) | (np.isfinite(wanted) != np.isfinite(trial))
        unsteady |= np.isnan(wanted) != np.isnan(trial)
    return bool(np.all(unsteady[wrong] & (moved[wrong] > 0) | ~np.isfinite(moved[wrong]) & unsteady[wrong]))
