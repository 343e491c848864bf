"""Moves transpositions towards the outputs, where they meet and cancel, and out of loops.

A front end that brings images with channels first to operators with channels last surrounds each of these by
transpositions. Afterwards there are none between operators that can compute in either layout, values that a loop
carries or reads keep the layout that its body computes in, and what is left stands where it runs the least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.op import Op
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.controlflow import If
from circlet.runtime.ops.index import Gather
from circlet.runtime.ops.layout import Concatenation, Transpose
from circlet.runtime.ops.loop import Loop
from circlet.runtime.ops.pad import ContinuedPad, MirrorPad, Pad
from circlet.runtime.ops.shape import Alias, ExpandDims, ShapeOf
from circlet.runtime.passes.transforms.layouts import (
    Given,
    Moved,
    Permutation,
    Rows,
    Transposed,
    View,
    composed,
    fits,
    inverse,
    is_identity,
    moved,
    permuted_back,
    takes_views,
)
from circlet.runtime.passes.transforms.rewrite import is_same
from circlet.runtime.records import dataclass, field, replace

Layouts = Mapping[int, Permutation]
"""For some positions of inputs or outputs how the value that the model means follows from the one that is passed."""


def propagate_layout(model: Model) -> Model:
    """The model with its transpositions moved. Operators and tensors do not keep their indices; results do not change.

    Subgraphs that several operators invoke, or other operators than IF and LOOP, are left as they are.
    """
    if not any(isinstance(operator.op, Transpose) for each in model.subgraphs for operator in each.operators):
        return model
    state = _State(model, _own(model))
    entries = {0, *(each.subgraph for each in model.signatures)}
    found = [None if index in state.own else state.rewrite(index, {}, {}, keep=index in entries)
             for index in range(len(model.subgraphs))]
    subgraphs = list(model.subgraphs)
    for index, each in enumerate(found):
        if each is not None:
            subgraphs[index] = each.subgraph
            for number, inner in each.callees.items():
                subgraphs[number] = inner
    return model if is_same(subgraphs, model.subgraphs) else replace(model, subgraphs=tuple(subgraphs))


def _own(model: Model) -> frozenset[int]:
    """The subgraphs that exactly one IF or LOOP invokes, and nothing else."""
    calls = Counter(callee for each in model.subgraphs for operator in each.operators
                    for callee in operator.op.callees())
    bodies = {callee for each in model.subgraphs for operator in each.operators
              if isinstance(operator.op, (If, Loop)) for callee in operator.op.callees()}
    entries = {0, *(each.subgraph for each in model.signatures)}
    return frozenset(each for each in bodies if calls[each] == 1 and each not in entries)


@dataclass(frozen=True)
class _Rewritten:
    """A subgraph after the pass, with those that it invokes."""

    subgraph: Subgraph
    callees: Mapping[int, Subgraph]
    cost: int
    """How many transpositions a run executes, as far as that can be told: those of each subgraph once."""
    wanted: Mapping[int, Permutation]
    """For inputs that are transposed, by position, how."""
    offered: Mapping[int, Permutation]
    """For outputs that are transposed, by position, how."""


@dataclass(frozen=True)
class _State:
    """The model under work."""

    model: Model
    own: frozenset[int]

    def rewrite(self, index: int, inputs: Layouts, outputs: Layouts, keep: bool = False) -> _Rewritten:
        """A subgraph whose inputs and outputs are passed in other layouts; `keep`: outputs stay the same tensors."""
        return _Graph(self, self.model.subgraphs[index], inputs).run(outputs, keep)


@dataclass
class _Graph:
    """One subgraph under work: tensors keep their indices, operators are emitted anew."""

    state: _State
    old: Subgraph
    layouts: Layouts
    tensors: list[Tensor] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    views: dict[int, View] = field(default_factory=dict)
    had: dict[int, View] = field(default_factory=dict)
    """What tensors were views of that are transposed by now."""
    made: dict[View, int] = field(default_factory=dict)
    callees: dict[int, Subgraph] = field(default_factory=dict)
    readers: dict[int, list[Op]] = field(default_factory=dict)
    cost: int = 0

    def run(self, outputs: Layouts, keep: bool) -> _Rewritten:
        self.tensors = list(self.old.tensors)
        for operator in self.old.operators:
            for each in operator.inputs:
                self.readers.setdefault(each, []).append(operator.op)
        inputs = [self.receive(tensor, self.layouts.get(position)) for position, tensor in enumerate(self.old.inputs)]
        for operator in self.old.operators:
            self.visit(operator)
        wanted = {position: view.permutation for position, tensor in enumerate(self.old.inputs)
                  for view in self.made if view.source == tensor}
        offered = {position: self.views[tensor].permutation for position, tensor in enumerate(self.old.outputs)
                   if tensor in self.views and not is_identity(self.views[tensor].permutation)}
        results = [self.give(tensor, outputs.get(position), keep) for position, tensor in enumerate(self.old.outputs)]
        self.keep_names()
        subgraph = replace(self.old, tensors=tuple(self.tensors), inputs=tuple(inputs), outputs=tuple(results),
                           operators=tuple(self.operators))
        subgraph = self.old if _is_like(subgraph, self.old) else subgraph
        return _Rewritten(subgraph, self.callees, self.cost, wanted, offered)

    def receive(self, tensor: int, layout: Permutation | None) -> int:
        """The tensor that is an input in place of another one."""
        return tensor if layout is None else self.view_of_new(tensor, layout)

    def view_of_new(self, tensor: int, layout: Permutation) -> int:
        """A new tensor, of which the given one becomes a view."""
        source = self.add(permuted_back(self.tensors[tensor], layout))
        self.views[tensor] = View(source, layout)
        return source

    def give(self, tensor: int, layout: Permutation | None, keep: bool) -> int:
        """The tensor that is an output in place of another one."""
        if layout is not None:
            return self.transposed(tensor, inverse(layout))
        found = self.read(tensor)
        if keep and found != tensor:  # what it is a view of, or that view, which another tensor was
            del self.views[tensor]
            self.operators.append(Operator(Alias(), (found,), (tensor,)))
            return tensor
        return found

    def add(self, tensor: Tensor) -> int:
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def constant(self, data: Array, name: str) -> int:
        data.setflags(write=False)
        return self.add(Tensor(name or f"constant_{len(self.tensors)}", DType.of(data.dtype), data.shape, data=data))

    def keep_names(self) -> None:
        """Calls results that importers named after the operator as the file calls what is left out behind them."""
        left_out = {view.source: tensor for tensor, view in reversed(self.views.items())
                    if view not in self.made and self.tensors[tensor].name != f"{Transpose.name.lower()}_{tensor}"}
        for operator in self.old.operators if left_out else ():
            for result in operator.outputs:
                tensor, source = left_out.get(result), self.tensors[result]
                if tensor is not None and source.name == f"{operator.name.lower()}_{result}":
                    self.tensors[result] = replace(source, name=self.tensors[tensor].name)

    def read(self, tensor: int) -> int:
        """The tensor itself, transposed now if it was a view."""
        view = self.views.get(tensor)
        if view is None:
            return tensor
        if is_identity(view.permutation):
            return view.source
        if view not in self.made:
            self.emit(view, tensor)
            self.had[tensor] = self.views.pop(tensor)
        return self.made.get(view, tensor)

    def seen(self, tensor: int, permutation: Permutation) -> View:
        """A tensor transposed, of what it is a view of, or was."""
        view = self.views.get(tensor) or self.had.get(tensor)
        return View(tensor, permutation) if view is None else View(view.source, composed(view.permutation, permutation))

    def transposed(self, tensor: int, permutation: Permutation) -> int:
        """A tensor in another layout."""
        view = self.seen(tensor, permutation)
        if is_identity(view.permutation):
            return view.source
        if view not in self.made:
            like = permuted_back(self.tensors[tensor], inverse(permutation))
            self.emit(view, self.add(replace(like, name=f"transposed_{len(self.tensors)}")))
        return self.made[view]

    def emit(self, view: View, target: int) -> None:
        order = self.add(Tensor(f"permutation_{len(self.tensors)}", DType.INT32, (len(view.permutation),),
                                data=_frozen(view.permutation)))
        self.operators.append(Operator(Transpose(), (view.source, order), (target,)))
        self.made[view] = target
        self.cost += 1

    def visit(self, operator: Operator) -> None:
        permutation = self.permutation(operator) if isinstance(operator.op, Transpose) else None
        if permutation is not None:
            self.note(operator, permutation)
            return
        if isinstance(operator.op, ShapeOf) and operator.inputs[0] in self.views:
            self.measure(operator)
            return
        callees = operator.op.callees()
        if callees and self.state.own.issuperset(callees):
            self.call(operator)
            return
        found = moved(operator, self.tensors, self.views) or self.joined(operator)
        if found is None or self.grows_in_vain(operator):
            inputs = tuple(each if each < 0 else self.read(each) for each in operator.inputs)
            self.operators.append(operator if inputs == operator.inputs else replace(operator, inputs=inputs))
            return
        inputs = tuple(self.given(each, self.tensors[old].name)
                       for each, old in zip(found.inputs, operator.inputs, strict=True))
        targets = operator.outputs if is_identity(found.permutation) else tuple(
            self.view_of_new(each, found.permutation) for each in operator.outputs)
        self.operators.append(replace(operator, op=found.op, inputs=inputs, outputs=targets))

    def given(self, value: Given, name: str) -> int:
        """The tensor that an operator in another place reads."""
        if isinstance(value, np.ndarray):
            return self.constant(value, name)
        if isinstance(value, Transposed):
            return self.transposed(self.widened(value.tensor, len(value.order)), value.order)
        if not isinstance(value, Rows):
            return value
        order = self.constant(np.array(value.order, np.int32), "")
        rows = self.add(replace(self.tensors[value.tensor], name=f"rows_{len(self.tensors)}"))
        self.operators.append(Operator(Gather(), (value.tensor, order), (rows,)))
        return rows

    def widened(self, tensor: int, rank: int) -> int:
        """A tensor with axes of size 1 in front."""
        while len(self.tensors[tensor].shape) < rank:
            given = self.tensors[tensor]
            signature = None if given.shape_signature is None else (1, *given.shape_signature)
            wide = self.add(Tensor(f"widened_{len(self.tensors)}", given.dtype, (1, *given.shape), signature))
            self.operators.append(Operator(ExpandDims(), (tensor, self.constant(np.array(0, np.int32), "")), (wide,)))
            tensor = wide
        return tensor

    def joined(self, operator: Operator) -> Moved | None:
        """As `moved`, of views and of what was transposed for others, where what reads the whole may take a view."""
        readers = self.readers.get(operator.outputs[0], ()) if isinstance(operator.op, Concatenation) else ()
        if not any(takes_views(each) for each in readers) or not any(each in self.views for each in operator.inputs):
            return None
        return moved(operator, self.tensors, {**self.had, **self.views})

    def grows_in_vain(self, operator: Operator) -> bool:
        """Whether an operator surrounds a view for such alone as have to have it: there would be more to transpose."""
        is_pad = isinstance(operator.op, (Pad, MirrorPad, ContinuedPad))
        readers = self.readers.get(operator.outputs[0], ()) if is_pad else ()
        return bool(readers) and not any(takes_views(each) or each.callees() for each in readers)

    def permutation(self, operator: Operator) -> Permutation | None:
        """That of a transposition; None where it is not known, or does not fit its input."""
        source, order = (self.tensors[each] for each in operator.inputs)
        if order.data is None:
            return None
        rank = order.data.size
        found = tuple(int(axis) % rank for axis in order.data.reshape(-1).tolist())
        return found if sorted(found) == list(range(rank)) and fits(source, found) else None

    def note(self, operator: Operator, permutation: Permutation) -> None:
        """Takes a transposition for a view, which is made when something has to have it."""
        self.views[operator.outputs[0]] = self.seen(operator.inputs[0], permutation)

    def measure(self, operator: Operator) -> None:
        """The shape of a view, from that of its source, so that it need not be made."""
        view, (target,) = self.views[operator.inputs[0]], operator.outputs
        if is_identity(view.permutation):
            self.operators.append(replace(operator, inputs=(view.source,)))
            return
        whole = self.add(replace(self.tensors[target], name=f"shape_{len(self.tensors)}"))
        order = self.constant(np.array(view.permutation, np.int32), "")
        self.operators += (replace(operator, inputs=(view.source,), outputs=(whole,)),
                           Operator(Gather(), (whole, order), (target,)))

    def call(self, operator: Operator) -> None:
        """Chooses the layouts in which values pass, one after the other, each if that spares transpositions."""
        call = _Call.of(self, operator)
        for choice in call.choices():
            call = call.with_choice(choice)
        call.emit()


@dataclass(frozen=True)
class _Choice:
    """A value that may be passed in another layout."""

    operand: int
    """Its position among the operator's inputs."""
    layout: Permutation
    result: int | None = None
    """The position among the operator's outputs of what a loop carries on; None where it only reads the value."""


