"""Names of models and tensors as identifiers of C."""

from __future__ import annotations

import re
from collections.abc import Sequence

_OTHER = re.compile(r"[^0-9A-Za-z]+")
_WORDS = frozenset({
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch",
    "char", "class", "compl", "const", "const_cast", "constexpr", "continue", "decltype", "default", "delete", "do",
    "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend",
    "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr",
    "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "restrict",
    "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template",
    "this", "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "union", "unsigned", "using",
    "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq",
})
"""What C (ISO/IEC 9899) and C++ (ISO/IEC 14882) keep for themselves."""


def identifier(name: str) -> str:
    """A name as an identifier: `serving_default_x:0` is `serving_default_x_0`."""
    found = _OTHER.sub("_", name).strip("_") or "unnamed"
    return f"{found}_" if found in _WORDS else f"n{found}" if found[0].isdigit() else found


def unique(names: Sequence[str]) -> list[str]:
    """Names that differ: those that came before get a number."""
    found: list[str] = []
    for each in names:
        name, number = each, 2
        while name in found:
            name, number = f"{each}_{number}", number + 1
        found.append(name)
    return found
