"""Python's search for cycles stands still while code is written, and nothing else: not in the child of a fork."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from threading import Thread
from types import ModuleType

import pytest

from circlet.backends.native.compilation import COLLECTOR
from circlet.ready import get_ready
from circlet.runtime.late import LOADING, imported

_FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")


@pytest.mark.parametrize("is_on", [True, False])
def test_the_collector_is_as_it_was_once_nobody_writes_code(is_on: bool) -> None:
    before = gc.isenabled()
    (gc.enable if is_on else gc.disable)()
    try:
        with COLLECTOR.paused():
            with COLLECTOR.paused():
                assert not gc.isenabled()
            assert not gc.isenabled()
        assert gc.isenabled() == is_on
    finally:
        (gc.enable if before else gc.disable)()


@pytest.mark.parametrize("is_on", [True, False])
def test_the_collector_is_as_it_was_once_the_package_is_ready(is_on: bool) -> None:
    before = gc.isenabled()
    (gc.enable if is_on else gc.disable)()
    try:
        get_ready()
        assert gc.isenabled() == is_on
    finally:
        (gc.enable if before else gc.disable)()


@pytest.mark.parametrize("is_on", [True, False])
def test_the_collector_stands_still_while_modules_are_loaded(is_on: bool) -> None:
    before = gc.isenabled()
    (gc.enable if is_on else gc.disable)()
    try:
        with LOADING:
            with LOADING:
                assert not gc.isenabled()
            assert not gc.isenabled()
        assert gc.isenabled() == is_on
    finally:
        (gc.enable if before else gc.disable)()


@_FORKS
@pytest.mark.parametrize("is_loading", [True, False], ids=["loading", "not loading"])
def test_the_collector_is_on_in_a_child_once_nothing_is_loaded(is_loading: bool) -> None:
    def works() -> bool:
        if is_loading:
            LOADING.release()
        return _works()

    if is_loading:
        with LOADING:
            assert _in_a_child(works)
    else:
        assert _in_a_child(works)
    assert _works()


@pytest.mark.parametrize("step", ["isenabled", "disable"])
def test_the_collector_is_on_after_an_interrupt_before_modules_are_loaded(step: str,
                                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    real = getattr(gc, step)

    def interrupted() -> None:
        real()
        raise KeyboardInterrupt

    monkeypatch.setattr(gc, step, interrupted)
    with pytest.raises(KeyboardInterrupt), LOADING:
        pass
    monkeypatch.undo()
    assert _works()
    thread = Thread(target=imported, args=("circlet",), daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


def _works() -> bool:
    """Whether the collector is on, and a pause is one."""
    before = gc.isenabled(), sys.getswitchinterval()
    with COLLECTOR.paused():
        is_paused = not gc.isenabled()
    return before == (gc.isenabled(), sys.getswitchinterval()) == (True, before[1]) and is_paused


def _in_a_child(works: Callable[[], bool]) -> bool:
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if works() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@_FORKS
def test_a_child_of_a_fork_collects_though_a_thread_was_writing_code() -> None:
    interval = sys.getswitchinterval()
    with COLLECTOR.paused():
        assert _in_a_child(lambda: gc.isenabled() and sys.getswitchinterval() == interval and _works())


@_FORKS
def test_a_thread_that_writes_code_goes_on_in_the_child_of_a_fork() -> None:
    with COLLECTOR.paused():
        child = os.fork()
    try:
        found = _works() and _works()
    finally:
        if child == 0:
            os._exit(0 if found else 1)
    assert found
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@_FORKS
@pytest.mark.parametrize("is_done", [True, False], ids=["after", "before"])
@pytest.mark.parametrize(("module", "name"), [(gc, "disable"), (gc, "enable"), (sys, "setswitchinterval")])
def test_a_fork_comes_at_any_step(module: ModuleType, name: str, is_done: bool,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step of a pause forks, as if another thread did; all is as it was in the children."""
    step, parent, interval = getattr(module, name), os.getpid(), sys.getswitchinterval()
    found: list[bool] = []

    def forking(*arguments: float) -> None:
        if is_done:
            step(*arguments)
        if os.getpid() == parent:
            found.append(_in_a_child(lambda: gc.isenabled() and sys.getswitchinterval() == interval and _works()))
        if not is_done:
            step(*arguments)

    monkeypatch.setattr(module, name, forking)
    with COLLECTOR.paused():
        pass
    assert found
    assert all(found)
    assert _works()
