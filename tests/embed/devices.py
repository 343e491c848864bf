"""Compiled models on other processors: C programs under emulators, WebAssembly under node."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from circlet.embed.compiled import Compiled, Interface, Port
from circlet.embed.files import files
from circlet.embed.header import C_TYPES
from circlet.embed.names import identifier
from tests.embed.library import view
from tests.models.expectations import Expectation

Array = npt.NDArray[Any]
Outputs = Mapping[str, Array]
HERE = Path(__file__).parent
PICOLIBC = "/usr/lib/picolibc/riscv64-unknown-elf"
"""A C library for bare metal, as Debian has it."""
STARTUP = HERE.parents[1] / "examples" / "embed" / "cortex-m"
_PATIENCE = 300
"""Seconds after which an emulated program counts as one that hangs."""


@dataclass(frozen=True)
class Device:
    """Where programs run.

    Attributes:
        target: the processor, by its name in circlet.
        needs: the programs, and folders, that must be installed.
        run: builds a program in a folder of a compiled model and calls, and gives what it writes.
        flash, memory: bytes that there are for code and constants, and for all else.
    """

    target: str
    needs: Sequence[str]
    run: Callable[[Compiled, Path], str]
    flash: int = 1 << 30
    memory: int = 1 << 30

    @property
    def missing(self) -> list[str]:
        """What is not installed."""
        return [each for each in self.needs if shutil.which(each) is None and not Path(each).is_dir()]

    def has_room(self, found: Compiled, calls: Sequence[Expectation]) -> bool:
        """Whether a model, what it is given and what it gives have room."""
        given = sum(value.nbytes for call in calls for value in call.inputs.values())
        made = sum(each.nbytes for _ in calls for entry in found.interfaces for each in entry.outputs)
        contents = found.contents
        return (contents.code_bytes + contents.data_bytes + given <= self.flash
                and found.code.arena_bytes + found.code.state.nbytes + made <= self.memory)


def _linux(compiler: str, emulator: Sequence[str]) -> Callable[[Compiled, Path], str]:
    def run(found: Compiled, folder: Path) -> str:
        _output([compiler, "-static", "-O0", *_defines(found), "program.c", f"{found.name}.o", "-o", "program"], folder)
        return _output([*emulator, "./program"], folder)

    return run


def _cortex(cpu: str, board: str) -> Callable[[Compiled, Path], str]:
    def run(found: Compiled, folder: Path) -> str:
        flags = {"cortex-m0": ["-mfloat-abi=soft"], "cortex-m4": ["-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"],
                 "cortex-m7": ["-mfloat-abi=hard", "-mfpu=fpv5-d16"]}[cpu]
        _output(["arm-none-eabi-gcc", f"-mcpu={cpu}", "-mthumb", *flags, "-O0", *_defines(found), "program.c",
                 str(STARTUP / "startup.c"), f"{found.name}.o", "-o", "program", "--specs=rdimon.specs",
                 "-T", str(STARTUP / f"{board}.ld"), "-nostartfiles", "-Wl,--no-warn-rwx-segments"], folder)
        return _output(["qemu-system-arm", "-M", board, "-kernel", "program", "-semihosting", "-display", "none",
                        "-monitor", "none", "-serial", "none"], folder)

    return run


def _riscv32(found: Compiled, folder: Path) -> str:
    """A program on bare metal, which qemu runs as one of Linux all the same: it has nothing but semihosting, whose
    console is that of errors."""
    libraries = ["-L", f"{PICOLIBC}/lib/release/rv32im/ilp32", "-lc", "-lsemihost", "-lc", "-lgcc"]
    _output(["riscv64-unknown-elf-gcc", "-march=rv32imc", "-mabi=ilp32", "-O0", "-nostdlib", *_defines(found),
             "-isystem", f"{PICOLIBC}/include", "program.c", str(HERE / "riscv32.c"), f"{found.name}.o", *libraries,
             "-o", "program"], folder)
    return _output(["sh", "-c", "qemu-riscv32 ./program 2>&1"], folder)


def _defines(found: Compiled) -> list[str]:
    upper = found.name.upper()
    return [f'-DMODEL_HEADER="{found.name}.h"', f"-DARENA_BYTES={upper}_ARENA_BYTES",
            f"-DSTATE_BYTES={upper}_STATE_BYTES", f"-DINIT={found.name}_init"]


def _output(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.returncode}\n{done.stdout[-500:]}\n{done.stderr[-2000:]}"
    return done.stdout


def _node(_: Compiled, folder: Path) -> str:
    return _output(["node", "program.mjs"], folder)


DEVICES = (
    Device("aarch64", ("aarch64-linux-gnu-gcc", "qemu-aarch64"), _linux("aarch64-linux-gnu-gcc", ["qemu-aarch64"])),
    Device("aarch64-dotprod", ("aarch64-linux-gnu-gcc", "qemu-aarch64"),
           _linux("aarch64-linux-gnu-gcc", ["qemu-aarch64", "-cpu", "max"])),
    Device("riscv64", ("riscv64-linux-gnu-gcc", "qemu-riscv64"), _linux("riscv64-linux-gnu-gcc", ["qemu-riscv64"])),
    Device("riscv32imc", ("riscv64-unknown-elf-gcc", PICOLIBC, "qemu-riscv32"), _riscv32),
    Device("cortex-m0", ("arm-none-eabi-gcc", "qemu-system-arm"), _cortex("cortex-m0", "microbit"), 200 << 10, 8 << 10),
    Device("cortex-m4", ("arm-none-eabi-gcc", "qemu-system-arm"), _cortex("cortex-m4", "mps2-an386")),
    Device("cortex-m7", ("arm-none-eabi-gcc", "qemu-system-arm"), _cortex("cortex-m7", "mps2-an500")),
    Device("wasm32", ("node",), _node),
    Device("wasm32-simd", ("node",), _node),
)
"""The devices that models are run on."""
VARIED = ("aarch64-dotprod", "cortex-m0", "riscv32imc", "wasm32-simd")
"""Those of them that differ the most: with vectors or without, with instructions for real numbers or without."""


def run(device: Device, found: Compiled, calls: Sequence[Expectation], folder: Path) -> Iterator[tuple[int, Outputs]]:
    """The status and the outputs of each call, by their names in C."""
    for name, content in files(found).items():
        (folder / name).write_bytes(content)
    made = [_call(found, each) for each in calls]
    if found.is_wasm:
        (folder / "calls.json").write_text(json.dumps(_wasm_calls(found, made)))
        shutil.copy(HERE / "program.mjs", folder)
    else:
        (folder / "calls.h").write_text("\n".join(_c_calls(made)))
        shutil.copy(HERE / "program.c", folder)
    lines = iter(device.run(found, folder).splitlines())
    for each in made:
        status = int(next(lines).removeprefix("status "))
        yield status, {port.name: _array(port, lines, status) for port in each.entry.outputs}
    rest = list(lines)
    assert not rest, f"the program wrote beyond its memory: {rest}"


def _array(port: Port, lines: Iterator[str], status: int) -> Array:
    content = np.frombuffer(bytes.fromhex(next(lines)), np.uint8)
    lengths = list(map(int, next(lines).split())) if port.opened else []
    return content if status else view(port, content, lengths)


@dataclass(frozen=True)
class _Call:
    """An entry point and its inputs in order."""

    entry: Interface
    inputs: Sequence[Array]


def _call(found: Compiled, call: Expectation) -> _Call:
    entry = next(each for each in found.interfaces if call.signature in ("", each.key))
    given = {identifier(name): value for name, value in call.inputs.items()}
    return _Call(entry, [np.ascontiguousarray(given[each.name]) for each in entry.inputs])


def _c_calls(calls: Sequence[_Call]) -> Iterator[str]:
    """A header with the inputs of all calls, and `CALLS`, which makes them."""
    for number, call in enumerate(calls):
        for each, array in zip(call.entry.inputs, call.inputs, strict=True):
            data = ",".join(map(str, array.reshape(-1).view(np.uint8))) if array.size else "0"
            yield f"static const unsigned char {each.name}_{number}[] ALIGNED = {{{data}}};"
        for each in call.entry.outputs:
            yield f"static unsigned char to_{each.name}_{number}[{max(each.nbytes, 1)}] ALIGNED;"
            if each.opened:
                yield f"static size_t lengths_{each.name}_{number}[{len(each.opened)}];"
    yield "#define CALLS \\"
    for number, call in enumerate(calls):
        name, outputs = call.entry.name, call.entry.outputs
        given = ", ".join(f"(const {C_TYPES[each.tensor.dtype]} *){each.name}_{number}{_lengths(each, array)}"
                          for each, array in zip(call.entry.inputs, call.inputs, strict=True))
        taken = ", ".join(f"({C_TYPES[each.tensor.dtype]} *)to_{each.name}_{number}"
                          + (f", lengths_{each.name}_{number}" if each.opened else "") for each in outputs)
        yield (f"    {{ {name}_inputs in = {{{given or 0}}}; {name}_outputs out = {{{taken or 0}}}; "
               f"run({name}_run(&in, &out, arena, state)); }} \\")
        for each in outputs:
            yield f"    write_bytes(to_{each.name}_{number}, {each.nbytes}); \\"
            if each.opened:
                yield f"    write_numbers(lengths_{each.name}_{number}, {len(each.opened)}); \\"
    yield ""


def _lengths(port: Port, array: Array) -> str:
    """What follows the address of an input: its open lengths."""
    return f", {{{', '.join(str(array.shape[axis]) for axis in port.opened)}}}" if port.opened else ""


def _wasm_calls(found: Compiled, calls: Sequence[_Call]) -> dict[str, object]:
    return {
        "module": f"{found.name}.wasm", "name": found.name, "arena": found.code.arena_bytes,
        "state": found.code.state.nbytes, "alignment": found.alignment,
        "calls": [{"entry": f"{call.entry.name}_run", "inputs": [
            {"data": array.tobytes().hex(), "lengths": [array.shape[axis] for axis in each.opened]}
            for each, array in zip(call.entry.inputs, call.inputs, strict=True)],
                   "outputs": [{"bytes": each.nbytes, "lengths": len(each.opened)} for each in call.entry.outputs]}
                  for call in calls],
    }
