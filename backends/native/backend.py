"""The native backend: spans of operators become one LLVM function each."""

from __future__ import annotations

import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from circlet.backends.cpu.backend import CpuBackend
from circlet.backends.native.check.watched import are_checked
from circlet.backends.native.compilation import COLLECTOR, Abandoned, Compilation, Wish
from circlet.backends.native.coverage import Coverage
from circlet.backends.native.load.artifact import Artifact
from circlet.backends.native.load.fingerprint import digest, general_key, span_key
from circlet.backends.native.load.gathering import constants_of, gather
from circlet.backends.native.load.invocation import CountedInvocation, Invocation, Setting
from circlet.backends.native.load.library import ENTRY, is_visible
from circlet.backends.native.load.manifest import Constant, Manifest
from circlet.backends.native.load.open_invocation import CountedOpenInvocation, OpenInvocation
from circlet.backends.native.load.progress import progress
from circlet.backends.native.load.store import Function, keep, keep_told_apart, stored, told_apart
from circlet.backends.native.load.team import Teams
from circlet.backends.native.lower.budget import LEAST, MOST_IN_A_SESSION, MOST_UNITS, Sizes, instructions
from circlet.backends.native.lower.fused import Fused
from circlet.backends.native.lower.fused_kernel import FusedKernel
from circlet.backends.native.program import Program, RuleError, Unlowerable
from circlet.runtime.errors import LimitError, UnsupportedError
from circlet.runtime.exec.crossing import CopyEdge, Position
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.kernel import Call, Kernel, Span
from circlet.runtime.exec.observe.listener import Observation
from circlet.runtime.exec.step import OpenStep, Step
from circlet.runtime.ir.faults import located
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.premises import ToldApart
from circlet.runtime.late import LOADING
from circlet.runtime.records import dataclass, field, replace

if TYPE_CHECKING:
    from circlet.backends.native.load.units import Unit
    from circlet.backends.native.lower.function import FunctionLowering
    from circlet.backends.native.lower.pieces import Piece

AT_ONCE, OFTEN, MOST = 6, 8, 16
"""For one place of a model: how many functions are compiled when they are first asked for, how often others must be
asked for, and how many there may be. Six are the rooms of a cache that doubles from 64 to 2048 rows; the others are
choices: a shape that came eight times comes again, and whatever comes beyond 16 is one of too many."""

MOST_VARIANTS = 16
"""How many functions there may be for any lengths, each for some; a choice that bounds what is looked for."""
APART = -1
"""The number of the name by which is kept which lengths of 1 these are not for."""
_LEFT, _AT_ONE = "left to numpy", "compiled for one length at a time"
"""What becomes of a span that cannot be code, or not for any lengths."""
_OBJECTS = "strings and sequences are not native"
"""Why a span is left to numpy that has some."""
_MOVES = frozenset({"LOOP_TAKE", "SKIP"})
"""A span of these alone is left to numpy: each number of elements would be compiled, to copy them."""


@dataclass(frozen=True)
class Options:
    """How code is made."""

    keep_text: bool = False
    """Keep what people can read of each function in `NativeBackend.listings`; nothing is then taken from the disk."""
    compiles: bool = True
    """Make machine code; without it, the steps that functions become do nothing."""
    check_bounds: bool = field(default_factory=are_checked)
    """Check every access of the code to memory."""
    keeps_frames: bool = field(default_factory=is_visible)
    """Let profilers see from where functions were called."""


@dataclass(frozen=True)
class Listing:
    """A function for people to read, or a span without one."""

    subgraph: int
    operators: range
    arena_bytes: int
    outline: tuple[str, ...]
    """Loops and operators, indented; or why there is no function."""
    module: str
    """LLVM's assembly language, before its passes; nothing where there is no function."""
    pieces: tuple[Piece, ...] = ()
    """The module as it is compiled."""


@dataclass
class Ration:
    """How much is compiled for one place of a model, as shapes may change in every run, or turn of a loop."""

    granted: int = 0
    asked: Counter[str] = field(default_factory=Counter)

    def grants(self, key: str) -> bool:
        """Whether a function is to be compiled: some at once, more for shapes that come back often."""
        self.asked[key] += 1
        if self.granted >= MOST or (self.granted >= AT_ONCE and self.asked[key] < OFTEN):
            return False
        self.granted += 1
        return True


