"""The models that are measured, with inputs that say how long their loops are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tests.models.expectations import read

Array: TypeAlias = npt.NDArray[Any]

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ROOT / "tests" / "models"
EXTERNAL = ROOT.parent / "shared" / "models"


@dataclass(frozen=True)
class Case:
    """A model and how it is called; inputs not named here are those beside the model."""

    name: str
    path: str
    """Below the folder of models, without the ending."""
    what: str
    count: str | None = None
    """The input that says how often the loop turns."""
    turns: int | None = None
    """The value of that input; without such an input, how often the loop turns anyway."""
    factor: int = 1
    """Innermost iterations in each turn."""
    suffix: str = ".tflite"
    threads: tuple[int, ...] = (1,)
    """How many threads a run may use; each is measured."""
    values: Mapping[str, Array] | None = None
    """The inputs, where none lie beside the model."""
    folder: Path | None = None
    """Where the model is; None: in the folder that is given."""

    def file(self, folder: Path) -> Path:
        return (self.folder or folder) / f"{self.path}{self.suffix}"

    def inputs(self, folder: Path, turns: int | None = None) -> dict[str, Array]:
        """The inputs, with the loop as long as `turns` says where an input decides it."""
        given = read(self.file(folder).with_suffix(".npz"))[0].inputs if self.values is None else self.values
        if self.count is None:
            return dict(given)
        return {**given, self.count: np.asarray(turns or self.turns, given[self.count].dtype)}

    def iterations(self, turns: int | None = None) -> int | None:
        """Innermost loop iterations of a run; None where the cost of a run is not the loop's."""
        if self.turns is None:
            return None
        return (turns if turns and self.count else self.turns) * self.factor


GROWING = Case("growing", "cache_gru", "a GRU that attends to a cache which grows", "steps", 100, folder=SHIPPED)
EXTERNAL_CASES = (
    Case("count", "control/count", "two scalar operators an iteration", "a_0", 100_000),
    Case("nested", "control/nested", "While in While over f32[16]", "a_0", 1_000, factor=10),
    Case("lstm_while", "control/lstm_while", "an LSTM of 128 units as a While", turns=100),
    Case("scan_list", "control/scan_list", "appends a row to a carried f32[256,1024]", turns=256),
    Case("bigadd", "control/bigadd", "rewrites a carried f32[1024,1024]", "a_0", 20),
    Case("bigscatter", "control/bigscatter", "rewrites a row of a carried f32[1024,1024]", "a_0", 10),
    GROWING,
    Case("ocr_dr", "real/ocr_dr", "convolutions and four BiLSTM loops, int8 weights"),
    Case("if", "control/if", "one If over f32[4]"),
    Case("mobilenet_v2", "straight/mobilenet_v2", "MobileNetV2 1.0 224, float32", threads=(1, 2)),
    Case("mobilenet_v2_int8", "straight/mobilenet_v2_int8", "the same, int8", threads=(1, 2)),
)
SHIPPED_CASES = (
    Case("collatz", "collatz", "If in While, int32", turns=111),
    Case("nested_while", "nested_while", "While in While, int32", "rows", 1_000, factor=4),
    Case("mandelbrot", "mandelbrot", "escape times of 15 points", "limit", 1_000),
    Case("lstm", "lstm_sequence", "a small LSTM as a While", turns=5),
    GROWING,
    Case("greedy", "cached_attention", "decoding with cached keys and values", turns=6),
    Case("transformer", "transformer_loop", "a transformer block, over and over", "depth", 100),
    Case("cond", "cond", "one If over f32[4]"),
)


def suite(folder: Path) -> tuple[Path, tuple[Case, ...]]:
    """The folder of models and its cases: the given one, or the models in the repository where it does not exist."""
    return (folder, EXTERNAL_CASES) if folder.is_dir() else (SHIPPED, SHIPPED_CASES)
