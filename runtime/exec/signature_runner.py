"""A named entry point of a session."""

from __future__ import annotations

from typing import Any, Protocol, final

from circlet.runtime.errors import InputError
from circlet.runtime.exec.observe.listener import Listener
from circlet.runtime.exec.values.inputs import Entry, Inputs, Outputs
from circlet.runtime.exec.values.tensor_info import TensorInfo
from circlet.runtime.ir.model import Signature
from circlet.runtime.late import LOADING


class Runs(Protocol):
    """What runs entry points: a session."""

    def run_entry(self, entry: Entry, inputs: Inputs, listener: Listener | None = None) -> Outputs:
        """Runs an entry point."""
        ...


@final
class SignatureRunner:
    """A named entry point of a session; call it with inputs by name, or with one dictionary or list of them."""

    def __init__(self, session: Runs, signature: Signature, entry: Entry) -> None:
        self.session = session
        self.signature = signature
        self._entry = entry

    def __call__(self, inputs: Inputs | None = None, /, **named: Any) -> Outputs:
        """Runs the entry point; returns `{output name: value}`.

        Raises:
            InputError: inputs are given both ways; otherwise as `Session.run`.
        """
        if inputs is None:
            return self.session.run_entry(self._entry, named)
        if named:
            raise InputError("expected inputs by keyword or as a dict or a list, found both")
        return self.session.run_entry(self._entry, inputs)

    def run(self, inputs: Inputs = (), listener: Listener | None = None) -> Outputs:
        """As `Session.run`, for this entry point."""
        return self.session.run_entry(self._entry, inputs, listener)

    @property
    def inputs(self) -> dict[str, TensorInfo]:
        """What the inputs are, by name."""
        return self._entry.describe(self._entry.inputs)

    @property
    def outputs(self) -> dict[str, TensorInfo]:
        """What the outputs are, by name."""
        return self._entry.describe(self._entry.outputs)

    def __repr__(self) -> str:
        with LOADING:
            from circlet.runtime.exec.display import text

        return f"<SignatureRunner {self.signature.key!r}: {text(self)}>"
