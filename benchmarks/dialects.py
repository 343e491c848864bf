"""Loops of ONNX that are measured; the models are made here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser

from benchmarks.cases import ROOT, Case

HEAD = '<ir_version: 8, opset_import: ["" : 16]>'
COUNT = """count (int64 n) => (int64 sum) {
    zero = Constant <value = int64 {0}> ()
    yes = Constant <value = bool {1}> ()
    sum = Loop (n, yes, zero) <body = body (int64 i, bool go, int64 s) => (bool more, int64 t) {
        two = Constant <value = int64 {2}> ()
        double = Mul (i, two)
        t = Add (s, double)
        more = Identity (go)
    }>
}"""
RECURRENT = """recurrent (float[units] h, float[steps, units] x) => (float[units] last, float[steps, units] all) {
    last, all = Scan <num_scan_inputs = 1, body = body (float[units] before, float[units] slice)
        => (float[units] after, float[units] out) {
        of_input = MatMul (slice, w)
        of_state = MatMul (before, u)
        sum = Add (of_input, of_state)
        after = Tanh (sum)
        out = Identity (after)
    }> (h, x)
}"""
ELEMENTS, TURNS, STEPS = 10_000, 20_000, 100


def dialect_cases(folder: Path) -> tuple[Case, ...]:
    """Writes models into a folder; returns how they are run."""
    rng = np.random.default_rng(0)
    items = rng.integers(-100, 100, ELEMENTS).astype(np.float32)
    onnx.save(onnx.parser.parse_model(HEAD + COUNT), folder / "count.onnx")
    cases = [
        Case("onnx_count", str(folder / "count"), "Loop with two scalar operators an iteration", "n", TURNS,
             suffix=".onnx", values={"n": np.array(TURNS, np.int64)}),
        Case("onnx_sum_even", str(ROOT / "examples" / "sum_even"), "If in Loop over f32[10000]", turns=ELEMENTS,
             suffix=".onnx", values={"items": items}),
    ]
    for units in (32, 128):
        path = folder / f"recurrent_{units}.onnx"
        onnx.save(_recurrent(units), path)
        values = {"h": np.zeros(units, np.float32), "x": rng.normal(size=(STEPS, units)).astype(np.float32)}
        cases.append(Case(f"onnx_scan_{units}", str(path.with_suffix("")), f"Scan of a layer of {units} units",
                          turns=STEPS, suffix=".onnx", values=values))
    return tuple(cases)


def _recurrent(units: int) -> onnx.ModelProto:
    """The weights are the body's own: OpenVINO reads none from around it."""
    rng = np.random.default_rng(units)
    model = onnx.parser.parse_model(HEAD + RECURRENT)
    (node,) = model.graph.node
    (body,) = (each.g for each in node.attribute if each.name == "body")
    for name in ("w", "u"):
        weights = rng.normal(size=(units, units), scale=units**-0.5).astype(np.float32)
        body.initializer.append(onnx.numpy_helper.from_array(weights, name))
    return model
