"""Builds a model that loops, branches and loops again, and shows which of its subgraphs ran how often.

    python examples/network.py [NUMBER...]

The model takes square roots by Newton's method. A loop goes through the numbers; those that are not positive become
zero; for the others an inner loop makes the guess better until it is good enough.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

import circlet
from circlet.network import Tensor


def square_root(net: circlet.Network, x: Tensor) -> tuple[Tensor, Tensor]:
    """The root of a positive number, and how many steps it took: traced from Python functions."""
    guess, steps = net.while_loop(
        lambda guess, steps: abs(guess * guess - x) > 1e-6 * x,
        lambda guess, steps: ((guess + x / guess) / 2, steps + 1),
        (x, 0), name="newton")
    return guess, steps


def square_roots() -> circlet.Model:
    """Inputs: numbers float32 (n,). Outputs: roots float32 (n,), steps int32 ()."""
    net = circlet.Network()
    numbers = net.input("numbers", np.float32, (-1,))
    loop = net.loop("each")
    loop.trip_limit(net.shape(numbers)[0])
    number, total = loop.iterator(numbers), loop.recurrence(0)

    positive = net.conditional(number > 0, "positive")
    guess, steps = square_root(net, positive.input(number))
    root = positive.output(guess, 0.0)
    total.set_next(total + positive.output(steps, 0))

    net.output(loop.output(root, circlet.LoopOutput.CONCATENATE), "roots")
    net.output(loop.output(total), "steps")
    return net.build()


def main(numbers: Sequence[float]) -> None:
    model = square_roots()
    counter = circlet.Counter()
    outputs = circlet.Session(model).run({"numbers": np.array(numbers, np.float32)}, listener=counter)
    print(f"roots: {', '.join(f'{root:g}' for root in outputs['roots'])}")
    print(f"steps: {outputs['steps']}")
    print("\nsubgraph                        operators  invocations")
    for index, subgraph in enumerate(model.subgraphs):
        print(f"{index} {subgraph.name:30s} {len(subgraph.operators):8d} {counter.invocations[index]:12d}")


if __name__ == "__main__":
    main([float(each) for each in sys.argv[1:]] or [2, -1, 16, 0.25])
