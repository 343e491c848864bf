"""Which native rule of an operator is asked first, where it has several.

The first rule that does not refuse a call is used. A rule that is refused by nothing that another one takes may stand
anywhere; where two take the same calls, the faster one comes first.
"""

from __future__ import annotations

from collections.abc import Mapping

PLAIN = "plain"
"""The rule of numbers that are not quantised, or the only one."""
REAL = "real"
"""Of real numbers, where that of integers is another one."""
QUANTIZED = "quantized"
"""Of stored values, element by element."""
INT8 = "int8"
"""By dot products of four signed bytes."""
INTEGER = "integer"
"""By products of pairs of 16-bit integers, which all stored integers fit into."""
RAW = "raw"
"""Of signed bytes by dot products, whose sums are the results."""
HYBRID = "hybrid"
"""Of float32 with weights of int8."""
LOOPS = "loops"
"""Of doubles and wide integers, which have no register tiles."""
TABLE = "table"
"""By shuffles of a table of the results for all stored bytes."""
LOOK_UP = "look up"
"""By a load from such a table for each element, so that other operators can be fused with it."""

_LOOKED_UP = "ABS EXP GELU HARD_SWISH LEAKY_RELU LOG LOGISTIC RELU RELU_0_TO_1 RELU6 RELU_N1_TO_1 RSQRT SQRT TANH"
"""The functions of one quantised tensor."""
_ELEMENTWISE = ("ADD SUB MUL SQUARED_DIFFERENCE PRELU MAXIMUM MINIMUM EQUAL NOT_EQUAL LESS LESS_EQUAL GREATER "
                "GREATER_EQUAL")
"""The operators of quantised tensors that combine one element of each."""
_COMBINING = ("MEAN SUM REDUCE_MAX REDUCE_MIN AVERAGE_POOL_2D MAX_POOL_2D SOFTMAX LOG_SOFTMAX "
              "RESIZE_BILINEAR L2_NORMALIZATION")
"""The operators of one quantised tensor that combine several elements of it."""

PREFERENCES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_LOOKED_UP.split(), (TABLE, LOOK_UP, PLAIN)),
    **dict.fromkeys((*_ELEMENTWISE.split(), *_COMBINING.split()), (PLAIN, QUANTIZED)),
    "CONV_2D": (PLAIN, "groups", "channels", RAW, INT8, INTEGER, HYBRID),
    "DEPTHWISE_CONV_2D": (PLAIN, INTEGER, HYBRID, INT8),
    "TRANSPOSE_CONV": (PLAIN, INTEGER, HYBRID),
    "FULLY_CONNECTED": (INT8, INTEGER, HYBRID, PLAIN, LOOPS),
    "BATCH_MATMUL": (PLAIN, INT8, "int16", HYBRID, LOOPS),
    "DIV": (REAL, PLAIN, QUANTIZED),
    "STABLEHLO_DIVIDE": (REAL, PLAIN),
    "QUANTIZE": (PLAIN, "requantize", TABLE),
    "GATHER": ("one", PLAIN),
    "RANGE": (PLAIN, "sums"),
    "RESAMPLE": (PLAIN, "smooth"),
    "SCATTER_ND": ("one", PLAIN),
    "STRIDED_SLICE": (PLAIN, "steps"),
    "TILE": ("broadcast", PLAIN),
    "LSTM": (PLAIN, "basic"),
    "SVDF": (PLAIN, INT8),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (INT8, PLAIN),
}
"""The names of the rules of each operator that has several, in the order in which they are asked."""
