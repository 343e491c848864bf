"""The function that C calls for an entry point: it looks at lengths, and calls the function that computes with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from circlet.backends.native.abi import DONE
from circlet.backends.native.aot.between import Between, Dims, most_elements, opened
from circlet.backends.native.aot.cases import Body, Cases, EntryPoint, Misfit
from circlet.backends.native.aot.changes import joined
from circlet.backends.native.aot.function import ARENA, STATE, Buffer, Shared, status_of
from circlet.backends.native.aot.limits import MISFIT
from circlet.backends.native.aot.refused import RefusedError
from circlet.backends.native.aot.storage import Region
from circlet.backends.native.emit.emitter import I1, I8, I32, I64, POINTER
from circlet.backends.native.emit.lengths import Lengths
from circlet.backends.native.parts import Site
from circlet.runtime.ir.intervals import Interval
from circlet.runtime.ir.length import terms_of
from circlet.runtime.passes.analyses.specialize import Specialization
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class EntryCode:
    """What became of an entry point.

    Attributes:
        entry: the point.
        spec: what it computes, for the longest inputs.
        outputs: the shapes of the outputs.
        sites: what the statuses from `FIRST_SITE` on stand for, in order.
        is_limited: whether it can be stopped.
        arena_bytes: of the arena that it needs.
        writes: the parts of the state that it writes.
        buffers: the tensors that lie in the arena, not all at a time.
        outline: what it computes, for people to read.
    """

    entry: EntryPoint
    spec: Specialization
    outputs: Sequence[Dims]
    sites: Sequence[Site]
    is_limited: bool
    arena_bytes: int
    writes: Sequence[Region]
    buffers: Sequence[Buffer]
    outline: Sequence[str]

    @property
    def takes_lengths(self) -> bool:
        """Whether runs are given lengths of inputs."""
        return any(map(opened, self.entry.shapes))


def enter(shared: Shared, entry: EntryPoint, cases: Cases) -> EntryCode:
    """Writes the function that C calls, when all that an entry point computes is written."""
    return _Entering(shared, entry, cases).write()


class _Here:
    """Where a builder stands, as a beginning of what comes next."""

    def __init__(self, b: ir.IRBuilder) -> None:
        self._b = b

    def builder(self) -> ir.IRBuilder:
        """The builder."""
        return self._b


class _Entering:
    """A function that takes addresses and lengths out of structs of words as wide as an address; if a run fails, what
    it wrote to the state is as it was before."""

    def __init__(self, shared: Shared, entry: EntryPoint, cases: Cases) -> None:
        self._shared = shared
        self._entry = entry
        self._cases = cases
        bodies = cases.bodies
        self._outputs = _outputs(bodies)
        function = ir.Function(shared.module, ir.FunctionType(I32, [POINTER] * 4), entry.symbol)
        for argument, name in zip(function.args, ("inputs", "outputs", ARENA, STATE), strict=True):
            argument.name = name
            argument.add_attribute("noalias")
        function.attributes.add("nounwind")
        self._function = function
        self._b = ir.IRBuilder(function.append_basic_block("entry"))
        self._index = bodies[0].function.e.index
        self._arena_bytes = max(each.function.arena_bytes for each in bodies)
        alignment = shared.target.alignment
        self._kept = -(-self._arena_bytes // alignment) * alignment
        """Where in the arena copies of parts of the state are."""
        self._most_kept = max(sum(one.size for one in each.function.changes.regions) for each in bodies)

    def write(self) -> EntryCode:
        """The whole function."""
        b, (inputs, outputs, _, _) = self._b, self._function.args
        homes, given = self._words(inputs, self._entry.shapes, self._index)
        results, told = self._words(outputs, self._outputs, POINTER)
        self._expect_bounds(given)
        self._expect_addresses()
        bodies = self._cases.bodies
        count = max((each.opening.scope.count for each in bodies if each.opening is not None), default=0)
        memory = self._remembered(count, given)
        for each in self._cases.found:
            with self._case(each, memory):
                if isinstance(each, Misfit):
                    b.ret(I32(status_of(each.site, self._cases.sites)))
                else:
                    self._run(each, [*homes, *results], told, memory)
        if not b.block.is_terminated:
            b.ret(I32(MISFIT))
        return self._code(bodies)

    def _expect_addresses(self) -> None:
        """Raises RefusedError if runs need more memory than the processor has addresses for."""
        graph = self._cases.bodies[0].spec.subgraph
        sizes = [self._kept + self._most_kept, *(
            most_elements(shape) * graph.tensors[each].dtype.numpy.itemsize for each, shape in zip(
                (*graph.inputs, *graph.outputs), (*self._entry.shapes, *self._outputs), strict=True))]
        if max(sizes) >= 1 << (self._index.width - 1):
            raise RefusedError(f"runs need {max(sizes)} bytes in one place, more than addresses of {self._index.width} "
                               "bits reach")

    def _words(self, struct: ir.Value, shapes: Sequence[Dims], kind: ir.Type
               ) -> tuple[list[ir.Value], list[ir.Value]]:
        """What a struct holds: where each tensor lies, and behind that, if it has open lengths, these, a word each, or
        one word, of `POINTER`, that says where they lie."""
        homes, others, number = [], [], 0
        for shape in shapes:
            homes.append(self._word(struct, number, POINTER))
            axes = opened(shape)
            words = min(len(axes), 1) if kind is POINTER else len(axes)
            others += [self._word(struct, number + 1 + k, kind) for k in range(words)]
            number += 1 + words
        return homes, others

    def _word(self, struct: ir.Value, number: int, kind: ir.Type) -> ir.Value:
        return self._b.load(self._b.gep(struct, [I32(number)], source_etype=POINTER), typ=kind)

    def _expect_bounds(self, given: Sequence[ir.Value]) -> None:
        """Leaves if a length is out of its bounds."""
        b, is_wrong = self._b, I1(0)
        for value, wanted in zip(given, self._cases.lengths, strict=True):
            above = b.sub(value, self._index(wanted.least))
            is_wrong = b.or_(is_wrong, b.icmp_unsigned(">", above, self._index(wanted.most - wanted.least)))
        if given:
            with b.if_then(is_wrong, likely=False):
                b.ret(I32(MISFIT))

    def _remembered(self, count: int, given: Sequence[ir.Value]) -> ir.Value:
        """The lengths that are given in memory where functions find them, and write those that they compute."""
        b = self._b
        if not count:
            return POINTER(None)
        memory = b.alloca(I64, I32(count))
        for number, value in enumerate(given):
            b.store(b.zext(value, I64), b.gep(memory, [I32(number)], source_etype=I64))
        return memory

    @contextmanager
    def _case(self, case: Body | Misfit, memory: ir.Value) -> Iterator[None]:
        """What is written inside is done for the lengths of a case, what comes next for others. Conditions are looked
        at one after another, as one may divide by what another one says is no zero."""
        b, other = self._b, self._function.append_basic_block("other") if case.conditions else None
        for each in case.conditions:
            value = Lengths(_Here(b), memory, self._index).register(each.terms, b)
            test = b.icmp_signed(each.relation, value, self._index(0))
            fits = self._function.append_basic_block("fits")
            b.cbranch(test, *((fits, other) if each.holds else (other, fits)))
            b.position_at_end(fits)
        yield
        if other is not None:
            b.position_at_end(other)

    def _run(self, body: Body, homes: Sequence[ir.Value], told: Sequence[ir.Value], memory: ir.Value) -> None:
        """Calls a function, and gives its status."""
        b, (_, _, arena, state) = self._b, self._function.args
        if body.opening is not None:
            scope = body.opening.scope
            for number in scope.capacities:
                b.store(I64(scope.lengths[number]), b.gep(memory, [I32(number)], source_etype=I64))
        lengths = () if body.opening is None else (memory,)
        kept = list(self._copies(body, arena, state))
        for home, copy, size in kept:
            self._copy(copy, home, size)
        status = b.call(body.function.e.function, [*homes, *lengths, arena, state])
        if kept:
            with b.if_then(b.icmp_unsigned("!=", status, I32(DONE)), likely=False):
                for home, copy, size in kept:
                    self._copy(home, copy, size)
        if told:
            with b.if_then(b.icmp_unsigned("==", status, I32(DONE)), likely=True):
                self._tell(body, told, memory)
        b.ret(status)

    def _copies(self, body: Body, arena: ir.Value, state: ir.Value) -> Iterator[tuple[ir.Value, ir.Value, int]]:
        """The parts of the state that are to be as they were if a function fails: the address of each, that of its
        copy, and its bytes."""
        b, offset = self._b, self._kept
        for each in body.function.changes.regions:
            yield (b.gep(state, [self._index(each.offset)], source_etype=I8),
                   b.gep(arena, [self._index(offset)], source_etype=I8), each.size)
            offset += each.size

    def _copy(self, target: ir.Value, source: ir.Value, size: int) -> None:
        """Copies a part of the state."""
        name = "llvm.memcpy.p0.p0.i32"
        found = self._shared.module.globals.get(name)
        if found is None:
            kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I32, I1])
            found = ir.Function(self._shared.module, kind, name)
        self._b.call(found, [target, source, I32(size), I1(0)])

    def _tell(self, body: Body, told: Sequence[ir.Value], memory: ir.Value) -> None:
        """Writes how long outputs are, where the caller wants to know."""
        b, left = self._b, iter(told)
        for shape, found in zip(self._outputs, body.outputs, strict=True):
            axes = opened(shape)
            if not axes:
                continue
            place = next(left)
            with b.if_then(b.icmp_unsigned("!=", place, POINTER(None))):
                lengths = self._computed(body, memory)
                for position, axis in enumerate(axes):
                    value = lengths.register(terms_of(found[axis][0]), b)
                    b.store(value, b.gep(place, [I32(position)], source_etype=self._index))

    def _computed(self, body: Body, memory: ir.Value) -> Lengths:
        """The lengths after a function has run."""
        found = Lengths(_Here(self._b), memory, self._index)
        if body.opening is not None:
            for number in range(body.opening.scope.opened, body.opening.scope.count):
                found.recall(self._b, number)
        return found

    def _code(self, bodies: Sequence[Body]) -> EntryCode:
        functions = [each.function for each in bodies]
        return EntryCode(
            self._entry, bodies[0].spec, self._outputs, self._cases.sites,
            any(each.is_interruptible for each in functions),
            self._kept + self._most_kept if self._most_kept else self._arena_bytes,
            joined(region for each in functions for region in each.changes.written),
            list(dict.fromkeys(buffer for each in functions for buffer in each.buffers)),
            [line for each in functions for line in each.program.outline])


def _outputs(bodies: Sequence[Body]) -> Sequence[Dims]:
    """The shapes of the outputs, open where they are not the same in every run.

    Raises:
        RefusedError: an output has other ranks for other lengths.
    """
    found: list[Dims] = []
    for shapes in zip(*(each.outputs for each in bodies), strict=True):
        if len({len(each) for each in shapes}) > 1:
            raise RefusedError("the rank of an output depends on the lengths of inputs")
        found.append(tuple(map(_dim, zip(*([bounds for _, bounds in each] for each in shapes), strict=True))))
    return found


def _dim(found: Sequence[Interval]) -> int | Between:
    """A length that is within some bounds in one function or another."""
    least, most = min(low for low, _ in found), max(high for _, high in found)
    return least if least == most else Between(max(least, 0), most)
