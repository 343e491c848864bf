"""WebAssembly."""

from __future__ import annotations

from circlet.backends.native.targets.target import Target, target


@target("wasm32")
class WebAssembly(Target):
    """An engine, which makes code of a processor of the module."""

    def has_instruction(self, name: str, bits: int) -> bool:
        """Everything that is rounded once, but for sums of products."""
        return name != "fma"
