"""What is kept beside code comes back as it was; anything else is damage, never another error."""

from __future__ import annotations

import pickle
from ast import parse
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from circlet.backends.native.check.watched import Watched
from circlet.backends.native.load.codec import DamageError, UnwritableError, decode, encode
from circlet.backends.native.load.manifest import Constant, Manifest, Stored
from circlet.backends.native.parts import (
    Called,
    Cell,
    Evidence,
    External,
    Held,
    Holder,
    HostCall,
    Marks,
    OpenLengths,
    Quote,
    Request,
    RunNumber,
    Site,
    Staging,
    Tally,
    Told,
    Variable,
)
from circlet.runtime.errors import Place
from circlet.runtime.ir.terms import Assumption, Atom, Computed, Maximum, Quotient, Symbol, Terms, constant, sum_of
from circlet.runtime.ir.types import DType

number = st.integers(-(1 << 63), (1 << 63) - 1)
shape = st.lists(number, max_size=3).map(tuple)
text = st.text(st.characters(exclude_categories=()), max_size=4)
dtype = st.sampled_from(DType)
place = st.builds(Place, number, text, number, text, st.none() | text)
buffer = st.builds(External, number, shape, dtype) | (
    st.builds(Staging, number, shape, dtype) | st.builds(Told, number, dtype, st.booleans(), shape))


def sums(atoms: st.SearchStrategy[Atom]) -> st.SearchStrategy[Terms]:
    return st.lists(st.tuples(number, st.lists(atoms, max_size=2).map(tuple)), max_size=2).map(tuple)


terms: st.SearchStrategy[Terms] = st.recursive(
    sums(st.builds(Symbol, number)), lambda inner: sums(
        st.builds(Quotient, inner, inner) | st.builds(Computed, number, inner) | st.builds(Maximum, inner, inner)),
    max_leaves=4)
LENGTHS: Terms = ((2, (Symbol(0), Quotient(((1, (Symbol(1),)),), ((3, ()),)))), (64, ()))


def some(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(strategy, max_size=3).map(tuple)


manifest = st.builds(
    Manifest,
    sites=some(st.builds(Site, place, text, number)),
    host_calls=some(st.builds(HostCall, number, number, some(st.none() | buffer), some(buffer), number, number)),
    origins=some(st.one_of(
        st.builds(OpenLengths, number), st.builds(Held, number), st.builds(Variable, number, number),
        st.builds(Cell, number, shape, dtype, number),
        st.builds(Marks, number, shape, dtype), st.builds(RunNumber),
        st.builds(Holder, number), st.builds(Called, number), st.builds(Evidence), st.builds(Tally, number),
        st.builds(Request, number),
        st.builds(Constant, number, number), st.builds(Stored, number, number))),
    arena_tops=some(terms), scratch_bytes=terms, shares_loops=st.booleans(), outline=some(text),
    assumptions=some(st.builds(Assumption, terms, st.sampled_from(("==", "<")), st.booleans())),
    quotes=some(st.builds(Quote, text, terms)),
    watched=st.none() | st.builds(Watched, some(place), some(text), shape), pieces=shape)

EXAMPLE = Manifest(
    (Site(Place(0, "main", 1, "ADD"), "index {}", 1),), (HostCall(0, 1, (None, External(0, (2,), DType.INT8)), ()),),
    (Held(3), OpenLengths(2), Evidence()), (LENGTHS,), assumptions=(Assumption(LENGTHS, "<", True),), outline=("a",),
    watched=Watched((Place(0, "main", 1, "ADD", "x"),), ("load",), (4,)))


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(manifest)
def test_a_manifest_comes_back(given: Manifest) -> None:
    assert decode(Manifest, encode(given)) == given


def test_what_lengths_share_is_written_once() -> None:
    """Each is made of two that are the one before."""
    terms: Terms = LENGTHS
    for number in range(12):
        terms = ((1, (Maximum(terms, sum_of(terms, constant(number))),)),)
    content = encode(Manifest(arena_tops=(terms, terms), assumptions=(Assumption(terms, "<", True),)))
    assert len(content) < 12 * 8 * 20
    found = decode(Manifest, content)
    assert encode(found) == content
    (one, other) = found.arena_tops
    assert one[0][1][0] is other[0][1][0]


class Calls:
    """What pickles call when they are read."""

    def __init__(self, called: Callable[..., object], *given: object) -> None:
        self.called, self.given = called, given

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.called, self.given


@pytest.mark.parametrize("content", [
    b"", b"\xff", bytes(8), encode(EXAMPLE)[:-1], encode(EXAMPLE).replace(b"int8", b"int5"), encode(Evidence()),
    encode(EXAMPLE).replace(b"Site", b"Sita"), encode(EXAMPLE).replace(b"circlet.", b"circled."),
    pickle.dumps(EXAMPLE.sites), pickle.dumps(Calls(parse, "1")), pickle.dumps(Calls(print, "called")),
    pickle.dumps(Calls(encode, 1)),
], ids=range(12))
def test_anything_else_is_damage(content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DamageError):
        decode(Manifest, content)
    assert not capsys.readouterr().out


@pytest.mark.parametrize("value", [np.int64(1), 1.5j, object()])
def test_only_records_are_written(value: object) -> None:
    with pytest.raises(UnwritableError, match="is no record"):
        encode(Manifest(outline=(value,)))  # type: ignore[arg-type]
