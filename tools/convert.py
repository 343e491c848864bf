"""Writes a model in another format, with operators that the format has and other programs run."""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter

import circlet
from circlet.runtime.ir.model import Model
from circlet.tools.arguments import add_model_arguments, load
from circlet.tools.tables import plural, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `circlet convert`."""
    add_model_arguments(parser)
    parser.add_argument("output", metavar="OUT", help="the file to write, .tflite or .circle")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def execute(options: argparse.Namespace) -> str:
    """Converts the model; returns what to print."""
    model = load(options)
    converted = circlet.convert(model)
    circlet.save(converted, options.output)
    size = os.path.getsize(options.output)
    before, after = _operators(model), _operators(converted)
    if options.json:
        return json.dumps({"model": options.model, "output": options.output, "bytes": size,
                           "subgraphs": len(converted.subgraphs), "operators": dict(sorted(after.items()))})
    rows = [(name, before[name], after[name]) for name in sorted({*before, *after}) if before[name] != after[name]]
    changes = table(("operator", "before", "after"), rows) if rows else "the operators are the same"
    return (f"{options.output}: {plural(size, 'byte')}, {plural(len(converted.subgraphs), 'subgraph')}, "
            f"{plural(sum(after.values()), 'operator')}\n\n{changes}")


def _operators(model: Model) -> Counter[str]:
    return Counter(operator.name for subgraph in model.subgraphs for operator in subgraph.operators)
