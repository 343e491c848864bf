"""Models put together at random: operators of all families on each other's results, in branches, loops and calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from random import Random
from typing import Any

import numpy as np

import circlet
from circlet.backends.cpu.backend import CpuBackend
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.op import Op, Operand, Operands, Unknown
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.comparison import Less
from circlet.runtime.ops.controlflow import CallSubgraph, If, While
from circlet.runtime.ops.elementwise import Add
from circlet.schema.files import dump_model
from tests.fuzz import boundary
from tests.fuzz.seeds import operator_cases
from tests.ops.cases import Case, T, as_t

CONSTRUCTS = {"loop": 0.08, "branch": 0.05, "call": 0.03}
"""The shares of steps that put other steps into subgraphs."""
ATTEMPTS = 6
Array = boundary.Array


@dataclass(frozen=True)
class Slot:
    """A value that operators can take."""

    value: Value
    tensor: Tensor
    known: Array | None = None

    def is_like(self, other: Slot | Tensor) -> bool:
        """Whether one can take the other's place."""
        tensor = other.tensor if isinstance(other, Slot) else other
        return (self.tensor.is_static and tensor.is_static and self.tensor.dtype is tensor.dtype
                and self.tensor.shape == tensor.shape and self.tensor.quantization == tensor.quantization)


@dataclass(frozen=True, eq=False)
class New:
    """A value that an operator would need."""

    array: Array
    like: Tensor
    is_input: bool = False

    @property
    def tensor(self) -> Tensor:
        return dataclasses.replace(self.like, shape=self.array.shape)

    @property
    def known(self) -> Array | None:
        return None if self.is_input else self.array


@dataclass
class Scope:
    """A subgraph under construction."""

    owner: ModelBuilder
    graph: SubgraphBuilder
    slots: list[Slot] = field(default_factory=list)
    fed: list[Array] | None = None
    """What the inputs of the first subgraph are given; None in others, which get constants instead."""
    named: int = 0

    def add(self, new: New) -> Slot:
        """A constant; or an input, where there can be more of them."""
        return self.input(new.array, new.like) if new.is_input else self.constant(new.array, new.like)

    def constant(self, array: Array, like: Tensor) -> Slot:
        data = array.copy()
        data.setflags(write=False)
        return self._slot(dataclasses.replace(like, name=self._name(), shape=data.shape, data=data), data)

    def input(self, array: Array, like: Tensor) -> Slot:
        """An input where there can be more of them, otherwise a constant."""
        if self.fed is None:
            return self.constant(array, like)
        slot = self._slot(dataclasses.replace(like, name=self._name(), shape=array.shape, data=None))
        self.graph.feed(slot.value)
        self.fed.append(array)
        self.slots.append(slot)
        return slot

    def parameter(self, like: Slot) -> Slot:
        slot = self._slot(dataclasses.replace(like.tensor, name=self._name(), data=None))
        self.graph.feed(slot.value)
        self.slots.append(slot)
        return slot

    def _slot(self, tensor: Tensor, known: Array | None = None) -> Slot:
        return Slot(self.graph.tensor(tensor), tensor, known)

    def _name(self) -> str:
        self.named += 1
        return f"{self.graph.name}_{self.named}"

    def apply(self, op: Op, inputs: Sequence[Slot | None], outputs: Sequence[Tensor]) -> list[Slot]:
        made = self.graph.op(op, *(None if each is None else each.value for each in inputs), outputs=outputs)
        slots = [Slot(value, tensor) for value, tensor in zip(made, outputs, strict=True)]
        self.slots += slots
        return slots


@lru_cache(1)
def _cases() -> Sequence[Case]:
    return tuple(case for case in operator_cases() if case.error is None and not case.intermediates
                 and not any(each is not None and as_t(each).variable for each in case.inputs))


