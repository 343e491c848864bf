"""Digests, of much content made by a thread."""

from __future__ import annotations

import hashlib
import sys
from importlib import import_module
from threading import Thread

import numpy as np
import pytest

from circlet.runtime import digests


@pytest.mark.parametrize("size", [0, 1000, digests.MUCH, digests.MUCH + 1])
@pytest.mark.parametrize("has_threads", [True, False])
def test_a_digest_that_is_begun_is_that_of_all(size: int, has_threads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Thread] = []

    def start(thread: Thread) -> None:
        if not has_threads:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        own(thread)

    own = Thread.start
    monkeypatch.setattr(Thread, "start", start)
    content = np.random.default_rng(1).bytes(size)
    digest = digests.begun(memoryview(content))
    is_much = size >= digests.MUCH
    wanted = hashlib.sha256(content) if is_much else hashlib.blake2b(content, digest_size=32)
    assert digest() == digest() == wanted.digest()
    assert len(begun) == (has_threads and is_much)


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
    wanted = hashlib.sha256(content).digest()
    assert digests.sha256(content).digest() == wanted
    assert digests.blake2b(content).digest() == (
        hashlib.blake2b(content, digest_size=32).digest() if has_own else wanted)
