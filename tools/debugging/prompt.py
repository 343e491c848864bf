"""Commands at which a run goes on, one on a line."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from circlet.runtime.errors import CircletError, InputError, suggestion
from circlet.runtime.exec.observe.breakpoints import Breakpoint, breakpoint_at
from circlet.runtime.exec.observe.debugger import Debugger, Resume, Stop
from circlet.runtime.exec.observe.non_finite import NonFinite
from circlet.runtime.ir.model import Model
from circlet.tools.debugging.reports import Dumps, EndOfRun
from circlet.tools.debugging.view import list_text, outputs_text, stop_text, tensor_text, where_text

Read = Callable[[], "str | None"]
"""Gives the next line; None where there is none."""

HELP = """\
continue        go on to the next breakpoint
step            go on to the next operator, in whatever subgraph
next            go on to the next operator, past the subgraphs that it invokes
iteration       go on to the next iteration of the innermost loop
out             go on until the operator has run that invoked this subgraph
print [TENSOR]  show a tensor, by name or index; without one what the operator has given
dump TENSOR FILE  write a tensor to FILE.npy
where           show the operators that are running
list            show the operators around this one
break [WHERE]   stop at WHERE too, e.g. body:3@iteration=100; without it show the breakpoints
delete NUMBER   forget a breakpoint
help            show this
quit            end the run
The first letters of a command do, and an empty line repeats the last one that went on."""


@dataclass(frozen=True)
class Action:
    """A line that is no command to go on."""

    least: int
    most: int
    """How many words follow the command."""
    act: Callable[[Prompt, Stop, list[str]], None]


class Prompt(Debugger):
    """Reads commands at each stop. Where there are no more of them the run goes on without stops."""

    def __init__(self, model: Model, breakpoints: Iterable[Breakpoint], stop_at: Collection[NonFinite], read: Read,
                 write: Callable[[str], None]) -> None:
        """
        Args:
            model: that runs.
            breakpoints: where it stops first; at the first operator if there are none.
            stop_at: see `Debugger`.
            read: gives commands.
            write: takes text that is to be shown.
        """
        own = list(breakpoints)
        super().__init__(own, stop_at, Resume.CONTINUE if own or stop_at else Resume.STEP)
        self._model, self._read, self.write = model, read, write
        self._last = ""
        self._dumps = Dumps()

    def stopped(self, stop: Stop) -> Resume:
        self.write(stop_text(stop))
        while True:
            line = self._read()
            if line is None:
                self.breakpoints.clear()
                self.stop_at = frozenset()
                return Resume.CONTINUE
            try:
                resume = self._obey(line.strip() or self._last, stop)
            except (CircletError, OSError, ValueError) as error:
                self.write(f"error: {error}")
                continue
            if resume is not None:
                self._last = resume.value
                return resume

    def _obey(self, line: str, stop: Stop) -> Resume | None:
        """Does what a line says; gives how the run goes on if it does.

        Raises:
            InputError, ValueError: there is no such command.
            EndOfRun: it is to end.
        """
        words = shlex.split(line)
        if not words:
            return None
        name, given = _completed(words[0]), words[1:]
        known = _COMMANDS.get(name, Action(0, 0, _nothing))
        if not known.least <= len(given) <= known.most:
            raise InputError(f"{name} takes {known.least}{f' to {known.most}' if known.most > known.least else ''} "
                             f"words, found {len(given)}")
        if name == "quit":
            raise EndOfRun
        if name in _RESUMES:
            if name == Resume.ITERATION.value and stop.moment.iteration is None:
                raise InputError("there is no loop around this operator")
            return Resume(name)
        known.act(self, stop, given)
        return None

    def print(self, stop: Stop, given: list[str]) -> None:
        self.write(tensor_text(*stop.find(given[0])) if given else outputs_text(stop))

    def dump(self, stop: Stop, given: list[str]) -> None:
        tensor, value = stop.find(given[0])
        self.write(f"saved {self._dumps.write(given[1], tensor, value)}")

    def add(self, stop: Stop, given: list[str]) -> None:
        self.breakpoints += [breakpoint_at(self._model, each) for each in given]
        self.write("\n".join(f"{number}: {each}" for number, each in enumerate(self.breakpoints)) or "no breakpoints")

    def delete(self, stop: Stop, given: list[str]) -> None:
        number = int(given[0]) if given[0].isdecimal() else -1
        if not 0 <= number < len(self.breakpoints):
            raise InputError(f"no breakpoint {given[0]!r}; there are {len(self.breakpoints)}, from 0")
        del self.breakpoints[number]


def _nothing(prompt: Prompt, stop: Stop, given: list[str]) -> None:
    """What commands do that have no work here."""


_RESUMES = frozenset(each.value for each in Resume)
_COMMANDS = {
    "print": Action(0, 1, Prompt.print),
    "dump": Action(2, 2, Prompt.dump),
    "where": Action(0, 0, lambda prompt, stop, _: prompt.write(where_text(stop))),
    "list": Action(0, 0, lambda prompt, stop, _: prompt.write(list_text(stop))),
    "break": Action(0, 1, Prompt.add),
    "delete": Action(1, 1, Prompt.delete),
    "help": Action(0, 0, lambda prompt, stop, _: prompt.write(HELP)),
}
NAMES = ("continue", "step", "next", "iteration", "out", "print", "dump", "where", "list", "break", "delete", "help",
         "quit")
"""In the order in which first letters are looked up."""


def _completed(word: str) -> str:
    """The command of which a word is the beginning.

    Raises:
        InputError: there is none.
    """
    for name in NAMES:
        if name.startswith(word):
            return name
    raise InputError(f"no command {word!r}{suggestion(word, NAMES)}; help lists them")
