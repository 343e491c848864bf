"""Which backend a session computes with."""

from __future__ import annotations

import subprocess
import sys

import pytest

import circlet
from circlet.session import VARIABLE
from tests.exec import graphs as g
from tests.exec.graphs import i32


def model() -> circlet.Model:
    return g.while_model(g.at_most(3), lambda s, v: [g.plus(s, v[0])], [i32(0)])


def chosen(**arguments: str) -> str:
    made = circlet.Session(model(), **arguments)  # type: ignore[arg-type]
    g.assert_equal(g.run(made, [i32(1)]), [i32(4)])
    return made.backend_of(1)[0]


@pytest.mark.filterwarnings("ignore:circlet computes with numpy")
def test_the_fastest_is_native(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    assert (chosen(), chosen(backend="native"), chosen(backend="cpu")) == ("native", "native", "cpu")


def test_the_environment_says_what_auto_means(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cpu", "native"):
        monkeypatch.setenv(VARIABLE, name)
        assert (chosen(), chosen(backend="auto"), chosen(backend="cpu")) == (name, name, "cpu")
    monkeypatch.setenv(VARIABLE, "gpu")
    with pytest.raises(ValueError, match="one of auto, cpu, native, found 'gpu'"):
        chosen()


def test_numpy_needs_no_llvm() -> None:
    program = ("import circlet, sys; import tests.test_backend_choice as t; "
               "assert t.chosen(backend='cpu') == 'cpu'; assert 'llvmlite.binding' not in sys.modules")
    subprocess.run([sys.executable, "-c", program], check=True)
