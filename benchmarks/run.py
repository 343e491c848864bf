"""Measures circlet and its peers in one process, with as many threads each: one, unless a case says otherwise.

    python -m benchmarks.run [--only NAMES] [--rounds N] [--json FILE] [--chart FILE.svg]

Each case is measured by what `circlet bench` measures a model with.
"""

from __future__ import annotations

import os

os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")})

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.cases import EXTERNAL, Case, suite
from benchmarks.dialects import dialect_cases
from benchmarks.made import made_cases
from benchmarks.measure import Result, measure_case, peers
from benchmarks.report import table, write_chart, write_json
from circlet.tools.measuring.environment import environment
from circlet.tools.measuring.peers import Peer


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", type=_names, metavar="NAMES", help="cases, separated by commas")
    parser.add_argument("--rounds", type=int, default=15, help="samples of each runtime (default: %(default)s)")
    parser.add_argument("--turns", type=int, help="how often loops turn, where an input decides it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples to a file")
    parser.add_argument("--chart", type=Path, metavar="FILE.svg", help="draw the medians")
    parser.add_argument("--backends", type=_names, default=["auto"], metavar="NAMES",
                        help="circlet's backends, separated by commas (default: auto)")
    parser.add_argument("--models", type=Path, default=EXTERNAL, metavar="DIR",
                        help="folder of models (default: %(default)s)")
    options = parser.parse_args()
    if options.rounds < 1 or (options.turns is not None and options.turns < 1):
        parser.error("--rounds and --turns must be at least 1")
    return options


def _chosen(cases: tuple[Case, ...], only: list[str] | None) -> list[Case]:
    known = {case.name: case for case in cases}
    unknown = [name for name in only or () if name not in known]
    if unknown:
        raise SystemExit(f"unknown cases: {', '.join(unknown)}; there are: {', '.join(known)}")
    return [known[name] for name in only or known]


def _run(cases: list[Case], folder: Path, runtimes: list[Peer], options: argparse.Namespace) -> list[Result]:
    results = []
    for case in cases:
        path = case.file(folder)
        if not path.exists():
            _progress(f"{case.name}: skipped, there is no {path}")
            continue
        _progress(f"{case.name}: {case.what}")
        for threads in case.threads:
            name = case.name if case.threads == (1,) else f"{case.name} ({threads} threads)"
            results.append(measure_case(name, path, case.inputs(folder, options.turns),
                                        case.iterations(options.turns), runtimes, options.rounds, threads))
    return results


def main() -> int:
    options = _arguments()
    folder, cases = suite(options.models)
    if folder != options.models:
        _progress(f"{options.models} does not exist (--models DIR chooses another folder): measuring {folder} instead")
    with TemporaryDirectory() as made:
        chosen = _chosen((*cases, *made_cases(Path(made)), *dialect_cases(Path(made))), options.only)
        results = _run(chosen, folder, peers(options.backends), options)
    print(", ".join(f"{name} {value}" for name, value in environment().items()))
    print(f"{options.rounds} rounds; a run sets the inputs, runs the model and reads the outputs. Ratios above 1 are "
          "faster than the reference, LiteRT or ONNX Runtime\n")
    print(table(results))
    if options.json is not None:
        write_json(options.json, results)
    if options.chart is not None:
        write_chart(options.chart, results)
    return 0 if all(each.agrees for each in results) else 1


if __name__ == "__main__":
    sys.exit(main())
