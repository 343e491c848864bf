"""Functions without arguments, which call others with addresses."""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.backends.native.load import invocation
from circlet.backends.native.load.library import Thunk, thunk, thunk_code
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.elementwise import Add

ADDRESSES = (0x0123456789ABCDEF, 0x7FFF_FFFF_FFF8, 16)
FUNCTION = 0x5555_0000_1000
ASSEMBLY = {
    "x86_64": "movabs ${}, %rdi; movabs ${}, %rsi; movabs ${}, %rdx; movabs ${}, %rax; jmp *%rax",
    "aarch64": "ldr x0, 1f; ldr x1, 2f; ldr x2, 3f; ldr x3, 4f; br x3; nop; "
               "1: .xword {}; 2: .xword {}; 3: .xword {}; 4: .xword {}",
}
needs_thunks = pytest.mark.skipif(sys.platform != "linux" or os.uname().machine not in ASSEMBLY,
                                  reason="no machine code is known for this processor")


@pytest.mark.parametrize("machine", ASSEMBLY)
def test_the_code_is_what_an_assembler_makes(machine: str, tmp_path: Path) -> None:
    assembler = shutil.which(f"{machine}-linux-gnu-as")
    if assembler is None:
        pytest.skip(f"there is no assembler for {machine}")
    source, made = tmp_path / "thunk.s", tmp_path / "thunk.o"
    source.write_text(ASSEMBLY[machine].format(*ADDRESSES, FUNCTION).replace("; ", "\n") + "\n.byte 1, 2, 3, 4, 5\n")
    subprocess.run([assembler, source, "-o", made], check=True)
    content = thunk_code(machine, FUNCTION, ADDRESSES)
    assert content is not None
    assert content + bytes((1, 2, 3, 4, 5)) in made.read_bytes()


def test_other_processors_have_none() -> None:
    assert thunk_code("riscv64", FUNCTION, ADDRESSES) is None


@needs_thunks
def test_a_thunk_passes_its_addresses() -> None:
    taken: list[tuple[int, ...]] = []
    kind = ctypes.PYFUNCTYPE(ctypes.c_int32, *[ctypes.c_size_t] * 3)

    def take(*addresses: int) -> int:
        taken.append(addresses)
        return 17

    function = kind(take)
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    found = thunk(address, ADDRESSES)
    assert found is not None
    assert ctypes.PYFUNCTYPE(ctypes.c_int32)(found.address)() == 17
    assert taken == [ADDRESSES]


@needs_thunks
def test_memory_is_executable_alone_and_used_again() -> None:
    content = thunk_code(os.uname().machine, FUNCTION, ADDRESSES)
    assert content is not None
    made = Thunk(content)
    assert _rights(made.address) == "r-xp"
    address = made.address
    other = Thunk(content)
    del made
    gc.collect()
    assert other.address != address
    assert address in {each.address for each in [Thunk(content) for _ in range(200)]}


@pytest.mark.parametrize("has_thunks", [True, False])
def test_sessions_run_with_and_without(has_thunks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Thunk | None] = []

    def counted(function: int, addresses: tuple[int, ...]) -> Thunk | None:
        made.append(thunk(function, addresses) if has_thunks else None)
        return made[-1]

    monkeypatch.setattr(invocation, "thunk", counted)
    builder = ModelBuilder()
    main = builder.subgraph("main")
    x = main.input("x", DType.FLOAT32, (4,))
    main.output(*main.op(Add(), x, x))
    session = circlet.Session(builder.build(), backend="native")
    for value in (1.0, 2.5):
        (found,) = session.invoke(0, [np.full(4, value, np.float32)])
        assert found.tolist() == [2 * value] * 4
    assert len(made) == 1


def _rights(address: int) -> str:
    """Of the memory at an address, as Linux tells them."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(each, 16) for each in line.split()[0].split("-"))
        if begin <= address < end:
            return line.split()[1]
    return ""
