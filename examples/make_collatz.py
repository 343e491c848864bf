"""Writes `collatz.tflite`, the model that `demo.py` runs, with TensorFlow's converter (the `convert` extra)."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf


class Collatz(tf.Module):
    """Counts the steps that a number takes to 1 by halving or by 3 n + 1, and keeps the largest number on the way."""

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32, "n")])
    def run(self, n: tf.Tensor) -> dict[str, tf.Tensor]:
        steps, peak = 0, n
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            peak = tf.maximum(peak, n)
            steps += 1
        return {"steps": steps, "peak": peak}


def main() -> None:
    module = Collatz()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([module.run.get_concrete_function()], module)
    Path(__file__).with_name("collatz.tflite").write_bytes(converter.convert())


if __name__ == "__main__":
    main()
