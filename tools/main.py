"""The `circlet` program: its commands, and what becomes of their errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

import click
from click.shell_completion import shell_complete

from circlet.runtime.errors import CircletError
from circlet.tools.completion import VARIABLE
from circlet.tools.console import complain, show
from circlet.tools.failures import json_error, message
from circlet.tools.usage import Program
from circlet.version import VERSION

COMMANDS = {
    "run": "Run a model: its outputs, which subgraphs ran, what was copied between them.",
    "inspect": "Show what a model holds, what computes it, and what passes between its subgraphs.",
    "profile": "Show where the time of runs goes: by loop, subgraph and operator.",
    "convert": "Write a model as .tflite or .circle.",
    "debug": "Run a model operator by operator, and stop where it is asked: look at tensors, find NaN.",
    "compare": "Run a model twice, by other code or another runtime, and tell the first operator that differs.",
    "bench": "Measure runs of models, beside other runtimes.",
    "overhead": "Measure what invoking subgraphs costs in a model.",
    "compile": "Compile a model to an object file and a C header, for programs without Python.",
    "warm": "Compile models ahead of the programs that run them.",
    "cache": "Show or empty the folder of compiled functions.",
    "completion": "Print what makes a shell complete the words of this program.",
}
PROGRAM = click.version_option(VERSION, message="%(prog)s %(version)s")(
    Program("circlet", COMMANDS, help="Run, inspect, convert and compile models that branch and loop."))

FAILED, MISUSED, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program, by default on the arguments of the process.

    Returns:
        The exit code: 0; 1 after an error and 2 for a wrong command line, of which one line on stderr or, with
        `--json`, on stdout tells; as shells have it 130 when interrupted and 141 when the reader of stdout has gone.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _run(list(given))
        sys.stdout.flush()
    except KeyboardInterrupt:
        if arguments is None:
            _leave(INTERRUPTED)
        return INTERRUPTED
    except BrokenPipeError:
        # Python flushes stdout as it exits, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except (click.UsageError, CircletError, OSError, MemoryError) as error:
        _tell(error, "--json" in given)
        return MISUSED if isinstance(error, click.UsageError) else FAILED
    return code


def _run(given: list[str]) -> int:
    instruction = os.environ.get(VARIABLE)
    if instruction:
        return shell_complete(PROGRAM, {}, "circlet", VARIABLE, instruction)
    try:
        with PROGRAM.make_context("circlet", given) as context:
            PROGRAM.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    return 0


def _leave(code: int) -> None:
    """Ends the process now: Python would wait for LLVM, which may be at work in a thread."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def _tell(error: Exception, as_json: bool) -> None:
    with suppress(OSError):
        if as_json:
            show(json_error(error))
            sys.stdout.flush()
        else:
            complain(message(error))