def program(start: int, steps: Sequence[int]) -> tuple[Model, list[Array]]:
    """A model, and inputs for it. `start` decides the outputs, and each step adds an operator or a subgraph."""
    b, r = ModelBuilder(), Random(start)
    main = Scope(b, b.subgraph("main"), fed=[])
    for each in steps:
        step(main, Random(each), 0)
    made = [each for each in main.slots if each.known is None]
    main.graph.output(*(each.value for each in (made[-3:] if r.random() < 0.7 else r.sample(made, min(len(made), 4)))))
    assert main.fed is not None
    return b.build(), main.fed


def content(model: Model) -> bytes | None:
    """The file of a program; None where no format has its operators."""
    for format in ("tflite", "circle"):
        try:
            return dump_model(model, format)
        except circlet.UnsupportedError:
            continue
    try:
        return dump_model(circlet.convert(model), "tflite")
    except circlet.CircletError:
        return None


def step(scope: Scope, r: Random, depth: int) -> None:
    """Adds something."""
    how = r.random()
    for name, share in CONSTRUCTS.items():
        if how < share and depth < 2:
            {"loop": loop, "branch": branch, "call": call}[name](scope, r, depth)
            return
        how -= share
    for _ in range(ATTEMPTS):
        if apply_case(scope, r.choice(_cases()), r):
            return


def apply_case(scope: Scope, case: Case, r: Random) -> bool:
    """Applies the operator of a case to values that there are; False where it cannot take them."""
    op = changed(case.op, r) if r.random() < 0.15 else case.op
    inputs = [None if each is None else operand(scope, k, as_t(each), r) for k, each in enumerate(case.inputs)]
    declared = [as_t(each) for each in case.outputs]
    args = Operands(tuple(None if each is None else Operand(each.tensor.dtype, each.tensor.shape, each.known,
                                                            each.tensor.quantization) for each in inputs),
                    len(declared))
    try:
        if any(each is not None and not each.tensor.is_static for each in inputs):
            raise Unknown
        kinds, shapes = op.types(args), op.infer(args)
        outputs = [_result(scope, k, each, kind, shape)
                   for k, (each, kind, shape) in enumerate(zip(declared, kinds, shapes, strict=True))]
    except Unknown:
        outputs = [dataclasses.replace(each.tensor, name=f"open_{len(scope.slots)}_{k}", shape=(), has_rank=False)
                   for k, each in enumerate(declared)]
    except (circlet.CircletError, ValueError):
        return False
    if sum(float(np.prod(each.shape, dtype=np.float64)) for each in outputs) > 1 << 16:
        return False
    call = Call(op, tuple(None if each is None else each.tensor for each in inputs), tuple(outputs))
    if CpuBackend().refuses(call) is not None:
        return False
    scope.apply(op, [scope.add(each) if isinstance(each, New) else each for each in inputs], outputs)
    return True


def _result(scope: Scope, k: int, declared: T, kind: DType | None, shape: tuple[int, ...]) -> Tensor:
    return dataclasses.replace(declared.tensor, name=f"y_{len(scope.slots)}_{k}", dtype=kind or declared.tensor.dtype,
                               shape=shape, data=None)


def operand(scope: Scope, number: int, wanted: T, r: Random) -> Slot | New:
    """A value that there is already, or one like that of the case."""
    tensor, array = wanted.tensor, wanted.array
    is_setting = wanted.constant or (number > 0 and array.dtype.kind == "i" and array.size <= 8)
    if not is_setting or r.random() < 0.1:
        fitting = [each for each in scope.slots if each.is_like(tensor)]
        near = fitting or [each for each in scope.slots if each.tensor.dtype is tensor.dtype
                           and each.tensor.quantization == tensor.quantization]
        if near and r.random() < (0.85 if fitting else 0.3):
            return r.choice(near)
    if r.random() < 0.4 and not is_setting:
        array = boundary.values(r, array.dtype, array.shape)
    elif r.random() < 0.15:
        array = boundary.sprinkled(r, array, 1.0)
    return New(array, tensor, r.random() < (0.07 if is_setting else 0.75))


