"""Networks survive a file: circlet and LiteRT compute the same from it, by the same names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import circlet
from circlet import Network
from tests.network import test_loop, test_trace
from tests.network.runs import typed

litert = pytest.importorskip("ai_edge_litert.interpreter")

PROGRAMS = [case for case in (*test_loop.PROGRAMS, *test_trace.PROGRAMS) if case[0].__name__ in {
    "power", "swap", "iterate_1_reverse", "concatenate_1", "reverse_0", "growing", "nested", "branch_in_loop",
    "condition_with_constructs", "trees", "nested_closures"}]


@pytest.mark.parametrize(("program", "runs"), PROGRAMS, ids=[program.__name__ for program, _ in PROGRAMS])
def test_file(program: Callable[[Network], None], runs: list[tuple[test_loop.Inputs, object]], tmp_path: Path) -> None:
    net = Network()
    program(net)
    file = tmp_path / "network.tflite"
    circlet.save(circlet.convert(net.build()), file)
    model = circlet.load(file)
    kind = litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    reference = litert.Interpreter(str(file), experimental_op_resolver_type=kind)
    for inputs, expected in runs:
        given = typed(model, inputs)
        assert circlet.Session(model, backend="cpu").run(given)["out"].tolist() == expected
        if expected != [] and expected != [[], [], []]:  # LiteRT hands out no tensor without elements
            assert reference.get_signature_runner("serving_default")(**given)["out"].tolist() == expected
