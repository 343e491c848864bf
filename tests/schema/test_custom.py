"""Maps of numbers by name."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from circlet.runtime.errors import ModelError
from circlet.runtime.ops.conv import BiasedTransposeConv
from circlet.schema.custom import Number, custom_op, flexbuffer, numbers

MADE = (b"max\x00scale\x00regular\x00far\x00name\x00\x01x\x00half\x00"
        b"\x06\x12\x07&\x11\x1e%\x00\x00\x08\x00\x00\x00\x01\x00\x00\x00\x06\x00\x00\x00\x90\xee\xfe\xff\x00\x00\x00?\n\x00\x00\x00"
        b"(\x00\x00\x00\x01\x00\x00\x00\x9a\x99\x19?\x06\x0e\x06\x14j\x0e\x1e&\x01")
"""What the library of FlatBuffers makes."""

integers = st.integers(-(2**63), 2**63 - 1)
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)


@given(st.dictionaries(names, st.one_of(integers, st.booleans(), st.floats(allow_nan=False))))
def test_round_trip(values: dict[str, Number]) -> None:
    found = numbers(flexbuffer(values))
    assert found == values
    assert {name: type(each) for name, each in found.items()} == {name: type(each) for name, each in values.items()}


def test_what_others_made() -> None:
    """Numbers are as wide as the widest needs; a text is left out."""
    assert numbers(MADE) == {"far": -70000, "half": 0.5, "max": 10, "regular": True, "scale": 0.6000000238418579}


@given(st.binary(max_size=60))
@example(b"")
@example(b"\x24\x01")
def test_damage(data: bytes) -> None:
    with suppress(ModelError):
        numbers(data)


@given(st.integers(0, len(MADE) - 1), st.integers(0, 255))
def test_a_byte_that_is_damaged(place: int, byte: int) -> None:
    with suppress(ModelError):
        numbers(MADE[:place] + bytes([byte]) + MADE[place + 1:])


@pytest.mark.parametrize("data", ["", "0100000002000000", "000000000200000002000000", "03000000" + 8 * "00",
                                  "010000000200000002000000" + "01000000"])
def test_a_structure_that_is_none(data: str) -> None:
    with pytest.raises(ModelError, match="Convolution2DTransposeBias"):
        custom_op(BiasedTransposeConv, bytes.fromhex(data))


def test_no_map() -> None:
    with pytest.raises(ModelError, match="the root has type 1"):
        numbers(b"\x05\x04\x01")
