"""Support vector machines of the set `ai.onnx.ml` against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import circlet
from circlet.runtime.errors import CircletError, ModelError, UnsupportedError
from tests.schema.onnx.learned import learned, needs_release_that_transforms_shares, same

WIDTH = 6
ROWS = np.random.default_rng(0).standard_normal((33, WIDTH)).astype(np.float32)
GIVEN = [ROWS, ROWS[:1], ROWS[:0], ROWS[5:12]]
KERNELS: dict[str, list[float]] = {"LINEAR": [0.3, 0.1, 0.0], "RBF": [0.3, 0.0, 0.0], "SIGMOID": [0.3, 0.1, 0.0],
                                   "POLY": [0.3, 0.5, 3.0]}


def numbers(*shape: int, low: float = -1.0, high: float = 1.0) -> list[float]:
    found: npt.NDArray[np.float32] = np.random.default_rng(shape[0]).uniform(low, high, shape).astype(np.float32)
    return [float(each) for each in found.reshape(-1)]


def classes(*counts: int, kernel: str = "RBF", told: bool = False, **more: Any) -> dict[str, Any]:
    """Attributes of a classifier with so many vectors of each class."""
    whole, pairs = sum(counts), len(counts) * (len(counts) - 1) // 2
    shares = {"prob_a": numbers(pairs, low=-3, high=-1), "prob_b": numbers(pairs)} if told else {}
    return {"kernel_type": kernel, "kernel_params": KERNELS[kernel], "vectors_per_class": list(counts),
            "support_vectors": numbers(whole, WIDTH), "coefficients": numbers(len(counts) - 1, whole),
            "rho": numbers(pairs, low=-0.3, high=0.3), "classlabels_ints": [3 + 2 * k for k in range(len(counts))],
            **shares, **more}


def weights(count: int, low: float, **more: Any) -> dict[str, Any]:
    """Attributes of a classifier without vectors."""
    return {"kernel_params": KERNELS["LINEAR"], "coefficients": numbers(count, WIDTH, low=low), "rho": [0.1],
            "classlabels_ints": [*range(4, 4 + count)], **more}


def regression(count: int, kernel: str, **more: Any) -> dict[str, Any]:
    vectors = {"support_vectors": numbers(count, WIDTH)} if count else {}
    return {"kernel_type": kernel, "kernel_params": KERNELS[kernel], "n_supports": count, "rho": [0.2],
            "coefficients": numbers(count or WIDTH), **vectors, **more}


SHARED = {"prob_a": [-1.0], "prob_b": [0.5]}
CLASSIFIED: dict[str, dict[str, Any]] = {
    **{f"{len(counts)} classes, {kernel}": classes(*counts, kernel=kernel) for kernel in KERNELS
       for counts in ((5, 7), (4, 1, 6), (2, 3, 4, 5, 1))},
    **{f"shares of {len(counts)} classes": classes(*counts, told=True) for counts in ((5, 7), (4, 1, 6), (
        2, 3, 4, 5, 1))},
    **{f"{len(counts)} classes, {of}": classes(*counts, post_transform=of) for counts in ((5, 7), (4, 1, 6))
       for of in ("LOGISTIC", "SOFTMAX")},
    "shares, SOFTMAX": classes(4, 1, 6, told=True, post_transform="SOFTMAX"),
    "a class without vectors": classes(4, 0, 6),
    "powers": classes(5, 7, kernel="POLY", kernel_params=[0.1, 3.0, 2.5]),
    "squares": classes(5, 7, kernel="POLY", kernel_params=[0.3, 0.1, 2.0]),
    **{f"{count} classes by weights above {low}, {of}": weights(count, low, post_transform=of)
       for count in (2, 3) for low in (-1, 0) for of in ("NONE", "SOFTMAX")},
    "two classes by weights, told apart by the greatest": weights(2, -1, **SHARED),
}
REGRESSED: dict[str, dict[str, Any]] = {
    **{kernel: regression(11, kernel) for kernel in KERNELS},
    "weights": regression(0, "LINEAR"), "one class": regression(5, "RBF", one_class=1),
}


@pytest.mark.parametrize("name", CLASSIFIED)
@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_classified(name: str, backend: str) -> None:
    if name == "2 classes, LOGISTIC":
        needs_release_that_transforms_shares()
    same(learned("SVMClassifier", CLASSIFIED[name], shape=(None, WIDTH)), backend, GIVEN)


@pytest.mark.parametrize("name", REGRESSED)
@pytest.mark.parametrize("backend", ["cpu", "native"])
def test_regressed(name: str, backend: str) -> None:
    same(learned("SVMRegressor", REGRESSED[name], shape=(None, WIDTH)), backend, GIVEN)


def test_text() -> None:
    attributes = classes(4, 1, 6, classlabels_strings=["a", "b", "c"])
    del attributes["classlabels_ints"]
    same(learned("SVMClassifier", attributes, shape=(None, WIDTH)), "native", GIVEN)


def test_a_vector_is_a_row() -> None:
    same(learned("SVMClassifier", classes(5, 7), shape=(WIDTH,)), "native", [ROWS[0]])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("shape", [(3, 1), (WIDTH, 1), (1, 2 * WIDTH), (2, 2)])
def test_rows_of_another_width(kernel: str, shape: tuple[int, int]) -> None:
    session = circlet.Session(learned("SVMClassifier", classes(5, 7, kernel=kernel), shape=(None, None)))
    with pytest.raises(CircletError):
        session.run({"x": np.ones(shape, np.float32)})


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "one class": (classes(5, 7, classlabels_ints=[1]), UnsupportedError, "a single class"),
    "kernel": (classes(5, 7, kernel_type="CUBE"), ModelError, "found 'CUBE'"),
    "vectors": (classes(5, 7, vectors_per_class=[12]), ModelError, "expected 2 numbers"),
    "support vectors": (classes(5, 7, support_vectors=[1.0] * 5), ModelError, "for 12 vectors, found 5"),
    "coefficients": (classes(5, 7, coefficients=[1.0]), ModelError, "expected 12 numbers, found 1"),
    "rho": (classes(5, 7, 2, rho=[1.0]), ModelError, "'rho': expected 3 numbers, found 1"),
    "shares": (classes(5, 7, 2, prob_a=[1.0], prob_b=[1.0]), ModelError, "for 3 pairs"),
    "many shares": (classes(*[1] * 33, told=True), UnsupportedError, "probabilities of 33 classes"),
    "weights": (weights(2, -1, coefficients=[1.0]), ModelError, "for 2 classes, found 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    attributes, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text):
        circlet.load(learned("SVMClassifier", attributes, shape=(None, WIDTH)))
