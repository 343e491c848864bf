"""A program in C that runs a compiled model, to begin with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

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
    yield ""
    yield f"static int32_t run_{entry.name}(void) {{"
    yield f"    const {entry.name}_inputs inputs = {{{_members(entry, entry.inputs)}}};"
    yield f"    const {entry.name}_outputs outputs = {{{_members(entry, entry.outputs)}}};"
    yield "    uint64_t begin = ticks ? ticks() : 0;"
    yield f"    int32_t status = {entry.name}_run(&inputs, &outputs, arena, state);"
    yield "    uint64_t end = ticks ? ticks() : 0;"
    yield f'    printf("{entry.name}: status %d", (int)status);'
    yield '    if (ticks) printf(", %lu ticks", (unsigned long)(end - begin));'
    yield '    printf("\\n");'
    for each in entry.outputs:
        yield f'    printf("{each.name}:");'
        yield (f"    for (int k = 0; k < {min(each.count, _SHOWN)}; k++) "
               f'printf(" {_format(each)}", {_cast(each)}{_array(entry, each)}[k]);')
        yield f'    printf("{" ..." if each.count > _SHOWN else ""}\\n");'
    yield "    return status;"
    yield "}"
    yield ""


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


def _members(entry: Interface, ports: Sequence[Port]) -> str:
    return ", ".join(_array(entry, each) for each in ports) or "0"


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
