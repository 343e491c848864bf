"""FarmHash's 64-bit fingerprint of bytes (`farmhashna::Hash64`), which TFLite hashes items by."""

from __future__ import annotations

from typing import TypeAlias

_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
_MASK = (1 << 64) - 1
_BLOCK = 64
_Pair: TypeAlias = "tuple[int, int]"


def fingerprint(data: bytes) -> int:
    """The fingerprint, an integer of 64 bits without a sign."""
    size = len(data)
    if size <= 16:
        return _up_to_16(data)
    if size <= 32:
        return _up_to_32(data)
    return _up_to_64(data) if size <= _BLOCK else _longer(data)


def _word(data: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(data[at:at + size], "little")


def _rotate(value: int, by: int) -> int:
    value &= _MASK
    return (value >> by | value << (64 - by)) & _MASK


def _shift_mix(value: int) -> int:
    value &= _MASK
    return value ^ value >> 47


def _mixed(one: int, other: int, factor: int) -> int:
    first = _shift_mix((one ^ other & _MASK) * factor)
    return _shift_mix((other ^ first) * factor) * factor & _MASK


def _up_to_16(data: bytes) -> int:
    size = len(data)
    factor = _K2 + size * 2
    if size >= 8:
        one, other = _word(data, 0) + _K2, _word(data, size - 8)
        return _mixed((_rotate(other, 37) * factor + one) & _MASK, (_rotate(one, 25) + other) * factor & _MASK, factor)
    if size >= 4:
        return _mixed(size + (_word(data, 0, 4) << 3), _word(data, size - 4, 4), factor)
    if size:
        low, high = data[0] + (data[size >> 1] << 8), size + (data[-1] << 2)
        return _shift_mix(low * _K2 ^ high * _K0) * _K2 & _MASK
    return _K2


def _up_to_32(data: bytes) -> int:
    size = len(data)
    factor = _K2 + size * 2
    a, b = _word(data, 0) * _K1, _word(data, 8)
    c, d = _word(data, size - 8) * factor, _word(data, size - 16) * _K2
    return _mixed((_rotate(a + b, 43) + _rotate(c, 30) + d) & _MASK, (a + _rotate(b + _K2, 18) + c) & _MASK, factor)


def _up_to_64(data: bytes) -> int:
    size = len(data)
    factor = _K2 + size * 2
    a, b = _word(data, 0) * _K2, _word(data, 8)
    c, d = _word(data, size - 8) * factor, _word(data, size - 16) * _K2
    y = (_rotate(a + b, 43) + _rotate(c, 30) + d) & _MASK
    z = _mixed(y, (a + _rotate(b + _K2, 18) + c) & _MASK, factor)
    e, f = _word(data, 16) * factor, _word(data, 24)
    g, h = (y + _word(data, size - 32)) * factor, (z + _word(data, size - 24)) * factor
    return _mixed((_rotate(e + f, 43) + _rotate(g, 30) + h) & _MASK, (e + _rotate(f + a, 18) + g) & _MASK, factor)


def _of_block(data: bytes, at: int, one: int, other: int) -> _Pair:
    """What 32 bytes make of two numbers."""
    w, x, y, z = (_word(data, at + 8 * k) for k in range(4))
    one = (one + w) & _MASK
    other = _rotate(other + one + z, 21)
    total = (one + x + y) & _MASK
    return (total + z) & _MASK, (other + _rotate(total, 44) + one) & _MASK


def _longer(data: bytes) -> int:
    seed = 81
    x, y = seed * _K2 + _word(data, 0) & _MASK, seed * _K1 + 113 & _MASK
    z = _shift_mix(y * _K2 + 113) * _K2 & _MASK
    v = w = (0, 0)
    for at in range(0, (len(data) - 1) // _BLOCK * _BLOCK, _BLOCK):
        x, y, z, v, w = _turn(data, at, x, y, z, v, w, _K1, 1)
    factor = _K1 + ((z & 0xFF) << 1)
    behind = (len(data) - 1) % _BLOCK
    first = w[0] + behind
    second = v[0] + first
    v, w = (second & _MASK, v[1]), (first + second & _MASK, w[1])
    x, y, z, v, w = _turn(data, len(data) - _BLOCK, x, y, z, v, w, factor, 9)
    return _mixed((_mixed(v[0], w[0], factor) + _shift_mix(y) * _K0 + z) & _MASK,
                  (_mixed(v[1], w[1], factor) + x) & _MASK, factor)


def _turn(data: bytes, at: int, x: int, y: int, z: int, v: _Pair, w: _Pair, factor: int, weight: int
          ) -> tuple[int, int, int, _Pair, _Pair]:
    """What 64 bytes make of the numbers so far."""
    x = _rotate(x + y + v[0] + _word(data, at + 8), 37) * factor & _MASK
    y = _rotate(y + v[1] + _word(data, at + 48), 42) * factor & _MASK
    x ^= w[1] * weight & _MASK
    y = y + v[0] * weight + _word(data, at + 40) & _MASK
    z = _rotate(z + w[0], 33) * factor & _MASK
    v = _of_block(data, at, v[1] * factor, x + w[0])
    w = _of_block(data, at + 32, z + w[1], y + _word(data, at + 16))
    return z, y, x, v, w
