"""Writes layouts for any lengths as functions of Python's, and compiles them."""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType

from circlet.runtime.exec.frames.layout import Border, Layout
from circlet.runtime.ir.formulas import Formulas
from circlet.runtime.ir.terms import LEAST, Assumption, Terms, fixed, has_computed, is_fixed


def layout_code(layout: Layout, needs: Iterable[Terms] = (), assumptions: Iterable[Assumption] = ()) -> CodeType:
    """A layout, and what a step needs, as an `OpenLayout` takes them.

    Args:
        layout: where inputs and results lie.
        needs: the numbers that the step needs.
        assumptions: that the step makes, beside those of the layout.
    """
    parts = _data(layout), _fit(layout, needs, assumptions), _told(layout)
    return compile("\n".join(line for part in parts for line in part), "<layout>", "exec")


def _data(layout: Layout) -> list[str]:
    sizes = {each.tensor: each.shape for each in layout.borders}
    is_open = any(not is_fixed(size) for tensor in layout.inputs for size in sizes[tensor])
    known = [each for each in layout.borders if each.buffer is None and not each.numbers]
    return [f"is_open, buffers = {is_open}, {len(layout.buffers)}",
            f"inputs, outputs, room = {layout.inputs}, {layout.outputs}, {layout.room}",
            f"early, late = {_described(layout, False)}, {_described(layout, True)}",
            f"known = {_tuple(map(_valued, known))}"]


def _described(layout: Layout, is_late: bool) -> str:
    places = {each.number: place for place, each in enumerate(layout.buffers)}
    placed, worked = _shown(layout, is_late)
    found = [f"({each.tensor}, dtype({each.dtype.value!r}), {places[each.buffer]})" for each in placed
             if each.buffer is not None]
    return _tuple((_tuple(found), _tuple(map(_valued, worked))))


def _valued(border: Border) -> str:
    return f"({border.tensor}, dtype({border.dtype.value!r}), {tuple(map(fixed, border.shape))})"


def _shown(layout: Layout, is_late: bool) -> tuple[list[Border], list[Border]]:
    """The tensors with memory, and those of integers that lie nowhere: those of which only the run tells the lengths,
    or all others."""
    found = [each for each in layout.borders if any(map(has_computed, each.numbers or each.shape)) is is_late]
    return [each for each in found if each.buffer is not None], [each for each in found if each.numbers]


def _fit(layout: Layout, needs: Iterable[Terms], assumptions: Iterable[Assumption]) -> list[str]:
    write, (axes, faults, opened) = Formulas(), _axes(layout)
    wrong = " or ".join([write.fault(each) for each in dict.fromkeys((*layout.assumptions, *assumptions))])
    late = [f"n{opened + number}" for number in range(len(layout.room))]
    lengths = [*(f"n{number}" for number in range(opened)), *late]
    found = (lengths, [write(each.size) for each in layout.buffers], *_texts(layout, False, write),
             [write(each) for each in needs])
    return ["def fit(shapes, late, is_asked):",
            " try:",
            f"  {_tuple(axes)} = shapes",
            f"  {_tuple(late)} = late",
            " except ValueError:",
            "  return None",
            f" if {' or '.join(faults)}:",
            "  return None",
            *(f" {each}" for each in write.lines),
            f" if is_asked and ({wrong or False}):",
            "  return None",
            f" return {_tuple(map(_tuple, found))}"]


def _axes(layout: Layout) -> tuple[list[str], list[str], int]:
    """Names for the axes of each input, what must not be so of them, and how many are open."""
    shapes = {each.tensor: each.shape for each in layout.borders}
    axes, faults, opened = [], ["False"], 0
    for position, tensor in enumerate(layout.inputs):
        names = []
        for axis, size in enumerate(shapes[tensor]):
            if is_fixed(size):
                names.append(f"s{position}_{axis}")
                faults.append(f"{names[-1]} != {fixed(size)}")
            else:
                names.append(f"n{opened}")
                faults.append(f"n{opened} < {LEAST}")
                opened += 1
        axes.append(_tuple(names))
    return axes, faults, opened


def _told(layout: Layout) -> list[str]:
    write = Formulas()
    found = _tuple(map(_tuple, _texts(layout, True, write)))
    return ["def told(lengths):",
            *(f" n{number} = lengths[{number}]" for number in sorted(write.lengths)),
            *(f" {each}" for each in write.lines),
            f" return {found}"]


def _texts(layout: Layout, is_late: bool, write: Formulas) -> tuple[list[str], list[str]]:
    """The shapes of tensors in memory, and the elements of those that lie nowhere."""
    placed, worked = _shown(layout, is_late)
    return ([_tuple(map(write, each.shape)) for each in placed], [_tuple(map(write, each.numbers)) for each in worked])


def _tuple(parts: Iterable[str]) -> str:
    return f"({''.join(f'{each}, ' for each in parts)})"
