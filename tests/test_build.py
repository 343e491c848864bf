"""sdist, wheel and editable install of a checkout without symbolic links, as on Windows or from an archive."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("backends", "runtime", "schema", "tools")
FILES = ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py")
pytestmark = pytest.mark.slow


def python(*arguments: str | Path, cwd: Path, **variables: str) -> str:
    """What Python prints, with nothing of the checkout on its path."""
    environment = {**os.environ, "PYTHONPATH": "", **variables}
    found = subprocess.run([sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True,
                           check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy in which the links are small text files, as git writes them where there are no links."""
    pytest.importorskip("uv")
    copy = tmp_path / "checkout"
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignored)
    shutil.copytree(ROOT / "circlet", copy / "circlet", ignore=shutil.ignore_patterns("__pycache__", *FOLDERS))
    for folder in FOLDERS:
        (copy / "circlet" / folder).write_text(f"../{folder}")
    for file in FILES:
        shutil.copy(ROOT / file, copy)
    return copy


def modules(checkout: Path) -> set[str]:
    """Every module's file, by its place in the package."""
    own = {each.relative_to(checkout).as_posix() for each in checkout.glob("circlet/**/*.py")}
    return own | {f"circlet/{each.relative_to(checkout).as_posix()}" for folder in FOLDERS
                  for each in checkout.glob(f"{folder}/**/*.py")}


def resources(checkout: Path) -> set[str]:
    """What is in the package beside modules."""
    pages = checkout / "tools" / "page"
    files = [*pages.glob("*.css"), *pages.glob("*.js")]
    assert files
    return {"circlet/py.typed", *(f"circlet/tools/page/{each.name}" for each in files)}


def test_sdist_and_wheel_are_whole(checkout: Path, tmp_path: Path) -> None:
    python("-m", "uv", "build", "--quiet", "--out-dir", tmp_path / "dist", cwd=checkout)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        names = {each for each in content.namelist() if each.startswith("circlet/")}
        content.extractall(tmp_path / "installed")
    assert names == modules(checkout) | resources(checkout)
    packages = os.pathsep.join([str(tmp_path / "installed"), sysconfig.get_path("purelib")])
    out = python("-m", "circlet", "run", ROOT / "examples" / "collatz.tflite", "--input", "n=27", cwd=tmp_path,
                 PYTHONPATH=packages)
    assert "111" in out


def test_an_editable_install_finds_the_folders(checkout: Path, tmp_path: Path) -> None:
    """Also in the checkout itself, where the folder `circlet` is found first."""
    venv = tmp_path / "venv"
    python("-m", "uv", "venv", "--quiet", "--python", sys.executable, venv, cwd=checkout)
    python("-m", "uv", "pip", "install", "--quiet", "--no-deps", "--python", venv, "--editable", ".", cwd=checkout)
    (added,) = venv.glob("**/__editable__*.pth")
    (added.parent / "needed.pth").write_text(sysconfig.get_path("purelib"))  # what circlet depends on
    program = "import circlet.runtime.ir.model as found; print(found.__file__)"
    command = (venv / ("Scripts" if os.name == "nt" else "bin") / "python", "-c", program)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for place in (checkout, tmp_path):
        out = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=True).stdout
        assert Path(out.strip()) == checkout / "runtime" / "ir" / "model.py"
