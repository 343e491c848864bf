"""OpenVINO IR written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

SEEDS = Path(__file__).with_name("seeds")
IF, LOOP = (SEEDS.joinpath(name).read_text(encoding="utf-8") for name in ("if_8.xml", "loop_5.xml"))
"""The layers of OpenVINO's documents of If-8, as it is there, and Loop-5, with what is left out there filled in."""

Edge: TypeAlias = "tuple[int, int, int, int]"
"""From layer and port to layer and port."""


def layer(number: int, kind: str, inputs: int, outputs: Sequence[Sequence[int]], version: str = "opset1",
          **data: object) -> str:
    """A layer; the ports of the inputs come first, those of the outputs, of the shapes given, behind."""
    attributes = " ".join(f'{name}="{value}"' for name, value in data.items())
    given = "".join(f'<port id="{k}"/>' for k in range(inputs))
    made = "".join(f'<port id="{inputs + k}">{"".join(f"<dim>{dim}</dim>" for dim in shape)}</port>'
                   for k, shape in enumerate(outputs))
    return (f'<layer id="{number}" name="{kind.lower()}_{number}" type="{kind}" version="{version}">'
            f"<data {attributes}/><input>{given}</input><output>{made}</output></layer>")


def parameter(number: int, shape: Sequence[int] = (2,), kind: str = "f32") -> str:
    return layer(number, "Parameter", 0, [shape], element_type=kind, shape=",".join(map(str, shape)))


def result(number: int) -> str:
    return layer(number, "Result", 1, [])


def network(layers: Sequence[str], edges: Sequence[Edge]) -> str:
    """The content of a file."""
    joints = "".join(f'<edge from-layer="{a}" from-port="{b}" to-layer="{c}" to-port="{d}"/>' for a, b, c, d in edges)
    return f'<?xml version="1.0"?><net name="net" version="11"><layers>{"".join(layers)}</layers>' \
           f"<edges>{joints}</edges></net>"


def seed_if(text: str = IF) -> str:
    """A model of the If of the seed."""
    shapes = [(2, 4)] * 3
    layers = [parameter(0, (), "boolean"), *(parameter(k + 1, shape) for k, shape in enumerate(shapes)), text,
              result(7)]
    return network(layers, [*((k, 0, 6, k) for k in range(4)), (6, 4, 7, 0)])


def seed_loop(text: str = LOOP) -> str:
    """A model of the Loop of the seed."""
    layers = [parameter(0, (), "i64"), parameter(1, (1,), "boolean"), parameter(2, (1, 1)), text, result(7), result(8)]
    return network(layers, [*((k, 0, 6, k) for k in range(3)), (6, 3, 7, 0), (6, 4, 8, 0)])


def seed_scan() -> str:
    """A TensorIterator that adds up what it gets."""
    entries = ('<port_map><input external_port_id="0" internal_layer_id="0" axis="0"/>'
               '<input external_port_id="1" internal_layer_id="1"/><output external_port_id="2" internal_layer_id="3"/>'
               '</port_map><back_edges><edge from-layer="3" to-layer="1"/></back_edges>')
    body = network([parameter(0, (1,)), parameter(1, (1,)), layer(2, "Add", 2, [(1,)]), result(3)],
                   [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)])
    inner = body.partition("<layers>")[1] + body.partition("<layers>")[2].replace("</net>", "")
    scan = layer(2, "TensorIterator", 2, [(1,)]).replace("</layer>", f"{entries}<body>{inner}</body></layer>")
    layers = [parameter(0, (3,)), parameter(1, (1,)), scan, result(3)]
    return network(layers, [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0)])


def relu() -> str:
    """A Parameter, a Const, their sum and a Relu of it."""
    return network([parameter(0), layer(1, "Const", 0, [(2,)], element_type="f32", shape="2", offset=4, size=8),
                    layer(2, "Add", 2, [(2,)], auto_broadcast="numpy"), layer(3, "Relu", 1, [(2,)]), result(4)],
                   [(0, 0, 2, 0), (1, 0, 2, 1), (2, 2, 3, 0), (3, 1, 4, 0)])
