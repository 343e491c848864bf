"""What sub-commands have in common: their arguments, and the session these describe."""

from __future__ import annotations

import argparse
from typing import get_args

import circlet
from circlet.schema.files import AbsentCond, SliceOverrun
from circlet.session import BACKENDS


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the model, and how it is to be read where programs differ."""
    parser.add_argument("model", metavar="MODEL", help="a .tflite, .circle, .onnx or OpenVINO .xml file")
    parser.add_argument("--onnx-absent-cond", choices=get_args(AbsentCond), default="spec",
                        help="whether an ONNX Loop without the input cond ignores the condition of its body, as the "
                        "specification says (default), or stops when it is false, as ONNX Runtime does")
    parser.add_argument("--slice-overrun", choices=get_args(SliceOverrun), default="error",
                        help="whether a slice that leaves its axis, in a loop of OpenVINO, is an error (default) or "
                        "the last one that fits")


def load(options: argparse.Namespace) -> circlet.Model:
    """The model that `add_model_arguments` describes."""
    return circlet.load(options.model, onnx_absent_cond=options.onnx_absent_cond, slice_overrun=options.slice_overrun)


def add_session_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the model, and how it is to be run and reported."""
    add_model_arguments(parser)
    parser.add_argument("--backend", choices=("auto", *BACKENDS), default="auto",
                        help="what computes the operators (default: auto, the fastest there is)")
    parser.add_argument("--no-copy-elision", dest="copy_elision", action="store_false",
                        help="copy all values into and out of subgraphs instead of lending buffers")
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def session_of(model: circlet.Model, options: argparse.Namespace,
               limits: circlet.Limits | None = None) -> circlet.Session:
    """The session that `add_session_arguments` describes."""
    return circlet.Session(model, options.backend, copy_elision=options.copy_elision, limits=limits)


def count(text: str) -> int:
    """An argument that is an integer of at least 1."""
    return _at_least(1, int(text))


def amount(text: str) -> int:
    """An argument that is an integer of at least 0."""
    return _at_least(0, int(text))


def duration(text: str) -> float:
    """An argument that is a number of seconds."""
    seconds = float(text)
    if not seconds >= 0:
        raise argparse.ArgumentTypeError(f"expected at least 0, found {text}")
    return seconds


def _at_least(least: int, value: int) -> int:
    if value < least:
        raise argparse.ArgumentTypeError(f"expected at least {least}, found {value}")
    return value
