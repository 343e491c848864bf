"""The options of a `Loop`."""

from __future__ import annotations

from enum import Enum

from circlet.runtime.records import dataclass

NONE = -1
"""No subgraph, no body input, no body output."""


class TripPolicy(Enum):
    """What a negative trip count means."""

    NEGATIVE_IS_ZERO = "negative_is_zero"
    """No iteration: ONNX, TensorRT."""
    NEGATIVE_IS_INFINITE = "negative_is_infinite"
    """As many as the condition allows: OpenVINO. Below -1 there is a warning."""


class CondUse(Enum):
    """Whether the condition that the body returns decides."""

    HONOR = "honor"
    IGNORE = "ignore"
    """The loop goes on whatever it is: an ONNX Loop whose condition input is absent, by the letter of its text."""


class Base(Enum):
    """What a position along a scanned axis counts from."""

    START = "start"
    END = "end"
    """The length of the axis is added."""
    TRIP = "trip"
    """The trip count is added."""


class Overrun(Enum):
    """What happens where a slice would leave its axis."""

    ERROR = "error"
    HOLD_LAST = "hold_last"
    """The last slice that fits is used again."""


class Mode(Enum):
    """How the elements of a scan output are put together."""

    STACK = "stack"
    """Along a new axis."""
    CONCAT = "concat"
    """Along an axis that they have."""


class Order(Enum):
    """In which order the elements of a scan output lie."""

    APPEND = "append"
    PREPEND = "prepend"
    """The last iteration's comes first."""


class ShapePolicy(Enum):
    """What may become of the shape of a carried value from one iteration to the next."""

    FREE = "free"
    FIXED_RANK = "fixed_rank"
    FIXED = "fixed"


@dataclass(frozen=True)
class Position:
    """A position along an axis: `offset` elements from a base."""

    offset: int = 0
    base: Base = Base.START


@dataclass(frozen=True)
class Feed:
    """A body input that receives a value with one element which the loop makes."""

    body_input: int
    rank: int = 0
    """0: shape (); 1: shape (1,)."""


@dataclass(frozen=True)
class Carried:
    """A value that goes from one iteration to the next."""

    body_input: int
    body_output: int
    shape: ShapePolicy = ShapePolicy.FREE


@dataclass(frozen=True)
class ScanInput:
    """A tensor of which each iteration sees a slice: from `begin + n * step` on, `size` elements along `axis`."""

    body_input: int
    axis: int = 0
    """Counts from the end where negative."""
    begin: Position = Position()
    step: int = 1
    """Backwards where negative; not 0."""
    size: int = 1
    keep_axis: bool = False
    """Whether the slice has the axis; if not, `size` is 1."""
    end: Position | None = None
    """Where the slices end, for `count_from_scan`: exclusively forwards, inclusively backwards; None: where the axis
    does. With begin b and end e there are (e - b) / step slices, or (b + size - e) / -step backwards."""


@dataclass(frozen=True)
class ScanOutput:
    """A result made of the values that a body output had in all iterations."""

    body_output: int
    axis: int = 0
    """Of the result; counts from the end where negative."""
    mode: Mode = Mode.STACK
    order: Order = Order.APPEND
    part: int = 1
    """For CONCAT: the length of each element along the axis."""
    has_length: bool = False
    """Whether an operand says for how many elements the axis has room: zeros follow those that there are, and more are
    an error."""


@dataclass(frozen=True)
class LoopOptions:
    """What a loop passes to its subgraphs and takes from them, and when it ends; see `Loop`."""

    body_subgraph_index: int = NONE
    cond_subgraph_index: int = NONE
    """Tested before each iteration, on the carried values and then the invariants: TensorRT's kWHILE."""
    carried: tuple[Carried, ...] = ()
    invariants: tuple[int, ...] = ()
    """The body inputs that get the same value in each iteration."""
    scan_inputs: tuple[ScanInput, ...] = ()
    scan_outputs: tuple[ScanOutput, ...] = ()
    last_outputs: tuple[int, ...] = ()
    """Body outputs of which the last value is a result."""
    iteration: Feed | None = None
    """The body input that gets n, as int32 or int64."""
    cond_input: Feed | None = None
    """The body input that gets c."""
    cond_output: int = NONE
    """The body output that is the next c."""
    cond_use: CondUse = CondUse.HONOR
    trip_policy: TripPolicy = TripPolicy.NEGATIVE_IS_ZERO
    count_from_scan: bool = False
    """Whether N is how many slices the scan inputs have, which must be the same for all; then no operand gives it."""
    overrun: Overrun = Overrun.ERROR

    @property
    def lengths(self) -> tuple[int, ...]:
        """The scan outputs that have a length operand."""
        return tuple(k for k, each in enumerate(self.scan_outputs) if each.has_length)
