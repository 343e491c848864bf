"""The memory of an invocation of a subgraph at lengths that change from run to run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn, final

import numpy as np

from circlet.runtime.errors import LimitError
from circlet.runtime.exec.frames.cache import Invocable, Key, Resizable
from circlet.runtime.exec.frames.open_layout import OpenLayout, Sizes
from circlet.runtime.exec.frames.views import View, Views
from circlet.runtime.exec.memory import copied, copies, is_readable
from circlet.runtime.exec.run import Run
from circlet.runtime.exec.step import OpenStep, OutgrownError, Step
from circlet.runtime.ir.terms import MOST_ROOM
from circlet.runtime.ir.types import Array, Shape

if TYPE_CHECKING:
    from circlet.runtime.exec.values.inputs import Lane

MOST_AHEAD = 1024
"""For how long a length there is room that did not need it yet, as another one did: a choice. Matrices of two such take
some MB."""
_UNSIZED: tuple[Shape, ...] = ((-1,),)
"""In the place of the shapes of inputs, where the frame is not made for any, not even for none."""


class UnboundError(Exception):
    """No backend computes the subgraph at any lengths, or there is no room for those that are begun with."""


def _unbound() -> NoReturn:
    raise AssertionError("the step is not bound")


@final
class OpenFrame(Resizable):
    """A subgraph bound to memory for any lengths: `resize`, write `inputs`, `invoke()`, read `outputs`."""

    lane: Lane | None = None
    whole = copies = None
    is_direct = True
    served: Key = -1, (), ""
    """What it was last given back for."""
    is_settled = False
    """Whether it was asked for the same lengths twice."""

    def __init__(self, index: int, layout: OpenLayout, known: Mapping[int, Array], shapes: tuple[Shape, ...], run: Run,
                 bind: Callable[[Mapping[int, Array]], tuple[OpenStep, OpenLayout] | None],
                 alone: Callable[[tuple[Shape, ...]], Invocable], keeps_inputs: bool = False,
                 is_whole_run: bool = True) -> None:
        """
        Args:
            index: of the subgraph.
            layout: where inputs and results lie.
            known: values that are the same for all lengths.
            shapes: of the inputs to begin with, which the layout is for.
            run: the run, or runs one after another, that the frame serves.
            bind: makes the step, given buffers by tensor, and the layout with what the step needs.
            alone: makes a frame for inputs of some shapes that takes any values.
            keeps_inputs: whether the step leaves them as they are.
            is_whole_run: whether a run does nothing before it. Else it changes no state but how many random numbers
                were drawn, where it may need more room.

        Raises:
            UnboundError: there is no step, or not memory enough for the room that lengths are begun with.
            LimitError: there is not memory enough.
        """
        self.run = run
        self._index = index
        self._views = Views(layout, known, run)
        self._shapes = _UNSIZED
        self._late = layout.room
        """The lengths behind the open ones."""
        self._needed = self._late
        """The same, where there is room for no more than a run needed."""
        self._fitting: tuple[tuple[Shape, ...], Sizes] | None = None
        """Shapes that were found to fit last, and what they decide."""
        self._room = len(layout.room)
        self._keeps_inputs = keeps_inputs
        self._is_whole_run = is_whole_run
        self._left = [keeps_inputs and each not in layout.outputs for each in layout.inputs]
        """Which inputs may be read where a caller has them, as the step leaves them as they are, and nobody else looks
        for them in the frame."""
        self._make_alone = alone
        self._alone: tuple[tuple[Shape, ...], Invocable] | None = None
        self._is_left = False
        """Whether results are those of another frame."""
        self._viewed: Sequence[int] = ()
        """The lengths for which results whose shapes the run computes are shown."""
        self._layout = layout
        self._view = self._views.at(self._sizes(shapes))
        bound = bind(self._view.arrays)
        if bound is None:
            raise UnboundError
        self._step, self._layout = bound
        try:
            self._step.expect(self._sizes(shapes)[-1])
        except LimitError:
            if not layout.room:
                raise
            raise UnboundError from None  # so much is not needed, but for all lengths that are begun with together
        self._attempt: Step = _unbound
        """Runs the step, with the room that there is."""
        self._run_step: Step = _unbound
        """Runs the subgraph at the lengths that the frame has."""
        self._take(self._view)
        self._shapes = self.asked = shapes
        """The shapes of the inputs that `call` is to get next; whoever holds the frame says so."""
        self._views.keep(shapes, self._view)

    @property
    def opened(self) -> OpenFrame | None:
        """This, if it is for inputs of several shapes."""
        return self if self._layout.is_open else None

    def serves(self, key: Key) -> bool:
        """Whether it is likely to be asked for the same lengths again, for what a key is for."""
        return self.is_settled and self.served[::2] == key[::2]

    @property
    def size(self) -> int:
        """The bytes of the buffers that the frame made for itself."""
        return self._views.size

    def takes(self, shapes: tuple[Shape, ...]) -> bool:
        """Whether the frame is for inputs of these shapes."""
        if shapes in self._views.kept:
            return True
        sizes = self._layout.fit(shapes, self._late, True)
        if sizes is None:
            return False
        self._fitting = shapes, sizes
        return True

    def _sizes(self, shapes: tuple[Shape, ...]) -> Sizes:
        """What is decided by shapes of inputs that the frame takes, or took with other lengths behind the open ones."""
        sizes = self._layout.fit(shapes, self._late, False)
        assert sizes is not None, f"the frame is not for inputs of shapes {shapes}"
        return sizes

    def resize(self, shapes: tuple[Shape, ...]) -> None:
        """Makes `inputs` arrays of other shapes, which the frame takes.

        Raises:
            LimitError: there is not memory enough.
        """
        if shapes == self._shapes:
            return
        self._shapes = _UNSIZED
        self._take(self._at(shapes))
        self._shapes = self.asked = shapes

    def _at(self, shapes: tuple[Shape, ...]) -> View:
        """The view for shapes that the frame takes."""
        view = self._views.kept.get(shapes)
        if view is not None:
            if view.given:
                self._views.complete(view)
            return view
        fitting = self._fitting
        is_known = fitting is not None and fitting[0] is shapes
        return self._made(shapes, fitting[1] if fitting is not None and is_known else self._sizes(shapes))

    def _made(self, shapes: tuple[Shape, ...], sizes: Sizes) -> View:
        """A view for some lengths, for which the step has memory; inputs stay where they are that have the same. There
        is room for no more than runs needed where there is not memory enough for it."""
        try:
            return self._bound(shapes, sizes)
        except LimitError:
            if self._late == self._needed:
                raise
            self._late = self._needed
            return self._bound(shapes, self._sizes(shapes))

    def _bound(self, shapes: tuple[Shape, ...], sizes: Sizes) -> View:
        """The same, for some lengths."""
        view = self._views.at(sizes)
        self._step.expect(sizes[-1])
        self._views.keep(shapes, view)
        return view

    def _take(self, view: View, lent: Sequence[Array] | None = None) -> None:
        """Changes to the lengths of a view, on its inputs or on others."""
        self.lane, self.is_settled = None, False
        self._view, self._viewed = view, ()
        self.inputs, self.outputs = view.inputs, view.outputs
        attempt = self._step.resize(view.lengths, view.arrays if lent is None else self._views.on(view, lent))
        if attempt is not self._attempt:
            self._attempt = attempt
            self._run_step = self.run.observer.whole(self._repeat if self._room else attempt, self._index)

    @property
    def moves(self) -> bool:
        """Whether results may be other arrays after a run, or be of other shapes."""
        return self._views.computes or bool(self._room)

    @property
    def result_shapes(self) -> tuple[Shape | None, ...]:
        """The shapes of results at the present lengths; None where only the run tells one."""
        return self._views.result_shapes(self._view)

    @property
    def leaves_inputs(self) -> bool:
        """Whether `inputs` are as before and where they were after a run."""
        return self._keeps_inputs and not self._room

    @property
    def step(self) -> Step:
        """What `invoke` does, until the next change of lengths."""
        return self.invoke if self._views.computes else self._run_step

    def _repeat(self) -> None:
        """Runs the subgraph with as much room as its loops turn out to need; by another frame where a number that the
        step takes for a length is negative, or so large that there is no such room, which that frame tells."""
        if self._is_left:
            self._retake(self._view.lengths)
        variables = self.run.variables
        drawn = None if self._is_whole_run else variables.values.copy()
        while True:
            try:
                self._attempt()
            except OutgrownError as error:
                if drawn is None:
                    variables.begin_again()
                else:
                    variables.values = drawn.copy()
                room = error.lengths[-self._room:]
                if min(room) < 0 or max(room) > MOST_ROOM or not self._has_taken(error.lengths):
                    self._leave()
                    return
            else:
                return

    def _has_taken(self, lengths: tuple[int, ...]) -> bool:
        """As `_retake`, if there is memory enough."""
        shapes, needed = self._shapes, self._needed
        try:
            self._retake((*lengths[:-self._room], *self._with_more(lengths[-self._room:])))
        except LimitError:
            self._shapes, self._needed = shapes, needed
            return False
        return True

    def _with_more(self, asked: tuple[int, ...]) -> Iterator[int]:
        """The lengths behind the open ones, given what a run asked for. There is twice as much room for others as well:
        what one run computes is often about as long, and each that asks for room in turn has the run begin anew."""
        found = list(zip(self._layout.room, self._late, asked, self._needed, strict=True))
        self._needed = tuple([0 if not begun else new if new > had else needed for begun, had, new, needed in found])
        most = min(MOST_AHEAD, max(self._needed))
        return (max(needed, min(2 * had, most)) if needed else 0
                for (_, had, _, _), needed in zip(found, self._needed, strict=True))

    def _retake(self, lengths: tuple[int, ...]) -> None:
        """Changes to other room, for the same shapes of inputs."""
        shapes, self._shapes = self._shapes, _UNSIZED
        self._views.kept.clear()
        self._late, self._fitting = lengths[len(lengths) - self._room:], None
        self._take(self._made(shapes, self._sizes(shapes)))
        self._shapes, self._is_left = shapes, False

    def _leave(self) -> None:
        """Runs the subgraph on a frame for any values."""
        self._retake(self._view.lengths)
        if self._alone is None or self._alone[0] != self._shapes:
            self._alone = self._shapes, self._make_alone(self._shapes)
        frame = self._alone[1]
        for target, source in zip(frame.inputs, self.inputs, strict=True):
            np.copyto(target, source)
        self.run.observer.begin_again(self._index)
        with np.errstate(all="ignore"):
            frame.invoke()
        self._is_left, self._viewed = True, ()
        self.outputs = frame.outputs

    def call(self, arrays: Sequence[Array]) -> list[Array]:
        """Runs the subgraph on inputs of the shapes `asked`, which are copied or left as they are; the results belong
        to the caller."""
        view = self._view
        if self.asked != self._shapes:
            self._shapes = _UNSIZED
            view = self._at(self.asked)
        if view.is_large and not self._room:
            return self._call_uncopied(view, arrays)
        if self._shapes is _UNSIZED:
            self._take(view)
            self._shapes = self.asked
        for target, source in zip(self.inputs, arrays):  # noqa: B905  # checked when shapes were asked for
            target[...] = source
        return self.compute()

    def _call_uncopied(self, view: View, arrays: Sequence[Array]) -> list[Array]:
        """As `call`: large inputs are read where they are, if that is allowed, and large results given away."""
        self._shapes = _UNSIZED
        taken = [source if is_left and is_readable(source) else target
                 for is_left, source, target in zip(self._left, arrays, view.inputs, strict=True)]
        for target, source, place in zip(view.inputs, arrays, taken, strict=True):
            if place is target:
                target[...] = source
        self._take(view, taken)
        self.invoke()
        given = self._views.give(self.asked, view, self.outputs)
        return [given[position] if position in given else copied(each) for position, each in enumerate(self.outputs)]

    def compute(self) -> list[Array]:
        """The same, on what `inputs` hold."""
        self._run_step()
        if self._views.computes:
            self._view_results()
        return copies(self.outputs)

    def invoke(self) -> None:
        """Runs the subgraph once.

        Raises:
            ExecutionError: with the place of the operator that failed.
        """
        self._run_step()
        if self._views.computes:
            self._view_results()

    def _view_results(self) -> None:
        """Makes arrays for results whose shapes the run has computed."""
        if self._is_left:
            return
        lengths = self._step.lengths
        if lengths == self._viewed:
            return
        self.outputs = self._views.outputs(self._view, lengths)
        self._viewed = lengths
