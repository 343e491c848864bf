"""Measures models compiled by IREE, beside which `docs/embed.md` puts those of `benchmarks.embed`.

    python -m benchmarks.iree MODEL.tflite...

In an environment of its own, with `tensorflow-cpu==2.18.*`, the last that makes TOSA of a `.tflite` file, and
`iree-base-compiler==3.1.0` and `iree-base-runtime==3.1.0`, which read that; nothing else of this project is needed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.models.expectations import Expectation, agrees, read

ROUNDS = 50
FLAGS = ["--iree-llvmcpu-target-cpu=host"]


def compiled(path: Path) -> bytes:
    """The module for this processor.

    Raises:
        Exception: TensorFlow or IREE cannot read or compile the model; they have no type for that.
    """
    import tensorflow
    from iree.compiler import compile_file

    with tempfile.NamedTemporaryFile(suffix=".tosa") as tosa:
        tensorflow.mlir.experimental.tflite_to_tosa_bytecode(str(path), tosa.name)
        found: bytes = compile_file(tosa.name, input_type="tosa", target_backends=["llvm-cpu"], extra_args=FLAGS)
    return found


def measured(module: bytes, call: Expectation) -> tuple[float, int, bool]:
    """The shortest of some runs in seconds, the bytes of buffers at the peak of one, and whether the results are those
    that are expected. One thread runs them."""
    from iree import runtime

    config = runtime.Config("local-sync")
    loaded = runtime.SystemContext(config=config)
    loaded.add_vm_module(runtime.VmModule.copy_buffer(loaded.instance, module))
    run = loaded.modules.module.main
    given = [runtime.asdevicearray(config.device, each) for each in call.inputs.values()]
    results = run(*given)
    results = results if isinstance(results, (list, tuple)) else [results]
    is_right = all(any(agrees(np.asarray(one), other) for one in results) for other in call.outputs.values())
    found = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        run(*given)
        found.append(time.perf_counter() - begin)
    return min(found), config.device.allocator.statistics["device_bytes_peak"], is_right


def main() -> int:
    """Prints a line for each model."""
    for each in map(Path, sys.argv[1:]):
        try:
            module = compiled(each)
            seconds, peak, is_right = measured(module, read(each.with_suffix(".npz"))[0])
        except Exception as error:
            print(f"{each.stem}: fails: {str(error).strip().splitlines()[0][:120]}", flush=True)
            continue
        print(f"{each.stem}: module {len(module):,} bytes, buffers {peak:,} bytes, {seconds * 1e6:,.1f} us"
              f"{'' if is_right else ', wrong results'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
