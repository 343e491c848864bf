"""Control flow traced from Python functions.

A function runs once, on tensors; what it records belongs to the branch or body. It may use tensors from around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar, cast

from circlet.network.conditional import Conditional
from circlet.network.graph import Graph
from circlet.network.loop import Loop, TripLimit
from circlet.network.shapes import admits, union
from circlet.network.tensor import Like, Tensor
from circlet.runtime.errors import ModelError
from circlet.runtime.ir.types import Shape

T = TypeVar("T")


class _Widened(Exception):
    """The body gave shapes that the carried values do not have."""

    def __init__(self, shapes: Sequence[Shape | None]) -> None:
        self.shapes = shapes


def trace_cond(graph: Graph, strict: bool, predicate: Like, then_fn: Callable[..., T], else_fn: Callable[..., T],
               operands: Sequence[object], name: str) -> T:
    """A conditional whose branches are what two functions record; see `Network.cond`."""
    with graph.trial():
        conditional = Conditional(graph, predicate, name, strict, traced=True)
        with graph.inside(conditional.then):
            then = then_fn(*operands)
            a = list(_leaves(then, f"{conditional.name}, then_fn"))
        with graph.inside(conditional.otherwise):
            otherwise = else_fn(*operands)
            b = list(_leaves(otherwise, f"{conditional.name}, else_fn"))
        if _outline(then) != _outline(otherwise):
            raise ModelError(f"{conditional.name}: expected branches that return values of one structure, found "
                             f"{_outline(then)} and {_outline(otherwise)}")
        results = [conditional.output(x, y) for x, y in zip(a, b, strict=True)]
        conditional.check()
        return cast(T, _rebuilt(then, iter(results)))


def trace_while(graph: Graph, strict: bool, cond_fn: Callable[..., Like], body_fn: Callable[..., T], init: object,
                name: str) -> T:
    """A loop that repeats what a function records; see `Network.while_loop`."""
    first = [graph.tensor(each) for each in _leaves(init, "while_loop, init")]
    if not first:
        raise ModelError("while_loop, init: expected at least one value, found none")
    shapes: Sequence[Shape | None] = [each.shape for each in first]
    while True:
        try:
            with graph.trial():
                return _trace_loop(Loop(graph, name, strict, traced=True), graph, cond_fn, body_fn, init, first, shapes)
        except _Widened as found:
            if strict:
                raise ModelError("while_loop: expected carried values that keep their shapes, found "
                                 f"{list(shapes)} and then {list(found.shapes)}") from None
            shapes = found.shapes


def _trace_loop(loop: Loop, graph: Graph, cond_fn: Callable[..., Like], body_fn: Callable[..., T], init: object,
                first: Sequence[Tensor], shapes: Sequence[Shape | None]) -> T:
    with graph.inside(loop.body):
        carried = [loop.add_recurrence(value, shape) for value, shape in zip(first, shapes, strict=True)]
        arguments = _rebuilt(init, iter(carried))
        arguments = arguments if isinstance(arguments, (tuple, list)) else (arguments,)
        loop.trip_limit(cond_fn(*arguments), TripLimit.WHILE)
        result = body_fn(*arguments)
        leaves = _leaves(result, f"{loop.name}, body_fn")
        if _outline(result) != _outline(init):
            raise ModelError(f"{loop.name}: expected a body that returns values of the structure of init, "
                             f"{_outline(init)}, found {_outline(result)}")
        following = [graph.tensor(value, each.dtype) for value, each in zip(leaves, carried, strict=True)]
        widened = [shape if admits(shape, value.shape) else union(shape, value.shape)
                   for shape, value in zip(shapes, following, strict=True)]
        if widened != list(shapes):
            raise _Widened(widened)
        for each, value in zip(carried, following, strict=True):
            loop.set_next(each, value)
    return cast(T, _rebuilt(result, iter([loop.output(each) for each in carried])))


def _leaves(tree: object, where: str) -> Iterator[Like]:
    """The values in nested tuples, lists and dicts."""
    if isinstance(tree, (tuple, list)):
        for each in tree:
            yield from _leaves(each, where)
    elif isinstance(tree, Mapping):
        for key in tree:
            yield from _leaves(tree[key], where)
    elif tree is None:
        raise ModelError(f"{where}: expected tensors, found None")
    else:
        yield cast(Like, tree)


def _outline(tree: object) -> str:
    """The structure of a tree, as messages show it; `*` is a value."""
    if isinstance(tree, (tuple, list)):
        return f"({', '.join(map(_outline, tree))}{',' * (len(tree) == 1)})"
    if isinstance(tree, Mapping):
        return f"{{{', '.join(f'{key!r}: {_outline(each)}' for key, each in tree.items())}}}"
    return "*"


def _rebuilt(tree: object, values: Iterator[Tensor]) -> object:
    """The tree with its values replaced, in order."""
    if isinstance(tree, (tuple, list)):
        parts = [_rebuilt(each, values) for each in tree]
        if isinstance(tree, list):
            return parts
        return tuple(parts)
    if isinstance(tree, Mapping):
        return {key: _rebuilt(each, values) for key, each in tree.items()}
    return next(values)
