"""What an operator asks of the function around it while it is written to one of its own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from llvmlite import ir

from circlet.backends.native.emit.outlined import Outlined
from circlet.backends.native.parts import Site
from circlet.runtime.exec.kernel import Call
from circlet.runtime.ir.asked import Asked
from circlet.runtime.ir.terms import Terms
from circlet.runtime.ir.types import Array
from circlet.runtime.records import dataclass, field


@dataclass(frozen=True, eq=False)
class Derivation:
    """What a rule makes of a constant."""

    source: Array
    use: Hashable
    make: Callable[[Array], Array]


@dataclass(eq=False)
class Trace:
    """What was asked for so far.

    Attributes:
        outlined: the function that the operator became, if it became one.
        is_alone: whether nothing came of it but code, arrays that never change, and places that can fail.
        sites: these places.
        derivations: what the arrays at some addresses were made of.
        made: what the arrays at others were made of, and how.
        asked: what was computed of open lengths, and asked of them; None where that is not noted.
        lengths: what open lengths some registers hold.
        tops: up to where the arena was used.
        work: what its loops take.
        scratch: how much memory each participant of a team needs.
    """

    outlined: Outlined | None = None
    is_alone: bool = True
    sites: Sequence[Site] = ()
    derivations: dict[ir.Value, Derivation] = field(default_factory=dict)
    made: dict[ir.Value, tuple[Call, Callable[[Call], Array]]] = field(default_factory=dict)
    asked: Asked | None = None
    lengths: dict[ir.Value, Terms] = field(default_factory=dict)
    tops: list[int] = field(default_factory=list)
    work: int = 0
    scratch: int = 0
    _made: dict[int, tuple[Array, Derivation]] = field(default_factory=dict)

    def derived(self, found: Array, source: Array, use: Hashable, make: Callable[[Array], Array]) -> None:
        """An array was made of a constant."""
        self._made[id(found)] = found, Derivation(source, use, make)

    def external(self, array: Array, address: ir.Value, is_fixed: bool) -> None:
        """An array outside the arena was asked for."""
        self.is_alone = self.is_alone and is_fixed
        found = self._made.get(id(array))
        if found is not None:
            self.derivations[address] = found[1]
