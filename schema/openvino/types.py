"""OpenVINO's element types."""

from __future__ import annotations

from circlet.runtime.ir.types import DType

ELEMENT_TYPES = {
    "f64": DType.FLOAT64, "f32": DType.FLOAT32, "f16": DType.FLOAT16, "bf16": DType.BFLOAT16,
    "i64": DType.INT64, "i32": DType.INT32, "i16": DType.INT16, "i8": DType.INT8,
    "u64": DType.UINT64, "u32": DType.UINT32, "u16": DType.UINT16, "u8": DType.UINT8, "boolean": DType.BOOL,
}
"""The types that circlet reads, by the name that attributes give them."""
REFUSED_TYPES = frozenset({"i4", "u1", "u2", "u3", "u4", "u6", "nf4", "f4e2m1", "f8e4m3", "f8e5m2", "f8e8m0", "string",
                           "dynamic", "undefined"})
"""Types that OpenVINO has and circlet refuses."""
HALVES = {"i4": DType.INT8, "u4": DType.UINT8}
"""Of those, the integers that constants may have, and what these become."""
FEW_BITS = {"nf4": 4, "f4e2m1": 4, "f8e4m3": 8, "f8e5m2": 8, "f8e8m0": 8}
"""Of the refused types, the floats that constants may have which are converted, and how many bits they have."""
