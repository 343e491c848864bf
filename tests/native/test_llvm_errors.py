"""What LLVM has made of a module that it refuses, or was interrupted at, ends in an order that it survives."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import gc
from circlet.backends.native.load import llvm
from circlet.backends.native.lower.passes import Passes
from circlet.backends.native.lower.pieces import Piece

def interrupt(*_):
    raise KeyboardInterrupt

TEXTS = {{"refused": "define i32 @f() {{\\n%a = add i32 %b, 1\\n%b = add i32 1, 1\\nret i32 %a\\n}}",
         "interrupted": "define i32 @f() {{\\nret i32 1\\n}}"}}
if {kind!r} == "interrupted":
    llvm._MANAGERS[Passes.ALL] = interrupt
for _ in range(20):
    held = []
    try:
        llvm.{function}(Piece(TEXTS[{kind!r}], Passes.ALL), llvm.host())
    except (RuntimeError, KeyboardInterrupt) as error:
        held.append((held, error))
    assert held
    del held
    gc.collect()
"""


@pytest.mark.parametrize("function", ["object_code", "optimized_text", "assembly"])
@pytest.mark.parametrize("kind", ["refused", "interrupted"])
def test_errors_that_are_found_by_the_collector(kind: str, function: str) -> None:
    program = PROGRAM.format(kind=kind, function=function)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
