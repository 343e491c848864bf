"""The examples of OpenVINO's documents, and files that circlet reads without OpenVINO."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import circlet
from tests.schema.openvino import text

X = np.arange(8, dtype=np.float32).reshape(2, 4)
WEIGHTS = np.array([9, -3, 1], np.float32).tobytes()


def values(model: circlet.Model, *inputs: npt.ArrayLike) -> list[npt.NDArray[np.float32]]:
    return list(circlet.Session(model, backend="cpu").run(list(inputs)).values())


@pytest.mark.parametrize("external", ["0", "4"])
@pytest.mark.parametrize(("condition", "expected"), [(True, 3 * X), (False, 11 * X)])
def test_if_8(external: str, condition: bool, expected: npt.NDArray[np.float32]) -> None:
    """Outputs are named by position, as in the document, or by port, as in the files that OpenVINO writes."""
    content = text.IF.replace('<output external_port_id="0"', f'<output external_port_id="{external}"')
    assert (content == text.IF) == (external == "0")
    (found,) = values(circlet.load(text.seed_if(content).encode()), condition, X, 2 * X, 10 * X)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("axis", ["1", "-1"])
def test_loop_5(axis: str) -> None:
    content = text.LOOP.replace('axis="1"', f'axis="{axis}"')
    last, joined = values(circlet.load(text.seed_loop(content).encode()), 3, [True], [[10]])
    assert (last.tolist(), joined.tolist()) == ([[16]], [[13, 15, 16]])


@pytest.mark.parametrize(("trips", "condition"), [(0, True), (3, False)])
def test_loop_5_without_iterations(trips: int, condition: bool) -> None:
    last, joined = values(circlet.load(text.seed_loop().encode()), trips, [condition], [[10]])
    assert (last.tolist(), joined.shape) == ([[10]], (1, 0))


def test_loop_5_with_the_iteration_number_left_out_of_the_port_map() -> None:
    line = '<input external_port_id="-1" internal_layer_id="2" purpose="current_iteration"/>'
    assert line in text.LOOP
    last, _ = values(circlet.load(text.seed_loop(text.LOOP.replace(line, "")).encode()), 2, [True], [[0]])
    assert last.tolist() == [[3]]


def test_tensor_iterator() -> None:
    (found,) = values(circlet.load(text.seed_scan().encode()), [1, 2, 3], [10])
    assert found.tolist() == [16]


def test_weights_lie_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "net.xml"
    path.write_text(text.relu())
    (tmp_path / "net.bin").write_bytes(WEIGHTS)
    for model in (circlet.load(path), circlet.load(path, tmp_path / "net.bin"),
                  circlet.load(text.relu().encode(), WEIGHTS)):
        (found,) = values(model, [2, 2])
        assert found.tolist() == [0, 3]


def test_constants_are_views_of_the_weights() -> None:
    weights = bytearray(WEIGHTS)
    model = circlet.load(text.relu().encode(), weights)
    (constant,) = (each for each in model.subgraphs[0].tensors if each.data is not None)
    weights[4:8] = np.float32(5).tobytes()
    assert constant.data is not None
    assert constant.data.tolist() == [5, 1]
    assert not constant.data.flags.writeable


def test_names(tmp_path: Path) -> None:
    """Names of tensors where the file has them, otherwise of layers."""
    content = text.relu().replace('<port id="1"><dim>2', '<port id="1" names="positive,other"><dim>2')
    session = circlet.Session(circlet.load(content.encode(), WEIGHTS), backend="cpu")
    assert {name: each.shape for name, each in session.inputs.items()} == {"parameter_0": (2,)}
    assert list(session.run({"parameter_0": [2, 2]})) == ["positive"]


@pytest.mark.parametrize(("change", "named"), [
    (('<port id="1"><dim>2', '<port id="1" names="other,relu_3"><dim>2'), "relu_3"),
    (('<port id="1"><dim>2', '<port id="1" names="other,y"><dim>2'), "y"),
], ids=["layer", "result"])
def test_of_several_names(change: tuple[str, str], named: str) -> None:
    """That of the layer, or the one that the result is given, where it is among those of the tensor."""
    content = text.relu().replace(*change).replace('type="Result"', 'type="Result" output_names="y"')
    assert list(circlet.Session(circlet.load(content.encode(), WEIGHTS), backend="cpu").outputs) == [named]


def test_weights_of_other_formats() -> None:
    with pytest.raises(circlet.InputError, match="only models of OpenVINO"):
        circlet.load(b"\x1c\x00\x00\x00TFL3", b"")
