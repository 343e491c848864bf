"""Writes the test models of this folder and the outputs expected of them.

    python -m tests.models.generate [--list] [NAME ...]

Run from the root of the repository, with TensorFlow and LiteRT installed (the extras `convert` and `test`). Without
names, every model is written. Each model is made in a process of its own, so that the names in the file do not depend
on the others.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np
import tensorflow as tf

from tests.models import programs
from tests.models.expectations import Array, Expectation, agrees, keys, read
from tests.models.inventory import operators
from tests.models.program import RECIPES, Program, convert

FOLDER = Path(__file__).parent
WIDTH = 24


class _Reference:
    """A converted model on LiteRT's reference kernels, or on its optimised ones where a reference kernel is missing."""

    def __init__(self, content: bytes) -> None:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        try:
            self._interpreter = Interpreter(
                model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
            )
        except ValueError:
            self._interpreter = Interpreter(
                model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            )

    def call(self, signature: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
        results = self._interpreter.get_signature_runner(signature)(**inputs)
        return {name: np.array(value) for name, value in results.items()}


def _tensorflow(program: Program, signature: str, inputs: Mapping[str, Array]) -> dict[str, Array]:
    results = program.functions[signature](**{name: tf.constant(value) for name, value in inputs.items()})
    return {name: np.asarray(value) for name, value in results.items()}


def _silence() -> None:
    """Drops what the converter prints; errors come as exceptions."""
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)


def write(name: str) -> tuple[int, int, dict[str, int]]:
    """Writes one model and its expectations.

    Returns:
        Its size in bytes, the number of its subgraphs, and how often each operator occurs.
    """
    _silence()
    program = RECIPES[name].build()
    content = convert(program)
    compute = _Reference(content).call if program.reference == "litert" else partial(_tensorflow, program)
    arrays: dict[str, Any] = {}
    for number, call in enumerate(program.calls):
        arrays |= keys(Expectation(number, call.signature, call.inputs, compute(call.signature, call.inputs)))
    FOLDER.joinpath(f"{name}.tflite").write_bytes(content)
    np.savez_compressed(FOLDER / f"{name}.npz", **arrays)
    return len(content), *operators(content)


def compare(name: str) -> str:
    """How the one who did not compute the expectations of a model (LiteRT or TensorFlow) agrees with them."""
    _silence()
    program = RECIPES[name].build()
    other = "TensorFlow" if program.reference == "litert" else "LiteRT"
    reference = _Reference(FOLDER.joinpath(f"{name}.tflite").read_bytes())
    compute = partial(_tensorflow, program) if other == "TensorFlow" else reference.call
    for call in read(FOLDER / f"{name}.npz"):
        try:
            actual = compute(call.signature, call.inputs)
        except (RuntimeError, TypeError, ValueError) as error:
            return f"{other} fails in call {call.number}: {str(error).splitlines()[0][:60]}"
        for output, expected in call.outputs.items():
            if not agrees(actual[output], expected):
                return f"{other} differs in call {call.number}, {output}{_distance(actual[output], expected)}"
    return f"{other} agrees"


def _distance(actual: Array, expected: Array) -> str:
    if actual.shape != expected.shape or expected.dtype.kind != "f":
        return ""
    return f" by {np.max(np.abs(actual - expected)) / np.max(np.abs(expected)):.1%} of the largest"


def _apart(task: Callable[[str], Any], name: str) -> Any:
    """The result of a task in a process of its own, or the error that ended it."""
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("fork")) as process:
            return process.submit(task, name).result()
    except Exception as error:
        return error


def make(name: str) -> bool:
    """Writes one model, prints its row, and tells whether that worked."""
    made = _apart(write, name)
    if isinstance(made, Exception):
        print(f"{name:{WIDTH}s} not written: {type(made).__name__}: {str(made)[:300]}", flush=True)
        return False
    compared = _apart(compare, name)
    other = f"fails: {str(compared).splitlines()[0][:70]}" if isinstance(compared, Exception) else compared
    size, subgraphs, used = made
    text = " ".join(f"{operator}*{count}" if count > 1 else operator for operator, count in used.items())
    print(f"{name:{WIDTH}s} {size:6d} {subgraphs:3d}  {text}  [{other}]", flush=True)
    return True


def describe() -> None:
    """Prints the table of models that the README holds."""
    print("| model | what it is | expected values | subgraphs |\n|---|---|---|---|")
    for name, recipe in sorted(RECIPES.items()):
        reference = {"tensorflow": "TensorFlow", "litert": "LiteRT"}[recipe.build().reference]
        subgraphs, _ = operators(FOLDER.joinpath(f"{name}.tflite").read_bytes())
        print(f"| `{name}` | {recipe.summary.splitlines()[0]} | {reference} | {subgraphs} |")


def main(names: list[str], table: bool) -> int:
    for module in pkgutil.iter_modules(programs.__path__, f"{programs.__name__}."):
        importlib.import_module(module.name)
    unknown = [name for name in names if name not in RECIPES]
    if unknown:
        print(f"unknown models: {', '.join(unknown)}; known are: {', '.join(sorted(RECIPES))}", file=sys.stderr)
        return 2
    if table:
        describe()
        return 0
    return 0 if all([make(name) for name in names or sorted(RECIPES)]) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="models to write; all where none is given")
    parser.add_argument("--list", action="store_true", help="print the table of models for the README instead")
    options = parser.parse_args()
    sys.exit(main(options.names, options.list))
