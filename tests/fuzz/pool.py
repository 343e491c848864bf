"""Workers that are started again when they end or hang."""

from __future__ import annotations

import json
import os
import pickle
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from tests.fuzz.case import Subject
from tests.fuzz.seeds import ROOT

HANG = 150.0
"""Seconds without a word after which a worker is stopped."""
TURNS = 6_000
"""Cases that a worker tries before another one takes its place."""
ENVIRONMENT = {"CIRCLET_CACHE_DIR": "", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


class Died(Exception):
    """A worker ended, or was stopped, while it was at something."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


class Worker:
    """A subprocess that tries cases."""

    def __init__(self, hang: float = HANG, few: bool = False) -> None:
        """
        Args:
            hang: seconds without a word after which it is stopped.
            few: it changes a few models only, which are soon made.
        """
        self._hang = hang
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # closed by __exit__
        command = [sys.executable, "-m", "tests.fuzz.worker", *(["few"] if few else [])]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr,
                                         cwd=ROOT, env={**os.environ, **ENVIRONMENT})
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input: IO[bytes] = self._process.stdin
        self._output: IO[bytes] = self._process.stdout
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._output, selectors.EVENT_READ)
        os.set_blocking(self._output.fileno(), False)
        self._buffer = b""
        self.tried = 0

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        with suppress(BrokenPipeError):  # of what it did not come to read
            self._input.close()
        self._output.close()
        self._stderr.close()

    def numbers(self, seed: int, first: int, last: int) -> Iterator[dict[str, Any]]:
        """Tries cases; gives what the worker says.

        Raises:
            Died: it ended or hung.
        """
        self._send({"seed": seed, "numbers": [first, last]})
        while True:
            word = self._word()
            if "at" in word:
                self.tried += 1
            yield word
            if "done" in word:
                return

    def subject(self, subject: Subject) -> dict[str, Any]:
        """Tries one model; where something is wrong, `given` are the subgraph and the inputs.

        Raises:
            Died: it ended the worker, or hung.
        """
        with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
            Path(file.name).write_bytes(pickle.dumps(subject))
            self._send({"subject": file.name})
            word = self._word()
            return {**word, "given": pickle.loads(Path(file.name).read_bytes())} if "key" in word else word

    def _send(self, command: dict[str, Any]) -> None:
        try:
            self._input.write(json.dumps(command).encode() + b"\n")
            self._input.flush()
        except BrokenPipeError:
            raise self._death() from None

    def _word(self) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            if not self._selector.select(self._hang):
                self._process.send_signal(signal.SIGABRT)
                self._process.wait()
                raise Died(f"hang {self._place()}", f"no word for {self._hang:g} s\n{self._errors()}")
            found = self._output.read()
            if not found:
                raise self._death()
            self._buffer += found
        line, _, self._buffer = self._buffer.partition(b"\n")
        word: dict[str, Any] = json.loads(line)
        return word

    def _death(self) -> Died:
        code = self._process.wait()
        name = signal.Signals(-code).name if code < 0 else f"exit {code}"
        return Died(f"{name} {self._place()}", f"the process ended with {name}\n{self._errors()}")

    def _errors(self) -> str:
        self._stderr.seek(0)
        return self._stderr.read()[-5000:].decode(errors="replace")

    def _place(self) -> str:
        """The innermost line of circlet in the traceback that the worker left."""
        lines = [each.strip() for each in self._errors().splitlines() if "/circlet/" in each and "File" in each]
        return lines[0].rpartition("circlet/")[2] if lines else ""
