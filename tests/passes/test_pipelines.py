"""Pipelines: what each pass makes of a model, as text; selecting some passes; what is said of passes that are wrong."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import circlet
from circlet.conversion import PORTABLE
from circlet.runtime.errors import InputError, ModelError, UnsupportedError
from circlet.runtime.ir.model import Model
from circlet.runtime.ir.text import to_text
from circlet.runtime.passes.manager import Pass, Pipeline
from circlet.runtime.passes.pipelines import IMPORTED, INTERPRETED, compiled
from circlet.schema.files import load_model
from circlet.session import engine
from tests.needs import NATIVE
from tests.passes.samples import SAMPLES

MODELS = sorted((Path(__file__).parents[1] / "models").glob("*.tflite"))
COMPILED = ["fold_constants", "thread_branches", "lift_variables", "lift_words", "separate_lists", "spread_lists",
            "pad_growth", "name_depthwise", "absorb_padding", "absorb_transposition", "fuse_silu", "fuse_operators"]
NAMES = {*(each.name for pipeline in (IMPORTED, INTERPRETED, PORTABLE) for each in pipeline.passes), *COMPILED}


def pipeline_of(name: str) -> Pipeline:
    if name in COMPILED:
        return engine("native").pipeline()
    return next(each for each in (IMPORTED, INTERPRETED, PORTABLE) if name in {ran.name for ran in each.passes})


def changed_by(name: str, pipeline: Pipeline) -> Model | None:
    """What a pass makes of its sample, the first time that it changes it."""
    found: list[Model] = []

    def hear(ran: Pass, before: Model, after: Model) -> None:
        if ran.name == name and to_text(before) != to_text(after):
            found.append(after)

    pipeline.run(SAMPLES[name](), hear)
    return found[0] if found else None


@pytest.mark.parametrize("name", [pytest.param(each, marks=NATIVE) if each in COMPILED else each
                                  for each in sorted(NAMES)])
def test_text(name: str, golden: Callable[[str, str], None]) -> None:
    changed = changed_by(name, pipeline_of(name))
    assert changed is not None, "the pass changes nothing of its sample"
    golden(name, to_text(changed))


def unsettled(pipeline: Pipeline, model: Model) -> set[str]:
    """The passes that make another model of what they gave."""
    found: set[str] = set()

    def hear(ran: Pass, before: Model, after: Model) -> None:
        if ran.run(after) is not after:
            found.add(ran.name)

    with suppress(UnsupportedError):  # of conversion, which not all models can have
        pipeline.run(model, hear)
    return found


@pytest.mark.parametrize("name", ["propagate_layout", "lower_loops", "inline_calls",
                                  pytest.param("pad_growth", marks=NATIVE)])
def test_a_pass_with_nothing_to_do_gives_the_very_model(name: str) -> None:
    """All passes of the pipeline that has one of this name, each on what it gave."""
    pipeline = pipeline_of(name)
    models = {**{each: make() for each, make in SAMPLES.items()}, **{path.stem: load_model(path) for path in MODELS}}
    assert {each: found for each, model in models.items() if (found := unsettled(pipeline, model))} == {}


def test_up_to_a_pass() -> None:
    assert [each.name for each in INTERPRETED.selected("simplify_identities").passes] == [
        "collect_lists", "lower_loops", "simplify_identities"]


def test_some_passes_run_in_the_order_of_the_pipeline() -> None:
    found = INTERPRETED.selected(["eliminate_dead", "lower_loops"])
    assert [each.name for each in found.passes] == ["lower_loops", "eliminate_dead"]
    assert INTERPRETED.selected([]).passes == ()
    assert INTERPRETED.selected(None) is INTERPRETED


def test_a_pass_that_is_not_there() -> None:
    with pytest.raises(InputError, match="no pass 'lower_lops' in pipeline 'interpreted'; it has collect_lists, "
                                         "lower_loops, simplify_identities, pick_elements, divide_down, "
                                         "fuse_row_updates, place_slices, update_variables, expand_sparse, "
                                         "unpack_filters, name_combinations, eliminate_dead; "
                                         "did you mean 'lower_loops'"):
        INTERPRETED.selected("lower_lops")


def test_what_a_pass_gives_is_verified() -> None:
    def spoil(model: Model) -> Model:
        main = model.subgraphs[0]
        return replace(model, subgraphs=(replace(main, outputs=(99,)), *model.subgraphs[1:]))

    with pytest.raises(ModelError, match="after pass 'spoil': subgraph 0"):
        Pipeline("test", (Pass("spoil", spoil),)).run(SAMPLES["fuse_silu"]())


def test_a_pass_that_renumbers_says_so() -> None:
    def shorten(model: Model) -> Model:
        main = model.subgraphs[0]
        return replace(model, subgraphs=(replace(main, operators=main.operators[1:]),))

    model = SAMPLES["eliminate_dead"]()
    with pytest.raises(ModelError, match="after pass 'shorten': expected subgraphs, tensors and operators at the"):
        Pipeline("test", (Pass("shorten", shorten),)).run(model)
    assert len(Pipeline("test", (Pass("shorten", shorten, renumbers=True),)).run(model).subgraphs[0].operators) == 1


def test_a_session_stops_early() -> None:
    model = SAMPLES["eliminate_dead"]()
    names = [[each.name for each in circlet.Session(model, "cpu", passes=passes).executed.subgraphs[0].operators]
             for passes in ("fuse_row_updates", None)]
    assert names == [["MUL", "ADD"], ["SKIP", "ADD"]]


@NATIVE
def test_results_do_not_depend_on_passes() -> None:
    model, x = SAMPLES["fuse_operators"](), np.arange(6, dtype=np.float32).reshape(2, 3)
    for each in compiled(Pass("fuse_operators", lambda model: model), lambda *_: False, lambda _: None).passes:
        found = circlet.Session(model, "native", passes=each.name).run({"x": x})
        np.testing.assert_array_equal(next(iter(found.values())), x * x + 1)


def test_a_session_without_a_pass_that_it_needs() -> None:
    with pytest.raises(UnsupportedError, match="LOOP"):
        circlet.Session(SAMPLES["lower_loops"](), "cpu", passes=[])
    with pytest.raises(InputError, match="did you mean 'lower_loops'"):
        circlet.Session(SAMPLES["lower_loops"](), "cpu", passes="lower_loop")


def test_a_pickled_session_has_the_same_passes() -> None:
    session = circlet.Session(SAMPLES["eliminate_dead"](), "cpu", passes=["lower_loops"])
    again: circlet.Session = pickle.loads(pickle.dumps(session))
    assert again.executed.subgraphs[0].operators[0].name == "MUL"
