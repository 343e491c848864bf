"""What a test model is made of: TensorFlow functions, how to convert them, and the calls whose results are kept.

Imports TensorFlow, never circlet.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tests.models.expectations import Array

Function: TypeAlias = Callable[..., Mapping[str, tf.Tensor]]
Configure: TypeAlias = Callable[[Any], None]
DEFAULT = "serving_default"

I32 = tf.TensorSpec([], tf.int32)
I64 = tf.TensorSpec([], tf.int64)
F32 = tf.TensorSpec([], tf.float32)
BOOL = tf.TensorSpec([], tf.bool)


def f32(*shape: int | None) -> tf.TensorSpec:
    return tf.TensorSpec(shape, tf.float32)


def i32(*shape: int | None) -> tf.TensorSpec:
    return tf.TensorSpec(shape, tf.int32)


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> Array:
    """Reproducible float32 values around zero."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


@dataclass(frozen=True)
class Call:
    """One call of a signature; a program's calls are made in order, on one instance of its state."""

    inputs: Mapping[str, Array]
    signature: str = DEFAULT


@dataclass(frozen=True)
class Program:
    """A model before conversion."""

    functions: Mapping[str, Function]
    """By signature: `tf.function`s with an input signature that return dictionaries."""
    calls: Sequence[Call]
    owner: tf.Module = field(default_factory=tf.Module)
    """Holds the variables and tables that the functions use."""
    network: Any = None
    """A Keras model to convert instead of the functions, which then tell what it computes."""
    configure: Configure = lambda converter: None
    """Sets options of the converter."""
    reference: str = "tensorflow"
    """Who computes the expected outputs: `tensorflow` runs the functions; `litert` runs the converted model on LiteRT's
    reference kernels, for quantised models, whose results TensorFlow does not compute."""


@dataclass(frozen=True)
class Recipe:
    """A named program, built on demand."""

    name: str
    summary: str
    build: Callable[[], Program]


RECIPES: dict[str, Recipe] = {}


def _register(function: Callable[..., Any], build: Callable[[], Program]) -> None:
    name = function.__name__
    if name in RECIPES:
        raise ValueError(f"two test models are called {name!r}")
    RECIPES[name] = Recipe(name, inspect.getdoc(function) or "", build)


def program(build: Callable[[], Program]) -> Callable[[], Program]:
    """Registers a function that builds a program under the function's name."""
    _register(build, build)
    return build


def traced(function: Function, specs: Sequence[tf.TensorSpec]) -> Any:
    """The function as a `tf.function` whose inputs are named after its parameters."""
    names = inspect.signature(function).parameters
    return tf.function(function, input_signature=[
        tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in zip(names, specs, strict=True)
    ])


def arguments(function: Function, specs: Sequence[tf.TensorSpec], values: Sequence[npt.ArrayLike]) -> dict[str, Array]:
    """Positional values as the named inputs of a signature."""
    names = inspect.signature(function).parameters
    return {
        name: np.asarray(value, spec.dtype.as_numpy_dtype)
        for name, spec, value in zip(names, specs, values, strict=True)
    }


def keras(
    layers: Sequence[Any], inputs: Sequence[Array], *, configure: Configure = lambda converter: None,
    reference: str = "tensorflow", shape: Sequence[int | None] | None = None,
) -> Program:
    """A stack of Keras layers with one input `x`, of the first array's shape unless told otherwise."""
    shape = inputs[0].shape if shape is None else shape
    first = last = tf.keras.Input(shape[1:], batch_size=shape[0], name="x")
    for layer in layers:
        last = layer(last)
    network = tf.keras.Model(first, last)
    spread(network)

    def call(x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"output_0": network(x)}

    return Program({DEFAULT: traced(call, [tf.TensorSpec(shape, tf.float32)])}, [Call({"x": x}) for x in inputs],
                   network=network, configure=configure, reference=reference)


def spread(network: Any) -> None:
    """Replaces the weights by reproducible ones that float16 represents exactly."""
    for seed, weights in enumerate(network.weights):
        scale = max(np.prod(weights.shape[:-1], dtype=int), 1) ** -0.5
        weights.assign(normal(*weights.shape, seed=seed, scale=scale).astype(np.float16).astype(np.float32))


def model(
    *specs: tf.TensorSpec, calls: Sequence[Sequence[npt.ArrayLike]], configure: Configure = lambda converter: None,
) -> Callable[[Function], Function]:
    """Registers a pure function as a program of one signature; `calls` holds positional arguments."""

    def register(function: Function) -> Function:
        _register(function, lambda: Program(
            {DEFAULT: traced(function, specs)}, [Call(arguments(function, specs, values)) for values in calls],
            configure=configure,
        ))
        return function

    return register


def convert(program: Program) -> bytes:
    """The program as a .tflite file of builtin operators."""
    if program.network is not None:
        converter = tf.lite.TFLiteConverter.from_keras_model(program.network)
    else:
        functions = [function.get_concrete_function() for function in program.functions.values()]  # type: ignore[attr-defined]
        converter = tf.lite.TFLiteConverter.from_concrete_functions(functions, program.owner)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    program.configure(converter)
    return bytes(converter.convert())
