"""The operators that `.tflite` and `.circle` files have, by name. A family is imported when one of its operators is
asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from circlet.runtime.ir.op import Op
from circlet.runtime.late import imported

OpType = TypeVar("OpType", bound=type[Op])

FAMILIES: Mapping[str, str] = {
    "comparison":
        "EQUAL NOT_EQUAL LESS LESS_EQUAL GREATER GREATER_EQUAL STABLEHLO_COMPARE LOGICAL_AND LOGICAL_OR SELECT "
        "SELECT_V2 STABLEHLO_SELECT",
    "controlflow": "IF STABLEHLO_CASE WHILE STABLEHLO_WHILE CALL STABLEHLO_COMPOSITE CALL_ONCE",
    "conv": "CONV_2D DEPTHWISE_CONV_2D CONV_3D TRANSPOSE_CONV CONV_3D_TRANSPOSE "
        "CUSTOM:Convolution2DTransposeBias",
    "detection": "NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 CUSTOM:TFLite_Detection_PostProcess",
    "elementwise":
        "ADD SUB MUL DIV FLOOR_DIV FLOOR_MOD POW MAXIMUM MINIMUM SQUARED_DIFFERENCE ADD_N ATAN2 BITWISE_XOR "
        "RIGHT_SHIFT PRELU STABLEHLO_ADD STABLEHLO_SUBTRACT STABLEHLO_MULTIPLY STABLEHLO_DIVIDE STABLEHLO_REMAINDER "
        "STABLEHLO_POWER STABLEHLO_MAXIMUM STABLEHLO_MINIMUM STABLEHLO_AND STABLEHLO_OR STABLEHLO_SHIFT_LEFT "
        "STABLEHLO_CLAMP",
    "index":
        "GATHER GATHER_ND SCATTER_ND SPARSE_TO_DENSE WHERE DYNAMIC_UPDATE_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE "
        "STABLEHLO_DYNAMIC_SLICE STABLEHLO_GATHER",
    "layout":
        "TRANSPOSE STABLEHLO_TRANSPOSE SLICE STRIDED_SLICE STABLEHLO_SLICE SPLIT SPLIT_V PACK UNPACK CONCATENATION "
        "STABLEHLO_CONCATENATE REVERSE_V2 REVERSE_SEQUENCE MATRIX_DIAG MATRIX_SET_DIAG",
    "lookup": "EMBEDDING_LOOKUP_SPARSE LSH_PROJECTION",
    "matmul": "FULLY_CONNECTED BATCH_MATMUL EMBEDDING_LOOKUP",
    "normalize": "SOFTMAX LOG_SOFTMAX L2_NORMALIZATION LOCAL_RESPONSE_NORMALIZATION INSTANCE_NORM RMS_NORM",
    "pad": "PAD PADV2 MIRROR_PAD STABLEHLO_PAD DILATE TILE",
    "pool": "AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D",
    "quantize": "CAST STABLEHLO_CONVERT QUANTIZE DEQUANTIZE FAKE_QUANT",
    "random": "RANDOM_UNIFORM RANDOM_STANDARD_NORMAL MULTINOMIAL STABLEHLO_RNG_BIT_GENERATOR",
    "recurrent":
        "LSTM UNIDIRECTIONAL_SEQUENCE_LSTM BIDIRECTIONAL_SEQUENCE_LSTM RNN UNIDIRECTIONAL_SEQUENCE_RNN "
        "BIDIRECTIONAL_SEQUENCE_RNN SVDF",
    "reduce": "SUM MEAN REDUCE_PROD REDUCE_MAX REDUCE_MIN REDUCE_ANY REDUCE_ALL ARG_MAX ARG_MIN CUMSUM",
    "reduce_window": "REDUCE_WINDOW STABLEHLO_REDUCE_WINDOW",
    "resize": "RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR",
    "scatter": "STABLEHLO_SCATTER",
    "segment": "SEGMENT_SUM UNSORTED_SEGMENT_SUM UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN",
    "shape":
        "RESHAPE EXPAND_DIMS SQUEEZE STABLEHLO_RESHAPE DENSIFY BITCAST SHAPE RANK FILL RANGE ONE_HOT BROADCAST_TO "
        "BROADCAST_ARGS STABLEHLO_BROADCAST_IN_DIM STABLEHLO_IOTA",
    "sort": "TOPK_V2 UNIQUE BUCKETIZE",
    "spatial": "DEPTH_TO_SPACE SPACE_TO_DEPTH SPACE_TO_BATCH_ND BATCH_TO_SPACE_ND",
    "spectral": "REAL IMAG COMPLEX_ABS RFFT2D",
    "table": "HASHTABLE HASHTABLE_IMPORT HASHTABLE_FIND HASHTABLE_SIZE HASHTABLE_LOOKUP",
    "unary":
        "ABS NEG SIGN SQUARE SQRT RSQRT EXP LOG SIN COS TANH LOGISTIC FLOOR CEIL ROUND RELU RELU6 RELU_N1_TO_1 "
        "RELU_0_TO_1 ELU LEAKY_RELU GELU HARD_SWISH LOGICAL_NOT ZEROS_LIKE STABLEHLO_ABS STABLEHLO_NEGATE "
        "STABLEHLO_RSQRT STABLEHLO_CBRT STABLEHLO_EXPONENTIAL STABLEHLO_LOG STABLEHLO_COSINE STABLEHLO_TANH "
        "STABLEHLO_LOGISTIC STABLEHLO_FLOOR",
    "variable": "VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE",
}
"""The names of the operators that each module of this package defines."""


class Registry(Mapping[str, type[Op]]):
    """Classes of operators by the schema's names of them."""

    def __init__(self, families: Mapping[str, str]) -> None:
        self._families = {name: family for family, names in families.items() for name in names.split()}
        self._found: dict[str, type[Op]] = {}

    def __getitem__(self, name: str) -> type[Op]:
        if name not in self._found:
            imported(f"{__package__}.{self._families[name]}")
        return self._found[name]

    def __contains__(self, name: object) -> bool:
        return name in self._families

    def __iter__(self) -> Iterator[str]:
        return iter(self._families)

    def __len__(self) -> int:
        return len(self._families)

    def add(self, cls: type[Op]) -> None:
        """Takes an operator that its family defines.

        Raises:
            ValueError: it is not among those of the family, or defined twice.
        """
        family = cls.__module__.rpartition(".")[2]
        if self._families.get(cls.name) != family:
            raise ValueError(f"operator {cls.name} is not in FAMILIES[{family!r}]")
        if cls.name in self._found:
            raise ValueError(f"operator {cls.name} is defined twice")
        self._found[cls.name] = cls


OPERATORS = Registry(FAMILIES)
"""Every operator that files can have and circlet knows, by the schema's name."""


def operator(cls: OpType) -> OpType:
    """Adds an operator to the registry."""
    OPERATORS.add(cls)
    return cls
