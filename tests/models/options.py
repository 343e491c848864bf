"""Options of the converter that several programs set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from tests.models.expectations import Array
from tests.models.program import Configure


def update_in_place(converter: Any) -> None:
    """Lowers an assignment to an element of a TensorArray to DYNAMIC_UPDATE_SLICE."""
    converter._experimental_enable_dynamic_update_slice = True


def resource_variables(converter: Any) -> None:
    """Keeps variables as state of the model."""
    converter.experimental_enable_resource_variables = True


def dynamic_range(converter: Any) -> None:
    """Stores large weights as int8; activations stay floats."""
    converter.optimizations = [tf.lite.Optimize.DEFAULT]


def float16_weights(converter: Any) -> None:
    """Stores weights as float16."""
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.target_spec.supported_types = [tf.float16]


def full_integer(samples: Sequence[Array], border: Any = tf.float32, wide: bool = False) -> Configure:
    """Quantises weights and activations, calibrated on samples of the input `x`.

    Args:
        border: the element type of the model's inputs and outputs.
        wide: whether activations are int16 instead of int8.
    """
    def configure(converter: Any) -> None:
        def feed() -> Iterator[dict[str, Array]]:
            yield from ({"x": sample} for sample in samples)

        ops = tf.lite.OpsSet
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = feed
        converter.target_spec.supported_ops = [
            ops.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8 if wide else ops.TFLITE_BUILTINS_INT8,
        ]
        converter.inference_input_type = converter.inference_output_type = border

    return configure
