"""Cuts the text of a module into pieces, which are modules of their own: each has functions that are worth the same
passes, and they can be compiled at the same time."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field
from functools import cached_property

from llvmlite import ir

from circlet.backends.native.lower.passes import Passes, passes_for
from circlet.runtime.records import dataclass

_PIECE = 250_000
"""The weight of what is worth a module of its own: 0.02 to 0.04 seconds of work, measured on seven functions:
MobileNetV2, its int8 version and loops. Less than that is not worth a thread and a module's constants."""
_BLOCK = {Passes.NONE: 1000, Passes.FOLDING: 1000, Passes.FEW: 2000, Passes.ALL: 4000}
"""What a basic block weighs, in characters of text, as LLVM spends its time on loops: with it equal weights take times
within a factor of four on these functions; a block is 250 to 2000 characters by itself."""
_MOST = 16
"""Pieces of a module for each amount of passes: a choice, more than most machines compile at a time."""
_INTERNAL, _OUTER, _DECLARED = "define internal ", "define hidden ", "declare hidden "
"""How a function's definition begins in LLVM's language, before and after it is cut off, and its declaration
elsewhere."""
_NAME, _NODE = re.compile(r'@"([^"]+)"'), re.compile(r"!(\d+)")
"""What names a global value, and a node of metadata."""


@dataclass(frozen=True)
class Piece:
    """A module as text, and what passes it is worth."""

    text: str
    passes: Passes = Passes.ALL


@dataclass
class _Share:
    weight: int = 0
    members: list[str] = field(default_factory=list)


def pieces(module: ir.Module) -> tuple[Piece, ...]:
    """A module in as many pieces as it is large; the same for any machine. Internal functions become hidden symbols, so
    that the pieces find each other's. The piece that takes longest comes first."""
    if any(isinstance(each, ir.GlobalVariable) and not each.global_constant for each in module.global_values):
        return (Piece(str(module)),)  # memory of its own must be there once
    functions = [each for each in module.functions if each.blocks]
    texts = _Texts(module)
    found: list[tuple[int, Piece]] = []
    for passes in Passes:
        weights = {each.name: len(texts.functions[each.name]) + _BLOCK[passes] * len(each.blocks)
                   for each in functions if passes_for(each) is passes}
        found += [(share.weight, Piece(texts.module(share.members), passes)) for share in _shared_out(weights)]
    return tuple(piece for _, piece in sorted(found, key=lambda each: each[0], reverse=True))


def _shared_out(weights: Mapping[str, int]) -> list[_Share]:
    """The heaviest first, each to the piece that weighs least."""
    number = min(-(-sum(weights.values()) // _PIECE), len(weights), _MOST)
    found = [_Share() for _ in range(number)]
    for name in sorted(weights, key=lambda each: weights[each], reverse=True):
        share = min(found, key=lambda each: each.weight)
        share.weight += weights[name]
        share.members.append(name)
    return found


class _Texts:
    """What a module consists of, as text."""

    def __init__(self, module: ir.Module) -> None:
        self._head = f'target triple = "{module.triple}"\ntarget datalayout = "{module.data_layout}"\n'
        self._module = module
        self._global = {each.name: str(each) for each in module.global_values}
        self.functions = {each.name: self._global[each.name] for each in module.functions if each.blocks}

    @cached_property
    def _nodes(self) -> dict[str, str]:
        """The module's metadata, by number."""
        return {each.name: str(each) for each in self._module.metadata}

    def module(self, members: Collection[str]) -> str:
        """A module of some functions, in the order of the whole one, with what they refer to."""
        own = set(members)
        names = _closure(own, lambda name: _NAME.findall(self._global[name]) if name in own or
                         name not in self.functions else ())
        lines = [self._line(name, name in own) for name in self._global if name in names]
        text = "\n".join(lines)
        nodes = _closure(set(_NODE.findall(text)), lambda number: _NODE.findall(self._nodes[number]))
        return self._head + "\n".join([text, *(self._nodes[each] for each in self._nodes if each in nodes)])

    def _line(self, name: str, is_own: bool) -> str:
        """A global value as it stands in a piece: functions of others are declared."""
        text = self._global[name]
        if name not in self.functions:
            return text
        if is_own:
            return text.replace(_INTERNAL, _OUTER, 1)
        return _DECLARED + text[len(_INTERNAL):text.index("\n")]


def _closure(start: set[str], named: Callable[[str], Iterable[str]]) -> set[str]:
    """Names, and all that these name in turn."""
    found, left = set(start), list(start)
    while left:
        for each in named(left.pop()):
            if each not in found:
                found.add(each)
                left.append(each)
    return found
