"""Proves of a model what execution relies on."""

from __future__ import annotations

from math import inf
from typing import cast

import numpy as np

from circlet.runtime.errors import ModelError, Place
from circlet.runtime.ir.model import ABSENT, Model, Operator, Signature, Subgraph
from circlet.runtime.ir.op import Opaque, Operand, Operands, ShapeError
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import MOST_DIMENSIONS, QUANTIZABLE, DType, Quantization
from circlet.runtime.ir.verify_calls import verify_calls
from circlet.runtime.records import dataclass, field

UNDEFINED = "neither an input, a constant, a variable nor written by an operator"


def verify(model: Model, before: Model | None = None) -> None:
    """Checks a model as far as that is possible before it runs, in time linear in its size.

    Args:
        model: the model.
        before: one that was checked, of which this one may have parts; their types are not checked again.

    Afterwards every index is in range; inputs are absent only where their operator allows it; tensors are written
    once and before they are read, constants and subgraph inputs never; types, data and quantisation of tensors agree
    with each other and with the operators; operators and the subgraphs that they invoke agree on number and element
    types of what passes between them; and no subgraph invokes itself, directly or through others. Subgraphs that
    nothing invokes are checked like all others.

    Raises:
        ModelError: the first thing that is wrong, with its place, what was expected and what was found.
    """
    if not model.subgraphs:
        raise ModelError("expected at least one subgraph, found none")
    checked = () if before is None else before.subgraphs
    for index, subgraph in enumerate(model.subgraphs):
        known = checked[index] if index < len(checked) else None
        if known is subgraph:
            continue
        scope = _Scope(index, subgraph, *_parts_of(known, subgraph))
        scope.check_tensors()
        scope.check_inputs()
        for number, operator in enumerate(subgraph.operators):
            scope.check_operator(number, operator)
        scope.check_outputs()
    _check_signatures(model)
    verify_calls(model)


def _parts_of(known: Subgraph | None, subgraph: Subgraph) -> tuple[frozenset[int], frozenset[int]]:
    """The tensors of a subgraph, by number, and the operators, by `id`, that one which was checked has as well."""
    if known is None or len(known.tensors) > len(subgraph.tensors):
        return frozenset(), frozenset()
    tensors = zip(known.tensors, subgraph.tensors, strict=False)
    return (frozenset(number for number, (one, other) in enumerate(tensors) if one is other),
            frozenset(map(id, known.operators)))


