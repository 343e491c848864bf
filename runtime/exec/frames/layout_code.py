"""Writes layouts for any lengths as functions of Python's, and compiles them."""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType

from circlet.runtime.exec.frames.layout import Border, Layout
from circlet.runtime.ir.bounds import least
from circlet.runtime.ir.display.formulas import Formulas
from circlet.runtime.ir.terms import LEAST, Assumption, Terms, fixed, has_computed, is_fixed


def layout_code(layout: Layout, needs: Iterable[Terms] = (), assumptions: Iterable[Assumption] = ()) -> CodeType:
    """A layout, and what a step needs, as an `OpenLayout` takes them.

    Args:
        layout: where inputs and results lie.
        needs: the numbers that the step needs.
        assumptions: that the step makes, beside those of the layout.
    """
    parts = _data(layout), _fit(layout, needs, assumptions), _show(layout), _tell(layout)
    return compile("\n".join(line for part in parts for line in part), "<layout>", "exec")


def _data(layout: Layout) -> list[str]:
    sizes = {each.tensor: each.shape for each in layout.borders}
    is_open = any(not is_fixed(size) for tensor in layout.inputs for size in sizes[tensor])
    known = [f"({each.tensor}, {_dtype(each)}, {tuple(map(fixed, each.shape))})" for each in _known(layout)]
    late = tuple(each.tensor for found in _shown(layout, True) for each in found)
    return [f"is_open, buffers = {is_open}, {len(layout.buffers)}",
            f"inputs, outputs, room = {layout.inputs}, {layout.outputs}, {layout.room}",
            *(f"{_dtype(each)} = dtype({each.dtype.value!r})" for each in
              {each.dtype: each for each in layout.borders}.values()),
            f"late, known = {late}, {_tuple(known)}",
            f"alone = {_alone(layout)}"]


def _dtype(border: Border) -> str:
    """The name of its numpy type."""
    return f"of_{border.dtype.name}"


def _places(layout: Layout) -> dict[int | None, int]:
    """The place of each buffer among all."""
    return {each.number: place for place, each in enumerate(layout.buffers)}


def _alone(layout: Layout) -> tuple[tuple[int, int], ...]:
    """The results that are no inputs and that nothing else lies with, as an `OpenLayout` has them."""
    lying = [each.buffer for each in layout.borders]
    places, outputs = _places(layout), layout.outputs
    return tuple((outputs.index(each.tensor), places[each.buffer]) for each in layout.borders
                 if each.buffer is not None and each.tensor not in layout.inputs
                 and lying.count(each.buffer) == outputs.count(each.tensor) == 1)


def _known(layout: Layout) -> list[Border]:
    """The tensors that are the same for all lengths."""
    return [each for each in layout.borders if each.buffer is None and not each.numbers]


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
                faults.append(f"n{opened} < {min(LEAST, least(size))}")
                opened += 1
        axes.append(_tuple(names))
    return axes, faults, opened


def _show(layout: Layout) -> list[str]:
    placed, worked = _shown(layout, False)
    late, other = _shown(layout, True)
    known, places = _known(layout), _places(layout)
    lines = ["def show(shapes, elements, memory, known):",
             f" {_tuple(f's{each.tensor}' for each in placed)} = shapes",
             f" {_tuple(f's{each.tensor}' for each in worked)} = elements",
             *(f" t{each.tensor} = array(s{each.tensor}, {_dtype(each)}, memory[{places[each.buffer]}])"
               for each in placed),
             *(f" t{each.tensor} = value(s{each.tensor}, {_dtype(each)}, {tuple(map(fixed, each.shape))})"
               for each in worked),
             *(f" t{each.tensor} = known[{each.tensor}]" for each in known)]
    own = [f"{each.tensor}: t{each.tensor}, " for each in (*placed, *worked)]
    held = [f"{each.tensor}: memory[{places[each.buffer]}], " for each in late]
    hidden = {each.tensor for each in (*late, *other)}
    return [*lines, f" return {{{'**known, ' if known else ''}{''.join((*own, *held))}}}, "
            f"{_tuple(f't{each}' for each in layout.inputs)}, "
            f"{_tuple(f't{each}' for each in layout.outputs if each not in hidden)}"]


def _tell(layout: Layout) -> list[str]:
    write, (placed, worked) = Formulas(), _shown(layout, True)
    shapes, elements = _texts(layout, True, write)
    places = _places(layout)
    made = {each.tensor: f"array({shape}, {_dtype(each)}, memory[{places[each.buffer]}])"
            for each, shape in zip(placed, shapes, strict=True)}
    made.update({each.tensor: f"value({numbers}, {_dtype(each)}, {tuple(map(fixed, each.shape))})"
                 for each, numbers in zip(worked, elements, strict=True)})
    return ["def tell(lengths, arrays, memory):",
            *(f" n{number} = lengths[{number}]" for number in sorted(write.lengths)),
            *(f" {each}" for each in write.lines),
            f" return {_tuple(made.get(each, f'arrays[{each}]') for each in layout.outputs)}"]


def _texts(layout: Layout, is_late: bool, write: Formulas) -> tuple[list[str], list[str]]:
    """The shapes of tensors in memory, and the elements of those that lie nowhere."""
    placed, worked = _shown(layout, is_late)
    return ([_tuple(map(write, each.shape)) for each in placed], [_tuple(map(write, each.numbers)) for each in worked])


def _tuple(parts: Iterable[str]) -> str:
    return f"({''.join(f'{each}, ' for each in parts)})"