@dataclass(frozen=True)
class _Call:
    """An IF or LOOP, and the layouts chosen so far."""

    graph: _Graph
    operator: Operator
    chosen: tuple[_Choice, ...]
    bodies: tuple[_Rewritten, ...]

    @classmethod
    def of(cls, graph: _Graph, operator: Operator) -> _Call:
        plain = tuple(graph.state.rewrite(each, {}, {}) for each in operator.op.callees())
        return cls(graph, operator, (), plain)

    @property
    def cost(self) -> int:
        return sum(each.cost for each in self.bodies)

    def choices(self) -> list[_Choice]:
        """What may be passed in another layout: what a branch or body transposes, and what it is given transposed."""
        op, inputs, found = self.operator.op, self.operator.inputs, []
        for operand in range(len(inputs)):
            place = _body_input(op, operand)
            if place is None:
                continue
            layouts = {inverse(body.wanted[place]) for body in self.bodies if place in body.wanted}
            view = self.graph.views.get(inputs[operand])
            layouts |= set() if view is None else {view.permutation}
            result = _carried_as(op, operand)
            if result is not None and isinstance(op, Loop):
                output = op.carried[result].body_output
                layouts |= {body.offered[output] for body in self.bodies if output in body.offered}
            found += [_Choice(operand, layout, result) for layout in sorted(layouts)
                      if not is_identity(layout) and self._fits(operand, place, layout)]
        return found

    def _fits(self, operand: int, place: int, layout: Permutation) -> bool:
        """Whether a layout has the rank of an operand, of what the bodies take it as, and of what a loop carries on."""
        graph, op = self.graph, self.operator.op
        tensors = [graph.tensors[self.operator.inputs[operand]]]
        bodies = [graph.state.model.subgraphs[each] for each in op.callees()]
        tensors += [body.tensors[body.inputs[place]] for body in bodies]
        result = _carried_as(op, operand)
        if result is not None and isinstance(op, Loop):
            tensors.append(graph.tensors[self.operator.outputs[result]])
            tensors += [body.tensors[body.outputs[op.carried[result].body_output]] for body in bodies]
        return all(fits(each, layout) for each in tensors)

    def with_choice(self, choice: _Choice) -> _Call:
        """The call with one more value in another layout, if that spares transpositions, else itself."""
        if any(each.operand == choice.operand for each in self.chosen):
            return self
        chosen = (*self.chosen, choice)
        inputs, outputs = self.layouts(chosen)
        bodies = tuple(self.graph.state.rewrite(each, inputs, outputs) for each in self.operator.op.callees())
        other = replace(self, chosen=chosen, bodies=bodies)
        view = self.graph.views.get(self.operator.inputs[choice.operand])
        given = view is not None and view.permutation == choice.layout
        # A branch that transposes runs no more often than a transposition in front of the IF.
        spared = int(given and isinstance(self.operator.op, If))
        return other if other.cost < self.cost + spared else self

    def layouts(self, chosen: Sequence[_Choice]) -> tuple[Layouts, Layouts]:
        """Those of the inputs and of the outputs of the bodies."""
        op = self.operator.op
        inputs, outputs = {}, {}
        for each in chosen:
            place = _body_input(op, each.operand)
            assert place is not None
            inputs[place] = each.layout
            if each.result is not None and isinstance(op, Loop):
                outputs[op.carried[each.result].body_output] = each.layout
        return inputs, outputs

    def emit(self) -> None:
        graph, operator = self.graph, self.operator
        layouts = {each.operand: each.layout for each in self.chosen}
        inputs = tuple(
            each if each < 0 else graph.transposed(each, inverse(layouts[k])) if k in layouts else graph.read(each)
            for k, each in enumerate(operator.inputs))
        results = list(operator.outputs)
        for each in self.chosen:
            if each.result is not None:
                results[each.result] = graph.view_of_new(results[each.result], each.layout)
        graph.operators.append(replace(operator, inputs=inputs, outputs=tuple(results)))
        for index, body in zip(operator.op.callees(), self.bodies, strict=True):
            graph.callees[index] = body.subgraph
            graph.callees.update(body.callees)
            graph.cost += body.cost


