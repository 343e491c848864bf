"""What functions are called by tools that show where a program is: the operators that they compute, and how."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from circlet.runtime.ir.model import Subgraph

_LONGEST = 100
"""Characters of a name: a choice, as lists of operators that are one loop may be long."""
_UNCLEAR = str.maketrans({each: "_" for each in ";'\"\\"})
"""What means something else where names are written: `;` divides calls in folded stacks, quotes end names in gdb."""
_OPERATOR = "operator"
"""What functions of whole operators are called in modules."""


def label(subgraph: str, operator: str, number: int) -> str:
    """An operator, e.g. `main/CONV_2D_17`."""
    return f"{_clear(subgraph)}/{_clear(operator)}_{number}"


def span_label(subgraph: Subgraph, operators: range) -> str:
    """The function of several operators, e.g. `main` or `main/3-9`."""
    if len(operators) == len(subgraph.operators):
        return _clear(subgraph.name)
    return f"{_clear(subgraph.name)}/{operators.start}-{operators.stop - 1}"


def labels(callers: Mapping[str, Iterable[str]], symbols: Mapping[str, str]) -> dict[str, str]:
    """What the functions of a module are called, by symbol; no two are called the same.

    Args:
        callers: the labels of the operators that call each function of the module.
        symbols: what functions are called in object files, where that is something else. One may stand for several.
    """
    users: dict[str, dict[str, None]] = {}
    kinds: dict[str, str] = {}
    for name, operators in callers.items():
        symbol = symbols.get(name, name)
        users.setdefault(symbol, {}).update(dict.fromkeys(operators))
        kinds[symbol] = name.partition(".")[0]
    found: dict[str, str] = {}
    taken: dict[str, int] = {}
    for symbol, operators in users.items():
        text = _text(kinds[symbol], list(operators))
        taken[text] = taken.get(text, 0) + 1
        found[symbol] = text if taken[text] == 1 else f"{text} #{taken[text]}"
    return found


def _text(kind: str, users: list[str]) -> str:
    """A function of a kind that some operators call, e.g. `main/CONV_2D_17 tile_f32_6x4`."""
    named = users[:1]
    for each in users[1:]:
        if sum(map(len, named)) + len(each) > _LONGEST:
            break
        named.append(each)
    text = ", ".join(named) + (f" and {len(users) - len(named)} more" if len(named) < len(users) else "")
    if kind == _OPERATOR or not users:
        return text or kind
    return f"{text} {kind}" if len(users) == 1 else f"{kind} of {text}"


def _clear(name: str) -> str:
    """A name from a file without what confuses tools, not too long."""
    text = "".join(each if each.isprintable() else "_" for each in name).translate(_UNCLEAR) or "_"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST - 3]}..."
