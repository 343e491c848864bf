"""The TensorFlow Lite format, `.tflite`."""

from __future__ import annotations

from circlet.schema.format import Format
from circlet.schema.layout import scalar, vector

TFLITE = Format(
    name="tflite",
    identifier=b"TFL3",
    versions=(3,),
    effective_code=max,
    added_members={
        "BuiltinOperator": {"STABLEHLO_CASE": 209},
        "BuiltinOptions2": {"StablehloCaseOptions": 23},
        "QuantizationDetails": {"BlockwiseQuantization": 2, "MultiAxisQuantization": 3},
        "TensorType": {"INT2": 19, "UINT4": 20, "FLOAT8_E4M3FN": 21, "FLOAT8_E5M2": 22},
    },
    added_fields={
        "BlockwiseQuantization": {
            "scales": scalar(0, "i"), "zero_points": scalar(1, "i"), "block_size": scalar(2, "i"),
            "block_shape": vector(3, "i"),
        },
        "FullyConnectedOptions": {"quant_spec": vector(5, "B")},
        "MultiAxisQuantization": {
            "scales": scalar(0, "i"), "zero_points": scalar(1, "i"), "block_size": scalar(2, "i"),
            "quantized_dimensions": vector(3, "i"),
        },
        "StablehloCaseOptions": {"branch_subgraph_indices": vector(0, "i")},
        "Tensor": {"external_buffer": scalar(10, "I")},
    },
    renamed_options={"StableHLOCompositeOptions": {"composite_name": "name"}},
    refused={
        "Tensor": {"external_buffer": "its data is in another file (external buffer {value})"},
        "BlockwiseQuantization": {"block_shape": "its quantisation has blocks of shape {value}"},
    },
)
