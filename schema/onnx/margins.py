"""What is put around an image where windows slide over it, computed from lengths that the model leaves open."""

from __future__ import annotations

from circlet.runtime.ops import elementwise
from circlet.schema.importer import compose as c
from circlet.schema.importer.graph import Graph, Value
from circlet.schema.onnx.windows import Windows


def margins(graph: Graph, x: Value, found: Windows) -> list[tuple[Value, Value, Value]]:
    """How many elements come before a tensor with channels last, how many behind it, and how many more behind these
    where windows are rounded up: of each spatial axis, (1,) each."""
    if not found.is_open:
        return [(c.integers([before]), c.integers([after]), c.integers([more]))
                for before, after, more in zip(found.before, found.after, found.more, strict=True)]
    find = _same if found.automatic else _rounded_up
    return [find(graph, c.dimension(graph, x, 1 + axis), found, axis) for axis in range(found.rank)]


def _divided(graph: Graph, x: Value, divisor: int) -> Value:
    """Rounded down."""
    return graph.apply(elementwise.FloorDiv(), x, c.integers([divisor]))


def _added(graph: Graph, x: Value, amount: int) -> Value:
    return c.add(graph, x, c.integers([amount]))


def _missing(graph: Graph, last: Value, x: Value, step: int, reach: int) -> Value:
    """How far a window of `reach` elements gets behind x of them, beginning `last` steps behind the first."""
    found = _added(graph, c.subtract(graph, c.multiply(graph, last, c.integers([step])), x), reach)
    return graph.apply(elementwise.Maximum(), found, c.integers([0]))


def _same(graph: Graph, length: Value, found: Windows, axis: int) -> tuple[Value, Value, Value]:
    """With which there are ceil(length / stride) windows, the odd element behind or, where it is SAME_LOWER, before."""
    step = found.stride[axis]
    total = _missing(graph, _divided(graph, _added(graph, length, -1), step), length, step, found.span[axis])
    half = _divided(graph, total, 2)
    rest = c.subtract(graph, total, half)
    return (*((half, rest) if found.automatic == "SAME_UPPER" else (rest, half)), c.integers([0]))


def _rounded_up(graph: Graph, length: Value, found: Windows, axis: int) -> tuple[Value, Value, Value]:
    """For as many windows as begin before the margin behind, the last of which may reach beyond it."""
    step, before, after = found.stride[axis], found.before[axis], found.after[axis]
    reach = found.span[axis] - before - after
    last = graph.apply(elementwise.Minimum(), _divided(graph, _added(graph, length, step - 1 - reach), step),
                       _divided(graph, _added(graph, length, before - 1), step))
    return c.integers([before]), c.integers([after]), _missing(graph, last, length, step, reach)
