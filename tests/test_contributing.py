"""The worked diffs of CONTRIBUTING.md apply to the tree, and what they add works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import NATIVE

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
DIFFS = re.findall(r"^```diff\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
PROGRAM = """
from io import BytesIO
import numpy as np
import circlet
from circlet.backends.native.targets.target import kind_of
from circlet.runtime.passes.pipelines import INTERPRETED
from tests.ops.test_unary import CASES
from tests.passes.samples import SAMPLES

file = BytesIO()
np.save(file, np.arange(3))
print(circlet.Session(circlet.load(file.getvalue())).invoke(0, []))
print(INTERPRETED.run(SAMPLES["cancel_negations"]()).subgraphs[0].operators[-1].name)
print(kind_of("powerpc64le-unknown-linux-gnu").__name__)
print([each.id for each in CASES if each.op.name == "SOFTSIGN"])
"""


@pytest.mark.skipif(shutil.which("git") is None, reason="git applies the diffs")
@NATIVE
@pytest.mark.slow
def test_the_worked_diffs(tmp_path: Path) -> None:
    for folder in ("backends", "circlet", "runtime", "schema", "tests", "tools"):
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for number, each in enumerate(DIFFS):
        file = tmp_path / f"{number}.diff"
        file.write_text(each, encoding="utf-8")
        subprocess.run(["git", "apply", file.name], cwd=tmp_path, check=True)

    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    environment.pop("PYTHONSAFEPATH", None)

    def run(*arguments: str) -> str:
        done = subprocess.run([sys.executable, *arguments], cwd=tmp_path, env=environment, check=False,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert len(DIFFS) == 5
    assert run("-c", PROGRAM).splitlines() == ["[array([0, 1, 2])]", "ALIAS", "PowerPC64LE", "['float']"]
    assert "npy: .npy" in run("-m", "circlet", "formats").splitlines()
    run("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-k", "SOFTSIGN",
        "tests/ops/test_unary.py", "tests/native/test_unary.py")
