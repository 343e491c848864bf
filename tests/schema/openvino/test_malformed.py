"""Files that are malformed, or that hold what circlet does not do: each error says where."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet import ModelError, UnsupportedError
from tests.schema.openvino import text

WEIGHTS = np.array([9, -3, 1], np.float32).tobytes()
IF, LOOP, SCAN, RELU = text.seed_if(), text.seed_loop(), text.seed_scan(), text.relu()
UNUSED_IF = IF.replace('from-layer="6" from-port="4"', 'from-layer="1" from-port="0"')
"""Nothing reads the output of the If."""


@dataclass(frozen=True)
class Fault:
    """A file, what is replaced in it, and the error."""

    id: str
    content: str
    old: str
    new: str
    message: str
    error: type[circlet.CircletError] = ModelError


FAULTS = [
    Fault("truncated", RELU, "</net>", "", "expected XML, found a mistake"),
    Fault("entities", RELU, "<net", '<!DOCTYPE net [<!ENTITY a "a">]><net', "without a document type"),
    Fault("version", RELU, 'version="11"', 'version="6"', "version 10 or 11 of OpenVINO IR, found '6'"),
    Fault("encoding", RELU, '<?xml version="1.0"?>', '<?xml version="1.0" encoding="nonsense"?>', "found a mistake"),
    Fault("wide_encoding", RELU, '<?xml version="1.0"?>', '<?xml version="1.0" encoding="utf-32"?>', "found a mistake"),
    Fault("no_layers", RELU, "layers>", "strata>", "expected <layers> in <net>"),
    Fault("no_type", RELU, 'type="Relu" ', "", "layer 3 .* expected a type"),
    Fault("same_id", RELU, 'layer id="3"', 'layer id="2"', "layer 2 .*no other layer"),
    Fault("no_number", RELU, 'layer id="3"', 'layer id="x"', "expected an integer as id of <layer>, found 'x'"),
    Fault("edge_from_nowhere", RELU, 'from-layer="3"', 'from-layer="30"', "found none with id 30"),
    Fault("edge_from_no_port", RELU, 'from-layer="3" from-port="1"', 'from-layer="3" from-port="7"',
          r"layer 3 .*expected one of the ports \[1\], found 7"),
    Fault("edge_to_no_port", RELU, 'to-layer="2" to-port="1"', 'to-layer="2" to-port="5"',
          r"layer 2 .*expected one of the ports \[0, 1\], found 5"),
    Fault("two_edges", RELU, 'to-layer="2" to-port="1"', 'to-layer="2" to-port="0"', "one edge to port 0"),
    Fault("no_edge", RELU, '<edge from-layer="1" from-port="0" to-layer="2" to-port="1"/>', "",
          "layer 2 .*expected input 1"),
    Fault("cycle", RELU, 'from-layer="0" from-port="0"', 'from-layer="3" from-port="1"', "in a cycle"),
    Fault("constant_beyond", RELU, 'offset="4"', 'offset="8"', "layer 1 .*expected 8 bytes from 8 on.*found 12"),
    Fault("constant_before", RELU, 'offset="4"', 'offset="-4"', "layer 1 .*expected 8 bytes from -4 on"),
    Fault("constant_size", RELU, 'size="8"', 'size="4"', r"expected 8 bytes for shape \(2,\) of float32, found 4"),
    Fault("constant_shape", RELU, 'shape="2" offset', 'shape="-2" offset', "layer 1 .*at least 0"),
    Fault("constant_huge", RELU, 'shape="2" offset', 'shape="99999999999,99999999999" offset', "any memory"),
    Fault("many_dimensions", RELU, 'element_type="f32" shape="', 'element_type="f32" shape="' + "1," * 32,
          "layer 0 .*shape: expected at most 32 dimensions"),
    Fault("element_type", RELU, 'element_type="f32" shape="2" ', 'element_type="f33" shape="2" ', "found 'f33'"),
    Fault("packed_type", RELU, 'element_type="f32" shape="2" ', 'element_type="u2" shape="2" ', "is u2",
          UnsupportedError),
    Fault("half_type", RELU, 'element_type="f32" shape="2"/', 'element_type="bf16" shape="2"/', "is bf16",
          UnsupportedError),
    Fault("shapes", RELU, 'shape="2"/', 'shape="3"/', r"layer 2 \('add_2', Add\): shapes .*do not broadcast"),
    Fault("types", RELU, 'element_type="f32" shape="2"/', 'element_type="i64" shape="2"/',
          "one element type, found int64 and float32"),
    Fault("unknown_layer", RELU, 'type="Relu"', 'type="Nonsense"', r"Nonsense of opset1 \(1\)", UnsupportedError),
    Fault("fewer_inputs", RELU, 'type="Add" version="opset1"', 'type="ScatterNDUpdate" version="opset3"',
          "layer 2 .*expected 3 inputs, found 2"),
    Fault("fewer_parameters", RELU, 'type="Add" version="opset1"', 'type="BatchNormInference" version="opset5"',
          "layer 2 .*expected 5 inputs, found 2"),
    Fault("unknown_opset", RELU, 'type="Relu" version="opset1"', 'type="Relu" version="opset99"', "Relu of opset99",
          UnsupportedError),
    Fault("broadcast", RELU, 'auto_broadcast="numpy"', 'auto_broadcast="odd"', "auto_broadcast is 'odd'",
          UnsupportedError),
    Fault("if_no_branch", IF, "else_body>", "other_body>", "layer 6 .*expected <else_body>"),
    Fault("if_no_port_map", IF, "then_port_map>", "port_map>", "layer 6 .*expected <then_port_map>"),
    Fault("if_wrong_input", IF, 'external_port_id="3"', 'external_port_id="9"',
          r"else_body: expected external_port_id among the input ports \[1, 2, 3\], found 9"),
    Fault("if_condition_as_input", IF, 'external_port_id="3"', 'external_port_id="0"', "found 0"),
    Fault("if_wrong_output", IF, '<output external_port_id="0"', '<output external_port_id="2"',
          r"then_body: expected external_port_id among \[0, 4\], found 2"),
    Fault("if_no_output", IF, '<output external_port_id="0" internal_layer_id="3"/>', "",
          "expected a Result for each of 1 outputs"),
    Fault("if_wrong_layer", IF, '<output external_port_id="0" internal_layer_id="3"/>',
          '<output external_port_id="0" internal_layer_id="2"/>', "expected the id of a Result of the body, found 2"),
    Fault("if_no_layer", IF, '<input external_port_id="2" internal_layer_id="1"/>',
          '<input external_port_id="2" internal_layer_id="11"/>', "the id of a Parameter of the body, found 11"),
    Fault("if_unmapped", IF, '<input external_port_id="2" internal_layer_id="1"/>', "",
          r"then_body: expected each Parameter in the port map, found none for \[1\]"),
    Fault("if_twice", IF, '<input external_port_id="2" internal_layer_id="1"/>',
          '<input external_port_id="2" internal_layer_id="0"/>', "each Parameter once"),
    Fault("if_condition_type", IF, 'element_type="boolean"', 'element_type="i32"', "condition: expected boolean"),
    Fault("if_condition_rank", IF, 'element_type="boolean" shape=""', 'element_type="boolean" shape="1,1"',
          "a scalar or a vector"),
    Fault("if_condition_count", IF, 'element_type="boolean" shape=""', 'element_type="boolean" shape="2"',
          "expected one element"),
    Fault("if_types", IF, 'element_type="f32" shape="2,4"/>\n', 'element_type="i32" shape="2,4"/>\n',
          "expected float32 as input 1 .* is, found int32"),
    Fault("if_unknown_layer", IF, 'type="Add"', 'type="Odd"', r"Odd of opset1 \(2\)", UnsupportedError),
    Fault("if_cycle", IF, '<edge from-layer="0" from-port="0" to-layer="2" to-port="0"/>',
          '<edge from-layer="2" from-port="2" to-layer="2" to-port="0"/>', "then_body, layer 2 .*in a cycle"),
    Fault("if_without_outputs", UNUSED_IF, '<port id="4" names="if/cond/Identity:0,if/cond:0" precision="FP32">\n'
          "            <dim>2</dim>\n            <dim>4</dim>\n        </port>", "", "at least one output, found none"),
    Fault("if_edge_from_nowhere", IF, '<edge from-layer="0" from-port="0" to-layer="2"',
          '<edge from-layer="9" from-port="0" to-layer="2"', "then_body, .*found none with id 9"),
    Fault("if_body_types", IF.replace('type="Add"', 'type="Less"', 1), 'type="Add"', 'type="Multiply"',
          "expected one element type of both bodies, found bool of then_body and float32 of else_body"),
    Fault("loop_no_condition", LOOP, ' purpose="execution_condition"', "", "purpose 'execution_condition', found 0"),
    Fault("loop_no_body", LOOP, "body>", "corpus>", "layer 6 .*expected <body>"),
    Fault("loop_back_edge_from_a_parameter", LOOP, 'from-layer="4" to-layer="5"', 'from-layer="1" to-layer="5"',
          "from-layer of a back edge: expected the id of a Result of the body, found 1, a Parameter"),
    Fault("loop_back_edge_to_a_result", LOOP, 'from-layer="4" to-layer="5"', 'from-layer="4" to-layer="10"',
          "to-layer of a back edge: expected the id of a Parameter"),
    Fault("loop_axis", LOOP, 'axis="1"', 'axis="2"', "Result 10, axis: expected -2 to 1 for rank 2, found 2"),
    Fault("loop_stride", LOOP, 'axis="1"', 'axis="1" stride="2"', "expected start 0, end -1 and stride 1"),
    Fault("loop_unmapped", LOOP, '<input external_port_id="2" internal_layer_id="5"/>', "", "Parameter 5"),
    Fault("loop_wrong_input", LOOP, '<input external_port_id="2"', '<input external_port_id="3"',
          r"among the input ports \[0, 1, 2\], found 3"),
    Fault("loop_wrong_output", LOOP, '<output external_port_id="4"', '<output external_port_id="5"',
          r"output ports \[3, 4\], found external_port_id \[3, 5\]"),
    Fault("loop_trip_type", LOOP, 'element_type="i64" shape=""', 'element_type="f32" shape=""',
          "trip count: expected int32 or int64, found float32"),
    Fault("loop_trip_count", LOOP, 'element_type="i64" shape=""', 'element_type="i64" shape="2"',
          "trip count: expected one element"),
    Fault("loop_condition", LOOP, 'element_type="boolean" shape="1"', 'element_type="boolean" shape="2"',
          "execution condition: expected one element"),
    Fault("loop_carried_type", LOOP, 'destination_type="f32"', 'destination_type="i32"', "body, layer 7"),
    Fault("loop_carried_to_another_type", LOOP, 'from-layer="7" from-port="2" to-layer="4"',
          'from-layer="3" from-port="2" to-layer="4"', "carried value 0: expected float32 .* is int64"),
    Fault("loop_edge_from_nowhere", LOOP, 'from-layer="7" from-port="2" to-layer="4"',
          'from-layer="70" from-port="2" to-layer="4"', "body, .*found none with id 70"),
    Fault("loop_condition_of_the_body", LOOP, 'from-layer="1" from-port="0" to-layer="22"',
          'from-layer="2" from-port="0" to-layer="22"', "Result 22 of the body: expected boolean, found int64"),
    Fault("scan_axis", SCAN, 'axis="0"', 'axis="1"', "Parameter 0, axis: expected -1 to 0"),
    Fault("scan_carried_slice", SCAN, 'to-layer="1"/></back', 'to-layer="0"/></back', "expected no axis"),
    Fault("scan_stride", SCAN, 'axis="0"', 'axis="0" stride="0"', "a stride that is not 0"),
    Fault("scan_least_stride", SCAN, 'axis="0"', 'axis="0" stride="-9223372036854775808"',
          "expected an integer as stride of <input>, found '-9223372036854775808'"),
    Fault("scan_part", SCAN, 'axis="0"', 'axis="0" part_size="0"', "a positive part_size"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_faults(fault: Fault) -> None:
    assert fault.old in fault.content
    with pytest.raises(fault.error, match=fault.message):
        circlet.load(fault.content.replace(fault.old, fault.new).encode(), WEIGHTS)


def test_the_condition_of_a_run_has_one_element() -> None:
    content = IF.replace('element_type="boolean" shape=""', 'element_type="boolean" shape="?"')
    session = circlet.Session(circlet.load(content.encode()), backend="cpu")
    x = np.zeros((2, 4), np.float32)
    session.run([[True], x, x, x])
    for condition in ([True, False], []):
        with pytest.raises(circlet.ExecutionError, match="exactly one element"):
            session.run([np.array(condition, np.bool_), x, x, x])


def test_weights_that_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "net.xml"
    path.write_text(RELU)
    with pytest.raises(ModelError, match=r"net\.xml: layer 1 .*expected the weights in .*net\.bin"):
        circlet.load(path)
    with pytest.raises(ModelError, match="expected weights beside the content"):
        circlet.load(RELU.encode())


def test_all_layers_without_a_rule_are_named() -> None:
    content = text.network([text.parameter(0), text.layer(1, "Odd", 1, [(2,)]), text.layer(2, "Odd", 1, [(2,)]),
                            text.layer(3, "Strange", 1, [(2,)], "extension"), text.result(4)],
                           [(0, 0, 1, 0), (1, 1, 2, 0), (2, 1, 3, 0), (3, 1, 4, 0)])
    with pytest.raises(UnsupportedError, match=r"found Odd of opset1 \(2\); Strange of extension \(1\)"):
        circlet.load(content.encode())


def test_all_options_without_a_rule_are_named() -> None:
    content = text.network([text.parameter(0, (1, 1, 4)), text.layer(1, "GRUCell", 1, [(1, 1, 2)],
                                                                     hidden_size=2, activations="elu,tanh"),
                            text.layer(2, "Relu", 1, [(1, 1, 2)]),
                            text.layer(3, "RNNCell", 1, [(2,)], hidden_size=2, activations="softsign"),
                            text.result(4), text.result(5)],
                           [(0, 0, 1, 0), (1, 1, 2, 0), (0, 0, 3, 0), (2, 1, 4, 0), (3, 1, 5, 0)])
    with pytest.raises(UnsupportedError, match=r"activation 'elu' .*; layer 3 .*activation 'softsign'"):
        circlet.load(content.encode())


@pytest.mark.parametrize("content", [IF, LOOP, SCAN, RELU], ids=["if", "loop", "scan", "relu"])
def test_changed_numbers_give_models_or_errors(content: str) -> None:
    """Each number, one at a time, becomes others that it cannot mean, or can."""
    for place in re.finditer(r'="(-?\d+)"|<dim>(\d+)<', content):
        first, last = place.span(1 if place[1] else 2)
        for number in ("0", "3", "-9223372036854775808", "99999999999999999999"):
            try:
                circlet.load((content[:first] + number + content[last:]).encode(), WEIGHTS)
            except circlet.CircletError as error:
                assert str(error)  # noqa: PT017  # whatever it is, it is one of circlet's


def test_networks_nested_too_deeply() -> None:
    deep = "<then_body><layers><layer id='0' type='If'>" * 100
    with pytest.raises(ModelError, match="at most 64 networks inside each other"):
        circlet.load(f"<net><layers><layer id='0' type='If'>{deep}{'</layer></layers></then_body>' * 100}"
                     "</layer></layers></net>".encode())


@pytest.mark.parametrize(("kind", "version", "shapes"), [
    ("ScatterNDUpdate", "opset3", [(2,)]), ("ScatterNDUpdate", "opset3", [(2,), (1, 1)]),
    ("ScatterNDUpdate", "opset3", [(2,), (), (1,)]), ("Reshape", "opset1", [(2,)]), ("Reshape", "opset1", []),
    ("Transpose", "opset1", [(2,)]), ("Gather", "opset8", [(2,)]), ("Split", "opset1", [(2,)]),
    ("Pad", "opset1", [(2,)]),
])
def test_layers_that_lack_inputs(kind: str, version: str, shapes: list[tuple[int, ...]]) -> None:
    """No message has Python's words for it."""
    count = len(shapes)
    made = text.layer(9, kind, count, [(2,)], version, num_splits=1, pad_mode="constant", special_zero="true")
    layers = [*(text.parameter(k, shape, "i64") for k, shape in enumerate(shapes)), made, text.result(10)]
    content = text.network(layers, [*((k, 0, 9, k) for k in range(count)), (9, count, 10, 0)])
    with pytest.raises((ModelError, UnsupportedError), match=rf"layer 9 .*{kind}") as caught:
        circlet.load(content.encode(), b"")
    assert not re.search(r"Error|positional|NoneType|object|index out of range", str(caught.value))
