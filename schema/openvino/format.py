"""OpenVINO IR in the table of formats. What reads it is imported when a model is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from circlet.runtime.ir.model import Model
from circlet.runtime.late import LOADING
from circlet.schema.importer.entry import Content, ModelFormat, ReadOption

_STARTS = (b"<?xml", b"<net")
"""How a file begins, after white space and a byte order mark."""
SliceOverrun: TypeAlias = Literal["error", "hold_last"]
SLICE_OVERRUN = ReadOption(
    "slice_overrun", get_args(SliceOverrun),
    "whether a slice that leaves its axis, in a loop of OpenVINO, is an error (default) or the last one that fits")


def _recognizes(data: memoryview) -> bool:
    return bytes(data[:256]).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(_STARTS)


def _read(content: Content, options: Mapping[str, str]) -> Model:
    with LOADING:
        from circlet.runtime.ops.loop_options import Overrun
        from circlet.schema.openvino.read import read_model

    return read_model(content.data, content.weights, Overrun(options[SLICE_OVERRUN.name]))


OPENVINO = ModelFormat("openvino", "OpenVINO", _recognizes, _read, (SLICE_OVERRUN,), has_weights=True,
                       is_channels_first=True)
