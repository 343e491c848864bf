"""How values cross the borders of subgraphs: what copy plans consist of."""

from __future__ import annotations

from enum import Enum

from circlet.runtime.records import dataclass


class Action(Enum):
    """How a value crosses the border of a subgraph."""

    LEND = "lend"
    """The callee uses the caller's buffer."""
    ALTERNATE = "alternate"
    """The body reads one buffer and writes another; they change places each turn."""
    ROTATE = "rotate"
    """Buffers of several carried values change places each turn; the bytes stay where they are."""
    IN_PLACE = "in_place"
    """The new value is written over the old one."""
    INVARIANT = "invariant"
    """The value goes around the loop untouched."""
    REGISTER = "register"
    """Compiled code has the value in a register of the processor."""
    COPY = "copy"


class Stage(Enum):
    """When a value crosses; the value is its name in listings."""

    ENTER = "input"
    """From the operator to what it invokes; for a loop, before its first turn."""
    CONDITION = "cond input"
    """From a loop to its condition."""
    TURN = "body input"
    """From a loop to its body."""
    RETURN = "body output"
    """From the body to the loop."""
    CARRY = "carry"
    """From one turn of a loop to the next."""
    LEAVE = "output"
    """From what was invoked to the operator; for a loop, after its last turn."""

    @property
    def repeats(self) -> bool:
        """Whether values cross in every turn of the loop that the operator is."""
        return self not in (Stage.ENTER, Stage.LEAVE)


@dataclass(frozen=True)
class Transfer:
    """One value that crosses the border of a subgraph."""

    stage: Stage
    position: int
    """Among the operands, the carried values or the results, as the stage says."""
    action: Action
    reason: str
    role: str = ""
    """What the operator invokes the subgraph as, where it has several: `then`."""

    @property
    def label(self) -> str:
        """E.g. `carry 2`, `then output 0`."""
        return f"{self.role} {self.stage.value} {self.position}".lstrip()
