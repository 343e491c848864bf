"""What is kept beside code comes back as it was; anything else is damage, never another error."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circlet.backends.native.check.bounds import Watched
from circlet.backends.native.load.manifest import Constant, DamageError, Manifest, Stored, decode, encode
from circlet.backends.native.program import (
    Called,
    Cell,
    Evidence,
    External,
    Held,
    Holder,
    HostCall,
    Site,
    Staging,
    Tally,
    Variable,
)
from circlet.runtime.errors import Place
from circlet.runtime.ir.types import DType

number = st.integers(-(1 << 63), (1 << 63) - 1)
shape = st.lists(number, max_size=3).map(tuple)
text = st.text(st.characters(exclude_categories=()), max_size=4)
dtype = st.sampled_from(DType)
place = st.builds(Place, number, text, number, text, st.none() | text)
buffer = st.builds(External, number, shape, dtype) | st.builds(Staging, number, shape, dtype)


def some(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(strategy, max_size=3).map(tuple)


manifest = st.builds(
    Manifest,
    sites=some(st.builds(Site, place, text, number)),
    host_calls=some(st.builds(HostCall, number, number, some(st.none() | buffer), some(buffer))),
    origins=some(st.one_of(
        st.builds(Held, number), st.builds(Variable, number, number), st.builds(Cell, number, shape, dtype),
        st.builds(Holder, number), st.builds(Called, number), st.builds(Evidence), st.builds(Tally, number),
        st.builds(Constant, number, number), st.builds(Stored, number, number))),
    arena_bytes=number, scratch_bytes=number, shares_loops=st.booleans(), outline=some(text),
    watched=st.none() | st.builds(Watched, some(place), some(text), shape), pieces=shape)

EXAMPLE = Manifest(
    (Site(Place(0, "main", 1, "ADD"), "index {}", 1),), (HostCall(0, 1, (None, External(0, (2,), DType.INT8)), ()),),
    (Held(3), Evidence()), 64, outline=("a",), watched=Watched((Place(0, "main", 1, "ADD", "x"),), ("load",), (4,)))


@settings(max_examples=30)
@given(manifest)
def test_a_manifest_comes_back(given: Manifest) -> None:
    assert decode(encode(given)) == given


junk: st.SearchStrategy[object] = st.one_of(
    st.none(), st.booleans(), number, st.floats(), text, st.just([]), st.just({}), st.just(["Held", [1]]))


@given(st.data())
def test_a_changed_one_is_damage_or_another_manifest(data: st.DataObject) -> None:
    plain = json.loads(encode(EXAMPLE))
    inside = plain
    while True:
        index = data.draw(st.integers(0, len(inside) - 1))
        if not isinstance(inside[index], list) or not inside[index] or data.draw(st.booleans()):
            break
        inside = inside[index]
    inside[index:index + data.draw(st.integers(0, 1))] = data.draw(st.lists(junk, max_size=2))
    try:
        found = decode(json.dumps(plain).encode())
    except DamageError:
        return
    assert decode(encode(found)) == found


@pytest.mark.parametrize("content", [
    b"", b"\xff", b"{", b"null", b"[]", b"[1]", b'["Held",1]', b'["Manifest"]', b"[" * 100_000, b"9" * 10_000,
    pickle.dumps(Manifest(), protocol=5), encode(Manifest()).replace(b"false", b"0"),
    encode(Manifest()).replace(b"0", b"0.0", 1), encode(Manifest()).replace(b"0", b"1" + b"0" * 19, 1),
    encode(Manifest()).replace(b"0", b"true", 1), encode(EXAMPLE).replace(b'"int8"', b'"int5"'),
    encode(EXAMPLE).replace(b'"Held"', b'"Place"'),
], ids=range(17))
def test_anything_else_is_damage(content: bytes) -> None:
    with pytest.raises(DamageError):
        decode(content)


@given(st.binary())
def test_bytes_are_damage(content: bytes) -> None:
    with pytest.raises(DamageError):
        decode(content)