@dataclass
class _Scope:
    """A subgraph under verification and what is defined in it so far."""

    index: int
    subgraph: Subgraph
    known_tensors: frozenset[int]
    """By number, those that were checked before."""
    known_operators: frozenset[int]
    """The same of operators, by `id`."""
    origin: dict[int, int | str] = field(default_factory=dict)
    """What gives a tensor its value, so that nothing else may: an operator's index, or what it is if not a result."""
    readable: set[int] = field(default_factory=set)
    operands: dict[int, Operand] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"subgraph {self.index} ({self.subgraph.name!r})"

    def check_tensors(self) -> None:
        count = len(self.subgraph.tensors)
        for number, tensor in enumerate(self.subgraph.tensors):
            problem = None if number in self.known_tensors else (
                _shape_problem(tensor) or _variable_problem(tensor) or _data_problem(tensor)
                or _quantization_problem(tensor, count))
            if problem is not None:
                raise ModelError(f"{self}, tensor {self.label(number)}: {problem}")
            if tensor.data is not None:
                self.origin[number] = "a constant"
                self.readable.add(number)
            elif tensor.is_variable:
                self.readable.add(number)

    def check_inputs(self) -> None:
        for position, tensor in enumerate(self.subgraph.inputs):
            self.check_index(tensor, f"input {position}")
            if tensor in self.origin:
                raise ModelError(f"{self}, input {position}, tensor {self.label(tensor)}: expected a tensor to which "
                                 f"only the caller gives a value, found {self.origin[tensor]}")
            self.origin[tensor] = f"input {position} of the subgraph"
            self.readable.add(tensor)

    def check_outputs(self) -> None:
        for position, tensor in enumerate(self.subgraph.outputs):
            self.check_index(tensor, f"output {position}")
            if tensor not in self.readable:
                raise ModelError(f"{self}, output {position}, tensor {self.label(tensor)}: expected a tensor that has "
                                 f"a value, found one that is {UNDEFINED}")

    def check_operator(self, number: int, operator: Operator) -> None:
        is_known = id(operator) in self.known_operators and self.known_tensors.issuperset(
            each for each in (*operator.inputs, *operator.outputs) if each != ABSENT)
        if not is_known:
            self.check_counts(number, operator)
        self.check_reads(number, operator)
        for position, tensor in enumerate(operator.outputs):
            self.check_index(tensor, f"output {position}", number)
            if tensor in self.origin:
                raise ModelError(f"{self.place(number, tensor)}: output {position} is written again; expected a "
                                 f"tensor without a value, found {self.name_origin(tensor)}")
            self.origin[tensor] = number
        self.readable.update(operator.outputs)
        for position, tensor in enumerate(operator.intermediates):
            if tensor != ABSENT:
                self.check_index(tensor, f"intermediate {position}", number)
        if not is_known:
            self.check_types(number, operator)

    def check_counts(self, number: int, operator: Operator) -> None:
        for what, rule, found in (("input", operator.op.inputs, operator.inputs),
                                  ("output", operator.op.results, operator.outputs)):
            if not rule.admits(len(found)):
                plural = "" if str(rule).split()[-1] == "1" else "s"
                raise ModelError(f"{self.place(number)}: expected {rule} {what}{plural}, found {len(found)}")

    def check_reads(self, number: int, operator: Operator) -> None:
        for position, tensor in enumerate(operator.inputs):
            if tensor in self.readable:
                continue
            if tensor != ABSENT:
                self.check_index(tensor, f"input {position}", number)
                raise ModelError(f"{self.place(number, tensor)}: input {position} {self.why_undefined(tensor)}")
            if position not in operator.op.optional and not isinstance(operator.op, Opaque):
                raise ModelError(f"{self.place(number)}: input {position} is required, found {ABSENT} (absent)")

    def check_types(self, number: int, operator: Operator) -> None:
        args = Operands(tuple([None if tensor == ABSENT else self.operand(tensor) for tensor in operator.inputs]),
                        len(operator.outputs))
        try:
            kinds = operator.op.types(args)
        except ShapeError as error:
            raise ModelError(f"{self.place(number)}: {error}") from error
        if len(kinds) != len(operator.outputs):
            raise ModelError(f"{self.place(number)}: expected {len(kinds)} outputs from its inputs and options, "
                             f"found {len(operator.outputs)}")
        for position, (kind, tensor) in enumerate(zip(kinds, operator.outputs, strict=True)):
            found = self.subgraph.tensors[tensor].dtype
            if kind is not None and kind is not found:
                raise ModelError(f"{self.place(number, tensor)}: output {position} has element type "
                                 f"{found.value}, expected {kind.value}")

    def check_index(self, tensor: int, operand: str, number: int | None = None) -> None:
        """Checks the index that an operand of operator `number`, or of the subgraph, names."""
        if not 0 <= tensor < len(self.subgraph.tensors):
            place = self if number is None else self.place(number)
            raise ModelError(f"{place}, {operand}: expected the index of a tensor, below {len(self.subgraph.tensors)}, "
                             f"found {tensor}")

    def operand(self, tensor: int) -> Operand:
        found = self.operands.get(tensor)
        if found is None:
            declared = self.subgraph.tensors[tensor]
            found = Operand(declared.dtype, declared.shape, declared.data, declared.quantization)
            self.operands[tensor] = found
        return found

    def why_undefined(self, tensor: int) -> str:
        for number, operator in enumerate(self.subgraph.operators):
            if tensor in operator.outputs:
                return f"is read before operator {number} ({operator.name}) writes it"
        return f"is read, but it is {UNDEFINED}"

    def name_origin(self, tensor: int) -> str:
        origin = self.origin[tensor]
        if isinstance(origin, str):
            return origin
        return f"the output of operator {origin} ({self.subgraph.operators[origin].name})"

    def label(self, tensor: int) -> str:
        return self.subgraph.tensor_label(tensor)

    def place(self, number: int, tensor: int | None = None) -> Place:
        name = self.subgraph.operators[number].name
        return Place(self.index, self.subgraph.name, number, name, None if tensor is None else self.label(tensor))


