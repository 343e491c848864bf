"""Runs the quick suite on every Python that this machine has: `make matrix`, or `python -m tests.matrix 3.10-lowest`.

sdist and wheel are built, the wheel from the sdist, and the wheel is what each environment gets. Where a version is not
found, `uv python install VERSION` brings it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / "build" / "matrix"
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
PEERS = ("onnx", "openvino", "ai-edge-litert", "circle-schema")
"""What tests compare with; those without a wheel for a version are left out there, and their tests are skipped."""
ENVIRONMENT = {**os.environ, "UV_PYTHON_DOWNLOADS": "never", "PYTHONSAFEPATH": "1"}
ENVIRONMENT.pop("PYTHONPATH", None)


@dataclass(frozen=True)
class Run:
    """One environment that the suite runs in."""

    version: str
    python: str
    pins: str
    """`highest` or `lowest` of what pyproject.toml allows; `bare` has neither llvmlite nor what tests compare with."""

    @property
    def folder(self) -> Path:
        return PLACE / f"{self.version}-{self.pins}"

    @property
    def bin(self) -> Path:
        return self.folder / ("Scripts" if os.name == "nt" else "bin")

    def __str__(self) -> str:
        return f"Python {self.version}, {self.pins}"


def run(*command: str | Path, cwd: Path = ROOT) -> int:
    print("+", *command, flush=True)
    return subprocess.run(command, cwd=cwd, env=ENVIRONMENT, check=False).returncode


def uv(*arguments: str | Path) -> bool:
    """Whether uv does what it is told."""
    return run(sys.executable, "-m", "uv", "--quiet", *arguments) == 0


def output(*command: str | Path, cwd: Path = ROOT) -> str:
    """What a command prints; nothing if it fails or is not there."""
    try:
        found = subprocess.run(command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return "" if found.returncode else found.stdout.strip()


def interpreter(version: str) -> str | None:
    """A Python of a version: this one, on the path, of pyenv, or known to uv."""
    question = "import sys; print('%d.%d' % sys.version_info[:2])"
    return next((each for each in _candidates(version) if output(each, "-c", question) == version), None)


def _candidates(version: str) -> Iterator[str]:
    yield sys.executable
    yield from filter(None, (shutil.which(f"python{version}"),))
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python")))
    yield from filter(None, (output(sys.executable, "-m", "uv", "python", "find", version),))


def runs(versions: Sequence[str]) -> list[Run]:
    """The highest pins on all, the lowest on the first one, and none but the needed packages on the last one."""
    found = [(version, python) for version in versions if (python := interpreter(version)) is not None]
    made = [Run(version, python, "highest") for version, python in found]
    return [*(Run(*each, "lowest") for each in found[:1]), *made, *(Run(*each, "bare") for each in found[-1:])]


def build() -> Path:
    """The wheel, built from the sdist."""
    folder = PLACE / "dist"
    shutil.rmtree(folder, ignore_errors=True)
    if not uv("build", "--out-dir", folder):
        sys.exit("the sdist or the wheel cannot be built")
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(each: Run, wheel: Path) -> bool:
    """Whether the environment is there. The checkout lies behind it on the path, for the tests, not for circlet."""
    shutil.rmtree(each.folder, ignore_errors=True)
    add = ("pip", "install", "--python", each.folder, "--only-binary", ":all:")
    pinned = (*add, "--resolution", "lowest-direct" if each.pins == "lowest" else "highest", "-r", "pyproject.toml",
              "--extra", "suite")
    if not uv("venv", "--python", each.python, each.folder):
        return False
    if each.pins == "bare" or not uv(*pinned, "--extra", "peers"):
        if not uv(*pinned):
            return False
        missing = [peer for peer in PEERS if each.pins == "bare" or not uv(*add, peer)]
        print(f"{each}: without {', '.join(missing)}; tests that need them are skipped", flush=True)
    if each.pins == "bare":
        uv("pip", "uninstall", "--python", each.folder, "llvmlite")
    packages = output(each.bin / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    (Path(packages) / "checkout.pth").write_text(f"{ROOT}\n", encoding="utf-8")
    return uv(*add, "--no-deps", wheel) and packages in output(
        each.bin / "python", "-c", "import circlet; print(circlet.__file__)", cwd=PLACE)


def passes(each: Run, wheel: Path) -> bool:
    """Whether the environment can be made, the program runs in it, and the suite passes."""
    program = (each.bin / "circlet", "run", "examples/collatz.tflite", "--input", "n=27")
    suite = (each.bin / "pytest", "-o", "pythonpath=", "-p", "no:cacheprovider", "-rs", "-m", "not slow")
    return install(each, wheel) and run(*program) == 0 and run(*suite) == 0


def main(names: Sequence[str]) -> int:
    versions = [*dict.fromkeys(name.partition("-")[0] for name in names)]
    wanted = [each for each in runs(versions) if {each.version, each.folder.name} & set(names)]
    wheel, report, failed = build(), [], False
    for each in wanted:
        print(f"\n== {each}: {each.python}", flush=True)
        begin = time.monotonic()
        is_good = passes(each, wheel)
        failed |= not is_good
        report.append(f"{each}: {'passed' if is_good else 'FAILED'} in {time.monotonic() - begin:.0f} s")
    missing = [version for version in versions if version not in {each.version for each in wanted}]
    print("", *report, f"not on this machine: {', '.join(missing) or 'none'}", sep="\n")
    return int(failed or not wanted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or VERSIONS))
