"""Files that are damaged, cut short or lie about themselves are refused, whatever is wrong with them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import circlet
from circlet.compiled import CompiledModel, load
from circlet.embed.container import container
from circlet.runtime.errors import CircletError
from circlet.schema.container import HEADER, MAGIC, VERSION
from tests.compiled.files import COLLATZ, changed, described, here, with_table
from tests.embed.test_interface import sums

pytestmark = here


@cache
def content() -> bytes:
    """A file with two entry points, variables and a place that can fail."""
    return container(sums(), ("host",), name="sums")


def loaded(data: bytes) -> CompiledModel | circlet.Session:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.circlet"
        path.write_bytes(data)
        return load(path, fallback=False)


@settings(deadline=None)
@given(st.data())
def test_a_changed_byte_is_found(data: st.DataObject) -> None:
    found = described(content())
    parts = [(0, HEADER.size + HEADER.unpack_from(content())[3]), *(
        (each.offset, each.size) for each in (found.model, found.variants[0].part))]
    begin, size = data.draw(st.sampled_from(parts))
    place = begin + data.draw(st.integers(0, size - 1))
    changes = bytearray(content())
    changes[place] ^= data.draw(st.integers(1, 255))
    if begin == found.model.offset:
        with pytest.raises(circlet.ModelError, match="the model is not what it was"):
            circlet.load(bytes(changes))
        assert loaded(bytes(changes))
    elif 12 <= place < 16:  # what the header leaves free
        assert loaded(bytes(changes))
    else:
        with pytest.raises((circlet.ModelError, circlet.UnsupportedError)):
            loaded(bytes(changes))


@settings(deadline=None)
@given(st.integers(0, 1 << 20))
def test_a_file_that_is_cut_short_is_refused(size: int) -> None:
    with pytest.raises(circlet.ModelError):
        loaded(content()[:size % len(content())])


def test_versions_that_are_not_known_are_refused() -> None:
    size, digest = HEADER.unpack_from(content())[3:]
    other = HEADER.pack(MAGIC, VERSION + 1, 0, size, digest) + content()[HEADER.size:]
    for read in (loaded, circlet.load):
        with pytest.raises(circlet.UnsupportedError, match=rf"expected version {VERSION} .* found {VERSION + 1}"):
            read(other)


def test_files_of_other_kinds_are_refused() -> None:
    with pytest.raises(circlet.ModelError, match=r"expected a \.circlet file, found one of 3960 bytes that"):
        loaded(COLLATZ.read_bytes())


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"name": 1}', b"{}"])
def test_tables_that_are_none(text: bytes) -> None:
    with pytest.raises(circlet.ModelError):
        loaded(with_table(content() + bytes(len(text)), text))


def places(value: Any, here: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Where values lie in a table."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(each for key, found in inner for each in places(found, (*here, key)))][bool(not here):]


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.integers(-2, 64) | st.floats() | st.text(max_size=8),
                    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=4), each, max_size=3))


@settings(deadline=None)
@given(st.data())
def test_whatever_a_table_says_is_taken_or_refused(data: st.DataObject) -> None:
    def change(table: dict[str, Any]) -> None:
        *way, last = data.draw(st.sampled_from(places(table)))
        inner: Any = table
        for each in way:
            inner = inner[each]
        inner[last] = data.draw(JSON)

    try:
        model = loaded(changed(content(), change))
        for key in ("add", "get"):
            runner = model.signature(key)
            runner([np.zeros(each.shape or (), each.dtype) for each in runner.inputs.values()])
    except CircletError:
        pass


@pytest.mark.parametrize(("way", "value", "wanted"), [
    (("variants", 0, "offset"), 1, "at a multiple of 4096"),
    (("variants", 0, "offset"), 1 << 40, "within the"),
    (("variants", 0, "bytes"), 1 << 40, "within the"),
    (("variants", 0, "bytes"), 100, "the code is not what it was"),
    (("variants", 0, "bytes"), -1, "expected 'bytes' from 0"),
    (("variants", 0, "words"), 4, "no state has .* bytes with 4 of words"),
    (("variants", 0, "alignment"), 3, "aligned to 3"),
    (("variants", 0, "alignment"), True, "expected 'alignment' of type int, found bool"),
    (("variants", 0, "init"), "nothing", "the code has no function 'nothing'"),
    (("variants", 0, "reset"), None, "expected 'reset' of type str, found NoneType"),
    (("variants", 0, "functions"), [], "expected 2 functions, found 0"),
    (("variants", 0, "functions", 0, "writes"), [[0, 1 << 30]], "to write to the .* bytes of the state alone"),
    (("variants", 0, "functions", 0, "writes"), [[1]], "expected offsets and bytes"),
    (("functions", 0, "inputs", 0), 99, "expected numbers in 'inputs'"),
    (("functions", 0, "tensors", 0, "dtype"), "string", "a type that compiled code computes with, found 'string'"),
    (("functions", 0, "tensors", 0, "shape"), [1 << 40, 1 << 40], "no array has shape"),
    (("entries", 0, "inputs"), [], "expected names of the inputs and outputs of function 0"),
    (("model", "offset"), 4, "at a multiple of 4096"),
])
def test_lies_are_named(way: tuple[str | int, ...], value: object, wanted: str) -> None:
    def change(table: Any) -> None:
        inner = table
        for each in way[:-1]:
            inner = inner[each]
        inner[way[-1]] = value

    with pytest.raises(circlet.ModelError, match=wanted):
        loaded(changed(content(), change, is_honest=way[-1] == "init"))


@pytest.mark.parametrize("field", ["arena", "state", "alignment"])
def test_sizes_that_do_not_belong_to_the_code(field: str) -> None:
    with pytest.raises(circlet.ModelError, match="the code is not what it was"):
        loaded(changed(content(), lambda table: table["variants"][0].update({field: 32})))


def test_the_table_says_what_it_was_made_with() -> None:
    size = HEADER.unpack_from(content())[3]
    table = json.loads(content()[HEADER.size:HEADER.size + size])
    assert table["versions"].keys() == {"circlet", "llvmlite"}
    assert table["options"] == {"optimize": "speed", "limits": True, "signature": None, "shapes": {},
                                "capacity": None}
