"""Tries case after case, and keeps what is found."""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tests.fuzz import corpus
from tests.fuzz.case import Kitchen, Recipe, Subject, filed
from tests.fuzz.pool import TURNS, Died, Worker
from tests.fuzz.seeds import stored
from tests.fuzz.shrink import Shrinker

BATCH = 100
SHRUNK = 30
"""Further findings are only counted and named."""


@dataclass
class Campaign:
    """The cases of one seed, from one number on."""

    seed: int
    keep: bool = True
    """Makes findings smaller and adds them to the corpus."""
    counts: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    cases: int = 0
    begin: float = field(default_factory=time.monotonic)
    given: tuple[int, tuple[Any, ...]] | None = None
    _worker: Worker | None = None

    @cached_property
    def kitchen(self) -> Kitchen:
        return Kitchen(stored())

    def run(self, first: int, seconds: float, most: int) -> None:
        """Tries cases until the time is over, or `most` of them."""
        stored()
        self.begin, number = time.monotonic(), first
        while number < first + most and time.monotonic() - self.begin < seconds:
            number = self.batch(number, min(number + BATCH, first + most))
            self.cases = number - first
            self.progress()
        self.stop()

    def batch(self, first: int, last: int) -> int:
        """Tries some cases; returns where to go on."""
        worker, at = self.worker(), first
        found: list[tuple[int, str, str]] = []
        following = last
        try:
            for word in worker.numbers(self.seed, first, last):
                at = word.get("at", at)
                if "finding" in word:
                    found.append((word["finding"], word["key"], word["message"]))
                if "unmade" in word and not sys.stderr.isatty():
                    print(f"unmade {self.seed}:{word['unmade']} {word['message'][:200]}", file=sys.stderr)
                self.counts.update(word.get("counts", {}))
        except Died as death:
            found.append((at, death.key, str(death)))
            following = at + 1
            self.stop()
        if worker.tried >= TURNS:
            self.stop()
        for each in found:
            self.report(*each)
        return following

    def worker(self) -> Worker:
        self._worker = self._worker or Worker()
        return self._worker

    def stop(self) -> None:
        if self._worker is not None:
            self._worker.__exit__(None, None, None)
            self._worker = None

    def report(self, number: int, key: str, message: str) -> None:
        """Tells of a finding, and keeps the first one of a kind."""
        self.findings[key] += 1
        if self.findings[key] > 1:
            return
        recipe = self.kitchen.recipe(self.seed, number)
        print(f"\n{key}\n  --case {self.seed}:{number}, from {self.kitchen.name(recipe)}, {len(recipe.steps)} changes\n"
              f"  {message}", flush=True)
        if self.keep and len(self.findings) <= SHRUNK:
            print(f"  kept as {self.shrunk(recipe, key)}", flush=True)

    def shrunk(self, recipe: Recipe, key: str) -> str:
        """Makes a finding smaller and adds it to the corpus."""
        shrinker = Shrinker(self.kitchen, self.found, key)
        subject = self.kitchen.subject(shrinker.recipe(recipe))
        assert subject is not None
        if subject.model is not None:
            subject = filed(subject)
            if not shrinker.shows(subject):
                return "nothing: no file shows it"
            assert subject is not None
        smaller = shrinker.subject(subject)
        self.found(smaller)
        return corpus.add(smaller, key, self.given)

    def found(self, subject: Subject) -> str | None:
        """The key of what is wrong with a subject; then `given` is what it was wrong on."""
        try:
            word = self.worker().subject(subject)
        except Died as death:
            self.stop()
            self.given = None
            return death.key
        if "key" in word:
            self.given = word["given"]
        return word.get("key")

    def progress(self) -> None:
        taken = time.monotonic() - self.begin
        line = (f"{self.cases} cases, {self.cases / taken:.0f}/s, {self.total('native')} native, "
                f"{self.total('bounds')} with bounds checks, {self.total('planned')} planned, "
                f"{sum(self.findings.values())} findings of {len(self.findings)} kinds")
        if sys.stderr.isatty():
            print(f"\r{line}", end="", file=sys.stderr, flush=True)
        elif self.cases % 2000 < BATCH:
            print(line, file=sys.stderr, flush=True)

    def total(self, name: str) -> int:
        return sum(count for key, count in self.counts.items() if key.endswith(f" {name}"))

    def table(self) -> str:
        """How far the cases of each kind came."""
        names = ("cases", "loaded", "refused", "ran", "failed", "large", "native", "bounds", "undecided", "saved",
                 "unwritable", "unmade", "making ms", "numpy ms", "native ms")
        kinds = sorted({key.partition(" ")[0] for key in self.counts})
        rows = [("", *names), *((kind, *(str(self.counts[f"{kind} {name}"]) for name in names)) for kind in kinds)]
        return "\n".join(" ".join(cell.rjust(12 if k == 0 else 10) for k, cell in enumerate(row)) for row in rows)


def one(seed: int, number: int) -> dict[str, Any]:
    """Tries one case alone; says what came of it."""
    kitchen = Kitchen(stored())
    recipe = kitchen.recipe(seed, number)
    subject = kitchen.subject(recipe)
    if subject is None:
        return {"from": kitchen.name(recipe), "counts": {"unwritable": 1}}
    with Worker() as worker:
        try:
            return {"from": kitchen.name(recipe), **worker.subject(subject)}
        except Died as death:
            return {"from": kitchen.name(recipe), "key": death.key, "message": str(death)}


def replay() -> dict[str, str]:
    """Tries all of the corpus, notes outcomes that are not known; returns what is wrong."""
    wrong: dict[str, str] = {}
    done: list[corpus.Entry] = []
    campaign = Campaign(0)
    for entry in corpus.entries():
        try:
            word = campaign.worker().subject(entry.subject())
        except Died as death:
            word = {"key": death.key, "message": str(death)}
            campaign.stop()
        found = corpus.outcome(word.get("counts", {}))
        if "key" in word:
            wrong[entry.name] = f"{word['key']}: {word['message']}"
        elif entry.outcome and entry.outcome != found:
            wrong[entry.name] = f"expected to be {entry.outcome}, found {found}"
        done.append(entry if entry.outcome or "key" in word else replace(entry, outcome=found))
    campaign.stop()
    corpus.save(done)
    return wrong
