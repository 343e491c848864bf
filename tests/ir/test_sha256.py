"""Digests, of much content made by a thread."""

from __future__ import annotations

import hashlib
from threading import Thread

import numpy as np
import pytest

from circlet.runtime import sha256


@pytest.mark.parametrize("size", [0, 1000, sha256.LITTLE, 5 * sha256.LITTLE + 1])
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
    digest = sha256.begun(memoryview(content))
    assert digest() == digest() == hashlib.sha256(content).digest()
    assert len(begun) == (has_threads and size >= sha256.LITTLE)
