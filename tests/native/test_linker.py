"""Object files that LLVM links, where the system loads no shared objects that are made here."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

FAR = """
import ctypes
import numpy as np
import llvmlite.binding  # what it maps is mapped
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.types import DType
from circlet.runtime.ops.unary import Cos, Exp, Log, Sin, Tanh
import circlet

READ_WRITE, PRIVATE_ANONYMOUS_NORESERVE, PAGE = 3, 0x4022, 4096
pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
mmap = ctypes.CFUNCTYPE(pointer, pointer, size, number, number, number, ctypes.c_long)(("mmap", ctypes.CDLL(None)))
munmap = ctypes.CFUNCTYPE(number, pointer, size)(("munmap", ctypes.CDLL(None)))


def mapped(bytes):
    return mmap(None, bytes, READ_WRITE, PRIVATE_ANONYMOUS_NORESERVE, -1, 0)


pages = [mapped(PAGE) for _ in range(400)]
wall = mapped(3 << 30)
for power in range(30, 12, -1):
    while (begin := mapped(1 << power)) > wall:
        pass
    munmap(begin, 1 << power)
for each in pages[::2]:
    munmap(each, PAGE)
b = ModelBuilder()
main = b.subgraph("main")
value = main.input("x", DType.FLOAT32, (100,))
for each in (Sin(), Cos(), Exp(), Log(), Tanh(), Sin(), Exp()):  # more code than a page takes
    value = main.apply(each, value)
main.output(value)
x = np.linspace(0.5, 2, 100, dtype=np.float32)
found, wanted = (circlet.Session(b.build(), backend=each).invoke(0, [x])[0] for each in ("native", "cpu"))
print(float(np.abs(found - wanted).max()) < 1e-5)
"""
"""Runs a model where single pages are free, and 3 GB further more of them: sections of an object file must not be laid
into both, as code reaches its numbers within 2 GB alone."""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux's numbers of mmap")
def test_sections_lie_near_each_other() -> None:
    environment = {**os.environ, "CIRCLET_CACHE_DIR": "", "CIRCLET_WITHOUT": "shared-objects"}
    done = subprocess.run([sys.executable, "-c", FAR], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
