"""LiteRT's Python interface on circlet: a program ports by changing where it imports `Interpreter` from.

    from circlet.interpreter import Interpreter  # was: from ai_edge_litert.interpreter import Interpreter

What differs is listed in docs/interpreter.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, unique
from operator import index as as_index
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from circlet.interpreter_details import Details, operator_details, signature_details, tensor_details
from circlet.interpreter_tensors import InterpreterError, PreparedSession, SubgraphTensors
from circlet.runtime.errors import InputError, UnsupportedError
from circlet.runtime.exec.limits import Limits
from circlet.runtime.exec.values.rule import elements
from circlet.runtime.ir.model import Model, Subgraph, entries_of
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.late import LOADING
from circlet.runtime.records import replace
from circlet.session import Session

if TYPE_CHECKING:
    import numpy.typing as npt

    from circlet.schema.files import Source

__all__ = ["Delegate", "DelegateError", "Interpreter", "InterpreterError", "InterpreterWithCustomOps", "OpResolverType",
           "SignatureRunner", "load_delegate"]


@unique
class OpResolverType(Enum):
    """Which kernels LiteRT would take. circlet has one kind; every choice gives the same results."""

    AUTO = 0
    BUILTIN = 1
    BUILTIN_REF = 2
    BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3


class DelegateError(UnsupportedError, OSError):
    """A delegate cannot be loaded: a ValueError and an OSError, as LiteRT raises the one or the other."""


class Delegate:
    """A library that computes operators. There is none that circlet could use."""

    def __init__(self, library: str | os.PathLike[str], options: Mapping[str, object] | None = None) -> None:
        """
        Raises:
            DelegateError: always.
        """
        raise DelegateError(f"Failed to load delegate from {os.fsdecode(library)}\n"
                            "Delegates are not supported: circlet runs every operator itself")


def load_delegate(library: str | os.PathLike[str], options: Mapping[str, object] | None = None) -> Delegate:
    """Delegates are not supported.

    Raises:
        DelegateError: always.
    """
    return Delegate(library, options)


class Interpreter:
    """Runs a model as LiteRT's class of the same name does. One thread at a time may use it.

    Errors are ValueErrors and RuntimeErrors where LiteRT's are.
    """

    def __init__(
        self,
        model_path: str | os.PathLike[str] | None = None,
        model_content: bytes | bytearray | memoryview | None = None,
        experimental_delegates: Sequence[object] | None = None,
        num_threads: int | None = None,
        experimental_op_resolver_type: OpResolverType = OpResolverType.AUTO,
        experimental_preserve_all_tensors: bool = False,
        experimental_disable_delegate_clustering: bool = False,
        experimental_default_delegate_latest_features: bool = False,
        experimental_compress_quantization_zero_points: bool = False,
        experimental_disable_delegate_node_fusion: bool = False,
        experimental_force_delegate_node_profiling: bool = False,
        limits: Limits | None = None,
    ) -> None:
        """
        Args:
            model_path: a `.tflite` or `.circle` file.
            model_content: or the content of one.
            experimental_delegates: must be empty.
            num_threads: how many threads a run may use, 1 by default.
            experimental_preserve_all_tensors: keep what every operator of the entry points computes, for `get_tensor`.
            experimental_compress_quantization_zero_points: details tell zero points that are all zero as one.
            limits: bounds on each call of `invoke`, and of `allocate_tensors`, which may compile. LiteRT has no such
                argument.

        The other arguments choose among LiteRT's kernels and steer its delegates; here they have no effect.

        Raises:
            ValueError: an argument is wrong, the file cannot be opened, holds no valid model, or one that circlet
                cannot run.
        """
        if not isinstance(experimental_op_resolver_type, OpResolverType):
            raise InputError(f"Unrecognized passed in op resolver type: {experimental_op_resolver_type}")
        _check_threads(num_threads)
        if experimental_delegates:
            raise UnsupportedError("experimental_delegates must be empty: circlet runs every operator itself")
        source = _source(model_path, model_content)
        self._given: Model | None = None
        """What is run, as it is without what it is run for beside its outputs."""
        try:
            if experimental_preserve_all_tensors:
                self._given = _load(source)
            self._session = PreparedSession(source if self._given is None else _preserving(self._given),
                                            num_threads=num_threads or 1, limits=limits)
        except OSError as error:
            raise InputError(f"Could not open '{source!s}': {error.strerror}") from None
        self._compress = experimental_compress_quantization_zero_points
        self._outline = self._given or self._session.outline
        self._tensors: dict[int, SubgraphTensors] = {}
        """By subgraph, of those that were asked for."""
        self._main = self._subgraph(0)

    @property
    def _model(self) -> Model:
        return self._given or self._session.model

    def __repr__(self) -> str:
        return f"<Interpreter: {self._outline.subgraphs[0].type_text}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an Interpreter cannot be copied or pickled; a circlet.Session can")

    @property
    def experimental_compress_quantization_zero_points(self) -> bool:
        """Whether details tell zero points that are all zero as one."""
        return self._compress

    @property
    def session(self) -> Session:
        """What runs the model: for `circlet.profile`, which takes an interpreter too, `copies` and `backend_of`. LiteRT
        has no such property."""
        return self._session

    def allocate_tensors(self) -> None:
        """Makes the model ready to be invoked at the present input shapes. Variable tensors are reset if it was not.

        Raises:
            RuntimeError: an operator cannot compute with these shapes.
        """
        self._main.allocate()

    def invoke(self) -> None:
        """Runs the model.

        Raises:
            RuntimeError: tensors are not allocated, or an operator cannot compute with the values it got.
        """
        self._main.invoke()

    def cancel(self) -> None:
        """Stops `invoke` and `allocate_tensors` where they are in progress, which then raise CancelledError, a
        RuntimeError. It may be called from any thread, and from signal handlers. LiteRT has no such method."""
        self._session.cancel()

    def get_input_details(self) -> list[Details]:
        """The details of the inputs, in order. Each is a dictionary:

        + `name`, `index`: of the tensor.
        + `shape`: int32 array, at present; `shape_signature`: with -1 for each length that is the caller's choice.
        + `dtype`: the class of the elements, e.g. `np.float32`; `np.bytes_` for strings.
        + `quantization`: (scale, zero point), of whole tensors only.
        + `quantization_parameters`: `scales`, `zero_points` (arrays), `quantized_dimension`, `block_size`.
        + `sparsity_parameters`: empty for a dense tensor.
        """
        return [self._get_tensor_details(each) for each in self._outline.subgraphs[0].inputs]

    def get_output_details(self) -> list[Details]:
        """The details of the outputs, in order; see `get_input_details`.

        A shape that depends on data is the declared one until `invoke`.
        """
        return [self._get_tensor_details(each) for each in self._outline.subgraphs[0].outputs]

    def get_tensor_details(self, subgraph_index: int = 0) -> list[Details]:
        """The details of all tensors of a subgraph whose element type numpy has; see `get_input_details`."""
        count = self.num_subgraphs()
        if not 0 <= as_index(subgraph_index) < count:
            raise InputError(f"subgraph_index is out of range: {subgraph_index} for the model, "
                             f"which has {count} subgraphs.")
        found = []
        for index in range(len(self._model.subgraphs[subgraph_index].tensors)):
            try:
                found.append(self._get_tensor_details(index, subgraph_index))
            except InputError:
                continue
        return found

    def set_tensor(self, tensor_index: int, value: npt.ArrayLike) -> None:
        """Copies a value into an input, or into another tensor that has memory and is no constant.

        Raises:
            ValueError: it is of another type or shape than the tensor, or tensors are not allocated.
        """
        self._main.set(tensor_index, value)

    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> Any:
        """A copy of a tensor: an array, or a numpy scalar where it has no dimensions; strings are `bytes` objects.

        Inputs, outputs, constants and variable tensors can be read, and of entry points that no operator invokes all
        that was computed with `experimental_preserve_all_tensors`.

        Raises:
            ValueError: there is no such tensor, or it has no memory (yet).
        """
        return (self._main if subgraph_index == 0 else self._subgraph(subgraph_index)).copy(tensor_index)

    def tensor(self, tensor_index: int) -> Callable[[], Array]:
        """A function that gives the tensor itself, not a copy, for reading and writing.

        `invoke` leaves the arrays of inputs where they are and makes new ones for results.
        """
        return lambda: self._main.array(tensor_index)

    def resize_tensor_input(self, input_index: int, tensor_size: npt.ArrayLike, strict: bool = False) -> None:
        """Gives an input another shape; `allocate_tensors` must follow.

        Args:
            input_index: of the tensor.
            tensor_size: the shape.
            strict: only lengths that are -1 in `shape_signature` may change.

        Raises:
            RuntimeError: the tensor is no input, or must not have this shape.
            ValueError: that is no shape.
        """
        self._main.resize(input_index, tensor_size, strict)

    def reset_all_variables(self) -> None:
        """Makes variable tensors zero. Resource variables keep their values."""
        self._session.reset_variable_tensors()

    def num_subgraphs(self) -> int:
        """The number of subgraphs in the model."""
        return len(self._outline.subgraphs)

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """`{key: {'inputs': [name], 'outputs': [name]}}`."""
        return {key: {side: list(names) for side, names in sides.items()}
                for key, sides in self._get_full_signature_list().items()}

    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner:
        """What runs the entry point that a signature names; without a key, the only one.

        Raises:
            ValueError: there is no such signature, or several and no key.
        """
        keys = list(self._get_full_signature_list())
        if signature_key is None:
            if len(keys) != 1:
                raise InputError(f"SignatureDef signature_key is None and model has {len(keys)} Signatures. "
                                 "None is only allowed when the model has 1 SignatureDef")
            signature_key = keys[0]
        return SignatureRunner(self, signature_key)

    def _get_full_signature_list(self) -> dict[str, dict[str, dict[str, int]]]:
        """`{key: {'inputs': {name: tensor}, 'outputs': {name: tensor}}}`."""
        return signature_details(self._outline)

    def _get_ops_details(self) -> list[Details]:
        """The details of the operators of subgraph 0."""
        return [self._get_op_details(index) for index in range(len(self._model.subgraphs[0].operators))]

    def _get_op_details(self, op_index: int) -> Details:
        """`index`, `op_name`, `inputs`, `outputs` (tensors), `operand_types`, `result_types` of one operator."""
        subgraph = self._model.subgraphs[0]
        if not 0 <= as_index(op_index) < len(subgraph.operators):
            raise InputError(f"Invalid node index {op_index}: the subgraph has {len(subgraph.operators)} operators")
        return operator_details(subgraph.operators[op_index], op_index, subgraph.tensors)

    def _get_tensor_details(self, tensor_index: int, subgraph_index: int = 0) -> Details:
        tensors = self._subgraph(subgraph_index)
        index = tensors.checked(tensor_index)
        return tensor_details(tensors.known(index), index, tensors.shape(index), self._compress)

    def _subgraph(self, index: int) -> SubgraphTensors:
        index, count = as_index(index), self.num_subgraphs()
        if not 0 <= index < count:
            raise InputError(f"Invalid subgraph index {index} exceeds max subgraph index {count}")
        found = self._tensors.get(index)
        if found is None:
            found = self._tensors[index] = self._tensors_of(index)
        return found

    def _tensors_of(self, index: int) -> SubgraphTensors:
        if self._session.is_outlined and index in entries_of(self._outline):
            return SubgraphTensors(self._session, index, self._outline.subgraphs[index],
                                   lambda: self._model.subgraphs[index])
        return SubgraphTensors(self._session, index, self._model.subgraphs[index], None)


class InterpreterWithCustomOps(Interpreter):
    """An interpreter that takes operators from elsewhere; here it has those of circlet alone."""

    def __init__(self, custom_op_registerers: Sequence[object] | None = None, **kwargs: Any) -> None:
        """
        Args:
            custom_op_registerers: must be empty.
            kwargs: the arguments of `Interpreter`.

        Raises:
            ValueError: there are such operators; otherwise as `Interpreter`.
        """
        if custom_op_registerers:
            raise UnsupportedError("custom_op_registerers must be empty: they are compiled for LiteRT")
        super().__init__(**kwargs)


class SignatureRunner:
    """A named entry point of an interpreter: call it with arrays by name."""

    def __init__(self, interpreter: Interpreter | None = None, signature_key: str | None = None) -> None:
        """Use `Interpreter.get_signature_runner`.

        Raises:
            ValueError: there is no such signature.
        """
        if interpreter is None:
            raise InputError("None interpreter provided.")
        if not signature_key:
            raise InputError("None signature_key provided.")
        sides = interpreter._get_full_signature_list().get(signature_key)
        if sides is None:
            raise InputError(f'Invalid signature_key provided: "{signature_key}".')
        self._interpreter, self._key = interpreter, signature_key
        self._inputs, self._outputs = sides["inputs"], sides["outputs"]
        self._index = next(each.subgraph for each in interpreter._outline.signatures if each.key == signature_key)

    def __call__(self, **inputs: npt.ArrayLike) -> dict[str, Any]:
        """Runs the entry point at the shapes of the given arrays; returns `{output name: array}`.

        Python's numbers and lists are literals of the declared element type, as in `circlet.Session`.

        Raises:
            ValueError: an input is missing, unknown or of another element type than declared.
            RuntimeError: an operator cannot compute with these shapes or values.
        """
        if len(inputs) != len(self._inputs):
            raise InputError("Invalid number of inputs provided for running a SignatureDef, "
                             f"expected {len(self._inputs)} vs provided {len(inputs)}")
        tensors = self._interpreter._subgraph(self._index)
        if not tensors.take(inputs, self._inputs):
            self._take(tensors, inputs)
        tensors.invoke()
        return {name: tensors.copy(each) for name, each in self._outputs.items()}

    def _take(self, tensors: SubgraphTensors, inputs: Mapping[str, npt.ArrayLike]) -> None:
        """Sets inputs to values, resized to their shapes."""
        given = {name: value if hasattr(value, "shape") else self._literal(name, value)
                 for name, value in inputs.items()}
        for name, value in given.items():
            index = self._input(name)
            if value.shape != tensors.shapes[index]:
                tensors.resize(index, np.shape(value))
        tensors.allocate()
        for name, value in given.items():
            tensors.set(self._inputs[name], value)

    def _input(self, name: str) -> int:
        if name not in self._inputs:
            raise InputError(f"Invalid Input name ({name}) for SignatureDef")
        return self._inputs[name]

    def _literal(self, name: str, value: npt.ArrayLike) -> Array:
        """A value of Python's as an array of the input's element type."""
        tensor = self._interpreter._outline.subgraphs[self._index].tensors[self._input(name)]
        found = elements(value, tensor.dtype, name)
        return found if tensor.dtype.element is None else found.view(tensor.dtype.element)

    def __repr__(self) -> str:
        return f"<SignatureRunner {self._key!r}: ({', '.join(self._inputs)}) -> ({', '.join(self._outputs)})>"

    def get_input_details(self) -> dict[str, Details]:
        """The details of the inputs by name; see `Interpreter.get_input_details`."""
        return self._details(self._inputs)

    def get_output_details(self) -> dict[str, Details]:
        """The details of the outputs by name; see `Interpreter.get_input_details`."""
        return self._details(self._outputs)

    def _details(self, tensors: dict[str, int]) -> dict[str, Details]:
        return {name: self._interpreter._get_tensor_details(each, self._index) for name, each in tensors.items()}


def _check_threads(num_threads: int | None) -> None:
    if num_threads is None:
        return
    if not isinstance(num_threads, int):
        raise InputError("type of num_threads should be int")
    if num_threads < 1:
        raise InputError("num_threads should >= 1")


def _source(path: str | os.PathLike[str] | None, content: bytes | bytearray | memoryview | None) -> Source:
    """What a model is to be read from.

    Raises:
        InputError: there is not one of both.
    """
    if path and content:
        raise InputError("Can't both provide `model_path` and `model_content`")
    if content:
        if not isinstance(content, (bytes, bytearray, memoryview)):
            raise TypeError(f"model_content must be bytes, found {type(content).__name__}")
        return content
    if not path:
        raise InputError("`model_path` or `model_content` must be specified.")
    return os.fsdecode(path)


def _load(source: Source) -> Model:
    with LOADING:
        from circlet.schema.files import load_model

    return load_model(source)


def _preserving(model: Model) -> Model:
    """The model with everything that arrays can hold as outputs of the entry points, as far as no operator invokes
    them."""
    invoked = {callee for each in model.subgraphs for operator in each.operators for callee in operator.op.callees()}
    entries = {0, *(each.subgraph for each in model.signatures)} - invoked
    return replace(model, subgraphs=tuple(
        _with_all_outputs(each) if index in entries else each for index, each in enumerate(model.subgraphs)))


def _with_all_outputs(subgraph: Subgraph) -> Subgraph:
    more = (
        tensor for operator in subgraph.operators for tensor in operator.outputs
        if tensor not in subgraph.outputs and subgraph.tensors[tensor].dtype.is_computable
        and subgraph.tensors[tensor].dtype not in (DType.RESOURCE, DType.VARIANT)
    )
    return replace(subgraph, outputs=(*subgraph.outputs, *more))
