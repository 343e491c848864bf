"""What ONNX's If, Loop and Scan must not be: refused when the model is read, or when it is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest

import circlet
from tests.schema.onnx.graphs import f32, i64, load, parse

IF = """g (bool c, float a) => (float y) {
    y = If(c) <then_branch = t () => (p) { p = Neg(a) }, else_branch = e () => (q) { q = Abs(a) }> }"""
LOOP = """g (int64 M, float a) => (float y) {
    y = Loop(M, "", a) <body = body (int64 i, bool c, float x) => (bool d, float z) { z = Neg(x) d = Identity(c) }> }"""
WHILE = LOOP.replace("int64 M", "bool M").replace('M, ""', '"", M')
SCAN = """g (float[2] s, float[n, 2] x) => (float[k] t, y) {
    t, y = Scan<num_scan_inputs = 1, body = body (a, b) => (c, d) { c = Add(a, b) d = Identity(c) }> (s, x) }"""


@dataclass(frozen=True)
class Refused:
    """A model with a mistake in it, and the error."""

    id: str
    text: str
    old: str
    new: str
    message: str
    inputs: Mapping[str, Any] | None = None
    """Of the run that fails; None where the model is refused."""

    def read(self) -> circlet.Model:
        assert self.old in self.text
        return load(self.text.replace(self.old, self.new))


TWO = np.array([True, True])
CASES = [
    Refused("if_unequal_counts", IF, "=> (p)", "=> (p, p)", "expected 1 outputs of both branches, found 2 and 1"),
    Refused("if_no_branch", IF, ", else_branch = e () => (q) { q = Abs(a) }", "", "'else_branch' is required and abse"),
    Refused("if_undefined_name", IF, "Neg(a)", "Neg(nowhere)",
            r"node 0 \(If\): graph 't', node 0 \(Neg\): 'nowhere' is read, but nothing"),
    Refused("if_branch_with_inputs", IF, "t ()", "t (float u)", "graph 't': expected 0 inputs, found 1"),
    Refused("if_types", IF, "q = Abs(a)", "q = Cast<to = 7>(a)",
            "found float32 in the then branch and int64 in the else branch"),
    Refused("if_condition_type", IF, "bool c", "int32 c", "expected bool with exactly one element, found int32"),
    Refused("if_condition_of_two", IF, "bool c", "bool[2] c", "exactly one element, found bool of shape"),
    Refused("loop_one_input", LOOP, '(M, "", a)', "(M)", "expected at least 2 inputs"),
    Refused("loop_body_inputs", LOOP, "bool c, float x", "bool c", "graph 'body': expected 3 inputs, found 2"),
    Refused("loop_body_outputs", LOOP, "(bool d, float z)", "(bool d)", "an output for each carried value"),
    Refused("loop_carried_type", LOOP, "float x)", "int64 x)",
            "input 'x': expected float32, which the node passes, found int64"),
    Refused("loop_carried_to_another_type", LOOP, "z = Neg(x)", "z = Cast<to = 7>(x)",
            "carried value 0: expected float32 .*, found int64"),
    Refused("loop_undefined_name", LOOP, "Neg(x)", "Neg(nowhere)", r"graph 'body', node 0 \(Neg\): 'nowhere' is read"),
    Refused("loop_name_of_the_body", LOOP, "> }", "> w = Identity(z) }", "'z' is read, but nothing defines it"),
    Refused("loop_trip_type", LOOP, "int64 M", "float M", "trip count: expected int32 or int64, found float32"),
    Refused("loop_trip_count_of_two", LOOP, "int64 M", "int64[2] M", "trip count: expected exactly one element"),
    Refused("loop_trip_count_of_a_run", LOOP, "int64 M", "int64[k] M", "trip count: expected exactly one element",
            {"M": i64(1, 2), "a": f32(1)}),
    Refused("loop_condition_type", WHILE, "bool M", "int32 M", "condition: expected bool, found int32"),
    Refused("loop_condition_of_two", WHILE, "bool M", "bool[2] M", "condition: expected exactly one element"),
    Refused("loop_condition_of_a_run", WHILE, "bool M", "bool[k] M", "condition: expected exactly one element",
            {"M": TWO, "a": f32(1)}),
    Refused("loop_condition_of_the_body", WHILE, "d = Identity(c)", "d = Identity(i)", "expected bool, found int64"),
    Refused("loop_sequence_collected", LOOP.replace("(float y)", "(float y, r)").replace("y = Loop", "y, r = Loop"),
            "float z) {", "float z, o) { o = SequenceConstruct(x)", "scan output 0: expected a tensor"),
    Refused("scan_axes_count", SCAN, "inputs = 1", "inputs = 1, scan_input_axes = [0, 1]",
            "'scan_input_axes': expected 1 entries, found 2"),
    Refused("scan_direction", SCAN, "inputs = 1", "inputs = 1, scan_input_directions = [2]",
            "'scan_input_directions': expected 0 or 1, found"),
    Refused("scan_input_axis", SCAN, "inputs = 1", "inputs = 1, scan_input_axes = [5]",
            "scan input axis: expected -2 to 1 for rank 2, found 5"),
    Refused("scan_output_axis", SCAN, "inputs = 1", "inputs = 1, scan_output_axes = [2]",
            "scan output axis: expected -2 to 1 for rank 2, found 2"),
    Refused("scan_inputs_count", SCAN, "inputs = 1", "inputs = 3", "found 2 inputs and 2 outputs of the body"),
    Refused("scan_body_inputs", SCAN, "(a, b)", "(a)", "expected 2 inputs, found 1"),
    Refused("scan_undefined_name", SCAN, "Add(a, b)", "Add(a, nowhere)", "'nowhere' is read, but nothing defines it"),
    Refused("scan_state_changes_shape", SCAN.replace("float[2] s", "float[j] s"), "c = Add(a, b)",
            "c = Concat<axis = 0>(a, b)", r"expected shape \(2,\) as before the iteration, found \(4,\)",
            {"s": f32(0, 0), "x": f32([[1, 2], [3, 4]])}),
    Refused("scan_lengths", """g (float[n] x, float[m] z) => (float[n] y) { y = Scan<num_scan_inputs = 2,
        body = body (a, b) => (c) { c = Add(a, b) }> (x, z) }""", "", "", "expected scan inputs of equally many slices",
            {"x": f32(1, 2), "z": f32(1, 2, 3)}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_refused(case: Refused) -> None:
    if case.inputs is None:
        with pytest.raises(circlet.ModelError, match=case.message):
            circlet.Session(case.read())
        return
    session = circlet.Session(case.read())
    with pytest.raises(circlet.ExecutionError, match=case.message):
        session.run(case.inputs)


@pytest.mark.parametrize("text", [IF, LOOP, SCAN], ids=["if", "loop", "scan"])
def test_control_flow_has_outputs(text: str) -> None:
    proto = onnx.ModelProto.FromString(parse(text))
    del proto.graph.node[0].output[:]
    with pytest.raises(circlet.ModelError, match="expected at least one output, found none"):
        circlet.load(proto.SerializeToString())
