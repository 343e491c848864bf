"""The `circlet` program: its sub-commands, and what becomes of their errors."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

import circlet
from circlet.tools import convert, inspect, run
from circlet.tools.console import write

COMMANDS = {"run": run, "inspect": inspect, "convert": convert}
"""Sub-commands by name: modules whose `add_arguments` fills a parser and whose `execute` returns what to print."""

FAILED, INTERRUPTED, BROKEN_PIPE = 1, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program, by default on the arguments of the process.

    Returns:
        The exit code: 0; 1 after an error, which is one line on stderr; as shells have it 130 when interrupted and
        141 when the reader of stdout has gone.

    Raises:
        SystemExit: the arguments are wrong, with code 2; or help was asked for.
    """
    options = _parser().parse_args(arguments)
    try:
        write(COMMANDS[options.command].execute(options))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Python flushes stdout as it exits, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except (circlet.CircletError, OSError, MemoryError) as error:
        with suppress(OSError):
            write(f"circlet: error: {_message(error)}", sys.stderr)
        return FAILED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="circlet", description=circlet.__doc__)
    parser.add_argument("--version", action="version", version=f"circlet {circlet.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    for name, command in COMMANDS.items():
        text = command.__doc__ or ""
        command.add_arguments(commands.add_parser(name, help=text.rstrip("."), description=text))
    return parser


def _message(error: Exception) -> str:
    """What an error says, on one line."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"out of memory: {error}" if str(error) else "out of memory"
    first, *rest = (line.strip() for line in str(error).splitlines() or [type(error).__name__])
    return f"{first} {'; '.join(rest)}".rstrip()