def _shape_problem(tensor: Tensor) -> str | None:
    shape, signature = tensor.shape, tensor.shape_signature
    if len(shape) > MOST_DIMENSIONS:
        return f"expected at most {MOST_DIMENSIONS} dimensions, found {len(shape)}"
    if shape and min(shape) < 0:
        return f"expected dimensions of at least 0, found shape {shape}"
    if signature is None:
        return None
    if len(signature) != len(shape):
        return f"expected a shape signature of the rank of shape {shape}, found {signature}"
    if signature and min(signature) < -1:
        return f"expected dimensions of at least 0, or -1 where not known, found shape signature {signature}"
    return None


def _variable_problem(tensor: Tensor) -> str | None:
    if tensor.is_variable and tensor.dtype.numpy.hasobject:
        return f"expected a variable tensor of numbers, found one of {tensor.dtype.value}"
    return None


def _data_problem(tensor: Tensor) -> str | None:
    data, held = tensor.data, cast("object", tensor.data)
    if held is not None and not isinstance(held, np.ndarray):
        return f"expected data in an array, found {type(held).__name__}"
    if data is None or tensor.sparsity is not None or not tensor.dtype.is_computable:
        return None
    if data.shape != tensor.shape:
        return f"expected data of shape {tensor.shape}, found {data.shape}"
    if data.dtype != tensor.dtype.numpy:
        return f"expected data of numpy type {tensor.dtype.numpy} for {tensor.dtype.value}, found {data.dtype}"
    return None


def _quantization_problem(tensor: Tensor, tensors: int) -> str | None:
    quantization = tensor.quantization
    if quantization is None:
        return None
    if quantization.blockwise is not None:
        return _blockwise_problem(quantization, tensors)
    scales, zero_points, axis = len(quantization.scales), len(quantization.zero_points), quantization.axis
    if scales and zero_points not in (0, 1, scales):
        return f"expected a zero point for each of {scales} scales, found {zero_points} zero points"
    problem = _range_problem(tensor.dtype, quantization)
    if problem is not None or scales < 2:
        return problem
    if not 0 <= axis < len(tensor.shape):
        return f"expected an axis of shape {tensor.shape} for {scales} scales, found axis {axis}"
    if tensor.signature[axis] != scales:
        return f"expected {tensor.signature[axis]} scales, one for each index of axis {axis}, found {scales}"
    return None


def _range_problem(dtype: DType, quantization: Quantization) -> str | None:
    if dtype not in QUANTIZABLE:
        return None
    limits = np.iinfo(dtype.numpy)
    least, most = limits.min, limits.max  # numpy computes them anew each time, and there may be thousands
    for scale in quantization.scales:
        if not 0 <= scale < inf:
            return f"expected scales that are finite and not negative, found {scale}"
    for zero_point in quantization.zero_points:
        if not least <= zero_point <= most:
            return f"expected zero points that {dtype.value} holds, found {zero_point}"
    return None


def _blockwise_problem(quantization: Quantization, tensors: int) -> str | None:
    blockwise = quantization.blockwise
    assert blockwise is not None
    if not 0 <= blockwise.scales < tensors:
        return f"expected the index of the tensor of block scales, below {tensors}, found {blockwise.scales}"
    if not ABSENT <= blockwise.zero_points < tensors:
        return (f"expected the index of the tensor of block zero points, -1 or below {tensors}, "
                f"found {blockwise.zero_points}")
    if blockwise.block_size < 1:
        return f"expected blocks of at least 1 element, found block size {blockwise.block_size}"
    return None


def _check_signatures(model: Model) -> None:
    keys: set[str] = set()
    for signature in model.signatures:
        place = f"signature {signature.key!r}"
        if signature.key in keys:
            raise ModelError(f"{place}: expected a key that no other signature has, found it twice")
        keys.add(signature.key)
        if not 0 <= signature.subgraph < len(model.subgraphs):
            raise ModelError(f"{place}: expected the index of a subgraph, below {len(model.subgraphs)}, "
                             f"found {signature.subgraph}")
        _check_signature(place, signature, model.subgraphs[signature.subgraph])


def _check_signature(place: str, signature: Signature, subgraph: Subgraph) -> None:
    for what, names, operands in (("input", signature.inputs, subgraph.inputs),
                                  ("output", signature.outputs, subgraph.outputs)):
        allowed = frozenset(operands)
        for name, tensor in names.items():
            if tensor not in allowed:
                raise ModelError(f"{place}, {what} {name!r}: expected an {what} of subgraph {signature.subgraph} "
                                 f"({subgraph.name!r}), found tensor {subgraph.tensor_label(tensor)}")
