"""Which native rule of an operator is asked first, where it has several.

The first rule that does not refuse a call is used. A rule that is refused by nothing that another one takes may stand
anywhere; where two take the same calls, the faster one comes first.
"""

from __future__ import annotations

from collections.abc import Mapping

from circlet.runtime.ir.op import Op
from circlet.runtime.ops.comparison import Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual
from circlet.runtime.ops.conv import Conv2D, DepthwiseConv2D, TransposeConv
from circlet.runtime.ops.elementwise import Add, Maximum, Minimum, Mul, Prelu, SquaredDifference, Sub
from circlet.runtime.ops.index import Gather, ScatterNd
from circlet.runtime.ops.matmul import BatchMatMul, FullyConnected
from circlet.runtime.ops.normalize import Softmax
from circlet.runtime.ops.pad import Tile
from circlet.runtime.ops.pool import AveragePool2D, MaxPool2D
from circlet.runtime.ops.quantize import Quantize
from circlet.runtime.ops.recurrent import Lstm, UnidirectionalSequenceLstm
from circlet.runtime.ops.reduce import Mean, ReduceMax, ReduceMin, Sum
from circlet.runtime.ops.resize import ResizeBilinear
from circlet.runtime.ops.unary import (
    Abs,
    Exp,
    Gelu,
    HardSwish,
    LeakyRelu,
    Log,
    Logistic,
    Relu,
    Relu0To1,
    Relu6,
    ReluN1To1,
    Rsqrt,
    Sqrt,
    Tanh,
)

PLAIN = "plain"
"""The rule of numbers that are not quantised, or the only one."""
QUANTIZED = "quantized"
"""Of stored values, element by element."""
INT8 = "int8"
"""By dot products of four signed bytes."""
INTEGER = "integer"
"""By products of pairs of 16-bit integers, which all stored integers fit into."""
HYBRID = "hybrid"
"""Of float32 with weights of int8."""
TABLE = "table"
"""By shuffles of a table of the results for all stored bytes."""
LOOK_UP = "look up"
"""By a load from such a table for each element, so that other operators can be fused with it."""

LOOKED_UP: tuple[type[Op], ...] = (
    Abs, Exp, Gelu, HardSwish, LeakyRelu, Log, Logistic, Relu, Relu0To1, Relu6, ReluN1To1, Rsqrt, Sqrt, Tanh)
"""The functions of one quantised tensor."""
_ELEMENTWISE: tuple[type[Op], ...] = (
    Add, Sub, Mul, SquaredDifference, Prelu, Maximum, Minimum, Equal, NotEqual, Less, LessEqual, Greater,
    GreaterEqual)
_COMBINING: tuple[type[Op], ...] = (
    Mean, Sum, ReduceMax, ReduceMin, AveragePool2D, MaxPool2D, Softmax, ResizeBilinear)

PREFERENCES: Mapping[type[Op], tuple[str, ...]] = {
    **dict.fromkeys(LOOKED_UP, (TABLE, LOOK_UP, PLAIN)),
    **dict.fromkeys((*_ELEMENTWISE, *_COMBINING), (PLAIN, QUANTIZED)),
    Conv2D: (PLAIN, INT8, INTEGER, HYBRID),
    DepthwiseConv2D: (PLAIN, INTEGER, HYBRID, INT8),
    TransposeConv: (PLAIN, INTEGER),
    FullyConnected: (INT8, INTEGER, HYBRID, PLAIN),
    BatchMatMul: (PLAIN, INT8),
    Quantize: (PLAIN, "requantize", TABLE),
    Gather: ("one", PLAIN),
    ScatterNd: ("one", PLAIN),
    Tile: ("broadcast", PLAIN),
    Lstm: (PLAIN, "basic"),
    UnidirectionalSequenceLstm: (INT8, PLAIN),
}
"""The names of the rules of each operator that has several, in the order in which they are asked."""
