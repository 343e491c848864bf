"""How much becomes code: what one function may hold, and all functions of a session together.

LLVM's time grows faster than a function does, so that a long span is cut into several functions. What is too large for
one by itself, and what is left when a session has had much compiled, is computed by numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from circlet.backends.native.program import Unlowerable
from circlet.runtime.ir.model import Model, Operator
from circlet.runtime.ir.op import Op, Skip
from circlet.runtime.ops.controlflow import PreTestedLoop

if TYPE_CHECKING:
    from llvmlite import ir

MOST_TOGETHER = 1024
"""Operators in one function, each within a branch or loop as `_INSIDE` of them: some second of work on two cores. 10000
operators of 40 kinds take 4.9 seconds of a processor so, 6.9 with a quarter, as each function writes anew what is
alike. LLVM takes quadratic time for a function of many blocks, such as 4000 branches; cut so, the time is linear. One
that alone is more gets a function to itself."""
_INSIDE = 4
"""What an operator inside of another one counts as, whose code and blocks may be the function's own, as 3000 branches
take a fifth longer otherwise."""
MOST_UNDIVIDED = 6 << 10
"""Operators in one function for any lengths, where a part of them would compute lengths of another, as what is left is
compiled for each length: a decoder of 12 layers before a loop, and one in it, are 5100."""
MOST_BESIDE = 16
"""Operators of a function, and of its other loops of the model, up to which a loop is written in it; beside more they
are functions of their own. LLVM has passes over loops that look at all that their bounds are computed of, and take more
than linear time: seven of eleven seconds for a loop behind 2100 operators, and 1.6 of two for four loops of an LSTM. A
choice: a call takes a run some nanoseconds."""
MOST_INSIDE = 512
"""Operators of the subgraphs that a loop invokes, each as often as it is emitted, up to which they are written in the
loop; of more, each is a function of its own, so that a loop of 1350 takes half the time to compile. A choice: a call
takes a turn some nanoseconds."""
MOST_INVOKED = 5 << 10
"""The same of a loop that becomes code at all: a choice, as an operator cannot be cut. Two layers of a decoder have
500, twelve 2600."""
MOST_CHOSEN = 5 << 10
"""Operators of the branches that one operator chooses from, which are outlined as those around it are: two decoders of
12 layers have 4400, and 1.7 MB of text that calls them, which LLVM takes 0.3 seconds for. More come to
`MOST_INSTRUCTIONS`, and are better left apart before that is found."""
MOST_INSTRUCTIONS = 1 << 15
"""Instructions in one function, before LLVM's passes. The functions for MobileNetV2 and its int8 version have 2600 and
3400, those of tiles that they call left out."""
MOST_IN_A_SESSION = 1 << 18
"""Instructions of all functions that a session has compiled: some 10 to 25 seconds of work, at 0.04 to 0.09
milliseconds each, measured on MobileNetV2, its int8 version and loops."""
MOST_UNITS = 2 << 10
"""Object files that a session makes, beyond which it begins with no more functions, at 10 to 40 milliseconds of a
processor each. Operators that are alike have one together: those of 10000 of 40 kinds in five shapes are 110."""
LEAST = 16
"""Object files that a function counts as at least, as thousands of branches should not become thousands of
functions."""


class Sizes:
    """How many operators those of a model are, counting what they invoke."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._sizes: dict[int, int] = {}

    def invoked(self, op: Op) -> int:
        """The operators of the subgraphs that an operator invokes, and of those that these invoke."""
        return sum(map(self._size, op.callees()))

    def beside(self, operators: Sequence[Operator]) -> int:
        """How many operators there are beside each loop of the model among some, but the smaller ones: these, and those
        that loops invoke, but the largest."""
        loops = [self.invoked(each.op) for each in operators if isinstance(each.op, PreTestedLoop)]
        return len(operators) + sum(loops) - max(loops, default=0)

    def parts(self, subgraph: int, span: range) -> Sequence[range]:
        """A span in parts, each of which becomes a function."""
        found, start, size = [], span.start, 0
        for number in span:
            each = self._operator(subgraph, number)
            each += max(each - 1, 0) * (_INSIDE - 1)
            if size and size + each > MOST_TOGETHER:
                found.append(range(start, number))
                start, size = number, 0
            size += each
        return [*found, range(start, span.stop)]

    def is_one(self, subgraph: int, span: range) -> bool:
        """Whether a span may be one function for any lengths."""
        size = sum(self._operator(subgraph, number) for number in span)
        return size <= MOST_UNDIVIDED or len(self.parts(subgraph, span)) == 1

    def _operator(self, subgraph: int, number: int) -> int:
        """What an operator counts: itself, and what it invokes."""
        op = self._model.subgraphs[subgraph].operators[number].op
        return 0 if isinstance(op, Skip) else 1 + self.invoked(op)

    def _size(self, index: int) -> int:
        """What a subgraph counts, found once."""
        if index not in self._sizes:
            operators = self._model.subgraphs[index].operators
            self._sizes[index] = len(operators) + sum(self.invoked(each.op) for each in operators)
        return self._sizes[index]


class Growth:
    """Counts the instructions of functions while they are written."""

    def __init__(self) -> None:
        self._counted: dict[str, tuple[int, int]] = {}
        """By function, how many blocks were counted, and their instructions."""

    def expect_room(self, function: ir.Function) -> None:
        """Raises Unlowerable where a function has become too large."""
        blocks = function.blocks
        begin, count = self._counted.get(function.name, (0, 0))
        count += sum(len(each.instructions) for each in blocks[begin:-1])
        self._counted[function.name] = len(blocks) - 1, count
        if count + len(blocks[-1].instructions) > MOST_INSTRUCTIONS:
            raise Unlowerable(f"a function of more than {MOST_INSTRUCTIONS} instructions")


def instructions(text: str) -> int:
    """How many instructions the functions of a module in LLVM's language have, each on a line of its own."""
    return text.count("\n  ")
