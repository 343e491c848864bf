"""OpenVINO IR in the table of formats. What reads it is imported when a model is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from circlet.runtime.ir.model import Model
from circlet.runtime.late import LOADING
from circlet.schema.content import is_xml
from circlet.schema.importer.entry import Content, ModelFormat, ReadOption

SliceOverrun: TypeAlias = Literal["error", "hold_last"]
SLICE_OVERRUN = ReadOption(
    "slice_overrun", get_args(SliceOverrun),
    "whether a slice that leaves its axis, in a loop of OpenVINO, is an error (default) or the last one that fits")


def _read(content: Content, options: Mapping[str, str]) -> Model:
    with LOADING:
        from circlet.runtime.ops.loop_options import Overrun
        from circlet.schema.openvino.read import read_model

    return read_model(content.data, content.weights, Overrun(options[SLICE_OVERRUN.name]))


OPENVINO = ModelFormat("openvino", "OpenVINO", is_xml, _read, (SLICE_OVERRUN,), has_weights=True,
                       is_channels_first=True, is_complete=lambda content: True)
