"""What is done at each stop of a run that nobody attends: tensors are printed and written to files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from circlet.runtime.errors import InputError
from circlet.runtime.exec.observe.breakpoints import Breakpoint
from circlet.runtime.exec.observe.debugger import Debugger, Resume, Stop
from circlet.runtime.exec.observe.non_finite import NonFinite, first_non_finite
from circlet.runtime.ir.tensor import Tensor
from circlet.runtime.ir.types import Array
from circlet.tools.debugging.view import given, json_stop, json_tensor, outputs_text, stop_text, tensor_text
from circlet.tools.results import save_array


class EndOfRun(Exception):
    """The run was asked to end where it waits."""


class Dumps:
    """Writes tensors to files; a file that was written gets a number before its ending."""

    def __init__(self) -> None:
        self._written: dict[str, int] = {}

    def write(self, path: str, tensor: Tensor, stored: Array) -> str:
        """Writes a tensor as `circlet run` writes outputs; gives the path.

        Raises:
            OSError: the file cannot be written.
            UnsupportedError: no .npy file holds it.
        """
        number = self._written[path] = self._written.get(path, 0) + 1
        file = Path(path)
        target = path if number == 1 else str(file.with_name(f"{file.stem}.{number}{file.suffix}"))
        save_array(target, tensor.name, given(tensor, stored))
        return target


class Reports(Debugger):
    """Reports each stop, and goes on; it ends the run at NaN or infinity if it was asked to stop there."""

    def __init__(self, breakpoints: Iterable[Breakpoint], stop_at: Collection[NonFinite], printed: Collection[str],
                 dumped: Mapping[str, str], write: Callable[[str], None]) -> None:
        """
        Args:
            printed: names of tensors.
            dumped: paths of files, by tensor.
            write: takes each line of text.
        """
        super().__init__(breakpoints, stop_at)
        self._printed, self._dumped, self._write = printed, dumped, write
        self._dumps = Dumps()
        self.stops: list[dict[str, Any]] = []
        """For JSON."""

    def stopped(self, stop: Stop) -> Resume:
        self._write(stop_text(stop))
        found, problems, files = [], [], []
        for name in self._printed:
            try:
                tensor, value = stop.find(name)
            except InputError as error:
                problems.append(str(error))
                self._write(str(error))
                continue
            found.append(json_tensor(tensor, value))
            self._write(tensor_text(tensor, value))
        for name, path in self._dumped.items():
            files.append(self._dumps.write(path, *stop.find(name)))
            self._write(f"saved {files[-1]}")
        self.stops.append({**json_stop(stop), "tensors": found, "problems": problems, "files": files})
        if self.stop_at and first_non_finite(stop.moment, self.stop_at) is not None:
            self._write(outputs_text(stop))
            raise EndOfRun
        return Resume.CONTINUE
