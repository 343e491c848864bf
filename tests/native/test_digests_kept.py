"""Digests of files that did not change, which are kept with plans."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.backends.native.plans.key import FileProvenance
from circlet.runtime import digests
from circlet.runtime.ir import model as models
from circlet.runtime.ir.builder import ModelBuilder
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.ops.matmul import FullyConnected
from circlet.schema.content import read_with_status
from circlet.schema.files import dump_model
from tests.native.test_plans import is_prepared

GIVEN = np.eye(2, 256, dtype=np.float32)
OLD = 1_500_000_000_123_456_789
"""Nanoseconds since the epoch, long ago."""
pytestmark = pytest.mark.skipif(os.name != "posix", reason="files tell no time of a change of any kind")


def layer(weights: Array) -> bytes:
    """x (n, 256) by weights."""
    b = ModelBuilder()
    main = b.subgraph("main")
    main.output(main.apply(FullyConnected(), main.input("x", DType.FLOAT32, (-1, 256)), main.constant(weights)))
    return dump_model(b.build(), "tflite")


def weights() -> Array:
    return np.random.default_rng(0).normal(size=(64, 256)).astype(np.float32)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that was changed long ago, so that the system tells each change to come."""
    found = tmp_path / "layer.tflite"
    found.write_bytes(layer(weights()))
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 10_000_000_000)
    return found


@pytest.fixture
def digested(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of what is digested."""
    found: list[int] = []

    def heard(content: bytes | memoryview) -> bytes:
        found.append(memoryview(content).nbytes)
        return digests.content_digest(content)

    monkeypatch.setattr(models, "content_digest", heard)
    return found


def run(path: Path) -> tuple[Array, bool]:
    """The result, and whether a plan gave it."""
    session = circlet.Session(path, "native")
    (found,) = session.invoke(0, [GIVEN])
    return found, is_prepared(session)


def test_a_file_is_digested_until_its_plan_was_found(folder: Path, path: Path, digested: list[int]) -> None:
    expected, _ = run(path)
    again, is_planned = run(path)
    assert is_planned
    assert digested
    digested.clear()
    known, is_planned = run(path)
    assert is_planned
    assert not digested
    np.testing.assert_array_equal(known, expected)
    np.testing.assert_array_equal(again, expected)


@pytest.mark.parametrize("is_stamped", [False, True])
def test_a_change_is_seen_by_content_or_times(folder: Path, path: Path, digested: list[int], is_stamped: bool,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that change places leave the sum as it is, and times may be put back: either alone is seen."""
    for _ in range(3):
        expected, is_planned = run(path)
    assert is_planned
    digested.clear()
    _, status = read_with_status(str(path))
    changed = weights()
    changed[:, :2] = changed[:, 1::-1] if is_stamped else 0
    path.write_bytes(layer(changed))
    assert status is not None
    assert os.stat(path).st_mtime_ns != status.st_mtime_ns
    if not is_stamped:
        monkeypatch.setattr("circlet.given.read_with_status", lambda name: (read_with_status(name)[0], status))
    found, is_planned = run(path)
    assert digested
    assert not is_planned
    assert not np.array_equal(found, expected)
    np.testing.assert_allclose(found, GIVEN @ changed.T, rtol=1e-5)


def test_a_file_that_changed_just_now_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "some"
    path.write_bytes(b"some")
    assert read_with_status(str(path))[1] is None
    os.utime(path, ns=(OLD, OLD))
    assert read_with_status(str(path))[1] is None, "its status changed just now"


@pytest.mark.parametrize("place", [0, 40, 70, -1])
def test_a_damaged_digest_is_made_anew(folder: Path, path: Path, digested: list[int], place: int) -> None:
    for _ in range(2):
        run(path)
    kept = folder / FileProvenance(*_read(path), statuses=(read_with_status(str(path))[1],))._name
    content = bytearray(kept.read_bytes())
    content[place] ^= 1
    kept.write_bytes(content)
    digested.clear()
    assert run(path)[1]
    assert digested
    digested.clear()
    assert run(path)[1]
    assert not digested


def _read(path: Path) -> tuple[memoryview, str, tuple[()], tuple[()]]:
    return read_with_status(str(path))[0], "", (), ()


def test_weights_beside_a_model_are_known_with_it(digested: list[int]) -> None:
    both = [memoryview(bytes([each]) * 40_000) for each in (1, 2)]
    status = os.stat(__file__)
    known = FileProvenance(both[0], "", (), (), both[1], statuses=(status, status))
    assert len(known.digest) == 64
    assert digested == [40_000, 40_000]
    assert known._name
    assert not FileProvenance(both[0], "", (), (), both[1], statuses=(status, None))._name, "one of them may change"
    assert not FileProvenance(both[0], "", (), (), both[1])._name, "nothing is known of them"
    assert not FileProvenance(both[0], "", (), (), statuses=(status,))._name, "it is digested sooner"
