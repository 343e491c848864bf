"""What a .tflite file holds, read without circlet."""

from __future__ import annotations

from collections import Counter

import tflite

_NAMES = {number: name for name, number in vars(tflite.BuiltinOperator).items() if isinstance(number, int)}


def operators(content: bytes) -> tuple[int, dict[str, int]]:
    """The number of subgraphs, and how often each operator occurs in them, most frequent first."""
    model = tflite.Model.GetRootAs(content)
    codes = [model.OperatorCodes(index) for index in range(model.OperatorCodesLength())]
    names = [_NAMES[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())] for code in codes]
    graphs = [model.Subgraphs(index) for index in range(model.SubgraphsLength())]
    found = Counter(
        names[graph.Operators(index).OpcodeIndex()] for graph in graphs for index in range(graph.OperatorsLength())
    )
    return len(graphs), dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))
