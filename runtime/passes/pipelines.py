"""Every pipeline, by name: which passes run, and in which order.

A pass that needs what lies above the runtime is handed in by who has it. The module of a pass is imported when it first
runs, which is on models that have the operators that it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from circlet.runtime.ir.model import Model
from circlet.runtime.ir.types import Array, DType
from circlet.runtime.late import imported
from circlet.runtime.passes.manager import Pass, Pipeline

TRANSFORMS = "circlet.runtime.passes.transforms"


def _pass(function: str, *needs: str, reads: Iterable[DType] = (), module: str = "", renumbers: bool = False,
          given: tuple[object, ...] = ()) -> Pass:
    """A pass by the name of its function.

    Args:
        function: its name.
        needs: the names of operators, of which each set has blanks between them; see `Pass.needs`.
        reads: element types; see `Pass.reads`.
        module: below `transforms`, where it is not called as the function is.
        renumbers: see `Pass.renumbers`.
        given: what it takes beside the model.
    """
    def run(model: Model) -> Model:
        changed: Model = getattr(imported(f"{TRANSFORMS}.{module or function}"), function)(model, *given)
        return changed

    return Pass(function, run, renumbers, tuple(frozenset(each.split()) for each in needs),
                frozenset(reads))


PROPAGATE_LAYOUT = _pass("propagate_layout", renumbers=True)
EXPAND_SPARSE = _pass("expand_sparse", "DENSIFY", module="constants.expand_sparse")
UNPACK_FILTERS = _pass("unpack_filters", "CONV_2D DEPTHWISE_CONV_2D EMBEDDING_LOOKUP FULLY_CONNECTED",
                       reads=(DType.INT2, DType.INT4), module="constants.unpack_filters")
COLLECT_LISTS = _pass("collect_lists", "LOOP", "SEQUENCE_CONCAT", module="lists.collect_lists")
LOWER_LOOPS = _pass("lower_loops", "LOOP")
SIMPLIFY_IDENTITIES = _pass("simplify_identities", "CAST STRIDED_SLICE")
PICK_ELEMENTS = _pass("pick_elements", "STRIDED_SLICE", "SQUEEZE")
DIVIDE_DOWN = _pass("divide_down", "SIGN LESS", "FLOOR_MOD STABLEHLO_REMAINDER", "SELECT SELECT_V2")
NAME_COMBINATIONS = _pass("name_combinations", "REDUCE_WINDOW STABLEHLO_REDUCE_WINDOW STABLEHLO_SCATTER")
FUSE_ROW_UPDATES = _pass("fuse_row_updates", "CONCATENATION", "SLICE")
PLACE_SLICES = _pass("place_slices", "SCATTER_ELEMENTS", module="constants.place_slices")
UPDATE_VARIABLES = _pass("update_variables", "READ_VARIABLE", "ASSIGN_VARIABLE",
                         "DYNAMIC_UPDATE_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE UPDATE_ROW SCATTER_ELEMENTS "
                         "SCATTER_SLICES")
ELIMINATE_DEAD = _pass("eliminate_dead")
THREAD_BRANCHES = _pass("thread_branches", "IF", module="branches.thread_branches")
SEPARATE_LISTS = _pass("separate_lists", "SEQUENCE_CONSTRUCT OPTIONAL", module="lists.separate_lists")
LIFT_VARIABLES = _pass("lift_variables", "READ_VARIABLE")
LIFT_WORDS = _pass("lift_words", "GATHER", reads=(DType.STRING,))
NAME_DEPTHWISE = _pass("name_depthwise", "CONV_2D", module="constants.name_depthwise")
ABSORB_PADDING = _pass("absorb_padding", "PAD PADV2", "DEPTHWISE_CONV_2D MAX_POOL_2D")
ABSORB_TRANSPOSITION = _pass("absorb_transposition", "TRANSPOSE", "BATCH_MATMUL")
FUSE_SILU = _pass("fuse_silu", "LOGISTIC STABLEHLO_LOGISTIC", "MUL STABLEHLO_MULTIPLY")
COMPACT = _pass("compact", module="portable.compact", renumbers=True)

IMPORTED = Pipeline("imported", (PROPAGATE_LAYOUT,))
"""What loading does with models whose images have channels first."""
INTERPRETED = Pipeline("interpreted", (
    COLLECT_LISTS, LOWER_LOOPS, SIMPLIFY_IDENTITIES, PICK_ELEMENTS, DIVIDE_DOWN, FUSE_ROW_UPDATES, PLACE_SLICES,
    UPDATE_VARIABLES, EXPAND_SPARSE, UNPACK_FILTERS, NAME_COMBINATIONS, ELIMINATE_DEAD))
"""What every session does first, and all that one does which computes operator by operator."""


def compiled(fuse_operators: Pass, stays: Callable[[Model, int, int, bool], bool],
             evaluate: Callable[[Model], Sequence[Array] | None]) -> Pipeline:
    """What a session does that compiles.

    Args:
        fuse_operators: makes one operator of those whose code is written together.
        stays: whether a loop that grows is best left as it is; see `pad_growth`.
        evaluate: what a model without inputs gives; see `fold_constants`.
    """
    fold_constants = _pass("fold_constants", module="constants.fold_constants", given=(evaluate,))
    pad_growth = _pass("pad_growth", "WHILE STABLEHLO_WHILE", "CONCATENATION STABLEHLO_CONCATENATE", given=(stays,))
    spread_lists = _pass("spread_lists", "OPTIONAL SEQUENCE_AT SEQUENCE_ERASE SEQUENCE_INSERT SEQUENCE_SPLIT",
                         module="lists.spread_lists", given=(stays,))
    collect_lists = _pass(COLLECT_LISTS.name, "LOOP", "SEQUENCE_CONCAT", module="lists.collect_code",
                          given=(stays, fuse_operators.run))
    return Pipeline("compiled", (
        fold_constants, collect_lists, *(each for each in INTERPRETED.passes if each is not COLLECT_LISTS),
        THREAD_BRANCHES, LIFT_VARIABLES, LIFT_WORDS, SEPARATE_LISTS, spread_lists, pad_growth, NAME_DEPTHWISE,
        ABSORB_PADDING, ABSORB_TRANSPOSITION, FUSE_SILU, fuse_operators))


def portable(declare_shapes: Pass) -> Pipeline:
    """What conversion does, so that formats can hold a model and other programs run it.

    Args:
        declare_shapes: declares the shapes that follow from those of the inputs.
    """
    return Pipeline("portable", (
        COLLECT_LISTS,
        _pass("lower_loops", "LOOP", given=(False,)),
        _pass("inline_calls", module="portable.inline", renumbers=True),
        declare_shapes,
        COMPACT,
        _pass("expand_steps", module="portable.steps", renumbers=True),
        _pass("narrow_parameters", module="portable.narrow", renumbers=True),
        COMPACT,
        _pass("separate_results", module="portable.carried", renumbers=True),
        COMPACT,
        _pass("set_versions", module="portable.versions"),
    ))
