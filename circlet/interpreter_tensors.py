"""The tensors of an interpreter: their shapes and their memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import index as as_index
from typing import TYPE_CHECKING, Any

import numpy as np

from circlet.interpreter_details import shown_type
from circlet.runtime.errors import CircletError, InputError
from circlet.runtime.exec.bound import BoundRun
from circlet.runtime.exec.memory import allocate
from circlet.runtime.exec.values.rule import as_array
from circlet.runtime.ir.model import ABSENT, Model, Subgraph
from circlet.runtime.ir.packed import BITS, unpacked
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array, DType, Shape
from circlet.session import Session

if TYPE_CHECKING:
    import numpy.typing as npt

_ARRAY, _MOST = np.ndarray, (1 << 31) - 1
SHOWN_WIDER = frozenset({*BITS, DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2})
"""The types of which LiteRT shows the elements as int8 or uint8."""


class InterpreterError(CircletError, RuntimeError):
    """The interpreter is not in the state that a call needs, or a tensor cannot be resized as asked."""


class PreparedSession(Session):
    """A session that gives hold of variable tensors, and of what is known of the model before it is read."""

    @property
    def outline(self) -> Model:
        """The model, of which entry points may be without operators, and have blanks for tensors that are neither their
        inputs nor outputs; made anew each time."""
        # Not by what keeps it: attributes of objects whose `__dict__` was asked for take longer to read.
        return self.model if self._prepared is None else self._prepared.outline

    @property
    def is_outlined(self) -> bool:
        """Whether that is so."""
        return self._prepared is not None

    def planned_shapes(self, subgraph: int, shapes: tuple[Shape, ...]) -> Sequence[Shape | None]:
        """The shape of each tensor of a subgraph for inputs of some shapes; None where only the run tells it."""
        return self._executors.shapes(subgraph, shapes)

    def variable_tensor(self, subgraph: int, index: int) -> Array:
        """The memory of a variable tensor."""
        return self._variables.tensor(subgraph, index, self.model.subgraphs[subgraph].tensors[index])

    def reset_variable_tensors(self, subgraph: int | None = None) -> None:
        """Makes the variable tensors of one subgraph, or of all, zero."""
        if self._stateful:
            self._state.change(partial(self._variables.clear_tensors, subgraph))


class SubgraphTensors:
    """The tensors of one subgraph as callers see them: each has a shape, some have memory."""

    def __init__(self, session: PreparedSession, index: int, subgraph: Subgraph,
                 whole: Callable[[], Subgraph] | None) -> None:
        """
        Args:
            session: what runs it.
            index: of the subgraph.
            subgraph: as far as it is known.
            whole: gives all of it, where that is more than its inputs and outputs.
        """
        self.subgraph = subgraph
        self.shapes = [each.shape for each in subgraph.tensors]
        """By tensor, at present; `shape` gives those of all."""
        self._session = session
        self._index = index
        self._whole = whole
        self._outputs = subgraph.outputs if whole is not None else session.model.subgraphs[index].outputs
        self._border = frozenset((*subgraph.inputs, *subgraph.outputs))
        self._results = self._border.difference(subgraph.inputs) if whole is not None else frozenset(
            self._outputs).intersection(tensor for operator in subgraph.operators for tensor in operator.outputs)
        self._arrays: dict[int, Array] = {}
        self._plain = {each: subgraph.tensors[each].dtype.numpy for each in subgraph.inputs
                       if _is_plain(subgraph.tensors[each])}
        """The element types of inputs that arrays of just that type can be copied into as they are."""
        self._views = {index: np.dtype(shown_type(each.dtype)) for index, each in enumerate(subgraph.tensors)
                       if each.dtype.element not in (None, each.dtype.numpy)}
        """The element types of arrays that callers see in other types than those of their memory."""
        self._blanks: set[int] = set()
        """Results that are zeros as long as nothing has run."""
        self._is_untold = False
        """Whether results are blank, and `shapes` and `_blanks` do not tell that yet."""
        self._unset: set[int] = set()
        """Inputs that are zeros but whose memory holds something else, until somebody looks."""
        self._bound: BoundRun | None = None
        """Set when the subgraph is ready to run."""
        self._former: BoundRun | None = None
        """What was, last."""
        self._other: BoundRun | None = None
        """What was before that, and may be again."""
        self._is_partial = whole is not None
        """Whether `shapes` has those of inputs and outputs alone."""
        self._is_settled = False
        """Whether results are where the next run puts them, and shapes are known."""
        for tensor in subgraph.inputs:
            self._clear(tensor)

    def checked(self, index: int) -> int:
        """The index of a tensor.

        Raises:
            InputError: there is no such tensor.
        """
        if not 0 <= as_index(index) < len(self.shapes):
            raise InputError(f"Invalid tensor index {index} exceeds max tensor index {len(self.shapes)}")
        return as_index(index)

    @property
    def tensors(self) -> Sequence[Tensor]:
        """All tensors."""
        return self.subgraph.tensors if self._whole is None else self._whole().tensors

    def known(self, index: int) -> Sequence[Tensor]:
        """All tensors, or blanks in the places of some, but not of this one."""
        return self.subgraph.tensors if index in self._border else self.tensors

    def tensor(self, index: int) -> Tensor:
        return self.known(index)[index]

    def label(self, index: int) -> str:
        """What messages call a tensor."""
        found = self.subgraph if self._whole is None else self._whole()
        return found.tensor_label(index)

    def shape(self, index: int) -> Shape:
        """The shape of a tensor, at present."""
        if self._is_untold:
            self._tell_blanks()
        if self._is_partial and index not in self._border:
            self._complete()
        return self.shapes[index]

    def _complete(self) -> None:
        """Finds the shapes of what is neither input nor output, as they were when the subgraph was bound."""
        former = self._former
        shapes = [each.shape for each in self.tensors]
        if former is not None:
            planned = self._session.planned_shapes(self._index, tuple(each.shape for each in former.inputs))
            shapes = _known(shapes, planned)
        for each in self._border:
            shapes[each] = self.shapes[each]
        self.shapes, self._is_partial = shapes, False

    def array(self, index: int) -> Array:
        """The memory of a tensor, in the element type that details tell; read-only if it is a constant.

        Raises:
            InputError: it has none.
        """
        index = self.checked(index)
        if self._is_untold:
            self._tell_blanks()
        if index in self._blanks:
            self._arrays[index] = self._blank(index)
            self._blanks.discard(index)
        if index in self._unset:
            self._zero_unset()
        if index in self._arrays:
            view = self._views.get(index)
            return self._arrays[index] if view is None else self._arrays[index].view(view)
        tensor = self.tensor(index)
        if tensor.data is not None:
            return _constant_value(tensor, tensor.data)
        if self._bound is None:
            raise InputError("Tensor data is null. Run allocate_tensors() first")
        if tensor.is_variable:
            return self._session.variable_tensor(self._index, index)
        if index in self._results:
            raise InputError(f"Tensor data is null. The shape of tensor {self.label(index)} follows from values: run "
                             "invoke() first")
        raise InputError(f"Tensor data is null. Tensor {self.label(index)} is no input, output or "
                         "constant; experimental_preserve_all_tensors keeps what operators of entry points compute")

    def copy(self, index: int) -> Any:
        """A copy of a tensor, see `array`: a numpy scalar where it has no dimensions and is no string.

        Raises:
            InputError: it has no memory.
        """
        found = self._arrays.get(index) if type(index) is int else None
        if found is None or self._views or self._unset or self._is_untold:
            found = self.array(index)
        copy = found.copy()
        return copy if copy.ndim or copy.dtype.hasobject else copy[()]

    def set(self, index: int, value: npt.ArrayLike) -> None:
        """Copies a value into a tensor.

        Raises:
            InputError: the tensor has no memory, or the value is of another type or shape.
        """
        if type(value) is _ARRAY and type(index) is int:
            plain, target = self._plain.get(index), self._arrays.get(index)
            if target is not None and value.shape == target.shape \
                    and (value.dtype is plain or value.dtype == plain):
                target[...] = value
                self._unset.discard(index)
                return
        self._set_checked(self.checked(index), value)

    def take(self, values: Mapping[str, npt.ArrayLike], indices: Mapping[str, int]) -> bool:
        """Copies values into inputs, given by name; says whether it did. It does nothing where the subgraph is not
        ready to run on values of their shapes, or one of them needs conversion or a message."""
        if self._bound is None:
            return False
        rows = []
        for name, value in values.items():
            index = indices.get(name, ABSENT)
            plain = self._plain.get(index)
            if type(value) is not _ARRAY or (value.dtype is not plain and value.dtype != plain):
                return False
            target = self._arrays[index]
            if value.shape != target.shape:
                return False
            rows.append((target, value))
        for target, value in rows:
            target[...] = value
        self._unset.difference_update(indices.values())
        return True

    def _set_checked(self, index: int, value: npt.ArrayLike) -> None:
        tensor = self.tensor(index)
        if tensor.is_constant:
            raise InputError(f"Cannot set tensor: {self.label(index)} is a constant.")
        array = _fitting_value(value, tensor, index, self.shape(index))
        try:
            target = self.array(index)
        except InputError:
            raise InputError("Cannot set tensor: Tensor is unallocated. Try calling allocate_tensors() first") from None
        np.copyto(target, array)

    def resize(self, index: int, size: npt.ArrayLike, strict: bool = False) -> None:
        """Gives an input another shape.

        Raises:
            InterpreterError: the tensor is no input, or must not have this shape.
            InputError: that is no shape.
        """
        index, shape = as_index(index), _as_shape(size)
        if index not in self.subgraph.inputs:
            raise InterpreterError(f"Attempting to resize tensor {self.label(index)}, which is not an "
                                   f"input; inputs are {list(self.subgraph.inputs)}")
        if min(shape, default=0) < 0:
            raise InterpreterError(f"Attempting to resize tensor {index} to {list(shape)}: lengths must not be "
                                   "negative.")
        if strict:
            self._check_strictly(index, shape)
        if shape != self.shapes[index]:
            self.shapes[index] = shape
            self._bound, self._is_settled = None, False
            self._clear(index)

    def allocate(self) -> None:
        """Gives inputs and results memory and makes the subgraph ready to run, if it is not.

        Raises:
            ExecutionError: an operator cannot compute with the shapes of the inputs.
        """
        if self._bound is not None:
            return
        self._bind()
        self._session.reset_variable_tensors(self._index)

    def _bind(self, has_failed: bool = False) -> None:
        """Binds the subgraph to inputs of the present shapes; results are blank."""
        inputs = self.subgraph.inputs
        bound = self._moved(tuple([self.shapes[each] for each in inputs]), has_failed)
        if bound is not None:
            self._take(bound)
        else:
            self._zero_unset()
            for each in inputs:
                if each not in self._arrays:
                    self._arrays[each] = self._blank(each)
            bound = self._session.bind(self._index, [self._arrays[each] for each in inputs], is_resizable=True)
            self._arrays.update(zip(inputs, bound.inputs, strict=True))
        shapes = bound.shapes
        if shapes is not None:
            self.shapes = _known(self.shapes, shapes)
        self._is_partial = shapes is None
        self._keep(bound)
        self._bound, self._is_settled, self._is_untold = bound, False, True

    def _tell_blanks(self) -> None:
        """Makes results blank, as they are until something has run."""
        assert self._former is not None
        self._is_untold = False
        self._blanks.clear()
        for tensor, shape in zip(self._outputs, self._former.result_shapes, strict=True):
            if tensor in self._results:
                self._arrays.pop(tensor, None)
                if shape is not None:
                    self.shapes[tensor] = shape
                    self._blanks.add(tensor)

    def _moved(self, shapes: tuple[Shape, ...], has_failed: bool) -> BoundRun | None:
        """What was bound before and is for inputs of these shapes, too; what is for no others is not used after a run
        of it failed."""
        kept = [each for each in (self._former, self._other)
                if each is not None and (each.is_movable or not has_failed)]
        return next((each for each in kept if self._session.rebind(each, shapes)), None)

    def _keep(self, bound: BoundRun) -> None:
        """Keeps what is bound, and what was before it, if one of the two is for more shapes than one."""
        if bound is self._former:
            return
        before = [each for each in (self._former, self._other) if each is not None and each is not bound]
        self._other = next((each for each in before if each.is_movable or bound.is_movable), None)
        self._former = bound

    def _take(self, bound: BoundRun) -> None:
        """Makes the arrays that it reads since it was bound again those of inputs, with the values that they had; new
        ones are to be zeros."""
        for tensor, array in zip(self.subgraph.inputs, bound.inputs, strict=True):
            old = self._arrays.get(tensor)
            if old is None:
                self._unset.add(tensor)
            elif old.base is None or old.base is not array.base:
                array[...] = old
            self._arrays[tensor] = array

    def invoke(self) -> None:
        """Runs the subgraph. If that fails results are blank.

        Raises:
            InterpreterError: it is not ready.
        """
        if self._bound is None:
            raise InterpreterError("Invoke called on model that is not ready. Run allocate_tensors() first")
        if self._unset:
            self._zero_unset()
        try:
            self._session.run_bound(self._bound)
        except BaseException:
            with suppress(CircletError):
                self._bind(has_failed=True)
            raise
        if not self._is_settled:
            self._settle(self._bound)

    def _zero_unset(self) -> None:
        """Makes inputs zeros that nobody set since they got their shapes."""
        for each in self._unset:
            self._arrays[each][...] = 0
        self._unset.clear()

    def _settle(self, bound: BoundRun) -> None:
        for tensor, value in zip(self._outputs, bound.results, strict=True):
            if tensor in self._results:
                self._arrays[tensor] = value
                self.shapes[tensor] = value.shape
        self._blanks.clear()
        self._is_untold = False
        self._is_settled = bound.is_fixed

    def _blank(self, index: int) -> Array:
        dtype = self.subgraph.tensors[index].dtype.numpy
        array = allocate(self.shapes[index], dtype)
        if not dtype.hasobject:
            array[...] = 0
        return array

    def _clear(self, index: int) -> None:
        """Takes an input's memory away; strings have some always."""
        self._arrays.pop(index, None)
        self._unset.discard(index)
        if self.subgraph.tensors[index].dtype is DType.STRING:
            self._arrays[index] = self._blank(index)

    def _check_strictly(self, index: int, shape: Shape) -> None:
        old = self.shapes[index]
        if len(old) != len(shape):
            raise InterpreterError(f"Attempting to resize tensor {index}: dims.size() of {list(old)} and {list(shape)} "
                                   f"differ ({len(old)} != {len(shape)})")
        declared = self.subgraph.tensors[index].signature
        for axis, (before, after, promised) in enumerate(zip(old, shape, declared, strict=False)):
            if before != after and promised != -1:
                raise InterpreterError(f"Attempting to resize dimension {axis} of tensor {index} with value {before} "
                                       f"to {after}. ResizeInputTensorStrict only allows mutating unknown dimensions "
                                       "identified by -1.")


