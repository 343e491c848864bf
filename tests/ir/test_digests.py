"""Digests, of much content by a package."""

from __future__ import annotations

import hashlib
import sys
from importlib import import_module

import numpy as np
import pytest

from circlet.runtime import digests


@pytest.mark.parametrize("size", [0, 1000, digests.MUCH - 1, digests.MUCH, digests.MUCH + 1])
@pytest.mark.parametrize("has_package", [True, False])
def test_much_content_is_told_apart_by_blake3(size: int, has_package: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    content = np.random.default_rng(1).bytes(size)
    wanted = hashlib.blake2b(content, digest_size=32)
    if not has_package:
        monkeypatch.setitem(sys.modules, "blake3", None)
    elif size >= digests.MUCH:
        wanted = pytest.importorskip("blake3").blake3(content)
    assert digests.content_digest(memoryview(content)) == wanted.digest()


@pytest.mark.parametrize("size", [0, 1000, 2 << 20])
@pytest.mark.parametrize("has_own", [True, False])
def test_digests_are_those_of_hashlib(size: int, has_own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_own(name: str) -> object:
        if name.startswith("_"):
            raise ImportError(name)
        return import_module(name)

    content = np.random.default_rng(1).bytes(size)
    monkeypatch.delitem(sys.modules, "hashlib")
    if not has_own:
        monkeypatch.setattr(digests, "import_module", without_own)
        monkeypatch.setitem(sys.modules, "_blake2", None)
    wanted = hashlib.sha256(content).digest()
    assert digests.sha256(content).digest() == wanted
    assert digests.blake2b(content).digest() == (
        hashlib.blake2b(content, digest_size=32).digest() if has_own else wanted)
