"""Cuts a module into pieces while it is written: functions become modules of their own, as text, so that several are
compiled at the same time, and equal ones once. Those that LLVM makes soon share a module, of which it needs as long for
each as for what is in it; but not the entry, which is another one in each model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from llvmlite import ir

from circlet.backends.native.emit.outlined import OutlinedFunction
from circlet.backends.native.emit.written.release import release
from circlet.backends.native.emit.written.text import function_text
from circlet.backends.native.lower.passes import Passes, has_loop, passes_for
from circlet.runtime.digests import blake2b
from circlet.runtime.records import dataclass

_INTERNAL, _OUTER, _DECLARED = "define internal ", "define hidden ", "declare hidden "
"""How a function's definition begins in LLVM's language, before and after it is cut off, and its declaration
elsewhere."""
_NAME, _NODE = re.compile(r'@"([^"]+)"'), re.compile(r"!(\d+)")
"""What names a global value, and a node of metadata."""
_DEFINED = re.compile(r'^define [^@]*@"([^"]+)"', re.MULTILINE)
"""What names a function where it is defined."""
_DIGITS = 24
"""Hexadecimal digits of a content's digest that tell functions of one module apart."""
_SHARED = 1 << 15
"""Characters of functions that share a piece: a choice, of which LLVM makes code in some 15 ms."""


@dataclass(frozen=True)
class Piece:
    """A module as text, and what passes it is worth."""

    text: str
    passes: Passes = Passes.ALL

    @property
    def name(self) -> str:
        """Of the first function that it defines."""
        found = _DEFINED.search(self.text)
        return "" if found is None else found[1]


def pieces(module: ir.Module) -> tuple[Piece, ...]:
    """A module in pieces; the same for any machine."""
    found: list[Piece] = []
    Cutter(module, found.append, keeps=True).finish()
    return tuple(found)