def _as_shape(size: npt.ArrayLike) -> Shape:
    """
    Raises:
        InputError: it is no list of lengths.
    """
    if isinstance(size, tuple) and {*map(type, size)} == {int} and 0 <= min(size) <= max(size) <= _MOST:
        return size
    dims = np.array(size, np.int32)
    if dims.ndim != 1:
        raise InputError(f"Shape should be 1D instead of {dims.ndim}.")
    return tuple(dims.tolist())


def _known(shapes: Sequence[Shape], found: Sequence[Shape | None]) -> list[Shape]:
    """Shapes of a file's tensors with those that were found, which have what passes added behind them."""
    return [old if new is None else new for old, new in zip(shapes, found[:len(shapes)], strict=True)]


def _is_plain(tensor: Tensor) -> bool:
    """Whether callers may set a tensor, and see its elements as kernels do."""
    return not tensor.is_constant and tensor.dtype is not DType.STRING \
        and _type_name(tensor.dtype.numpy) == tensor.dtype.name


def _constant_value(tensor: Tensor, data: Array) -> Array:
    """The elements of a constant: packed ones one by one, of a sparse one those that are stored.

    Raises:
        InputError: numpy has no such element type.
    """
    shown = shown_type(tensor.dtype)
    if tensor.dtype is DType.BFLOAT16:
        return data.view(shown)
    if tensor.dtype.is_computable:
        return data if tensor.sparsity is None else data.reshape(-1).view(tensor.dtype.numpy)
    raw = data.reshape(-1).view(np.uint8)
    elements = unpacked(raw, tensor.dtype).astype(shown) if tensor.dtype in BITS else raw.view(shown)
    return elements if tensor.sparsity is not None else elements[:int(np.prod(tensor.shape))].reshape(tensor.shape)


