"""What a process loads that runs code out of a file."""

from __future__ import annotations

from pathlib import Path

import circlet
from circlet.embed.container import container
from tests.compiled.files import COLLATZ, here
from tests.test_start import MAKES_CODE, NEVER, READS, modules, own

UNUSED = ("llvmlite", "hashlib", "tempfile", "mmap", "circlet.session", "circlet.files", "circlet.embed",
          "circlet.runtime.exec.signature_runner", "circlet.runtime.exec.values.rule")


@here
def test_code_out_of_a_file_needs_little_else(tmp_path: Path) -> None:
    path = tmp_path / "collatz.circlet"
    path.write_bytes(container(circlet.load(COLLATZ), ("host",)))
    found = modules("import circlet.compiled, numpy\n"
                    f"circlet.compiled.load({str(path)!r}, fallback=False).run({{'n': numpy.array(27, 'i')}})",
                    without="llvm")
    assert not {*UNUSED, *NEVER, *MAKES_CODE, *READS} & {*found}
    assert len(own(found)) <= 34, f"{len(own(found))} modules: {' '.join(own(found))}"
