"""Numpy rules of look-ups for sparse ids, and of hashes."""

from __future__ import annotations

import numpy as np

from circlet.backends.arithmetic.fingerprint import fingerprint
from circlet.backends.cpu.rule import Node, rule
from circlet.backends.cpu.steps import chain, promised
from circlet.backends.refusal import all_of, only
from circlet.runtime.errors import ExecutionError
from circlet.runtime.exec.step import Step
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.lookup import Combiner, EmbeddingLookupSparse, LshProjection, Projection

_LOOKED_UP = all_of(only({DType.INT32}), only({DType.INT32}, 1), only({DType.INT32}, 2), only({DType.FLOAT32}, 3),
                    only({DType.FLOAT32}, 4))
_HASHED = frozenset({DType.FLOAT32, DType.FLOAT64, DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.UINT8,
                     DType.BOOL})


@rule(EmbeddingLookupSparse, accepts=_LOOKED_UP)
def embedding_lookup_sparse(node: Node[EmbeddingLookupSparse]) -> Step:
    ids, places, shape, weights, table = node.inputs
    combiner, columns = node.op.combiner, int(np.prod(table.shape[1:]))
    rows, out = table.reshape(len(table), columns), node.out.reshape(-1, columns) if columns else None

    def look_up() -> None:
        wrong = ids[(ids < 0) | (ids >= len(rows))]
        if wrong.size:
            raise ExecutionError(f"index {wrong[0]} is outside a table of {len(rows)} rows")
        outside = ((places[:, :-1] < 0) | (places[:, :-1] >= shape[:-1])).any(axis=1)
        if outside.any():
            raise ExecutionError(f"place {places[outside][0].tolist()} is outside ids of shape {tuple(shape.tolist())}")
        if out is None:
            return
        targets = _numbers(places[:, :-1], shape[:-1])
        out[...] = 0
        for first, last in _runs(targets):
            total = out[targets[first]]
            for k in range(first, last):
                total += rows[ids[k]] * weights[k]
            _divide(total, weights[first:last], combiner)

    return chain(promised(node), look_up)


def _numbers(places: Array, shape: Array) -> list[int]:
    """Places in a shape by number, in row-major order."""
    found = np.zeros(len(places), np.int64)
    for axis, size in enumerate(shape.tolist()):
        found = found * size + places[:, axis]
    numbers: list[int] = found.tolist()
    return numbers


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Where numbers that are equal begin and end."""
    ends = [k for k in range(1, len(numbers)) if numbers[k] != numbers[k - 1]]
    return list(zip([0, *ends], [*ends, len(numbers)], strict=True)) if numbers else []


def _divide(total: Array, weights: Array, combiner: Combiner) -> None:
    """Divides a sum by what its combiner says of the weights, which are added up one by one."""
    if combiner is not Combiner.SUM:
        squared = weights * weights if combiner is Combiner.SQRTN else weights
        by = np.add.accumulate(squared)[-1]
        np.divide(total, np.sqrt(by) if combiner is Combiner.SQRTN else by, total)


@rule(LshProjection, accepts=all_of(only({DType.FLOAT32}), only(_HASHED, 1)))
def lsh_projection(node: Node[LshProjection]) -> Step:
    seeds, items, weights, out = node.input(0), node.input(1), node.optional(2), node.out
    hashes, count = seeds.shape
    first = np.arange(hashes, dtype=np.int32) << np.int32(count)

    def project() -> None:
        given = [each.tobytes() for each in items]
        bits = np.array([[_is_positive(seed.tobytes(), given, weights) for seed in row] for row in seeds], np.int32)
        if node.op.type is Projection.DENSE:
            out[...] = bits.reshape(-1)
            return
        out[...] = first
        for k in range(count):
            out[...] += bits[:, k] << np.int32(count - 1 - k)

    return project


def _is_positive(seed: bytes, items: list[bytes], weights: Array | None) -> bool:
    """Whether the sum of what items and a seed make together is above 0, of float64s that are added up one by one."""
    score = 0.0
    for k, each in enumerate(items):
        found = fingerprint(seed + each)
        signed = float(found - (1 << 64) if found >> 63 else found)
        score += signed if weights is None else float(weights[k]) * signed
    return score > 0
