"""Profiles: nothing of the time is lost, and everything is counted."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.runtime.exec.observe.regions import Kind, Node, duration_class, duration_of_class
from tests.models.expectations import Expectation, read
from tests.needs import NATIVE

MODELS = sorted((Path(__file__).parent.parent / "models").glob("*.tflite"))
BACKENDS = ["cpu", pytest.param("native", marks=NATIVE)]
QUICK = ("collatz", "nested_while", "cond_nested", "break_continue", "counter", "beam")


def profiled(path: Path, backend: str, call: Expectation, times: int = 2) -> tuple[circlet.Profile, circlet.Counter]:
    """A profile of runs of a model, and what one more run counts."""
    session, counter = circlet.Session(circlet.load(path), backend), circlet.Counter()
    runner = session.signature(call.signature) if call.signature else session
    with circlet.profile(session) as found:
        for _ in range(times):
            runner.run(call.inputs)
            session.reset_state()
    runner.run(call.inputs, listener=counter)
    return found, counter


def invocations(profile: circlet.Profile) -> Counter[int]:
    found: Counter[int] = Counter()
    for each in profile.root.walk():
        if each.region.kind is Kind.SUBGRAPH:
            found[each.region.subgraph] += each.count
    return found


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("path", [
    pytest.param(each, id=each.stem, marks=() if each.stem in QUICK else pytest.mark.slow) for each in MODELS])
def test_everything_is_counted(path: Path, backend: str) -> None:
    for call in read(path.with_suffix(".npz"))[:2]:
        profile, counter = profiled(path, backend, call)
        assert invocations(profile) == {each: 2 * count for each, count in counter.invocations.items()}
        nodes = list(profile.root.walk())
        assert sum(each.copies for each in nodes) == 2 * counter.copies
        assert sum(each.copied_bytes for each in nodes) == 2 * counter.copied_bytes


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", QUICK)
def test_no_time_is_lost(name: str, backend: str) -> None:
    path = next(each for each in MODELS if each.stem == name)
    profile, _ = profiled(path, backend, read(path.with_suffix(".npz"))[0])
    assert len(profile.walls) == 2
    (recorder,) = (each.recorder for each in profile.tracks)
    assert profile.root.total + recorder.native_cost == pytest.approx(sum(recorder.walls), rel=1e-6)
    assert all(each.own >= 0 for each in profile.root.walk())


def loop_of(profile: circlet.Profile) -> Node:
    return next(each for each in profile.root.walk() if each.loop is not None)


def test_loops_say_how_often_they_turned() -> None:
    session = circlet.Session("examples/collatz.tflite", "cpu")
    with circlet.profile(session) as profile:
        for number in (27, 1, 2):
            session.run([number])
    node = loop_of(profile)
    assert node.loop is not None
    assert (node.loop.activations, node.loop.counts, node.loop.fewest, node.loop.most) == (3, [111, 0, 1], 0, 111)
    assert (node.loop.timed, node.loop.turns, node.loop.first_timed) == (112, 112, 2)
    assert sum(node.loop.classes.values()) == 112
    assert 0 < node.loop.total <= node.total
    assert {profile.role(each): each.count for each in node.children.values()
            if each.region.kind is Kind.SUBGRAPH} == {"cond": 115, "body": 112}


def test_events_are_kept_as_far_as_there_is_room() -> None:
    session = circlet.Session("examples/collatz.tflite", "cpu")
    with circlet.profile(session, events=100) as profile:
        session.run([27])
    (track,) = profile.tracks
    assert 100 <= len(track.events) <= 110
    around = [each for each in track.events[100:] if each.begin < track.events[99].end]
    assert [each.node.region.kind for each in track.events[-3:]] == [Kind.OPERATOR, Kind.SUBGRAPH, Kind.RUN]
    assert around == track.events[100:]
    assert track.dropped > 0
    assert [each.turn for each in track.events if each.turn >= 0][:3] == [0, 1, 2]
    assert all(each.begin <= each.end for each in track.events)


def test_each_thread_is_timed_for_itself() -> None:
    session = circlet.Session("examples/collatz.tflite", "cpu")
    with circlet.profile(session) as profile:
        threads = [threading.Thread(target=session.run, args=([27],)) for _ in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    node = loop_of(profile)
    assert node.loop is not None
    assert (node.loop.activations, node.loop.turns, len(profile.walls)) == (3, 333, 3)


def test_a_failed_run_ends_its_regions() -> None:
    session = circlet.Session("examples/collatz.tflite", "cpu", limits=circlet.Limits(max_iterations=5))
    with circlet.profile(session) as profile:
        for _ in range(2):
            with pytest.raises(circlet.LimitError):
                session.run([27])
        session.run([1])
    assert profile.root.count == len(profile.walls) == 3
    assert profile.root.children[next(iter(profile.root.children))].count == 3
    assert profile.root.total == pytest.approx(sum(profile.walls), rel=1e-9)


def test_a_session_is_profiled_once_at_a_time() -> None:
    session = circlet.Session("examples/collatz.tflite", "cpu")
    with circlet.profile(session), pytest.raises(circlet.InputError, match="timed already"), circlet.profile(session):
        pass
    with circlet.profile(session) as profile:
        session.run([3])
    session.run([3])
    assert profile.root.count == 1


def test_durations_have_classes() -> None:
    times = np.unique(np.geomspace(1, 1e12, 5000).astype(np.int64)).tolist()
    classes = [duration_class(each) for each in times]
    assert classes == sorted(classes)
    for duration, number in zip(times, classes, strict=True):
        assert duration_of_class(number) <= duration < duration_of_class(number + 1)


@NATIVE
@pytest.mark.parametrize("path", [
    pytest.param(each, id=each.stem, marks=() if each.stem in QUICK else pytest.mark.slow) for each in MODELS])
def test_backends_agree_on_counts(path: Path) -> None:
    """Of each operator that both compute at a call path, and of the turns of each loop."""
    for call in read(path.with_suffix(".npz"))[:2]:
        native, cpu = (profiled(path, backend, call)[0] for backend in ("native", "cpu"))
        found = {each.path: each for each in native.root.walk()}
        expected = {each.path: each for each in cpu.root.walk()}
        shared = found.keys() & expected.keys()
        assert {path[:2] for path in found} <= {path[:2] for path in shared} | {path[:2] for path in expected}
        for place in shared:
            if place[-1].kind is not Kind.COPIES:
                assert found[place].count == expected[place].count, place
            one, other = found[place].loop, expected[place].loop
            if one is not None and other is not None:
                assert (one.turns, one.fewest, one.most) == (other.turns, other.fewest, other.most)


@NATIVE
def test_short_turns_are_timed_in_a_sample() -> None:
    session = circlet.Session("examples/collatz.tflite", "native")
    with circlet.profile(session) as profile:
        for _ in range(3):
            session.run([77031])
    node = loop_of(profile)
    assert node.loop is not None
    assert node.is_native
    assert (node.loop.turns, node.loop.fewest, node.loop.counts) == (1050, 350, [350] * 3)
    assert 3 <= node.loop.timed < 1050
    body = next(each for each in node.children.values() if profile.role(each) == "body")
    assert (body.count, body.sampled) == (1050, node.loop.timed / 1050)


@NATIVE
def test_long_turns_are_all_timed() -> None:
    """Turns of 8 million multiply-adds, some 100 us."""
    net = circlet.Network()
    x, weights = net.input("x", np.float32, (128, 256)), np.eye(256, dtype=np.float32)
    _, y = net.while_loop(lambda turn, y: turn < 5, lambda turn, y: (turn + 1, y @ weights), (0, x))
    net.output(y, "y")
    session = circlet.Session(net.build(), "native")
    with circlet.profile(session) as profile:
        for _ in range(2):
            session.run([np.ones((128, 256), np.float32)])
    node = loop_of(profile)
    assert node.loop is not None
    assert node.loop.timed == node.loop.turns == sum(node.loop.classes.values()) == 10


@NATIVE
def test_compiled_code_has_events() -> None:
    session = circlet.Session("examples/collatz.tflite", "native")
    with circlet.profile(session, events=1000) as profile:
        for _ in range(2):
            session.run([27])
    (track,) = profile.tracks
    turns = [each for each in track.events if each.turn >= 0]
    assert {each.turn for each in turns} >= {0}
    runs = [each for each in track.events if each.node.region.kind is Kind.RUN]
    assert len(runs) == 2
    for each in track.events:
        assert each.begin <= each.end
        assert any(run.begin - 1e5 <= each.begin and each.end <= run.end + 1e5 for run in runs)


@NATIVE
def test_code_that_is_not_profiled_reads_no_counter(tmp_path: Path) -> None:
    session = circlet.Session("examples/collatz.tflite", "native")
    first = session.run([27])
    with circlet.profile(session):
        assert {name: value.tolist() for name, value in session.run([27]).items()} == {
            name: value.tolist() for name, value in first.items()}
    assert {name: value.tolist() for name, value in session.run([27]).items()} == {
        name: value.tolist() for name, value in first.items()}


def test_readings_are_taken_from_the_runs_that_made_them() -> None:
    session = circlet.Session("examples/collatz.tflite", "cpu")
    with circlet.profile(session) as profile:
        for _ in range(3):
            session.run([3])
    (track,) = profile.tracks
    walls = list(track.recorder.walls)
    track.recorder.readings[:] = [0, 1, 3]
    track.recorder.native_cost = 4 * 50.0
    assert profile.walls == [walls[0], walls[1] - 50, walls[2] - 150]


@NATIVE
@pytest.mark.parametrize("name", ["grow_concat", "dense_batch"])
def test_code_for_any_lengths_is_timed_as_it_is(name: str) -> None:
    """Runs that are timed, or counted, take no other way than others: growing loops stay native."""
    path = next(each for each in MODELS if each.stem == name)
    call = read(path.with_suffix(".npz"))[0]
    profile, counter = profiled(path, "native", call, times=3)
    assert all(each.is_native for each in profile.root.walk() if each.region.kind is Kind.OPERATOR)
    assert profile.shapes[0] == tuple(np.shape(each) for each in call.inputs.values())
    assert invocations(profile) == {each: 3 * count for each, count in counter.invocations.items()}
    first = circlet.Counter()
    circlet.Session(circlet.load(path), "native").run(call.inputs, listener=first)
    assert (first.invocations, first.copies) == (counter.invocations, counter.copies), "with room that is too little"


@NATIVE
def test_one_call_is_timed_in_nanoseconds() -> None:
    """Not in ticks of the counter, of which one reading tells nothing: there a run took 2.5 times as long as it did."""
    net = circlet.Network()
    x = net.input("x", np.float32, (64, 64))
    net.output(net.while_loop(lambda k, y: k < 50, lambda k, y: (k + 1, net.tanh(y @ x)), (0, x))[1], "y")
    session, inputs = circlet.Session(net.build(), "native"), {"x": np.full((64, 64), 0.01, np.float32)}
    with circlet.profile(session):
        session.run(inputs)

    def ratio() -> float:
        with circlet.profile(session) as profile:
            session.run(inputs)
        return profile.root.total / sum(profile.walls)

    assert sorted(ratio() for _ in range(5))[2] == pytest.approx(1, rel=0.03)
