"""Runs a model that loops and branches, and shows which of its subgraphs ran how often.

    python examples/demo.py [NUMBER]

The model counts the steps of the Collatz sequence from a number down to 1: a While whose body holds an If.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import circlet

MODEL = Path(__file__).with_name("collatz.tflite")


def observed_run(model: circlet.Model, number: int, copy_elision: bool) -> tuple[dict[str, int], circlet.Counter]:
    """The outputs of a run, and what was counted meanwhile."""
    session = circlet.Session(model, copy_elision=copy_elision)
    counter = circlet.Counter()
    outputs = session.run({"n": np.int32(number)}, listener=counter)
    return {name: int(value) for name, value in outputs.items()}, counter


def main(number: int) -> None:
    model = circlet.load(MODEL)
    outputs, counter = observed_run(model, number, copy_elision=True)
    _, plain = observed_run(model, number, copy_elision=False)

    print(f"{MODEL.name}: n = {number} -> " + ", ".join(f"{name} = {value}" for name, value in outputs.items()))
    print("\nsubgraph                        operators  invocations")
    for index, subgraph in enumerate(model.subgraphs):
        print(f"{index} {subgraph.name:30s} {len(subgraph.operators):8d} {counter.invocations[index]:12d}")
    print(f"\nvalues copied between subgraphs: {counter.copies} ({plain.copies} without copy elision)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 27)
