"""What the table of formats says of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from circlet.runtime.ir.model import Model
from circlet.runtime.records import dataclass


@dataclass(frozen=True)
class ReadOption:
    """How a model is to be read where programs differ."""

    name: str
    """The keyword of `circlet.load`, which has the type of the choices; with hyphens the flag of the program."""
    choices: tuple[str, ...]
    """The first one counts where nobody chooses."""
    help: str
    """What the program says of the flag."""

    @property
    def flag(self) -> str:
        """The flag of the program."""
        return f"--{self.name.replace('_', '-')}"


@dataclass(frozen=True)
class Content:
    """What a model is read from."""

    data: Any
    """A memoryview of the file, or what the format's package made of it."""
    folder: Path | None
    """Where the file lies, and others that it names; None where there is no place to look for them."""
    weights: Callable[[], memoryview]
    """Gives the file of weights; raises ModelError where there is none."""


@dataclass(frozen=True)
class ModelFormat:
    """A format that models are read from."""

    name: str
    """What `Model.format` says."""
    title: str
    """In messages: a kind of model."""
    recognizes: Callable[[memoryview], bool]
    """Whether content begins as the format's files do."""
    read: Callable[[Content, Mapping[str, str]], Model]
    """The model; the second argument has a choice for each of `options`."""
    options: tuple[ReadOption, ...] = ()
    has_views: bool = True
    """Whether constants are views of content, as far as they can be."""
    has_weights: bool = False
    """Whether its constants lie in a file of their own."""
    is_channels_first: bool = False
    """Whether its rules put transpositions around operators on images; these are moved out of the way."""
    parsed: Callable[[object], bool] = lambda source: False
    """Whether an object is a model of this format that the format's own package has parsed."""
    is_complete: Callable[[memoryview], bool] = lambda content: False
    """Whether content is all that the model in it is read from, but for weights in a file of their own."""
