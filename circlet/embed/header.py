"""The C header of a compiled model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from circlet.backends.native.abi import DONE, FIRST_SITE, STOPPED
from circlet.backends.native.aot.between import Between, longest
from circlet.backends.native.aot.limits import EXHAUSTED, MISFIT
from circlet.embed.compiled import Compiled, Interface, Port
from circlet.runtime.ir.types import DType, Quantization

C_TYPES = {DType.BOOL: "uint8_t", DType.FLOAT16: "uint16_t", DType.FLOAT32: "float", DType.FLOAT64: "double",
           **{each: f"{each.value}_t" for each in (DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.UINT8,
                                                   DType.UINT16, DType.UINT32, DType.UINT64)}}
"""The types of elements in C; of float16 the bits, of bool 0 or 1."""


def header(found: Compiled) -> str:
    """The header of a compiled model.

    Args:
        found: the model.
    """
    return "\n".join((*_opening(found), *_memory(found), *(line for each in found.interfaces for line in _entry(each)),
                      *_statuses(found), *_functions(found), *_closing(found))) + "\n"


def _opening(found: Compiled) -> Iterator[str]:
    guard = f"{found.name.upper()}_H"
    yield f"/* {found.name}, compiled for {found.processor.name}: {found.processor.summary}. */"
    yield f"#ifndef {guard}"
    yield f"#define {guard}"
    yield ""
    yield "#include <stddef.h>"
    yield "#include <stdint.h>"
    yield ""
    yield "#ifdef __cplusplus"
    yield 'extern "C" {'
    yield "#endif"
    yield ""


def _memory(found: Compiled) -> Iterator[str]:
    upper = found.name.upper()
    yield "/* Memory that the caller gives, of this alignment. The arena is free between runs; the state is kept, and"
    yield "   belongs to one thread at a time. Where there are no bytes the address may be NULL. */"
    yield f"#define {upper}_ALIGNMENT {found.alignment}"
    yield f"#define {upper}_ARENA_BYTES {found.code.arena_bytes}"
    yield f"#define {upper}_STATE_BYTES {found.code.state.nbytes}"
    yield ""


def _entry(entry: Interface) -> Iterator[str]:
    """The structs of an entry point, and what its tensors are."""
    for kind, ports, qualifier in (("inputs", entry.inputs, "const "), ("outputs", entry.outputs, "")):
        yield f"/* Where the {kind} of {entry.name} lie, aligned to their elements. */"
        yield "typedef struct {"
        for each in ports:
            yield f"    {qualifier}{C_TYPES[each.tensor.dtype]} *{each.name};{_described(each)}"
            if each.opened:
                yield f"    {_lengths(each, kind == 'inputs')}"
        if not ports:
            yield "    const void *none;"
        yield f"}} {entry.name}_{kind};"
        yield ""
    for kind, ports in (("input", entry.inputs), ("output", entry.outputs)):
        for each in ports:
            yield from _macros(f"{entry.name}_{kind}_{each.name}".upper(), each)
    yield ""


def _described(port: Port) -> str:
    """`/* int8[1, 1, 40] */`."""
    return f" /* {port.tensor.dtype.value}[{', '.join(map(str, port.shape))}] */"


def _lengths(port: Port, is_input: bool) -> str:
    """`size_t x_lengths[1]; /* of axis 1 */`."""
    count, axes = len(port.opened), ", ".join(map(str, port.opened))
    of = f"of {'axes' if count > 1 else 'axis'} {axes}"
    if is_input:
        return f"size_t {port.lengths}[{count}]; /* {of} */"
    return f"size_t *{port.lengths}; /* [{count}], {of}, which a run writes; or NULL */"


def _macros(name: str, port: Port) -> Iterator[str]:
    most = "MAX_" if port.opened else ""
    yield f"#define {name}_{most}COUNT {port.count}"
    yield f"#define {name}_{most}BYTES {port.nbytes}"
    yield f"#define {name}_RANK {len(port.shape)}"
    if port.shape:
        sizes = ["-1" if isinstance(each, Between) else str(each) for each in port.shape]
        yield f"#define {name}_SHAPE {{ {', '.join(sizes)} }}"
    if port.opened:
        yield f"#define {name}_MAX_SHAPE {{ {', '.join(map(str, longest(port.shape)))} }}"
    if port.tensor.quantization is not None:
        yield from _quantization(name, port.tensor.quantization)


def _quantization(name: str, found: Quantization) -> Iterator[str]:
    """Real numbers are (element - zero point) x scale."""
    scales, zeros = found.scales, found.zero_points or (0,)
    if len(scales) == 1:
        yield f"#define {name}_SCALE {_real(scales[0])}"
        yield f"#define {name}_ZERO_POINT {int(zeros[0])}"


def _real(value: float) -> str:
    return f"{value!r}f"


def _statuses(found: Compiled) -> Iterator[str]:
    upper = found.name.upper()
    yield "/* What runs return; from the last on the report says which operator failed, and why. After a run that"
    yield "   failed the state is as it was before. */"
    yield f"#define {upper}_OK {DONE}"
    if found.code.state.header_bytes:
        yield f"#define {upper}_STOPPED {STOPPED}"
        yield f"#define {upper}_EXHAUSTED {EXHAUSTED}"
    if found.takes_lengths:
        yield f"#define {upper}_MISFIT {MISFIT}"
    yield f"#define {upper}_FAILED {FIRST_SITE}"
    yield ""


def _functions(found: Compiled) -> Iterator[str]:
    name = found.name
    yield "/* Makes a state what it is before any run; init is the first to be called, reset may be called later. */"
    for starter in ("init", "reset"):
        if found.starters:
            yield f"void {name}_{starter}(void *state);"
        else:
            yield f"static inline void {name}_{starter}(void *state) {{ (void)state; }}"
    yield ""
    for each in found.interfaces:
        yield f"int32_t {each.name}_run(const {each.name}_inputs *inputs, const {each.name}_outputs *outputs,"
        yield f"{' ' * len(f'int32_t {each.name}_run(')}void *arena, void *state);"
        yield ""
    if found.code.state.header_bytes:
        yield "/* The words at the beginning of the state. Set the first, from anywhere, to end a run before its next"
        yield "   iteration; it stays set. The second is how many iterations of all its loops a run may make: 2^32 - 1"
        yield "   after init. */"
        yield "typedef struct {"
        yield "    volatile uint32_t stop;"
        yield "    uint32_t iterations;"
        yield f"}} {name}_limits;"
        yield ""


def _closing(found: Compiled) -> Sequence[str]:
    return "#ifdef __cplusplus", "}", "#endif", "", "#endif"
