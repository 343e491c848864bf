"""Files that are cut short or changed give a model or a circlet error, soon, and never anything else."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from dataclasses import replace

import flatbuffers
import numpy as np
import pytest
import tflite
from hypothesis import given, settings
from hypothesis import strategies as st

from circlet.runtime.errors import CircletError, ModelError
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import DType
from circlet.schema.files import dump_model, load_model
from tests.schema import samples

SECONDS = 30.0


def everything() -> Model:
    """A small model that uses much of the schema."""
    parts = [samples.branches(), samples.convolution(), samples.sparse(), samples.strings(), samples.variable()]
    graphs = tuple(graph for part in parts for graph in part.subgraphs)
    return replace(parts[0], subgraphs=graphs, metadata={"a": b"bc"}, description="everything")


CONTENTS = {format: dump_model(everything(), format, external_bytes)
            for format, external_bytes in (("tflite", None), ("circle", 16))}
CASES = pytest.mark.parametrize("format", CONTENTS)


def load(content: bytes) -> Model | None:
    """Loads, touches and writes what can be; None where the file is refused."""
    begin = time.perf_counter()
    try:
        model = load_model(content)
        for subgraph in model.subgraphs:
            for tensor in subgraph.tensors:
                if tensor.data is not None:
                    tensor.data.tobytes()
        dump_model(model, model.format)
    except CircletError:
        return None
    finally:
        assert time.perf_counter() - begin < SECONDS
    return model


@CASES
def test_the_model_itself_loads(format: str) -> None:
    assert load(CONTENTS[format]) is not None


@CASES
def test_every_truncation(format: str) -> None:
    content = CONTENTS[format]
    for size in range(len(content)):
        load(content[:size])


def _mutations(content: bytes) -> Iterator[bytes]:
    for position, byte in enumerate(content):
        for value in (byte ^ 1, (byte + 8) & 0xFF, ~byte & 0xFF):
            yield content[:position] + bytes([value]) + content[position + 1:]


@CASES
@pytest.mark.slow
def test_every_byte_changed(format: str) -> None:
    outcomes = [load(each) is None for each in _mutations(CONTENTS[format])]
    assert any(outcomes)
    assert not all(outcomes)


@CASES
@given(data=st.data())
@settings(deadline=None, max_examples=200)
def test_several_words_changed(format: str, data: st.DataObject) -> None:
    content = bytearray(CONTENTS[format])
    changes = st.tuples(st.integers(8, len(content) - 4), st.sampled_from((0, 1, 4, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF))
                        | st.integers(0, len(content)))
    for position, word in data.draw(st.lists(changes, min_size=1, max_size=5)):
        struct.pack_into("<I", content, position, word)
    load(bytes(content))


@given(st.binary(max_size=200))
def test_any_content(content: bytes) -> None:
    for identifier in (b"TFL3", b"CIR0"):
        load(content[:4].ljust(4, b"\0") + identifier + content[4:])


def _nest(levels: int) -> bytes:
    """A model whose subgraphs are all one, whose tensors are all one, of `levels` each."""
    builder = flatbuffers.Builder()
    name = builder.CreateString("n" * levels)
    tflite.TensorStart(builder)
    tflite.TensorAddName(builder, name)
    tensor = tflite.TensorEnd(builder)
    tflite.SubGraphStartTensorsVector(builder, levels)
    for _ in range(levels):
        builder.PrependUOffsetTRelative(tensor)
    tensors = builder.EndVector()
    tflite.SubGraphStart(builder)
    tflite.SubGraphAddTensors(builder, tensors)
    subgraph = tflite.SubGraphEnd(builder)
    tflite.ModelStartSubgraphsVector(builder, levels)
    for _ in range(levels):
        builder.PrependUOffsetTRelative(subgraph)
    subgraphs = builder.EndVector()
    tflite.ModelStart(builder)
    tflite.ModelAddVersion(builder, 3)
    tflite.ModelAddSubgraphs(builder, subgraphs)
    builder.Finish(tflite.ModelEnd(builder), b"TFL3")
    return bytes(builder.Output())


def test_work_is_bounded_by_the_size_of_the_file() -> None:
    content = _nest(3000)
    begin = time.perf_counter()
    with pytest.raises(ModelError, match="referred to over and over"):
        load_model(content)
    assert time.perf_counter() - begin < SECONDS
    assert load_model(_nest(3))


def test_a_long_shape_is_refused_soon() -> None:
    model = samples.with_constant(DType.FLOAT32, (1 << 20,) * 100_000, samples.frozen(np.zeros(1, np.float32)))
    tensor = replace(model.subgraphs[0].tensors[0], data=None)
    content = dump_model(replace(model, subgraphs=(replace(model.subgraphs[0], tensors=(tensor,)),)), "tflite")
    begin = time.perf_counter()
    with pytest.raises(ModelError, match="expected at most 32 dimensions, found 100000"):
        load_model(content)
    assert time.perf_counter() - begin < SECONDS
