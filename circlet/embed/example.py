"""A program in C that runs a compiled model, to begin with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from circlet.backends.native.aot.between import longest
from circlet.embed.compiled import Compiled, Interface, Port
from circlet.embed.header import C_TYPES
from circlet.runtime.ir.types import Array, DType

_SHOWN = 10
"""Elements of an output that the program prints at the most: a choice."""


def example(found: Compiled, inputs: Mapping[str, Array] | None = None) -> str:
    """A program that runs each entry point once and prints the first elements of what it gives.

    Args:
        found: the model.
        inputs: by their names in C; what is not given is zeros.
    """
    given = inputs or {}
    return "\n".join((*_opening(found), *(line for each in found.interfaces for line in _entry(each, given)),
                      *_main(found))) + "\n"


def _opening(found: Compiled) -> Iterator[str]:
    upper = found.name.upper()
    yield f"/* Runs {found.name}. */"
    yield "#include <stdio.h>"
    yield ""
    yield f'#include "{found.name}.h"'
    yield ""
    yield f"#define ALIGNED __attribute__((aligned({upper}_ALIGNMENT)))"
    yield f"static uint8_t state[{upper}_STATE_BYTES + 1] ALIGNED, arena[{upper}_ARENA_BYTES + 1] ALIGNED;"
    yield ""
    yield "/* A counter, where what starts the program has one. */"
    yield "__attribute__((weak)) uint64_t ticks(void);"
    yield ""


def _entry(entry: Interface, given: Mapping[str, Array]) -> Iterator[str]:
    """A function that runs an entry point."""
    for each in entry.inputs:
        yield f"static {_declared(entry, each)}{_values(given.get(each.name))};"
    for each in entry.outputs:
        yield f"static {_declared(entry, each)};"
        if each.opened:
            yield f"static size_t {entry.name}_{each.lengths}[{len(each.opened)}];"
    yield ""
    yield f"static int32_t run_{entry.name}(void) {{"
    yield f"    const {entry.name}_inputs inputs = {{{_members(entry, entry.inputs, _given)}}};"
    yield f"    const {entry.name}_outputs outputs = {{{_members(entry, entry.outputs, _told)}}};"
    yield "    uint64_t begin = ticks ? ticks() : 0;"
    yield f"    int32_t status = {entry.name}_run(&inputs, &outputs, arena, state);"
    yield "    uint64_t end = ticks ? ticks() : 0;"
    yield f'    printf("{entry.name}: status %d", (int)status);'
    yield '    if (ticks) printf(", %lu ticks", (unsigned long)(end - begin));'
    yield '    printf("\\n");'
    for each in entry.outputs:
        yield from _shown_open(entry, each) if each.opened else _shown(entry, each)
    yield "    return status;"
    yield "}"
    yield ""


def _shown(entry: Interface, port: Port) -> Iterator[str]:
    """Prints the first elements of an output."""
    yield f'    printf("{port.name}:");'
    yield (f"    for (int k = 0; k < {min(port.count, _SHOWN)}; k++) "
           f'printf(" {_format(port)}", {_cast(port)}{_array(entry, port)}[k]);')
    yield f'    printf("{" ..." if port.count > _SHOWN else ""}\\n");'


def _shown_open(entry: Interface, port: Port) -> Iterator[str]:
    """The same, and the lengths that the run told, if it is done."""
    lengths = iter(f"{entry.name}_{port.lengths}[{k}]" for k in range(len(port.opened)))
    sizes = [next(lengths) if axis in port.opened else str(size) for axis, size in enumerate(port.shape)]
    yield "    if (!status) {"
    yield f"        size_t count = (size_t){' * '.join(sizes)};"
    of, numbers = ", ".join(["%lu"] * len(sizes)), ", ".join(f"(unsigned long){each}" for each in sizes)
    yield f'        printf("{port.name}[{of}]:", {numbers});'
    yield (f"        for (size_t k = 0; k < count && k < {_SHOWN}; k++) "
           f'printf(" {_format(port)}", {_cast(port)}{_array(entry, port)}[k]);')
    yield f'        printf("%s\\n", count > {_SHOWN} ? " ..." : "");'
    yield "    }"


def _declared(entry: Interface, port: Port) -> str:
    return f"{C_TYPES[port.tensor.dtype]} {_array(entry, port)}[{max(port.count, 1)}] ALIGNED"


def _values(array: Array | None) -> str:
    """What an array begins with; nothing for zeros. Real numbers are written in full."""
    if array is None or not array.size:
        return ""
    flat = array.reshape(-1)
    texts = map(float.hex, flat.astype(float).tolist()) if flat.dtype.kind == "f" else map(str, map(int, flat.tolist()))
    return f" = {{{', '.join(texts)}}}"


def _array(entry: Interface, port: Port) -> str:
    return f"{entry.name}_{port.name}_data"


def _members(entry: Interface, ports: Sequence[Port], lengths: Callable[[Interface, Port], str]) -> str:
    return ", ".join(_array(entry, each) + (f", {lengths(entry, each)}" if each.opened else "")
                     for each in ports) or "0"


def _given(_: Interface, port: Port) -> str:
    """The longest that an input may be."""
    return f"{{{', '.join(str(longest(port.shape)[axis]) for axis in port.opened)}}}"


def _told(entry: Interface, port: Port) -> str:
    return f"{entry.name}_{port.lengths}"


def _format(port: Port) -> str:
    return "%g" if port.tensor.dtype in (DType.FLOAT32, DType.FLOAT64) else "%ld"


def _cast(port: Port) -> str:
    return "" if _format(port) == "%g" else "(long)"


def _main(found: Compiled) -> Iterator[str]:
    yield "int main(void) {"
    yield f"    {found.name}_init(state);"
    if found.code.state.header_bytes:
        yield f"    (({found.name}_limits *)state)->iterations = 1000000;"
    yield f"    return {' || '.join(f'run_{each.name}()' for each in found.interfaces)};"
    yield "}"
