"""Archives of object files, as linkers take them: the System V format that `ar` writes."""

from __future__ import annotations

_MAGIC, _END = b"!<arch>\n", b"`\n"


def archive(members: dict[str, bytes], symbols: dict[str, str]) -> bytes:
    """An archive `.a`; the same for the same content.

    Args:
        members: object files, by name.
        symbols: the functions that they export, and the name of the member that has each.
    """
    names = "".join(f"{each}/\n" for each in members).encode()
    texts = b"".join(each.encode() + b"\0" for each in symbols)
    table_size = 4 + 4 * len(symbols) + len(texts)
    offset = len(_MAGIC) + _size(table_size) + _size(len(names))
    offsets = {}
    for name, content in members.items():
        offsets[name] = offset
        offset += _size(len(content))
    table = len(symbols).to_bytes(4, "big") + b"".join(offsets[each].to_bytes(4, "big") for each in symbols.values())
    found = [_MAGIC, _member("/", table + texts), _member("//", names)]
    begin = 0
    for name, content in members.items():
        found.append(_member(f"/{begin}", content))
        begin += len(name) + 2
    return b"".join(found)


def _size(content: int) -> int:
    """Bytes of a member with so many, and its header."""
    return 60 + content + content % 2


def _member(name: str, content: bytes) -> bytes:
    """A header of fixed columns (name, date, user, group, mode, size), and the content, filled up to an even size."""
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(content):<10}".encode() + _END
    return head + content + b"\n" * (len(content) % 2)
