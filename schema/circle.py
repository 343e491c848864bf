"""The Circle format of Samsung's ONE, `.circle`: TensorFlow Lite's with some tables and numbers of its own.

They are those of `res/CircleSchema/0.10/circle_schema.fbs` in ONE, from which the package `circle-schema` was
generated; a test compares with that.
"""

from __future__ import annotations

from circlet.schema.format import Format
from circlet.schema.layout import Field, Kind, scalar, vector


def _effective_code(builtin: int, deprecated: int) -> int:
    """Circle's own operators are negative; older files name them in the deprecated byte alone."""
    return min(builtin, deprecated) if min(builtin, deprecated) < 0 else max(builtin, deprecated)


CIRCLE = Format(
    name="circle",
    identifier=b"CIR0",
    versions=(0, 3),
    effective_code=_effective_code,
    added_members={
        "BuiltinOperator": {
            "ATTENTION": -9, "RUN_MODEL": -8, "ROPE": -7, "RMS_NORM": -6, "GRU": -5, "BCQ_GATHER": -4,
            "BCQ_FULLY_CONNECTED": -3, "INSTANCE_NORM": -2, "STABLEHLO_CASE": 209,
        },
        "BuiltinOptions": {
            "AttentionOptions": 247, "RunModelOptions": 248, "RoPEOptions": 249, "RmsNormOptions": 250,
            "GRUOptions": 251, "BCQGatherOptions": 252, "BCQFullyConnectedOptions": 253, "InstanceNormOptions": 254,
        },
        "BuiltinOptions2": {"StablehloCaseOptions": 23},
        "QuantizationDetails": {"MXQuantization": 2, "BlockwiseQuantization": 3},
        "TensorType": {
            "MXINT8": -7, "MXFP4": -6, "GGML_Q8_1": -5, "GGML_Q8_0": -4, "GGML_Q4_1": -3, "GGML_Q4_0": -2, "UINT4": -1,
        },
    },
    added_fields={
        "AttentionOptions": {},
        "BCQFullyConnectedOptions": {
            "weights_hidden_size": scalar(0, "i"), "fused_activation_function": scalar(1, "b"),
        },
        "BCQGatherOptions": {"input_hidden_size": scalar(0, "i"), "axis": scalar(1, "i")},
        "BlockwiseQuantization": {
            "scales": scalar(0, "i"), "zero_points": scalar(1, "i"), "block_size": scalar(2, "i"),
        },
        "GRUOptions": {
            "fused_activation_function": scalar(0, "b"), "return_sequences": scalar(1, "?", False),
            "time_major": scalar(2, "?", False),
        },
        "InstanceNormOptions": {"epsilon": scalar(0, "f", 0.0), "fused_activation_function": scalar(1, "b")},
        "MXQuantization": {"axis": scalar(0, "i")},
        "RmsNormOptions": {"epsilon": scalar(0, "f", 0.0)},
        "RoPEOptions": {"mode": scalar(0, "i")},
        "RunModelOptions": {"location": Field(0, Kind.STRING), "signature": Field(1, Kind.STRING)},
        "StablehloCaseOptions": {"branch_subgraph_indices": vector(0, "i")},
        "SubGraph": {"debug_metadata_index": scalar(6, "i", -1)},
        "Tensor": {"compression_type": scalar(10, "b")},
    },
    renamed_options={"StableHLOCompositeOptions": {"composite_name": "name"}},
    refused={"Tensor": {"compression_type": "its data is compressed (type {value})"}},
)
