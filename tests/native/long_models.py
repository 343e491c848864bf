"""Models that take longer than anybody waits, and the session for one; as a program, runs one until it is stopped:
`python -m tests.native.long_models NAME THREADS`."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

import circlet
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import Array


def loop() -> tuple[Model, list[Array]]:
    """A loop without end."""
    net = circlet.Network()
    x = net.input("x", np.int32, ())
    net.output(net.while_loop(lambda x: x > -1, lambda x: x * 1, x), "y")
    return net.build(), [np.array(1, np.int32)]


def nest() -> tuple[Model, list[Array]]:
    """One group of operators with 10^11 elements, of which the greatest is wanted."""
    net = circlet.Network()
    x, y = net.input("x", np.float32, (1 << 18, 1)), net.input("y", np.float32, (400_000,))
    net.output((net.tanh(x * y)).max(), "z")
    return net.build(), [np.ones((1 << 18, 1), np.float32), np.ones(400_000, np.float32)]


def products() -> tuple[Model, list[Array]]:
    """Products of matrices that take minutes."""
    net = circlet.Network()
    x = y = net.input("x", np.float32, (1200, 1200))
    for _ in range(60):
        y = net.matmul(y, x)
    net.output(y, "y")
    return net.build(), [np.eye(1200, dtype=np.float32)]


def recurrence() -> tuple[Model, list[Array]]:
    """A loop of turns that take a millisecond or so each, which shares its work out."""
    net = circlet.Network()
    x = net.input("x", np.float32, (400, 400))
    net.output(net.while_loop(lambda x: x.max() > -1, lambda x: net.matmul(x, x), x), "y")
    return net.build(), [np.eye(400, dtype=np.float32)]


LONG: dict[str, Callable[[], tuple[Model, list[Array]]]] = {
    "loop": loop, "nest": nest, "products": products, "recurrence": recurrence,
}


def main() -> None:
    model, inputs = LONG[sys.argv[1]]()
    session = circlet.Session(model, backend="native", num_threads=int(sys.argv[2]))
    print("running", flush=True)
    try:
        session.run(inputs)
    except KeyboardInterrupt:
        print("interrupted", flush=True)


if __name__ == "__main__":
    main()
