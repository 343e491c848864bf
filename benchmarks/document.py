"""Puts what the benchmarks print into a document.

    python -m benchmarks.document [FILE] [--only COMMAND...]

A line `<!-- python -m benchmarks.NAME ... -->` in front of a block of code says what prints the block.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_BLOCK = re.compile(r"^<!-- python (-m benchmarks\.(\w+)[^\n]*) -->\n```\n.*?^```$", re.MULTILINE | re.DOTALL)


def filled(text: str, only: Sequence[str] = ()) -> str:
    """A document with the blocks of some benchmarks printed anew, of all by default."""
    def printed(block: re.Match[str]) -> str:
        arguments, name = block.groups()
        if only and name not in only:
            return block[0]
        print(f"python {arguments}", file=sys.stderr, flush=True)
        # A benchmark ends with 1 where a peer's outputs differ, and says so in what it prints.
        found = subprocess.run([sys.executable, *shlex.split(arguments)], stdout=subprocess.PIPE, text=True)
        if found.returncode not in (0, 1) or not found.stdout:
            raise subprocess.CalledProcessError(found.returncode, arguments)
        lines = "\n".join(each.rstrip() for each in found.stdout.strip("\n").splitlines())
        return f"<!-- python {arguments} -->\n```\n{lines}\n```"

    return _BLOCK.sub(printed, text)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.document", description=__doc__.split("\n\n")[0])
    parser.add_argument("file", type=Path, nargs="?", default=Path("docs/performance.md"))
    parser.add_argument("--only", nargs="*", default=(), metavar="NAME", help="benchmarks to run (default: all)")
    arguments = parser.parse_args()
    text = arguments.file.read_text(encoding="utf-8")
    arguments.file.write_text(filled(text, arguments.only), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