def _widened(array: Array, tensor: Tensor, index: int) -> Array:
    """Elements of a type of few bits as arrays show them, each in a byte.

    Raises:
        InputError: the array is neither of that type nor of the one that stands for it.
    """
    element, shown = tensor.dtype.element, np.dtype(shown_type(tensor.dtype))
    assert element is not None
    is_float = tensor.dtype not in BITS
    if array.dtype not in (element, shown) and not (is_float and array.dtype == np.uint8):
        raise InputError(f"Cannot set tensor: Expected a numpy array of {shown} for {tensor.dtype.name} input {index}, "
                         f"name: {tensor.name}, but got {_type_name(array.dtype)}")
    return array.view(shown) if is_float else array.astype(element).astype(shown)


def _type_name(dtype: np.dtype[Any]) -> str:
    """What messages call a numpy type, e.g. `FLOAT32`."""
    try:
        return DType.of(dtype).name
    except ValueError:
        return "NOTYPE"


def _fitting_value(value: npt.ArrayLike, tensor: Tensor, index: int, shape: Shape) -> Array:
    """The value as an array of the tensor's element type and of the given shape.

    Raises:
        InputError: it is not one.
    """
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(f"Failed to convert value into readable tensor. {error}") from None
    if tensor.dtype in SHOWN_WIDER:
        array = _widened(array, tensor, index)
    found = _type_name(array.dtype)
    if found != tensor.dtype.name and tensor.dtype not in SHOWN_WIDER:
        raise InputError(f"Cannot set tensor: Got value of type {found} but expected type {tensor.dtype.name} "
                         f"for input {index}, name: {tensor.name} ")
    if array.ndim != len(shape):
        raise InputError(f"Cannot set tensor: Dimension mismatch. Got {array.ndim} but expected {len(shape)} "
                         f"for input {index}.")
    for axis, (got, wanted) in enumerate(zip(array.shape, shape, strict=True)):
        if got != wanted:
            raise InputError(f"Cannot set tensor: Dimension mismatch. Got {got} but expected {wanted} "
                             f"for dimension {axis} of input {index}.")
    return as_array(array, Tensor(tensor.name, DType.STRING, shape), tensor.name) if found == "STRING" else array
