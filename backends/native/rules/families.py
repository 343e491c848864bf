"""Where the native rules of each family of operators are."""

from __future__ import annotations

from collections.abc import Mapping

MODULES: Mapping[str, tuple[str, ...]] = {
    "comparison": ("real.comparison",),
    "conv": ("real.conv", "real.grouped", "real.volume"),
    "detection": ("real.detection",),
    "elements": ("moving.elements",),
    "elementwise": ("real.elementwise", "real.division"),
    "index": ("moving.index",),
    "layout": ("moving.layout",),
    "lists": ("moving.lists",),
    "loop_steps": ("moving.loop_steps",),
    "matmul": ("real.matmul", "moving.index"),
    "normalize": ("real.normalize",),
    "pad": ("moving.pad",),
    "pool": ("real.pool",),
    "quantize": ("quantized.quantize", "quantized.elementwise", "quantized.table"),
    "random": ("real.random",),
    "recurrent": ("recurrent.lstm", "recurrent.lstm_int8", "recurrent.rnn",
                  "recurrent.svdf_int8"),
    "reduce": ("real.reduce", "real.cumulative"),
    "reduce_window": ("real.reduce_window",),
    "resample": ("real.resample",),
    "resize": ("real.resize",),
    "sample": ("real.sample", "real.regions"),
    "scatter": ("moving.scatter",),
    "segment": ("real.segment",),
    "shape": ("moving.shape",),
    "sort": ("moving.sort", "moving.unique"),
    "spatial": ("moving.spatial",),
    "spectral": ("real.spectral",),
    "transcendental": ("real.transcendental",),
    "unary": ("real.unary",),
    "updates": ("moving.updates",),
    "variable": ("moving.variable",),
}
"""The modules of this package with rules for the operators that a module of `runtime/ops` defines."""
OF_STORED: Mapping[str, tuple[str, ...]] = {
    "comparison": ("quantized.elementwise",),
    "conv": ("quantized.conv", "quantized.depthwise", "quantized.hybrid", "quantized.transpose_conv", "quantized.wide"),
    "elementwise": ("quantized.elementwise", "quantized.division"),
    "matmul": ("quantized.batch_matmul", "quantized.blocks", "quantized.fully_connected", "quantized.hybrid",
               "quantized.wide"),
    "normalize": ("quantized.normalize", "quantized.softmax"),
    "pool": ("quantized.reduce",),
    "reduce": ("quantized.reduce",),
    "resize": ("quantized.resize",),
    "unary": ("quantized.table",),
}
"""Those with rules for calls alone that have a quantised tensor, or one of narrow integers."""


def modules(family: str) -> tuple[str, ...]:
    """The full names of the modules with rules for a family that any call may have."""
    return _full(MODULES.get(family, ()))


def modules_of_stored(family: str) -> tuple[str, ...]:
    """The full names of the modules with rules for a family that calls of stored values have."""
    return _full(OF_STORED.get(family, ()))


def _full(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{__package__}.{each}" for each in names)
