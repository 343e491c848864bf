"""The common element types of inputs, against OpenVINO."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.errors import UnsupportedError
from tests.schema.openvino.models import op, ov, run, run_openvino, same, save

opset14 = pytest.importorskip("openvino.opset14")
TYPES = ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32",
         "float64")


@pytest.mark.parametrize("is_pytorch", [False, True], ids=["plain", "pytorch"])
@pytest.mark.parametrize("ranks", [(0, 1), (1, 0), (1, 1)], ids=str)
def test_types_as_openvino(tmp_path: Path, ranks: tuple[int, int], is_pytorch: bool) -> None:
    """Of all pairs; what OpenVINO declares, as its processor plugin computes in others."""
    parameters, outputs, inputs, expected = list[object](), list[object](), list[np.ndarray](), list[str]()
    for pair in product(TYPES, TYPES):
        own = [op.parameter([2] * rank, np.dtype(each)) for rank, each in zip(ranks, pair, strict=True)]
        made = opset14.convert_promote_types(*own, promote_unsafe=True, pytorch_scalar_promotion=is_pytorch,
                                             u64_integer_promotion_target="i64")
        parameters += own
        outputs += [op.result(made.output(k)) for k in range(2)]
        inputs += [np.full([2] * rank, 1, each) for rank, each in zip(ranks, pair, strict=True)]
        expected += [made.output(k).get_element_type().to_dtype().name for k in range(2)]
    path = tmp_path / "model.xml"
    ov.serialize(ov.Model(outputs, parameters), path)
    found = circlet.Session(path, backend="cpu").invoke(0, inputs)
    assert [each.dtype.name for each in found] == expected
    assert all((each == 1).all() for each in found)


def test_sum_of_what_was_converted(tmp_path: Path) -> None:
    x, k = op.parameter([-1, 3], np.float32), op.parameter([], np.int64)
    made = opset14.convert_promote_types(x, k, promote_unsafe=True, pytorch_scalar_promotion=True)
    path = save(tmp_path, [op.add(made.output(0), made.output(1)).output(0)], [x, k])
    for rows in (2, 5):
        given = [np.linspace(-1, 1, 3 * rows, dtype=np.float32).reshape(rows, 3), np.array(3)]
        for backend in ("cpu", "native"):
            same(run(path, given, backend=backend)[0], run_openvino(path, given)[0], f"{rows} rows", 1e-6)


def test_refused(tmp_path: Path) -> None:
    x, half = op.parameter([2], np.float32), op.constant(np.ones(2, np.float32), dtype=ov.Type.bf16)
    made = opset14.convert_promote_types(x, half)
    path = save(tmp_path, [op.add(made.output(0), made.output(1)).output(0)], [x])
    with pytest.raises(UnsupportedError, match="inputs of float32 and bfloat16"):
        circlet.load(path)
