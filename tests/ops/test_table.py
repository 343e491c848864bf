"""Hash tables, and look-up in a pair of tensors."""

from __future__ import annotations

import numpy as np
import pytest

from circlet.runtime.errors import ExecutionError
from circlet.runtime.ir.builder import ModelBuilder, SubgraphBuilder, Value
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.controlflow import CallOnce
from circlet.runtime.ops.table import Hashtable, HashtableFind, HashtableImport, HashtableLookup, HashtableSize
from circlet.session import Session
from tests.ops.cases import Case, T
from tests.ops.run_cases import case_test

ROWS = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
WORDS = np.array([b"one", b"two\0", b"uno"], object)

LOOKUP = [
    Case("rows", HashtableLookup(), [[3, 2, 5, 1], [1, 3, 5], ROWS],
         [np.array([[3, 4], [0, 0], [5, 6], [1, 2]], np.float32), np.array([1, 0, 1, 1], np.uint8)]),
    Case("any-order", HashtableLookup(), [[3, 5], [5, 3, 1], ROWS], [ROWS[1::-1], np.array([1, 1], np.uint8)]),
    Case("strings", HashtableLookup(), [[7, 2], [2], T([b"x\0"], DType.STRING)],
         [T([b"", b"x\0"], DType.STRING), np.array([0, 1], np.uint8)]),
    Case("no-keys", HashtableLookup(), [[7], np.zeros(0, np.int32), ROWS[:0]],
         [np.zeros((1, 2), np.float32), np.array([0], np.uint8)]),
    Case("rows-and-keys", HashtableLookup(), [[3], [1, 3], ROWS], [ROWS[:1], np.array([0], np.uint8)],
         error=r"a row for each key, found shapes \(1,\), \(2,\) and \(3, 2\)"),
]

REFUSED = [
    Case("types", HashtableFind(), [T([0], DType.RESOURCE), np.array([1], np.int32), np.array([1], np.int64)],
         [np.array([0], np.int64)], error="keys of int32 and values of int64"),
    Case("default", HashtableFind(), [T([0], DType.RESOURCE), np.array([1], np.int64), WORDS[:2]], [WORDS[:1]],
         error=r"the default: expected exactly one element, found shape \(2,\)"),
    Case("missing-value", HashtableImport(), [T([0], DType.RESOURCE), np.array([1], np.int64), WORDS[:2]], [],
         error=r"keys of shape \(1,\) and values of shape \(2,\)"),
]

HANDLES = [
    Case("first", Hashtable(3, DType.STRING, DType.INT64), [], [T([0], DType.RESOURCE)]),
    Case("empty", HashtableSize(), [T([0], DType.RESOURCE)], [np.array([0], np.int64)]),
    Case("no-table", HashtableFind(), [T([0], DType.RESOURCE), np.array([1], np.int64), WORDS[:1]], [WORDS[:1]],
         error="searched before it is filled"),
    Case("handle", HashtableSize(), [[0]], [np.array([0], np.int64)],
         error=r"element type int32 of input 0 \(supported: resource\)"),
]

test_lookup = case_test(LOOKUP)
test_handles = case_test(HANDLES)
test_refusals = case_test(REFUSED)


def _table(graph: SubgraphBuilder, number: int = 1) -> Value:
    return graph.apply(Hashtable(number, DType.INT64, DType.STRING))


def _fill(graph: SubgraphBuilder, keys: Array, values: Array) -> None:
    graph.op(HashtableImport(), _table(graph), graph.constant(keys), graph.constant(values))


def _find(builder: ModelBuilder, graph: SubgraphBuilder, number: int = 1) -> Session:
    """A session whose graph ends with a search for strings by int64 keys of shape (2, 1)."""
    table, keys = _table(graph, number), graph.input("keys", DType.INT64, (2, 1))
    graph.output(graph.apply(HashtableSize(), table),
                 graph.apply(HashtableFind(), table, keys, graph.constant(np.array([b"none"], object))))
    return Session(builder.build())


def test_a_table_is_filled_once_and_searched_elsewhere() -> None:
    builder = ModelBuilder()
    main, init = builder.subgraph(), builder.subgraph("init")
    _fill(init, np.array([1, 2, 1], np.int64), WORDS)
    _fill(init, np.array([1], np.int64), WORDS[2:])
    main.op(CallOnce(init.index))
    session = _find(builder, main)
    for _ in range(2):
        size, found = session.run([np.array([[2], [3]], np.int64)]).values()
        assert size.tolist() == [2]
        assert found.tolist() == [[b"two\0"], [b"none"]]
    session.reset_state()
    size, found = session.run([np.array([[1], [1]], np.int64)]).values()
    assert found.tolist() == [[b"one"], [b"one"]]


def test_strings_as_keys() -> None:
    builder = ModelBuilder()
    main = builder.subgraph()
    table, keys = _table(main), main.input("keys", DType.STRING, (2,))
    main.op(HashtableImport(), table, main.constant(WORDS), main.constant(np.array([1, 2, 3], np.int64)))
    main.output(main.apply(HashtableFind(), table, keys, main.constant(np.int64(-1))))
    (found,) = Session(builder.build()).run([np.array([b"uno", b"two"], object)]).values()
    assert found.dtype == np.int64
    assert found.tolist() == [3, -1]


def test_a_table_must_be_filled() -> None:
    builder = ModelBuilder()
    main = builder.subgraph()
    _fill(main, np.array([1, 2, 1], np.int64), WORDS)
    with pytest.raises(ExecutionError, match="the hash table is searched before it is filled"):
        _find(builder, main, number=2).run([np.array([[2], [3]], np.int64)])


def test_a_table_holds_one_pair_of_types() -> None:
    builder = ModelBuilder()
    main = builder.subgraph()
    main.op(HashtableImport(), _table(main), main.constant(WORDS), main.constant(np.array([1, 2, 3], np.int64)))
    with pytest.raises(ExecutionError, match="the hash table does not map int to bytes"):
        _find(builder, main).run([np.array([[2], [3]], np.int64)])


def test_the_size_of_an_empty_table() -> None:
    builder = ModelBuilder()
    main = builder.subgraph()
    main.output(main.apply(HashtableSize(), _table(main)))
    (size,) = Session(builder.build()).run([]).values()
    assert size.tolist() == [0]