class Cutter:
    """Cuts functions off a module. Internal ones become hidden symbols, so that the pieces find each other's; those
    that were outlined are named after what they do, so that equal ones are one. The text of a piece hangs on its
    function alone, not on where it is in the module."""

    def __init__(self, module: ir.Module, put: Callable[[Piece], None], keeps: bool = False,
                 keeps_frames: bool = False) -> None:
        """
        Args:
            module: with the entry as its first function.
            put: is given each piece.
            keeps: whether functions stay as they are; else their instructions are gone once they are cut off.
            keeps_frames: whether each function in a piece keeps the address of its caller's frame in a register.
        """
        self._module = module
        self._put = put
        self._keeps = keeps
        self._attribute = ' "frame-pointer"="all"\n{' if keeps_frames else "\n{"
        self._has_loops: dict[str, bool] = {}
        self._first: ir.Function | None = None
        """The entry, once it was found."""
        self._seen = 0
        """How many of the module's global values were looked at."""
        self._names: dict[str, str] = {}
        """What functions that were cut off are called in pieces."""
        self._heads: dict[str, str] = {}
        """How each is declared elsewhere, by its name in pieces."""
        self._sharing: dict[str, str] = {}
        """The texts of functions that are to share a piece, by their names there."""
        self._head = f'target triple = "{module.triple}"\ntarget datalayout = "{module.data_layout}"\n'

    def cut(self) -> None:
        """Gives the functions that were written since; all must be complete but for the entry."""
        found = self._module.globals
        written = list(islice(reversed(found.values()), len(found) - self._seen))[::-1]
        self._seen = len(found)
        entry = self._entry
        functions = [each for each in written if each is not entry and isinstance(each, ir.Function) and each.blocks]
        for each in functions:
            self._cut(each)
        if not self._keeps:
            for each in functions:
                release(each.blocks)

    def finish(self) -> None:
        """Gives what is left, the entry last. A module with memory of its own, which must be there once, stays one."""
        if any(isinstance(each, ir.GlobalVariable) and not each.global_constant for each in self._module.global_values):
            assert not self._names, "code that checks bounds is cut when it is complete"
            self._put(Piece(str(self._module)))
            return
        self.cut()
        self._give_sharing()
        if self._entry is not None:
            text, passes = function_text(self._entry), passes_for(self._entry, self._takes_time)
            self._put(self._piece({self._entry.name: text}, passes))
            if not self._keeps:
                release(self._entry.blocks)
                for each in self._module.globals.values():
                    _forget(each)

    @property
    def symbols(self) -> Mapping[str, str]:
        """What functions that were cut off are called in pieces."""
        return self._names

    @property
    def _entry(self) -> ir.Function | None:
        """The first function of the module that has a body."""
        if self._first is None:
            self._first = next((each for each in self._module.globals.values()
                                if isinstance(each, ir.Function) and each.blocks), None)
        return self._first

    def _cut(self, function: ir.Function) -> str:
        """Gives a function as a piece, after those that it refers to; its name in pieces."""
        if function.name in self._names:
            return self._names[function.name]
        self._takes_time(function)
        name, text = str(function.name), function_text(function).replace(_INTERNAL, _OUTER, 1)
        for each in self._own(text):
            if each is not function:
                self._cut(each)
        if isinstance(function, OutlinedFunction):
            own = f'@"{name}"'
            renamed = self._renamed(text.replace(own, "@", 1))
            content = "\n".join((renamed, *self._nodes(renamed)))
            name = f"{name.partition('.')[0]}_{blake2b(_numbered(content).encode()).hexdigest()[:_DIGITS]}"
            text = text.replace(own, f'@"{name}"', 1)
        self._names[function.name] = name
        if name not in self._heads:
            self._heads[name] = _DECLARED + text[len(_OUTER):text.index("\n")]
            self._give(function, name, text)
        return name

    def _give(self, function: ir.Function, name: str, text: str) -> None:
        """Gives a function, given its name and text in pieces: at once, or with others."""
        passes = passes_for(function, self._takes_time)
        if passes is not Passes.HASTY:
            self._put(self._piece({name: text}, passes))
            return
        if sum(map(len, self._sharing.values())) + len(text) > _SHARED:
            self._give_sharing()
        self._sharing[name] = text

    def _give_sharing(self) -> None:
        """Gives the functions that share a piece so far."""
        if self._sharing:
            self._put(self._piece(self._sharing, Passes.HASTY))
            self._sharing = {}

    def _own(self, text: str) -> Iterator[ir.Function]:
        """The functions of the module that a text refers to."""
        for name in dict.fromkeys(_NAME.findall(text)):
            found = self._module.globals.get(name)
            if isinstance(found, ir.Function) and found.blocks and found is not self._entry:
                yield found

    def _renamed(self, text: str) -> str:
        """With functions called as they are in pieces."""
        return _NAME.sub(lambda found: f'@"{self._names.get(found[1], found[1])}"', text)

    def _piece(self, functions: Mapping[str, str], passes: Passes) -> Piece:
        """A module of functions, given their texts there by name, with what they refer to."""
        text = "\n".join(self._renamed(each).replace("\n{", self._attribute, 1) for each in functions.values())
        others = [self._declared(each) for each in dict.fromkeys(_NAME.findall(text)) if each not in functions]
        return Piece(self._head + _numbered("\n".join((*others, text, *self._nodes(text)))), passes)

    def _takes_time(self, function: ir.Function) -> bool:
        """Whether a function has loops, found once, before its instructions are gone."""
        if function.name not in self._has_loops:
            self._has_loops[function.name] = has_loop(function)
        return self._has_loops[function.name]

    def _declared(self, name: str) -> str:
        """A global value as it stands in the pieces of others."""
        return self._heads.get(name) or str(self._module.globals[name])

    def _nodes(self, text: str) -> list[str]:
        """The nodes of metadata that a text refers to, and those that these do, each after who asks for it."""
        found: dict[str, str] = {}
        left = _NODE.findall(text)[::-1]
        while left:
            number = left.pop()
            if number not in found:
                found[number] = str(self._module.metadata[int(number)])
                left += _NODE.findall(found[number])[::-1]
        return list(found.values())


def _forget(value: ir.GlobalValue) -> None:
    """Drops what refers to a function and is referred to by it, once nothing is written any more."""
    if isinstance(value, ir.Function):
        value.blocks.clear()
        value.args, value.return_value = (), None
    value.parent = None


def _numbered(text: str) -> str:
    """With the nodes of metadata numbered in the order in which they appear."""
    numbers: dict[str, int] = {}
    return _NODE.sub(lambda found: f"!{numbers.setdefault(found[1], len(numbers))}", text)
