"""What commands have in common: their options, and the model and session that these describe."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

import circlet
from circlet.runtime.errors import InputError, suggestion
from circlet.runtime.ir.model import Model, Signature
from circlet.runtime.ir.types import Shape
from circlet.runtime.ir.verify import verify
from circlet.runtime.passes.manager import Pass
from circlet.schema.files import load_model
from circlet.schema.formats import OPTIONS
from circlet.session import BACKENDS
from circlet.tools.console import Document, show
from circlet.tools.tables import plain, plural
from circlet.tools.usage import Argument, Choice, Command, Option

READING, COMPUTING, OUTPUT, LIMITS = "Reading the model", "Computing", "Output", "Limits"
"""Groups of options."""
STDIN = "-"


@dataclass(frozen=True)
class ModelOptions:
    """A model, and how it is to be read where programs differ."""

    model: str
    json: bool
    reading: Mapping[str, str]
    """The choices among the formats' options of reading."""


@dataclass(frozen=True)
class SessionOptions(ModelOptions):
    """A model, and how it is to be run."""

    backend: str
    copy_elision: bool


Chosen = TypeVar("Chosen", bound=ModelOptions)


def command(name: str, options: type[Chosen], execute: Callable[[Chosen], Document | None],
            parameters: Sequence[click.Parameter]) -> Command:
    """A command that prints what `execute` makes of its options; nothing where that is None."""

    def callback(**values: Any) -> None:
        reading = {name: values.pop(name) for name in OPTIONS}
        document = execute(options(reading=reading, **values))
        if document is not None:
            show(document)

    return Command(name, callback=callback, params=list(parameters), help=execute.__doc__)


def model_parameters() -> list[click.Parameter]:
    """The parameters that `ModelOptions` holds."""
    return [
        Argument("model", "a .tflite, .circle, .onnx or OpenVINO .xml file; - is the standard input",
                 type=click.Path(allow_dash=True)),
        Option("--json", group=OUTPUT, is_flag=True, help="print one line of JSON, errors too"),
        *reading_parameters(),
    ]


def reading_parameters() -> list[click.Parameter]:
    """The choices among the formats' options of reading."""
    return [Option(each.flag, each.name, group=READING, type=Choice(each.choices), default=each.choices[0],
                   help=each.help) for each in OPTIONS.values()]


def session_parameters() -> list[click.Parameter]:
    """The parameters that `SessionOptions` holds."""
    return [
        Option("--backend", group=COMPUTING, type=Choice(("auto", *BACKENDS)), default="auto",
               help="what computes the operators (default: auto, the fastest there is)"),
        Option("--no-copy-elision", "copy_elision", group=COMPUTING, is_flag=True, default=True, flag_value=False,
               help="copy all values into and out of subgraphs instead of lending buffers"),
        *model_parameters(),
    ]


@dataclass(frozen=True)
class Content:
    """A model as it was read."""

    name: str
    """The path, or `-`."""
    model: Model
    size: int
    """In bytes."""
    heard: Sequence[tuple[Pass, Model, Model]]
    """The passes that loading ran, and the model before and after each."""


def load(options: ModelOptions) -> Model:
    """The model that options describe, verified."""
    model = read(options).model
    verify(model)
    return model


def read(options: ModelOptions) -> Content:
    """The model that options describe, which may be malformed, with the size of its file.

    Raises:
        ModelError, UnsupportedError: it cannot be read.
        OSError: the file cannot be opened.
    """
    source = sys.stdin.buffer.read() if options.model == STDIN else options.model
    heard: list[tuple[Pass, Model, Model]] = []
    model = load_model(source, mmap=False, options=options.reading, hear=lambda *ran: heard.append(ran))
    size = len(source) if isinstance(source, bytes) else os.path.getsize(source)
    return Content(options.model, model, size, heard)


def session_of(model: Model, options: SessionOptions, limits: circlet.Limits | None = None,
               num_threads: int = 1) -> circlet.Session:
    """The session that options describe."""
    return circlet.Session(model, options.backend, num_threads, copy_elision=options.copy_elision, limits=limits)


def chosen_signature(model: Model, key: str | None) -> Signature | None:
    """The signature of that key; without one that of `Session.run`, if there is one.

    Raises:
        InputError: the model has none of that key.
    """
    if key is None:
        return default_signature(model)
    keys = [each.key for each in model.signatures]
    if key not in keys:
        raise InputError(f"no signature {key!r}; the model has {', '.join(keys) or 'none'}{suggestion(key, keys)}")
    return model.signatures[keys.index(key)]


def default_signature(model: Model) -> Signature | None:
    """The only signature of subgraph 0, by which `Session.run` names inputs and outputs; None if there is another
    number of them."""
    named = [each for each in model.signatures if each.subgraph == 0]
    return named[0] if len(named) == 1 else None


def subgraph_index(model: Model, given: str) -> int:
    """The subgraph that a word names: its index, with or without `@` before it, or its name.

    Raises:
        InputError: there is none, or several.
    """
    names = [each.name for each in model.subgraphs]
    number = given.removeprefix("@")
    if number.isascii() and number.isdecimal() and given not in names:
        if int(number) < len(names):
            return int(number)
        raise InputError(f"no subgraph {number}; the model has {plural(len(names), 'subgraph')}, from 0")
    found = [index for index, name in enumerate(names) if name == given]
    if not found:
        raise InputError(f"no subgraph {given!r}{suggestion(given, names)}")
    if len(found) > 1:
        raise InputError(f"subgraphs {', '.join(map(str, found))} are all called {plain(given)}: expected an index")
    return found[0]


def count(text: str) -> int:
    """An argument that is an integer of at least 1."""
    return _at_least(1, text)


def amount(text: str) -> int:
    """An argument that is an integer of at least 0."""
    return _at_least(0, text)


def duration(text: str) -> float:
    """An argument that is a number of seconds."""
    try:
        seconds = float(text)
    except ValueError:
        raise click.BadParameter(f"expected a number of seconds, found {text!r}") from None
    if not seconds >= 0:
        raise click.BadParameter(f"expected at least 0, found {text}")
    return seconds


def assignment(text: str) -> tuple[str, str]:
    """Splits `NAME=VALUE`."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise click.BadParameter(f"expected NAME=VALUE or NAME=@FILE, found {text!r}")
    return name, value


def counts(text: str) -> tuple[int, ...]:
    """An argument that is integers of at least 1, with commas between them; each once."""
    return tuple(dict.fromkeys(map(count, text.split(","))))


def shape(text: str) -> tuple[str, Shape]:
    """Splits `NAME=2,3`."""
    name, equals, sizes = text.partition("=")
    numbers = sizes.split(",") if sizes else []
    if not (name and equals and all(each.isascii() and each.isdecimal() for each in numbers)):
        raise click.BadParameter(f"expected NAME=LENGTH,LENGTH,..., found {text!r}")
    return name, tuple(map(int, numbers))


def words(known: Iterable[str]) -> Callable[[str], tuple[str, ...]]:
    """What reads an argument that is words of some, with commas between them, each once; `none` stands for no word."""
    choices = tuple(known)

    def read(text: str) -> tuple[str, ...]:
        found = () if text == "none" else tuple(dict.fromkeys(text.split(",")))
        for each in found:
            if each not in choices:
                raise click.BadParameter(f"expected some of {', '.join(choices)}, found {each!r}"
                                         f"{suggestion(each, choices)}")
        return found

    return read


def _at_least(least: int, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise click.BadParameter(f"expected an integer, found {text!r}") from None
    if value < least:
        raise click.BadParameter(f"expected at least {least}, found {value}")
    return value
