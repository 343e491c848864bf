"""Cuts the text of a large module into pieces, which are modules of their own and can be compiled at the same time."""

from __future__ import annotations

from dataclasses import dataclass, field

from llvmlite import ir

_PIECE = 250_000
"""The weight of what is worth a module of its own: some 0.2 seconds of work."""
_BLOCK = 2000
"""What a basic block weighs, in characters of text: LLVM spends its time on loops."""
_MOST = 16
"""Pieces of a module, as each repeats its constants and metadata."""
_INTERNAL, _OUTER, _DECLARED = "define internal ", "define hidden ", "declare hidden "


@dataclass
class _Piece:
    weight: int = 0
    members: set[str] = field(default_factory=set)


def pieces(module: ir.Module) -> tuple[str, ...]:
    """The text of a module, in as many pieces as it is large; the same for any machine. Internal functions become
    hidden symbols, so that the pieces find each other's. The piece that takes longest comes first."""
    functions = {each.name: str(each) for each in module.functions if each.blocks}
    weights = {each.name: len(functions[each.name]) + _BLOCK * len(each.blocks)
               for each in module.functions if each.blocks}
    number = min(sum(weights.values()) // _PIECE, len(functions), _MOST)
    if number < 2 or _has_state(module):
        return (str(module),)
    return tuple(_text(module, functions, each.members) for each in _shared_out(weights, number))


def _has_state(module: ir.Module) -> bool:
    """Whether the module has memory of its own, which must be there once."""
    return any(isinstance(each, ir.GlobalVariable) and not each.global_constant for each in module.global_values)


def _shared_out(weights: dict[str, int], number: int) -> list[_Piece]:
    """The heaviest first, each to the piece that weighs least."""
    found = [_Piece() for _ in range(number)]
    for name in sorted(weights, key=lambda each: weights[each], reverse=True):
        piece = min(found, key=lambda each: each.weight)
        piece.weight += weights[name]
        piece.members.add(name)
    return sorted(found, key=lambda each: each.weight, reverse=True)


def _text(module: ir.Module, functions: dict[str, str], members: set[str]) -> str:
    """A module of some of the functions that knows the others."""
    lines = [f'target triple = "{module.triple}"', f'target datalayout = "{module.data_layout}"']
    for each in module.global_values:
        text = functions.get(each.name)
        if text is None:
            lines.append(str(each))
        elif each.name in members:
            lines.append(text.replace(_INTERNAL, _OUTER, 1))
        elif text.startswith(_INTERNAL):
            lines.append(_DECLARED + text[len(_INTERNAL):text.index("\n")])
    return "\n".join([*lines, *map(str, module.metadata)])