def changed(op: Op, r: Random) -> Op:
    """The operator with one option changed."""
    names = [each.name for each in dataclasses.fields(op)]
    if not names:
        return op
    name = r.choice(names)
    return dataclasses.replace(op, **{name: _changed(op.__getattribute__(name), r)})


def _changed(value: Any, r: Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, Enum):
        return r.choice(list(type(value)))
    if isinstance(value, int):
        return r.choice((0, 1, 2, 3, -1, -2, value + 1, value - 1))
    if isinstance(value, float):
        return boundary.number(r, value)
    if isinstance(value, tuple) and value:
        k = r.randrange(len(value))
        return (*value[:k], _changed(value[k], r), *value[k + 1:])
    return value


def _chosen(scope: Scope, r: Random, most: int) -> list[Slot]:
    """Values that pass into a subgraph."""
    static = [each for each in scope.slots if each.tensor.is_static and each.tensor.dtype is not DType.STRING]
    return r.sample(static, min(len(static), r.randrange(1, most + 1)))


def _inner(scope: Scope, name: str, given: Sequence[Slot]) -> Scope:
    inner = Scope(scope.owner, scope.owner.subgraph(name))
    for each in given:
        inner.parameter(each)
    return inner


def _results(given: Sequence[Slot], name: str) -> list[Tensor]:
    return [dataclasses.replace(each.tensor, name=f"{name}_{k}_{each.value.index}", data=None)
            for k, each in enumerate(given)]


def loop(scope: Scope, r: Random, depth: int) -> None:
    """`while i < trips: ...` over some values, each of which becomes one like it."""
    counter = scope.constant(np.array(0, np.int32), Tensor("", DType.INT32, ()))
    given = [counter, *_chosen(scope, r, 3)]
    cond, body = _inner(scope, "cond", given), _inner(scope, "body", given)
    limit = cond.constant(np.array(r.choice((0, 1, 2, 3, 5)), np.int32), counter.tensor)
    cond.graph.output(*(each.value for each in cond.apply(Less(), [cond.slots[0], limit],
                                                          [Tensor("more", DType.BOOL, ())])))
    own = body.slots[:]
    for _ in range(r.choice((1, 1, 2, 3))):
        step(body, r, depth + 1)
    one = body.constant(np.array(1, np.int32), counter.tensor)
    (following,) = body.apply(Add(), [own[0], one], [Tensor("next", DType.INT32, ())])
    body.graph.output(following.value, *(r.choice([slot for slot in body.slots if slot.is_like(each)]).value
                                         for each in own[1:]))
    scope.apply(While(cond.graph.index, body.graph.index), given, _results(given, "loop"))


def branch(scope: Scope, r: Random, depth: int) -> None:
    """`if condition: ... else: ...` with results of one type and, mostly, shape."""
    flags = [each for each in scope.slots if each.tensor.dtype is DType.BOOL and each.tensor.shape == ()
             and each.tensor.is_static]
    condition = r.choice(flags) if flags and r.random() < 0.5 else scope.input(
        np.array(r.random() < 0.5), Tensor("", DType.BOOL, ()))
    given = _chosen(scope, r, 3)
    scopes = [_inner(scope, name, given) for name in ("then", "else")]
    for each in scopes:
        for _ in range(r.choice((0, 1, 1, 2))):
            step(each, r, depth + 1)
    for each in scopes:
        each.graph.output(*(r.choice([slot for slot in each.slots if slot.is_like(wanted)]).value for wanted in given))
    scope.apply(If(*(each.graph.index for each in scopes)), [condition, *given], _results(given, "branch"))


def call(scope: Scope, r: Random, depth: int) -> None:
    """A subgraph that is invoked once."""
    given = _chosen(scope, r, 3)
    inner = _inner(scope, "callee", given)
    for _ in range(r.choice((1, 2))):
        step(inner, r, depth + 1)
    results = [each for each in inner.slots if each.tensor.is_static][-2:]
    inner.graph.output(*(each.value for each in results))
    scope.apply(CallSubgraph(inner.graph.index), given, _results(results, "call"))
