"""Reading of files that other programs write."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from circlet.runtime.errors import ModelError, UnsupportedError
from circlet.runtime.ir.model import Operator
from circlet.runtime.ir.op import Opaque
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Activation, Blockwise, DType, Quantization
from circlet.runtime.ops.controlflow import StablehloCase
from circlet.runtime.ops.elementwise import Add
from circlet.runtime.ops.matmul import BatchMatMul
from circlet.schema import reader
from circlet.schema.files import dump_model, load_model
from circlet.schema.foreign import Foreign
from tests.schema import raw
from tests.schema.raw import circle_schema, tflite_schema

BOTH = pytest.mark.parametrize("schema", [tflite_schema, circle_schema], ids=["tflite", "circle"])
FLOATS = struct.pack("<2f", 1, 2)


def ints(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}i", *values)


def first_tensor(content: bytes) -> Tensor:
    return load_model(content).subgraphs[0].tensors[0]


def first_operator(schema: Any, code: Any, **fields: Any) -> Operator:
    content = raw.model(schema, [raw.tensor(schema), raw.tensor(schema)], [raw.operator(schema, **fields)], [code])
    return load_model(content).subgraphs[0].operators[0]


@pytest.mark.parametrize(("schema", "builtin", "deprecated", "name"), [
    (tflite_schema, 0, 18, "MUL"),
    (tflite_schema, 18, 0, "MUL"),
    (tflite_schema, 150, 127, "GELU"),
    (tflite_schema, 150, 0, "GELU"),
    (tflite_schema, 209, 127, "STABLEHLO_CASE"),
    (tflite_schema, 210, 127, "BUILTIN_210"),
    (circle_schema, 0, 18, "MUL"),
    (circle_schema, 18, 18, "MUL"),
    (circle_schema, 150, 127, "GELU"),
    (circle_schema, 0, -2, "INSTANCE_NORM"),
    (circle_schema, -3, -3, "BCQ_FULLY_CONNECTED"),
    (circle_schema, -4, 0, "BCQ_GATHER"),
    (circle_schema, -100, -100, "BUILTIN_-100"),
])
def test_operator_codes(schema: Any, builtin: int, deprecated: int, name: str) -> None:
    content = raw.model(schema, [raw.tensor(schema), raw.tensor(schema)], [raw.operator(schema)],
                        [raw.code(schema, builtin, deprecated, version=5)])
    model = load_model(content)
    found = model.subgraphs[0].operators[0]
    assert (found.name, found.version) == (name, 5)
    again = load_model(dump_model(model, model.format)).subgraphs[0].operators[0]
    assert (again.name, again.version) == (name, 5)


@BOTH
def test_custom_operators_keep_their_options(schema: Any) -> None:
    found = first_operator(schema, raw.code(schema, 32, 32, "Flex"), customOptions=np.frombuffer(b"abc", np.uint8))
    assert found.name == "CUSTOM:Flex"
    assert isinstance(found.op, Opaque)
    assert found.custom_options == b"abc"


@BOTH
def test_missing_options_are_the_defaults(schema: Any) -> None:
    assert first_operator(schema, raw.code(schema)).op == Add()


@BOTH
def test_options(schema: Any) -> None:
    options = raw.options(schema, "AddOptions", fusedActivationFunction=3, potScaleInt16=False)
    assert first_operator(schema, raw.code(schema), **vars(options)).op == Add(Activation.RELU6, False)


def test_renamed_options() -> None:
    for schema, fields in ((tflite_schema, {"adjX": True}), (circle_schema, {"adjointLhs": True})):
        options = raw.options(schema, "BatchMatMulOptions", **fields)
        assert first_operator(schema, raw.code(schema, 126, 126), **vars(options)).op == BatchMatMul(adj_x=True)


@BOTH
def test_options_of_the_second_union(schema: Any) -> None:
    options = raw.options(schema, "StablehloCaseOptions", branchSubgraphIndices=[2, 1])
    assert first_operator(schema, raw.code(schema, 209, 127), **vars(options)).op == StablehloCase((2, 1))


@BOTH
def test_an_enumeration_value_out_of_range_is_refused(schema: Any) -> None:
    options = raw.options(schema, "AddOptions", fusedActivationFunction=77)
    with pytest.raises(ModelError, match=r"operator 0 \(ADD\): AddOptions.fused_activation_function is 77"):
        first_operator(schema, raw.code(schema), **vars(options))


@BOTH
def test_options_of_another_operator_are_refused(schema: Any) -> None:
    options = raw.options(schema, "MulOptions")
    with pytest.raises(ModelError, match=r"operator 0 \(ADD\): expected options of type AddOptions, found MulOptions"):
        first_operator(schema, raw.code(schema), **vars(options))


def test_operators_that_circlet_does_not_know_are_written_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "OPERATORS", {})
    options = raw.options(circle_schema, "InstanceNormOptions", epsilon=0.5, fusedActivationFunction=1)
    tensors = [raw.tensor(circle_schema), raw.tensor(circle_schema)]
    operators = [raw.operator(circle_schema, **vars(options))]
    model = load_model(raw.model(circle_schema, tensors, operators, [raw.code(circle_schema, 0, -2)]))
    op = model.subgraphs[0].operators[0].op
    assert op == Foreign("INSTANCE_NORM", "", "InstanceNormOptions",
                         (("epsilon", 0.5), ("fused_activation_function", 1)))
    again = load_model(dump_model(model, "circle"))
    assert again.subgraphs[0].operators[0].op == op
    with pytest.raises(UnsupportedError, match=r"operator 0 \(INSTANCE_NORM\): the format tflite has no operator"):
        dump_model(model, "tflite")


def test_options_newer_than_circlet_are_not_ignored() -> None:
    options = raw.options(tflite_schema, "FullyConnectedOptions", quantSpec=[1, 2])
    op = first_operator(tflite_schema, raw.code(tflite_schema, 9, 9), **vars(options)).op
    assert op == Foreign("FULLY_CONNECTED", "option quant_spec of FullyConnectedOptions is not known",
                         "FullyConnectedOptions", (("quant_spec", b"\1\2"),))


def test_options_of_an_unknown_type_cannot_be_written() -> None:
    options = raw.options(tflite_schema, "AddOptions")
    options.builtinOptionsType = 200
    tensors = [raw.tensor(tflite_schema), raw.tensor(tflite_schema)]
    content = raw.model(tflite_schema, tensors, [raw.operator(tflite_schema, **vars(options))],
                        [raw.code(tflite_schema)])
    model = load_model(content)
    assert isinstance(model.subgraphs[0].operators[0].op, Foreign)
    with pytest.raises(UnsupportedError, match=r"operator 0 \(ADD\): .* type 200"):
        dump_model(model, "tflite")


@pytest.mark.parametrize(("schema", "number", "dtype"), [
    (tflite_schema, 17, DType.INT4), (tflite_schema, 19, DType.INT2), (tflite_schema, 20, DType.UINT4),
    (tflite_schema, 21, DType.FLOAT8_E4M3FN), (tflite_schema, 22, DType.FLOAT8_E5M2), (circle_schema, -1, DType.UINT4),
    (circle_schema, -2, DType.GGML_Q4_0), (circle_schema, -6, DType.MXFP4), (circle_schema, 18, DType.BFLOAT16),
])
def test_element_types(schema: Any, number: int, dtype: DType) -> None:
    assert first_tensor(raw.model(schema, [raw.tensor(schema, type=number)])).dtype is dtype


@pytest.mark.parametrize(("schema", "number"), [(tflite_schema, 23), (tflite_schema, -1), (circle_schema, -8)])
def test_unknown_element_types_are_refused(schema: Any, number: int) -> None:
    with pytest.raises(ModelError, match=rf"subgraph 0 \('main'\), tensor 0 \('t'\): element type {number} is not kn"):
        first_tensor(raw.model(schema, [raw.tensor(schema, type=number)]))


def test_external_files_and_compression_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"tensor 0 \('w'\): its data is in another file \(external buffer 3\)"):
        first_tensor(raw.model(tflite_schema, [raw.tensor(tflite_schema, "w", externalBuffer=3)]))
    with pytest.raises(UnsupportedError, match=r"tensor 0 \('w'\): its data is compressed"):
        first_tensor(raw.model(circle_schema, [raw.tensor(circle_schema, "w", compressionType=1)]))


@BOTH
def test_blockwise_quantization(schema: Any) -> None:
    details = raw.assign((schema.BlockwiseQuantizationT()), scales=1, zeroPoints=-1, blockSize=32)
    tag = schema.QuantizationDetails.BlockwiseQuantization
    quantization = raw.quantized(schema, detailsType=tag, details=details)
    found = first_tensor(raw.model(schema, [raw.tensor(schema, quantization=quantization)])).quantization
    assert found == Quantization(blockwise=Blockwise(1, -1, 32))


@pytest.mark.parametrize(("name", "fields", "message"), [
    ("MultiAxisQuantization", {}, "quantisation by MultiAxisQuantization is not supported"),
    ("CustomQuantization", {}, "quantisation by CustomQuantization is not supported"),
    ("BlockwiseQuantization", {"blockShape": [1, 2]}, r"its quantisation has blocks of shape \(1, 2\)"),
])
def test_other_details_of_quantization_are_refused(name: str, fields: dict[str, Any], message: str) -> None:
    details = raw.assign(vars(tflite_schema)[f"{name}T"](), **fields)
    quantization = raw.quantized(tflite_schema, details=details,
                                 detailsType=vars(tflite_schema.QuantizationDetails)[name])
    with pytest.raises(UnsupportedError, match=rf"tensor 0 \('t'\): {message}"):
        first_tensor(raw.model(tflite_schema, [raw.tensor(tflite_schema, quantization=quantization)]))


@BOTH
def test_empty_quantization_is_none(schema: Any) -> None:
    quantization = raw.quantized(schema, scale=[], zeroPoint=[])
    assert first_tensor(raw.model(schema, [raw.tensor(schema, quantization=quantization)])).quantization is None


@BOTH
def test_data_outside_of_the_flatbuffer(schema: Any) -> None:
    def content(offset: int) -> bytes:
        return raw.model(schema, [raw.tensor(schema, buffer=1)], buffers=[raw.buffer(schema, offset=offset, size=8)])

    size = len(content(1 << 40))
    data = first_tensor(content(size) + FLOATS).data
    assert data is not None
    assert data.tolist() == [1, 2]
    assert not data.flags.owndata
    unaligned = first_tensor(content(size + 1) + b"\0" + FLOATS).data
    assert unaligned is not None
    assert unaligned.tolist() == [1, 2]
    assert unaligned.flags.aligned
    assert not unaligned.flags.writeable
    with pytest.raises(ModelError, match=r"tensor 0 .*: Buffer.offset names 8 bytes at byte"):
        first_tensor(content(size + 1) + FLOATS)


@BOTH
@pytest.mark.parametrize(("offset", "size"), [(0, 8), (1, 1), (1, 8), (100, 1), (100, 0)])
def test_small_offsets_and_sizes_mean_no_data(schema: Any, offset: int, size: int) -> None:
    found = first_tensor(raw.model(schema, [raw.tensor(schema, buffer=1)],
                                   buffers=[raw.buffer(schema, offset=offset, size=size)]))
    assert found.data is None


@BOTH
def test_custom_options_outside_of_the_flatbuffer(schema: Any) -> None:
    def content(offset: int) -> bytes:
        operators = [raw.operator(schema, largeCustomOptionsOffset=offset, largeCustomOptionsSize=5)]
        return raw.model(schema, [raw.tensor(schema)] * 2, operators, [raw.code(schema, 32, 32, "c")])

    whole = content(len(content(1 << 40))) + b"abcde"
    assert load_model(whole).subgraphs[0].operators[0].custom_options == b"abcde"
    with pytest.raises(ModelError, match=r"operator 0 \(CUSTOM:c\): Operator.large_custom_options_offset names 5 by"):
        load_model(whole[:-1])


@BOTH
@pytest.mark.parametrize(("shape", "type", "data", "message"), [
    ((2,), 0, FLOATS[:7], r"buffer 1: expected 8 bytes of data for shape \(2,\) of float32, found 7"),
    ((3, 3), 17, b"1234", r"expected 5 bytes of data for shape \(3, 3\) of int4, found 4"),
    ((-1,), 0, b"", r"expected dimensions of at least 0, found shape \(-1,\)"),
    ((1 << 30, 1 << 30), 0, b"", "has more elements than any memory holds"),
    ((1 << 30, 1 << 30, 0), 0, b"", "has more elements than any memory holds"),
    ((1,) * 33, 0, b"", "expected at most 32 dimensions, found 33"),
    ((2,), 14, b"12345678", "a constant cannot be of type variant"),
    ((2,), 5, b"12", "expected a number of strings, found 2 bytes"),
    ((2,), 5, ints(1, 12, 12), r"expected 2 strings for shape \(2,\), found 1"),
    ((2,), 5, ints(2, 16, 16), "expected the positions of 2 strings, found 12 bytes"),
    ((2,), 5, ints(2, 16, 15, 16), "string 0 lies at bytes 16 to 15 of 16"),
    ((2,), 5, ints(2, 16, 16, 17), "string 1 lies at bytes 16 to 17 of 16"),
    ((2,), 5, ints(2, 0, 16, 16), "string 0 lies at bytes 0 to 16 of 16, where strings begin at 16"),
    ((1 << 30,), 5, ints(1 << 30, 16), "expected the positions of 1073741824 strings, found 8 bytes"),
])
def test_data_that_does_not_fit_is_refused(schema: Any, shape: tuple[int, ...], type: int, data: bytes,
                                           message: str) -> None:
    content = raw.model(schema, [raw.tensor(schema, "w", shape, type, 1)], buffers=[raw.buffer(schema, data)])
    with pytest.raises(ModelError, match=rf"subgraph 0 \('main'\), tensor 0 \('w'\): .*{message}"):
        load_model(content)


@BOTH
def test_booleans_are_normal(schema: Any) -> None:
    found = first_tensor(raw.model(schema, [raw.tensor(schema, shape=(4,), type=6, buffer=1)],
                                   buffers=[raw.buffer(schema, b"\0\1\2\xff")])).data
    assert found is not None
    assert found.view(np.uint8).tolist() == [0, 1, 1, 1]
    assert not found.flags.writeable


@BOTH
def test_data_in_buffer_0_is_no_data(schema: Any) -> None:
    content = raw.model(schema, [raw.tensor(schema)])
    assert first_tensor(content).data is None


@BOTH
@pytest.mark.parametrize(("fields", "message"), [
    ({"inputs": [2]}, "operator 0 .ADD.: inputs: expected the index of a tensor, below 2, found 2"),
    ({"inputs": [-2]}, "operator 0 .ADD.: inputs: expected the index of a tensor, below 2, found -2"),
    ({"outputs": [-1]}, "operator 0 .ADD.: outputs: expected the index of a tensor, below 2, found -1"),
    ({"intermediates": [7]}, "operator 0 .ADD.: intermediates: expected the index of a tensor, below 2, found 7"),
    ({"opcodeIndex": 1}, "operator 0: expected the index of an operator code, below 1, found 1"),
])
def test_operator_indices_are_checked(schema: Any, fields: dict[str, Any], message: str) -> None:
    content = raw.model(schema, [raw.tensor(schema)] * 2, [raw.assign(raw.operator(schema), **fields)],
                        [raw.code(schema)])
    with pytest.raises(ModelError, match=rf"subgraph 0 \('main'\), {message}"):
        load_model(content)


@BOTH
def test_other_indices_are_checked(schema: Any) -> None:
    one = [raw.tensor(schema)]
    for name in ("inputs", "outputs"):
        for index in (-1, 1):
            indices: dict[str, Any] = {name: [index]}
            with pytest.raises(ModelError, match=rf"subgraph 0 \('main'\), {name}: expected the index of a tensor"):
                load_model(raw.model(schema, one, **indices))
    with pytest.raises(ModelError, match=r"tensor 0 \('t'\): expected the index of a buffer, below 1, found 4"):
        load_model(raw.model(schema, [raw.tensor(schema, buffer=4)]))


def _signature(schema: Any, subgraph: int, *tensors: tuple[str, int]) -> Any:
    maps = [raw.assign(schema.TensorMapT(), name=name, tensorIndex=index) for name, index in tensors]
    return raw.assign(schema.SignatureDefT(), signatureKey="key", subgraphIndex=subgraph, inputs=maps, outputs=[])


@BOTH
@pytest.mark.parametrize(("subgraph", "tensors", "message"), [
    (1, [], "expected the index of a subgraph, below 1, found 1"),
    (0, [("a", 1)], "input 'a': expected the index of a tensor, below 1, found 1"),
    (0, [("a", 0), ("a", 0)], "two inputs are called 'a'"),
])
def test_signatures_are_checked(schema: Any, subgraph: int, tensors: list[tuple[str, int]], message: str) -> None:
    content = raw.model(schema, [raw.tensor(schema)], signatureDefs=[_signature(schema, subgraph, *tensors)])
    with pytest.raises(ModelError, match=rf"signature 0 \('key'\): {message}"):
        load_model(content)


@pytest.mark.parametrize(("schema", "version", "expected"), [(tflite_schema, 2, "3"), (circle_schema, 1, "0 or 3")])
def test_other_versions_of_the_schema_are_refused(schema: Any, version: int, expected: str) -> None:
    with pytest.raises(UnsupportedError, match=f"expected version {expected} of the .* schema, found {version}"):
        load_model(raw.model(schema, version=version))


@BOTH
def test_a_model_has_subgraphs(schema: Any) -> None:
    with pytest.raises(ModelError, match="expected at least one subgraph, found none"):
        load_model(raw.model(schema, subgraphs=[]))


@BOTH
def test_names_are_utf_8(schema: Any) -> None:
    content = raw.model(schema, [raw.tensor(schema, "a-name")]).replace(b"a-name", b"a\xffname")
    with pytest.raises(ModelError, match=r"tensor 0: Tensor.name is not UTF-8"):
        load_model(content)


@BOTH
def test_compressed_dimensions_need_segments(schema: Any) -> None:
    dimension = raw.assign(schema.DimensionMetadataT(), format=1)
    sparsity = raw.assign(schema.SparsityParametersT(), dimMetadata=[dimension])
    with pytest.raises(ModelError, match="dimension 0: a compressed dimension has no array_segments"):
        load_model(raw.model(schema, [raw.tensor(schema, sparsity=sparsity)]))