def _is_like(new: Subgraph, old: Subgraph) -> bool:
    """Whether a subgraph differs from the one that it was made of by how permutations are stored, if at all."""
    return (new.inputs, new.outputs, len(new.operators)) == (old.inputs, old.outputs, len(old.operators)) and all(
        (one.op, one.outputs, _read_by(one, new)) == (other.op, other.outputs, _read_by(other, new))
        for one, other in zip(new.operators, old.operators, strict=True))


def _read_by(operator: Operator, subgraph: Subgraph) -> tuple[object, ...]:
    """What an operator reads: tensors, and a permutation that is known by its value."""
    order = subgraph.tensors[operator.inputs[1]].data if isinstance(operator.op, Transpose) else None
    return operator.inputs if order is None else (operator.inputs[0], order.tolist())


def _frozen(permutation: Permutation) -> Array:
    data = np.array(permutation, np.int32)
    data.setflags(write=False)
    return data


def _body_input(op: object, operand: int) -> int | None:
    """The position among the inputs of a branch or body of an operand that may be passed in any layout."""
    if isinstance(op, If):
        return operand - 1 if operand else None
    if not isinstance(op, Loop) or op.cond_subgraph_index >= 0:
        return None
    first = 2 + len(op.carried)
    if 2 <= operand < first:
        return op.carried[operand - 2].body_input
    return op.invariants[operand - first] if first <= operand < first + len(op.invariants) else None


def _carried_as(op: object, operand: int) -> int | None:
    """Which carried value of a loop an operand starts."""
    return operand - 2 if isinstance(op, Loop) and 2 <= operand < 2 + len(op.carried) else None
