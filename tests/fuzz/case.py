"""A case: a model file that a few numbers decide, and inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import Any

from circlet.runtime.errors import CircletError
from circlet.runtime.ir.model import Model
from tests.fuzz import elements, flatbuffer, memory, messages, programs
from tests.fuzz.seeds import Seed

SHARES = {"flatbuffer": 0.36, "onnx": 0.21, "ir": 0.13, "generated": 0.20, "bytes": 0.05, "memory": 0.05}
"""How many cases are of which kind: files of a format changed as trees, programs, files changed without regard to what
they say, and models changed in memory."""
NATIVE = {"flatbuffer": 0.08, "onnx": 0.08, "ir": 0.08, "generated": 0.15, "bytes": 0.03, "memory": 0.08}
"""How many of them run as native code too, if they run at all."""
BOUNDS = 0.4
"""How many of those with bounds checks."""
SAVED, PRINTED, ENTERED, RESHAPED = 0.03, 0.02, 0.15, 0.15
"""How many are converted, saved and read again; printed; entered at other subgraphs; and given other shapes."""
LARGEST = (1 << 48) - 1


@dataclass(frozen=True)
class Checks:
    """What is done with a model besides running it with numpy."""

    native: bool = False
    bounds: bool = False
    """The native code checks bounds."""
    save: bool = False
    text: bool = False
    entries: bool = False
    """Other subgraphs are invoked too."""
    reshape: bool = False
    """Inputs get other shapes than declared."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A model file, and how it is to be tried."""

    kind: str
    content: bytes
    weights: bytes | None
    inputs: Sequence[Any]
    """What the inputs are based on; there may be too few, and they may not fit."""
    number: int
    """Decides the inputs."""
    checks: Checks
    edits: tuple[int, ...] = ()
    """Each decides a change to the model in memory."""
    given: tuple[int, tuple[Any, ...]] | None = None
    """The only subgraph to run, and what on."""
    model: Model | None = None
    """What is tried instead of a file."""


@dataclass(frozen=True)
class Recipe:
    """How a subject is made."""

    kind: str
    start: int
    """The number of the seed; of a program what decides its outputs."""
    steps: tuple[int, ...]
    """Each decides one change, or one part of a program."""
    number: int
    checks: Checks


class Kitchen:
    """Makes subjects from recipes."""

    def __init__(self, seeds: Sequence[Seed]) -> None:
        self._seeds = seeds
        self._trees: dict[int, bytes] = {}
        self._of = {kind: [k for k, each in enumerate(seeds) if each.kind == kind] for kind in SHARES}
        self._of["bytes"] = self._of["memory"] = list(range(len(seeds)))

    @cached_property
    def _operators(self) -> list[str]:
        models = (messages.tree(self._seeds[k].content) for k in self._of["onnx"])
        return sorted({node.op_type for model in models for graph in messages.graphs(model) for node in graph.node})

    @cached_property
    def _words(self) -> elements.Vocabulary:
        return elements.vocabulary(self._seeds[k].content for k in self._of["ir"])

    def recipe(self, seed: int, number: int) -> Recipe:
        """The recipe of a case."""
        r = Random(f"{seed}:{number}")
        kinds = [kind for kind in SHARES if kind == "generated" or self._of[kind]]
        kind = r.choices(kinds, [SHARES[each] for each in kinds])[0]
        start = r.choice(self._of[kind]) if kind != "generated" else r.randrange(LARGEST)
        count = r.choice((1, 2, 2, 3, 4, 6) if kind == "generated" else (0, 1, 1, 1, 1, 2, 2, 3, 4, 6))
        native = r.random() < NATIVE[kind]
        checks = Checks(native, native and r.random() < BOUNDS, r.random() < SAVED, r.random() < PRINTED,
                        r.random() < ENTERED, r.random() < RESHAPED)
        return Recipe(kind, start, tuple(r.randrange(LARGEST) for _ in range(count)), r.randrange(LARGEST), checks)

    def subject(self, recipe: Recipe) -> Subject | None:
        """What a recipe gives; None where no file can hold what became of it."""
        if recipe.kind == "generated":
            model, inputs = programs.program(recipe.start, recipe.steps)
            return Subject(recipe.kind, b"", None, inputs, recipe.number, recipe.checks, model=model)
        seed = self._seeds[recipe.start]
        content, weights, edits = seed.content, seed.weights, recipe.steps[:0]
        if recipe.kind == "memory":
            edits = recipe.steps
        elif recipe.kind == "bytes":
            for each in recipe.steps:
                content = memory.changed_file(content, Random(each))
        elif recipe.steps:
            weights = elements.changed_weights(Random(recipe.number), weights)
            try:
                content = self._mutated(recipe)
            except CircletError:
                return None
        return Subject(recipe.kind, content, weights, seed.inputs, recipe.number, recipe.checks, edits)

    def name(self, recipe: Recipe) -> str:
        """What the model was made from."""
        return recipe.kind if recipe.kind == "generated" else f"{recipe.kind} {self._seeds[recipe.start].name}"

    def _tree(self, index: int) -> bytes:
        if index not in self._trees:
            seed = self._seeds[index]
            self._trees[index] = flatbuffer.read(seed.content) if seed.kind == "flatbuffer" else seed.content
        return self._trees[index]

    def _mutated(self, recipe: Recipe) -> bytes:
        stored = self._tree(recipe.start)

        def other(r: Random, read: Callable[[bytes], Any]) -> Callable[[], Any]:
            return lambda: read(self._tree(r.choice(self._of[recipe.kind])))

        if recipe.kind == "flatbuffer":
            tree = flatbuffer.tree(stored)
            for each in recipe.steps:
                r = Random(each)
                flatbuffer.mutate(tree, r, other(r, flatbuffer.tree))
            return flatbuffer.write(tree)
        if recipe.kind == "onnx":
            model = messages.tree(stored)
            for each in recipe.steps:
                r = Random(each)
                messages.mutate(model, r, other(r, messages.tree), self._operators)
            return messages.write(model)
        root = elements.tree(stored)
        for each in recipe.steps:
            r = Random(each)
            elements.mutate(root, r, other(r, elements.tree), self._words)
        return elements.write(root)


def filed(subject: Subject) -> Subject | None:
    """The subject with a file in the place of a model in memory; None where no format has its operators."""
    content = None if subject.model is None else programs.content(subject.model)
    return None if content is None else replace(subject, kind="flatbuffer", content=content, model=None)


def without(recipe: Recipe, step: int) -> Recipe:
    """The recipe with one step less."""
    return replace(recipe, steps=(*recipe.steps[:step], *recipe.steps[step + 1:]))
