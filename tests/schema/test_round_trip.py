"""What is written is what is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tflite

from circlet.runtime.errors import ModelError, UnsupportedError
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.model import Model, Operator, Subgraph
from circlet.runtime.ir.op import Opaque
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import DType, Quantization
from circlet.runtime.ops.elementwise import Add
from circlet.schema.files import dump_model, load_model, save_model
from tests.schema import samples
from tests.schema.samples import CIRCLE_ONLY, SAMPLES, TFLITE_ONLY, assert_same, frozen, with_constant

FORMATS = ("tflite", "circle")
CASES = [(name, format) for format, own in zip(FORMATS, (TFLITE_ONLY, CIRCLE_ONLY), strict=True)
         for name in (*SAMPLES, *own)]
ALL = SAMPLES | TFLITE_ONLY | CIRCLE_ONLY


@pytest.mark.parametrize(("name", "format"), CASES)
@pytest.mark.parametrize("external_bytes", [None, 0, 50])
def test_round_trip(name: str, format: str, external_bytes: int | None) -> None:
    content = dump_model(ALL[name], format, external_bytes)
    assert content[4:8] == {"tflite": b"TFL3", "circle": b"CIR0"}[format]
    model = load_model(content)
    assert (model.format, model.version) == (format, {"tflite": 3, "circle": 0}[format])
    assert_same(model, ALL[name])
    assert dump_model(model, format, external_bytes) == content


@pytest.mark.parametrize(("name", "format"), [
    *((name, "circle") for name in TFLITE_ONLY), *((name, "tflite") for name in CIRCLE_ONLY)])
def test_a_type_that_the_format_lacks_is_refused_by_name(name: str, format: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"subgraph 0 \('main'\), tensor 0 \('c'\): .*{format} has no element"):
        dump_model(ALL[name], format)


@pytest.mark.parametrize("suffix", FORMATS)
def test_save_and_load_a_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"model.{suffix.upper()}"
    save_model(samples.documented(), path)
    loaded = load_model(path)
    assert_same(loaded, samples.documented())
    save_model(loaded, str(path))
    assert_same(loaded, samples.documented())
    assert_same(load_model(str(path)), samples.documented())
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_failed_save_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    save_model(samples.chain(), path)
    with pytest.raises(UnsupportedError):
        save_model(CIRCLE_ONLY["mx"], path)
    assert_same(load_model(path), samples.chain())
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_the_format_may_be_named(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    with pytest.raises(UnsupportedError, match="expected a format among tflite, circle, found 'bin'"):
        save_model(samples.chain(), path)
    save_model(samples.chain(), path, "circle")
    assert load_model(path).format == "circle"


def test_constants_are_views_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    data = frozen(np.arange(1 << 16, dtype=np.float32))
    save_model(with_constant(DType.FLOAT32, data.shape, data), path)
    for source in (path, path.read_bytes()):
        found = load_model(source).subgraphs[0].tensors[0].data
        assert found is not None
        assert found.base is not None
        assert found.ctypes.data % 16 == 0 or isinstance(source, bytes)
        assert not found.flags.owndata
        assert not found.flags.writeable
        np.testing.assert_array_equal(found, data)


@pytest.mark.parametrize("external_bytes", [None, 0])
def test_data_of_several_tensors_is_written_once(external_bytes: int | None) -> None:
    builder = ModelBuilder()
    main = builder.subgraph()
    data = frozen(np.arange(1000, dtype=np.float32))
    for shape in ((1000,), (10, 100)):
        main.output(main.tensor(Tensor("c", DType.FLOAT32, shape, data=data.reshape(shape))))
    main.output(main.tensor(Tensor("half", DType.FLOAT32, (500,), data=data[::2])))
    content = dump_model(builder.build(), "tflite", external_bytes)
    assert 6000 <= len(content) < 7000
    assert_same(load_model(content), builder.build())


def test_custom_options_outside_of_the_flatbuffer() -> None:
    model = samples.custom()
    options = model.subgraphs[0].operators[0].custom_options
    for external_bytes, inside in ((101, 100), (100, 0)):
        content = dump_model(model, "tflite", external_bytes)
        operator = tflite.Model.GetRootAs(content).Subgraphs(0).Operators(0)
        assert operator.CustomOptionsLength() == inside
        assert content.endswith(options)


@pytest.mark.parametrize("name", ["ADD", "BUILTIN_7", "IF", "TFLITE"])
def test_opaque_operators(name: str) -> None:
    main = Subgraph("main", (Tensor("x", DType.FLOAT32, (1,)),), (0,), (0,), (Operator(Opaque(name), (0,), ()),))
    model = Model((main,))
    if name in ("ADD", "IF"):
        assert load_model(dump_model(model, "tflite")).subgraphs[0].operators[0].name == name
    else:
        with pytest.raises(UnsupportedError, match=rf"operator 0 \({name}\): the format tflite has no operator {name}"):
            dump_model(model, "tflite")


def test_missing_zero_points_are_written() -> None:
    for zero_points in ((), (3,)):
        quantization = Quantization((0.5, 0.25), zero_points)
        model = with_constant(DType.INT8, (2,), frozen([1, 2], np.int8), quantization)
        found = load_model(dump_model(model, "tflite")).subgraphs[0].tensors[0].quantization
        assert found == replace(quantization, zero_points=(3, 3) if zero_points else (0, 0))


@pytest.mark.parametrize(("tensor", "message"), [
    (Tensor("c", DType.INT8, (2,), data=frozen([1, 2], np.int16)), "expected data of numpy type int8"),
    (Tensor("c", DType.INT8, (2,), data=frozen([1], np.int8)), r"expected data of shape \(2,\)"),
    (Tensor("c", DType.INT4, (2,), data=frozen([1, 2], np.int8)), "expected data of numpy type uint8 for int4"),
    (Tensor("c", DType.STRING, (1,), data=frozen(["a"], object)), "expected elements of type bytes"),
    (Tensor("c", DType.VARIANT, (1,), data=frozen(["a"], object)), "a constant cannot be of type variant"),
    (Tensor("c", DType.INT8, (1 << 40,)), "Tensor.shape cannot be written"),
    (Tensor("\ud800", DType.INT8, (1,)), "Tensor.name cannot be written"),
    (Tensor("c", DType.INT8, (1,), quantization=Quantization((1.0,), (1 << 70,))), "zero_point cannot be written"),
    (Tensor("c", DType.INT8, (1,), quantization=Quantization((1e300,), (0,))), "scale cannot be written: overflow"),
])
def test_malformed_tensors_are_refused(tensor: Tensor, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        dump_model(Model((Subgraph("main", (tensor,), (), (0,), ()),)), "tflite")


def test_indices_that_no_field_holds_are_refused() -> None:
    main = Subgraph("main", (Tensor("x", DType.FLOAT32, (1,)),), (0,), (0,), (Operator(Add(), (1 << 31,), ()),))
    with pytest.raises(ModelError, match=r"Operator.inputs cannot be written"):
        dump_model(Model((main,)), "tflite")
    with pytest.raises(ModelError, match=r"OperatorCode.version cannot hold"):
        dump_model(Model((replace(main, operators=(Operator(Add(), (0,), (), version=1 << 31),)),)), "tflite")


@pytest.mark.slow
def test_large_models() -> None:
    model = samples.chain(10_000)
    assert_same(load_model(dump_model(model, "tflite")), model)


def test_many_references_to_one_buffer_are_fine() -> None:
    assert_same(load_model(dump_model(samples.chain(600, share=True), "circle")), samples.chain(600, share=True))