class NativeBackend:
    """Compiles what it can; the numpy backend computes the rest."""

    name = "native"

    def __init__(self, executors: ExecutorMap, options: Options | None = None, num_threads: int = 1,
                 heard: Callable[[Model, Span, str, Manifest], None] | None = None,
                 refused: Callable[[Span, str], None] | None = None,
                 compiled: Callable[[Span, str, float, Sequence[Unit]], None] | None = None) -> None:
        """
        Args:
            executors: of the model.
            options: how code is made.
            num_threads: that a run may use.
            heard: is told of each function that is bound for spans that are not observed: the model, the span, the
                function's name on the disk and what it needs.
            refused: is told of each span that there is no function for, and why.
            compiled: is told of each function that is made, in the thread that makes it: the span, its name on the
                disk, the seconds that took and the object files that it is joined of.
        """
        self._heard_compiled = compiled
        self._refused = refused
        self._heard = heard
        self._executors = executors
        self._options = options or Options()
        self._teams = Teams(num_threads)
        self._sizes = Sizes(executors.model)
        self._spent = 0
        """How many instructions were compiled."""
        self._units = 0
        """How many object files were made, `LEAST` for each function at least."""
        self._cpu = CpuBackend()
        self._functions: dict[str, Function | None] = {}
        self._under_way: dict[str, Compilation[Function | None]] = {}
        self._digest: bytes | None = None
        self._lowered: dict[str, Program | None] = {}
        self._rations: dict[tuple[int, int], Ration] = defaultdict(Ration)
        self._coverage = Coverage(executors.model, self.name, self._cpu.name)
        self.listings: list[Listing] = []
        """The functions made, where the options say to keep them."""

    def computes_with(self, call: Call) -> str:
        """Native, if the call has a rule."""
        if isinstance(call.op, Fused):
            return self.name
        with LOADING:
            from circlet.backends.native.rules.rule import Rule, rule_of

        return self.name if isinstance(rule_of(call), Rule) else self._cpu.name

    def refuses(self, call: Call) -> str | None:
        """What numpy refuses, as everything else can be left to it."""
        return None if isinstance(call.op, Fused) else self._cpu.refuses(call)

    def kernel(self, call: Call) -> Kernel:
        """A kernel of numpy's, for operators that are in no span."""
        return FusedKernel(call, call.op, self._cpu) if isinstance(call.op, Fused) else self._cpu.kernel(call)

    def close(self) -> None:
        """Ends the threads that wait for a run."""
        self._teams.close()

    @property
    def computed(self) -> Mapping[Position, AbstractSet[str]]:
        """What computed each operator, as far as spans were bound."""
        return self._coverage.computed

    @property
    def reasons(self) -> Mapping[Position, str]:
        """Why numpy computes operators, as far as spans were bound without making code."""
        return self._coverage.reasons

    @property
    def crossings(self) -> Mapping[Position, Sequence[CopyEdge]]:
        """What crosses the borders of subgraphs within functions, by the operator that invokes."""
        return self._coverage.crossings

    def parts(self, subgraph: int, span: range) -> Sequence[range]:
        """A span in parts, each of which becomes a function."""
        return self._sizes.parts(subgraph, span)

    def bind_span(self, span: Span) -> Step | None:
        """A step for a span, bound to its buffers; None where it is left to numpy."""
        objects = span.with_objects
        if objects:
            self._note(span, f"{_LEFT}: {_OBJECTS}")
            self._coverage.add_reasons(dict.fromkeys([(span.spec.index, each) for each in objects], _OBJECTS))
        step = None if objects else self._bind_span(span)
        if step is None:
            self._coverage.add_other(span)
        return step

    def _bind_span(self, span: Span) -> Step | None:
        """As `bind_span`: takes the function of the span's key from this session, from the disk, or compiles it."""
        if all(each.op.name in _MOVES for each in span.spec.subgraph.operators[span.operators.start:
                                                                                    span.operators.stop]):
            return None
        observed, planned = span.run.observer.observation, span
        function = None
        if self._options.compiles:
            span, function = self._general_apart(span, observed)
        if function is None:
            key = span_key(self._model_digest(), span, self._executors.elide, (self._options, observed.value))
            if not self._options.compiles:
                return self._bind_lowered(key, span)
            function = self._function(key, span)
        if function is None:
            return None
        self._coverage.add_function(span, (each.position for each in function.manifest.host_calls))
        if observed is Observation.NONE:
            self._tell(span, function)
        step = _invocation(observed)(function, self._setting(span), self._teams).step()
        return step if span is planned else _with_known(step, span, planned)

    def _tell(self, span: Span, function: Function) -> None:
        if self._heard is not None and not self._options.keeps_frames:
            self._heard(self._executors.model, span, function.key, function.manifest)

    def _setting(self, span: Span) -> Setting:
        """What the function of a span is bound to."""
        executors, graphs = self._executors, self._executors.model.subgraphs
        return Setting(
            run=span.run, lengths=span.spec.lengths, held=span.arrays.__getitem__,
            constant=lambda found: graphs[found.subgraph].tensors[found.tensor].data,
            variable=lambda subgraph, tensor: graphs[subgraph].tensors[tensor],
            executor=executors.__getitem__,
            located=located(executors[span.spec.index].place, span.leading))

    def bind_open(self, span: Span) -> OpenStep | None:
        operators = span.spec.subgraph.operators
        if not self._options.compiles or not self._sizes.is_one(span.spec.index, span.operators) or all(
                each.op.name in _MOVES for each in operators):
            return None
        observed = span.run.observer.observation
        function = self._general(span, observed)
        if function is None:
            return None
        self._coverage.add_function(span, (each.position for each in function.manifest.host_calls))
        if observed is Observation.NONE:
            self._tell(span, function)
        return _open_invocation(observed)(function, self._setting(span), self._teams)

    def _general(self, span: Span, observed: Observation) -> Function | None:
        """The function for a span at any lengths, where these are open and it can serve all of them."""
        general, lengths = span.spec.general, span.spec.lengths
        if general is None:
            return None
        key = general_key(self._model_digest(), span, self._executors.elide, (self._options, observed.value))
        for variant in range(MOST_VARIANTS):
            function = self._function(key(variant), span, key(APART))
            if function is None or function.manifest.fits(lengths):
                return function
        return None

    def _general_apart(self, span: Span, observed: Observation) -> tuple[Span, Function | None]:
        """The same, and the span, in which lengths of 1 are fixed that take code of their own."""
        while True:
            try:
                return span, self._general(span, observed)
            except ToldApart as found:
                span = replace(span, spec=self._executors.generalizer.apart(span.spec, found.numbers))

    def _function(self, key: str, span: Span, apart: str | None = None) -> Function | None:
        """The function of a name, made if need be; None if it cannot be one, or is not to be. One for any lengths has
        another name, by which is kept which lengths of 1 it is not for."""
        if key not in self._functions:
            function = self._stored(key)
            if function is None:
                if apart is not None:
                    self._expect_served(apart, span)
                if not self._grants(key, span):
                    return None
            self._functions[key] = function or self._compiled(key, span, apart)
        return self._functions[key]

    def _expect_served(self, apart: str, span: Span) -> None:
        """Raises `ToldApart` where it was found before that a function for any lengths is not for some of 0 or 1."""
        lengths = span.spec.lengths
        numbers = [each for each in told_apart(apart) if each < len(lengths) and lengths[each] <= 1]
        if numbers and not self._options.keep_text:
            raise ToldApart(numbers)

    def _bind_lowered(self, key: str, span: Span) -> Step | None:
        """What stands for a function that is not compiled."""
        if key not in self._lowered:
            try:
                self._lowered[key] = self._lower(span).program
            except Unlowerable as reason:
                self._note(span, f"{_LEFT}: {reason}")
                self._coverage.add_reasons({(span.spec.index, each): str(reason) for each in span.operators})
                self._lowered[key] = None
        program = self._lowered[key]
        if program is None:
            return None
        hosted = [each.position for each in program.host_calls]
        self._coverage.add_function(span, hosted)
        self._coverage.add_reasons(dict(zip(hosted, program.reasons, strict=True)))
        return lambda: None

    def _grants(self, key: str, span: Span) -> bool:
        """Whether the function for a span is to be made."""
        if self._spent > MOST_IN_A_SESSION:
            self._note(span, f"{_LEFT}: the session has compiled {self._spent} instructions")
            return False
        if key in self._under_way:
            return True
        place = (span.spec.index, span.operators.start)
        if place not in self._rations and self._units >= MOST_UNITS:
            self._note(span, f"{_LEFT}: the session has made {self._units} object files")
            return False
        return self._rations[place].grants(key)

    def _model_digest(self) -> bytes:
        """What names the model's content, found once."""
        if self._digest is None:
            self._digest = digest(self._executors.model)
        return self._digest

    def _stored(self, key: str) -> Function | None:
        """The function of a name, if it is on the disk."""
        return None if self._options.keep_text else stored(key)

    def _compiled(self, key: str, span: Span, apart: str | None) -> Function | None:
        """The function for a span; None if it cannot be one. It is made meanwhile, so that the limits of the run, and
        signals, end the waiting. A deadline does not end the making: the next run finds what there is by then."""
        while True:
            work = self._under_way.get(key)
            if work is None or not work.is_here:
                work = self._under_way[key] = Compilation(partial(self._made, key, span, apart))
            try:
                with progress(partial(_compiling, span.spec.subgraph.name, work.parts)):
                    return work.result(span.run.watch.check)
            except Abandoned:  # by another thread that waited for it
                continue
            except RuleError as error:
                text = str(error) if apart is None else f"{_AT_ONE}: {error.problem}"
                warnings.warn(text, RuntimeWarning, stacklevel=2)
                if apart is not None:
                    self._note(span, text)
                return None
            except LimitError:
                raise
            except BaseException:
                work.abandon()
                raise
            finally:
                if work.is_done or work.is_abandoned:
                    self._under_way.pop(key, None)

    def _made(self, key: str, span: Span, apart: str | None, wish: Wish) -> Function | None:
        """The function for a span, kept on disk; None where it cannot be one."""
        begin = time.perf_counter()
        units: list[Unit] = []
        try:
            function = keep(key, self._make(span, apart is not None, wish, units))
            if self._heard_compiled is not None:
                self._heard_compiled(span, key, time.perf_counter() - begin, units)
            return function
        except RuleError:
            raise
        except ToldApart as found:
            if apart is not None:
                keep_told_apart(apart, found.numbers)
            raise
        except Unlowerable as reason:
            self._note(span, f"{_AT_ONE if apart is not None else _LEFT}: {reason}")
            return None
        finally:
            self._units += max(sum(not each.is_kept for each in units), LEAST)

    def _note(self, span: Span, text: str) -> None:
        """Lists a span that there is no function for, and why."""
        if self._refused is not None:
            self._refused(span, text)
        if self._options.keep_text:
            self.listings.append(Listing(span.spec.index, span.operators, 0, (text,), ""))

    def _make(self, span: Span, is_general: bool, wish: Wish, units: list[Unit]) -> Artifact:
        """Lowers and compiles a span, in pieces that are compiled meanwhile; adds these to `units`."""
        with LOADING:
            from circlet.backends.native.load.llvm import host, making

        def heard(unit: Unit) -> None:
            units.append(unit)
            wish.parts.append(unit.kind)

        with COLLECTOR.paused(), making(host(), wish, heard) as files:
            def put(piece: Piece) -> None:
                self._spent += instructions(piece.text)
                files.ask(piece)

            program = self._lower(span, is_general, wish, put).program
            try:
                code = tuple(files.results())
            except RuntimeError as error:
                raise RuleError(f"subgraph {span.spec.index} ({span.spec.subgraph.name!r})", error) from error
            return gather(program, code, self._constants)

    @cached_property
    def _constants(self) -> Mapping[tuple[int, int], Constant]:
        """The model's constants by address and size, so that functions refer to them rather than hold copies."""
        return constants_of(self._executors.model)

    def _lower(self, span: Span, is_general: bool = False, wish: Wish | None = None,
               put: Callable[[Piece], None] | None = None) -> FunctionLowering:
        """The function for a span in LLVM's language; `put` is given its pieces.

        Raises:
            Unlowerable: it cannot be made native code.
        """
        general = self._executors.generalizer.derive(span.spec) if is_general else None
        if is_general and general is None:
            raise Unlowerable("its shapes cannot be told for open lengths")
        with LOADING:
            from circlet.backends.native.load.llvm import host
            from circlet.backends.native.lower.pieces import pieces
            from circlet.backends.native.lower.span import lower_span

        keeps = self._options.keep_text
        try:
            lowering = lower_span(self._executors, span, host(), ENTRY, general, self._options.check_bounds,
                                  self._options.keeps_frames, wish, None if keeps else put)
        except UnsupportedError as error:
            raise Unlowerable(str(error)) from error
        self._coverage.add_crossings(lowering.program.crossings)
        if keeps:
            program, found = lowering.program, pieces(lowering.e.module)
            self.listings.append(Listing(span.spec.index, span.operators, program.arena_bytes(span.spec.lengths),
                                         tuple(program.outline), str(lowering.e.module), found))
            if put is not None:
                for each in found:
                    put(each)
        return lowering


