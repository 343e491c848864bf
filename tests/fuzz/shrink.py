"""Makes what is found smaller: fewer changes, then fewer operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from circlet.runtime.errors import CircletError
from tests.fuzz import elements, flatbuffer, messages
from tests.fuzz.case import Kitchen, Recipe, Subject, without

Found = Callable[[Subject], "str | None"]
"""The key of what is wrong with a subject."""
ATTEMPTS = 120


def family(key: str) -> str:
    """What stays the same of a key when operators that have nothing to do with it go."""
    return key.partition(":")[0] if key.startswith(("differs", "only")) else key


@dataclass
class Shrinker:
    """Makes smaller what has a finding of one family."""

    kitchen: Kitchen
    found: Found
    key: str
    left: int = ATTEMPTS
    """How often it may still try."""

    def shows(self, subject: Subject | None) -> bool:
        self.left -= 1
        found = None if subject is None else self.found(subject)
        return found is not None and family(found) == family(self.key)

    def recipe(self, recipe: Recipe) -> Recipe:
        """The recipe with as few steps as still show it."""
        k = len(recipe.steps) - 1
        while k >= 0 and self.left > 0:
            fewer = without(recipe, k)
            if self.shows(self.kitchen.subject(fewer)):
                recipe = fewer
            k -= 1
        return recipe

    def subject(self, subject: Subject) -> Subject:
        """The subject with as little in its model as still shows it."""
        k = 0
        while self.left > 0 and subject.kind in TREES:
            smaller = next(islice(_smaller(subject), k, None), None)
            if smaller is None:
                break
            if smaller.content != subject.content and self.shows(smaller):
                subject = smaller
            else:
                k += 1
        return subject


def _smaller(subject: Subject) -> Iterator[Subject]:
    """Subjects with one element less, those with operators less last to first."""
    read, write, reductions = TREES[subject.kind]
    count = sum(1 for _ in reductions(read(subject.content)))
    for k in reversed(range(count)):
        tree = read(subject.content)
        holder, index = next(islice(reductions(tree), k, None))
        del holder[index]
        try:
            yield replace(subject, content=write(tree))
        except CircletError:
            continue


TREES: dict[str, tuple[Callable[[bytes], Any], Callable[[Any], bytes], Callable[[Any], Iterator[tuple[Any, int]]]]] = {
    "flatbuffer": (lambda content: flatbuffer.tree(flatbuffer.read(content)), flatbuffer.write, flatbuffer.reductions),
    "onnx": (messages.tree, messages.write, messages.reductions),
    "ir": (elements.tree, elements.write, elements.reductions),
}
