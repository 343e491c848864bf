"""The function for a span of operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from circlet.backends.native.compilation import Wish
from circlet.backends.native.emit.emitter import in_register_alone
from circlet.backends.native.emit.value import in_memory
from circlet.backends.native.lower.budget import Sizes
from circlet.backends.native.lower.function import FunctionLowering
from circlet.backends.native.lower.labels import labels, span_label
from circlet.backends.native.lower.lent import lent
from circlet.backends.native.lower.pieces import Cutter, Piece
from circlet.backends.native.lower.process import ProcessFunction
from circlet.backends.native.lower.subgraphs import SubgraphLowering
from circlet.backends.native.parts import Held, Variable
from circlet.backends.native.program import Program
from circlet.backends.native.rules.moving.variable import handle_value
from circlet.backends.native.targets.target import Target
from circlet.runtime.exec.executor_map import ExecutorMap
from circlet.runtime.exec.kernel import Span
from circlet.runtime.exec.observe.listener import Observation
from circlet.runtime.ir.model import ABSENT, Model
from circlet.runtime.ops.variable import VarHandle
from circlet.runtime.passes.analyses.specialize import General, Specialization
from circlet.runtime.passes.analyses.told import NOTHING


def lower_span(executors: ExecutorMap, span: Span, target: Target, symbol: str, general: General | None = None,
               check_bounds: bool = False, keeps_frames: bool = False, wish: Wish | None = None,
               put: Callable[[Piece], None] | None = None) -> FunctionLowering:
    """The function for a span.

    Args:
        executors: the model.
        span: the operators, their shapes and buffers.
        target: the processor.
        symbol: the function's name.
        general: of which the shapes are a case, if the function is to serve others too; more is assumed of it.
        check_bounds: whether every access to memory is checked; not in code that is timed.
        keeps_frames: whether each function keeps the address of its caller's frame in a register.
        wish: may be withdrawn.
        put: is given the pieces of the function's module, each once it is complete; of the function its program is
            left then.

    Raises:
        Unlowerable: it cannot be one.
        Abandoned: the wish was withdrawn.
    """
    observation = span.run.observer.observation
    counted = len(executors.model.subgraphs) if observation is Observation.COUNTS else None
    is_timed = observation is Observation.TIMES
    check_bounds = check_bounds and not is_timed
    function = ProcessFunction(target, symbol, span.run.variables, check_bounds, counted, is_timed)
    cutter = None if put is None else Cutter(function.e.module, put, keeps_frames=keeps_frames)
    spec = span.spec if general is None else general.spec
    beside = Sizes(executors.model).beside(spec.subgraph.operators[span.operators.start:span.operators.stop])
    lowering = SubgraphLowering(function, executors, wish, None if cutter is None or check_bounds else cutter.cut,
                                spec.scope, beside)
    if general is None:
        _Body(span, span.spec, function, lowering).write()
    else:
        function.open(general.scope)
        # a part ends before what hangs on lengths that the run computes
        given = general.spec if span.is_whole else replace(general.spec, told=NOTHING)
        _Body(span, given, function, lowering).write()
        function.program.assume(general.scope)
    _name_as_in_file(function.program, executors.model)
    if cutter is not None:
        cutter.finish()
        entry = span_label(spec.subgraph, span.operators)
        function.program.labels = {**labels(function.e.callers, cutter.symbols), symbol: entry}
        function.release()
    return function


def _name_as_in_file(program: Program, model: Model) -> None:
    """Lets errors and warnings name subgraphs that passes made by those that these were made of."""
    for found in (program.sites, program.notices):
        for number, each in enumerate(found):
            place = each.place
            graph = model.subgraphs[place.subgraph]
            found[number] = replace(each, place=graph.place(place.subgraph, place.operator, place.operator_name))


class _Body:
    def __init__(self, span: Span, spec: Specialization, function: FunctionLowering,
                 lowering: SubgraphLowering) -> None:
        self._span = span
        self._spec = spec
        self._function = function
        self._lowering = lowering

    def write(self) -> None:
        """Writes the whole function."""
        function, span, spec = self._function, self._span, self._spec
        aliases = span.aliases
        operators = spec.subgraph.operators[span.operators.start:span.operators.stop]
        written = {each for operator in operators for each in operator.outputs}
        handles = {each.outputs[0]: each.op for each in spec.subgraph.operators if isinstance(each.op, VarHandle)}
        borrowed = lent(self._lowering.executors.model, spec, span.operators, aliases)
        values = {}
        places = {}
        for tensor in sorted({tensor for each in operators for tensor in (*each.inputs, *each.outputs)} - {ABSENT}):
            array, dtype = span.arrays[tensor], spec.subgraph.tensors[tensor].dtype
            if array is None or tensor in spec.known or array.dtype.hasobject:
                continue
            shape, handle = spec.shape(tensor), handles.get(tensor)
            if handle is not None and tensor not in written:
                values[tensor] = handle_value(function, handle, shape)
                continue
            size = prod(shape) * dtype.numpy.itemsize if spec.is_open else None
            if tensor in written:
                if aliases.root(tensor) in borrowed:
                    continue
                if tensor in span.exported or not in_register_alone(prod(shape), dtype):
                    places[aliases.root(tensor)] = function.external(array, Held(tensor), size)
            else:
                kept = spec.subgraph.tensors[tensor].is_variable and tensor not in spec.subgraph.inputs
                home = function.external(array, Variable(spec.index, tensor) if kept else Held(tensor), size)
                values[tensor] = in_memory(home, shape, dtype)
                places[aliases.root(tensor)] = home
        if span.is_whole:
            self._lowering.arrange(spec, span.operators, aliases, places)
        self._lowering.emit(spec, span.operators, aliases, values, places)
        function.finish()