def _with_known(step: Step, span: Span, planned: Span) -> Step:
    """A step of a function that leaves out what is known of a span, where what reads it was planned with less known."""
    found = [(array, span.spec.known[each]) for each in span.exported
             if each in span.spec.known and each not in planned.spec.known and (array := span.arrays[each]) is not None]
    if not found:
        return step

    def run() -> None:
        for array, value in found:
            np.copyto(array, value)
        step()

    return run


def _invocation(observed: Observation) -> type[Invocation]:
    """What binds functions that tell so much."""
    if observed is not Observation.TIMES:
        return CountedInvocation if observed is Observation.COUNTS else Invocation
    with LOADING:
        from circlet.backends.native.load.timed_invocation import TimedInvocation

    return TimedInvocation


def _open_invocation(observed: Observation) -> type[OpenInvocation]:
    """The same for any lengths."""
    if observed is not Observation.TIMES:
        return CountedOpenInvocation if observed is Observation.COUNTS else OpenInvocation
    with LOADING:
        from circlet.backends.native.load.timed_invocation import TimedOpenInvocation

    return TimedOpenInvocation


def _compiling(name: str, parts: Sequence[str]) -> str:
    """What goes on, as far as it went: `compiling 'main', 57 kernels (tile_u8s8_6x4)`, which names the last one."""
    return f"compiling {name!r}" + (f", {len(parts)} kernels ({parts[-1]})" if parts else "")
