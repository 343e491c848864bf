"""Writes two models that compute the same, one of them slowly: for trying `circlet profile`.

    python examples/slow_loop.py [FOLDER]

A recurrent layer goes through the rows of a sequence. In slow_loop.tflite, each turn multiplies the whole sequence by
the weights, and takes one row of the product; in quick_loop.tflite the product is made once, before the loop.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import circlet
from circlet.network import Tensor

ROWS, WIDTH = 64, 128


def recurrent(multiplies_in_loop: bool) -> circlet.Model:
    """Input: x float32 (64, 128). Output: state float32 (1, 128), the last one."""
    chance = np.random.default_rng(0)
    weights, recurrent_weights = (chance.normal(size=(2, WIDTH, WIDTH)) / WIDTH**0.5).astype(np.float32)
    net = circlet.Network()
    x = net.input("x", np.float32, (ROWS, WIDTH))
    inputs = None if multiplies_in_loop else x @ weights

    def turn(index: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        rows = x @ weights if inputs is None else inputs
        return index + 1, net.tanh(net.gather(rows, index).reshape((1, WIDTH)) + state @ recurrent_weights)

    _, state = net.while_loop(lambda index, state: index < ROWS, turn, (0, np.zeros((1, WIDTH), np.float32)))
    net.output(state, "state")
    return net.build()


def main(folder: Path) -> None:
    for name, multiplies_in_loop in (("slow_loop", True), ("quick_loop", False)):
        circlet.save(recurrent(multiplies_in_loop), folder / f"{name}.tflite")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
