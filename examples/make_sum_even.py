"""Writes `sum_even.onnx`, the sum of the even numbers of a vector, as PyTorch exports it: a Loop with an If inside.

The Python that it stands for, which `torch.jit.script` and `torch.onnx.export(..., dynamo=False)` make such a file of:

    s = torch.zeros(1)
    for c in items:
        if c % 2 == 0:
            s += c
    return s
"""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.parser

TEXT = """<ir_version: 7, opset_import: ["" : 13], producer_name: "circlet">
sum_even (float[items_dim_0] items) => (float[1] s) {
    shape = Shape (items)
    axis = Constant <value = int64[1] {0}> ()
    count = Squeeze (shape, axis)
    true = Constant <value = bool {1}> ()
    zero = Constant <value = float[1] {0.0}> ()
    s = Loop (count, true, zero) <body = body (int64 i, bool unused, float[1] s_in) => (bool again, float[1] s_out) {
        c = Gather <axis = 0> (items, i)
        two = Constant <value = float {2.0}> ()
        half = Div (c, two)
        whole = Floor (half)
        twice = Mul (whole, two)
        rest = Sub (c, twice)
        none = Constant <value = float {0.0}> ()
        even = Equal (rest, none)
        s_out = If (even) <
            then_branch = then_branch () => (float[1] added) { added = Add (s_in, c) },
            else_branch = else_branch () => (float[1] kept) { kept = Identity (s_in) }>
        again = Identity (true)
    }>
}"""


def main() -> None:
    model = onnx.parser.parse_model(TEXT)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, Path(__file__).with_name("sum_even.onnx"))


if __name__ == "__main__":
    main()
