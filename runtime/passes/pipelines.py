"""Every pipeline, by name: which passes run, and in which order.

A pass that needs what lies above the runtime is handed in by who has it.
"""

from __future__ import annotations

from circlet.runtime.passes.manager import Pass, Pipeline
from circlet.runtime.passes.transforms.eliminate_dead import eliminate_dead
from circlet.runtime.passes.transforms.fuse_row_updates import fuse_row_updates
from circlet.runtime.passes.transforms.fuse_silu import fuse_silu
from circlet.runtime.passes.transforms.lower_loops import lower_loops
from circlet.runtime.passes.transforms.pad_growth import pad_growth
from circlet.runtime.passes.transforms.portable.carried import separate_results
from circlet.runtime.passes.transforms.portable.compact import compact
from circlet.runtime.passes.transforms.portable.inline import inline_calls
from circlet.runtime.passes.transforms.portable.narrow import narrow_parameters
from circlet.runtime.passes.transforms.portable.steps import expand_steps
from circlet.runtime.passes.transforms.portable.versions import set_versions
from circlet.runtime.passes.transforms.simplify_identities import simplify_identities

LOWER_LOOPS = Pass("lower_loops", lower_loops)
SIMPLIFY_IDENTITIES = Pass("simplify_identities", simplify_identities)
FUSE_ROW_UPDATES = Pass("fuse_row_updates", fuse_row_updates)
ELIMINATE_DEAD = Pass("eliminate_dead", eliminate_dead)
PAD_GROWTH = Pass("pad_growth", pad_growth)
FUSE_SILU = Pass("fuse_silu", fuse_silu)
COMPACT = Pass("compact", compact, renumbers=True)

INTERPRETED = Pipeline("interpreted", (LOWER_LOOPS, SIMPLIFY_IDENTITIES, FUSE_ROW_UPDATES, ELIMINATE_DEAD))
"""What every session does first, and all that one does which computes operator by operator."""


def compiled(fuse_operators: Pass) -> Pipeline:
    """What a session does that compiles.

    Args:
        fuse_operators: makes one operator of those whose code is written together.
    """
    return Pipeline("compiled", (*INTERPRETED.passes, PAD_GROWTH, FUSE_SILU, fuse_operators))


def portable(declare_shapes: Pass) -> Pipeline:
    """What conversion does, so that formats can hold a model and other programs run it.

    Args:
        declare_shapes: declares the shapes that follow from those of the inputs.
    """
    return Pipeline("portable", (
        LOWER_LOOPS,
        Pass("inline_calls", inline_calls, renumbers=True),
        declare_shapes,
        COMPACT,
        Pass("expand_steps", expand_steps, renumbers=True),
        Pass("narrow_parameters", narrow_parameters, renumbers=True),
        COMPACT,
        Pass("separate_results", separate_results, renumbers=True),
        COMPACT,
        Pass("set_versions", set_versions),
    ))
