"""Traces: one document, in which slices lie within each other."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import circlet
from circlet.backends.platform import Feature, current
from circlet.profiling.trace import RUNS
from circlet.runtime.exec.observe.regions import Kind
from circlet.runtime.records import replace
from tests.needs import NATIVE


def traced(events: int, threads: int = 1, runs: int = 1) -> tuple[circlet.Profile, dict[str, Any]]:
    session = circlet.Session("examples/collatz.tflite", "cpu")
    at_once = threading.Barrier(threads)

    def run() -> None:
        at_once.wait()
        for _ in range(runs):
            session.run([27])

    with circlet.profile(session, events=events) as profile:
        started = [threading.Thread(target=run) for _ in range(threads)]
        for each in started:
            each.start()
        for each in started:
            each.join()
    return profile, json.loads(json.dumps(profile.to_trace(), allow_nan=False))


def slices(found: dict[str, Any]) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """The slices of each track."""
    tracks = defaultdict(list)
    for each in found["traceEvents"]:
        if each["ph"] == "X":
            tracks[each["pid"], each["tid"]].append(each)
    return tracks


@pytest.mark.parametrize(("events", "threads"), [(0, 1), (100, 1), (100, 2), (100_000, 1), (100_000, 3)])
def test_slices_lie_within_each_other(events: int, threads: int) -> None:
    profile, found = traced(events, threads, runs=2)
    tracks = slices(found)
    assert len(tracks) == 1 + (threads if events else 0)
    for track in tracks.values():
        open_ends: list[float] = []
        for each in track:
            while open_ends and open_ends[-1] <= each["ts"] + 2e-3:
                open_ends.pop()
            assert each["dur"] >= 0
            assert not open_ends or each["ts"] + each["dur"] <= open_ends[-1] + 2e-3
            open_ends.append(each["ts"] + each["dur"])
    dropped = sum(each.dropped for each in profile.tracks)
    assert found["otherData"]["regions_not_kept"] == dropped
    assert (dropped > 0) == (events == 100)


def test_turns_have_numbers_and_what_is_around_them() -> None:
    _, found = traced(100)
    (track,) = (each for (process, _), each in slices(found).items() if process == 1)
    assert [each["name"] for each in track[:3]] == ["run", "@0", "[0] WHILE"]
    turns = [each for each in track if "turn" in each["args"]]
    assert [each["args"]["turn"] for each in turns] == list(range(len(turns)))
    assert turns[1]["name"] == "@4 body, turn 1"
    assert turns[1]["args"]["subgraph"] == "while_body"
    names = [each["args"]["name"] for each in found["traceEvents"] if each["ph"] == "M"]
    assert any(": the first " in each for each in names)


def test_what_takes_no_time_lies_in_what_is_around_it() -> None:
    """Regions of one moment come with the outer ones first, though the inner ones end first."""
    session = circlet.Session("examples/collatz.tflite", "cpu")
    with circlet.profile(session, events=100) as profile:
        session.run([27])
    (track,) = profile.tracks
    track.events[:] = [replace(each, begin=5.0, end=5.0) for each in track.events]
    (shown,) = (each for (process, _), each in slices(profile.to_trace()).items() if process == RUNS)
    assert [each["name"] for each in shown[:3]] == ["run", "@0", "[0] WHILE"]


@NATIVE
@pytest.mark.skipif(not current().has(Feature.THREADS), reason="one thread runs native code here")
def test_threads_that_help_have_tracks() -> None:
    """Each part of a loop lies within the operator that shares it out; who helps when is the system's choice."""
    net = circlet.Network()
    x = net.input("x", np.float32, (512, 512))
    weights = np.ones((512, 512), np.float32)
    net.output(x @ weights @ weights, "y")
    session = circlet.Session(net.build(), "native", num_threads=2)
    given = [np.ones((512, 512), np.float32)]
    for _ in range(100):
        with circlet.profile(session, events=10_000) as profile:
            session.run(given)
        found = json.loads(json.dumps(profile.to_trace(), allow_nan=False))
        tracks = slices(found)
        if len(tracks) == 3:
            break
    names = [each["args"]["name"] for each in found["traceEvents"] if each["name"] == "thread_name"]
    assert [each.partition(", ")[2] for each in names] == ["", "worker 1"]
    caller = [each for each in tracks[1, 1] if each["cat"] == "operator"]
    assert len(caller) == 2
    ends = 0.0
    for part in tracks[1, 2]:
        around = next(each for each in caller if each["args"] == part["args"])
        assert around["ts"] <= part["ts"] + 1
        assert part["ts"] + part["dur"] <= around["ts"] + around["dur"] + 1
        assert part["name"] == around["name"]
        assert ends <= part["ts"]
        ends = part["ts"] + part["dur"]


def test_all_runs_together() -> None:
    profile, found = traced(0, runs=3)
    (track,) = slices(found).values()
    assert track[0]["name"] == "run"
    assert track[0]["dur"] == pytest.approx(profile.root.total / 1000, abs=2e-3)
    loop = next(each for each in track if each["name"] == "[0] WHILE")
    assert (loop["args"]["count"], loop["args"]["turns"]) == (3, 333)


@NATIVE
def test_slices_lie_within_each_other_around_what_the_host_computes() -> None:
    """The clock stands still while operators of the host are recorded, the processor's counter does not."""
    net = circlet.Network()
    x = net.input("x", np.float64, (4,))
    _, y = net.while_loop(lambda turn, y: turn < 200, lambda turn, y: (turn + 1, net.exp(y) * 0.5), (0, x))
    net.output(y, "y")
    session = circlet.Session(net.build(), "native")
    with circlet.profile(session):
        session.run([np.zeros(4)])
    assert any(is_nested(session) for _ in range(200)), "another program may delay the first readings of a call"


def is_nested(session: circlet.Session) -> bool:
    """Whether regions of three runs lie within these, and slices within each other."""
    with circlet.profile(session, events=10_000) as profile:
        for _ in range(3):
            session.run([np.zeros(4)])
    events = profile.tracks[0].events
    runs = [each for each in events if each.node.region.kind is Kind.RUN]
    assert len(runs) == 3
    if not all(any(run.begin - 1000 <= each.begin and each.end <= run.end + 1000 for run in runs) for each in events):
        return False
    ends: list[float] = []
    for each in profile.to_trace()["traceEvents"]:
        if each["ph"] == "X" and each["pid"] == RUNS:
            assert each["ts"] >= 0 <= each["dur"]
            while ends and ends[-1] <= each["ts"] + 1e-6:
                ends.pop()
            if ends and each["ts"] + each["dur"] > ends[-1] + 1e-6:
                return False
            ends.append(each["ts"] + each["dur"])
    return True
