"""A process that tries cases, one after the other, as it is told line by line.

It says on its standard output which case it begins with, so that the one which ends the process is known. As a program:
`python -m tests.fuzz.worker`, with commands on standard input; with the argument `few` it begins soon.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import pickle
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.fuzz.case import Kitchen
from tests.fuzz.judge import Finding, judge
from tests.fuzz.seeds import few, stored

MEMORY = 2 << 30
"""Bytes of address space: a model that needs more ends with an error, and the machine goes on."""


def main() -> None:
    """Obeys `{"seed": s, "numbers": [first, last]}` and `{"subject": path}`."""
    _limit_memory()
    faulthandler.enable(sys.stderr)
    kitchen: Kitchen | None = None
    for line in sys.stdin:
        command = json.loads(line)
        if "subject" in command:
            try_file(Path(command["subject"]))
            continue
        kitchen = kitchen or _kitchen()
        counts: Counter[str] = Counter()
        for number in range(*command["numbers"]):
            say(at=number)
            try_number(kitchen, command["seed"], number, counts)
        say(done=1, counts=counts)


def _kitchen() -> Kitchen:
    """Made once; the seeds stay, so that collecting garbage need not look at them."""
    kitchen = Kitchen(few() if "few" in sys.argv[1:] else stored())
    gc.collect()
    gc.freeze()
    return kitchen


def try_number(kitchen: Kitchen, seed: int, number: int, counts: Counter[str]) -> None:
    """Tries one case and counts how far it came."""
    recipe = kitchen.recipe(seed, number)
    begin = time.process_time()
    counts[f"{recipe.kind} cases"] += 1
    try:
        subject = kitchen.subject(recipe)
    except Exception as error:
        # A change that could not be made says nothing of circlet.
        counts[f"{recipe.kind} unmade"] += 1
        say(unmade=number, message=f"{type(error).__name__}: {error}")
        return
    made = time.process_time()
    counts[f"{recipe.kind} making ms"] += round((made - begin) * 1e3)
    if subject is None:
        counts[f"{recipe.kind} unwritable"] += 1
        return
    try:
        for name, count in judge(subject).items():
            counts[f"{recipe.kind} {name}"] += count
    except Finding as finding:
        say(finding=number, key=finding.key, message=str(finding))
    name = f"{recipe.kind} {'native' if recipe.checks.native else 'numpy'} ms"
    counts[name] += round((time.process_time() - made) * 1e3)


def try_file(file: Path) -> None:
    """Tries a subject; the inputs on which something is wrong take its place in the file."""
    try:
        say(done=1, counts=judge(pickle.loads(file.read_bytes())))
    except Finding as finding:
        file.write_bytes(pickle.dumps(finding.given))
        say(done=1, key=finding.key, message=str(finding))


def say(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _limit_memory() -> None:
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
