"""Compiles models ahead of time, for programs in C and for devices."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from circlet.backends.native.aot.between import Between, Dims
from circlet.backends.native.targets.catalogue import PROCESSORS, Processor
from circlet.embed import chosen_processor, compile_model
from circlet.embed.container import SUFFIX, TARGETS, container
from circlet.embed.example import example
from circlet.embed.files import KINDS, files
from circlet.runtime.errors import InputError
from circlet.schema.container import read_table
from circlet.schema.formats import OPTIONS
from circlet.tools.arguments import OUTPUT, ModelOptions, count, load, reading_parameters
from circlet.tools.console import Document, show
from circlet.tools.tables import plain, table
from circlet.tools.usage import Argument, Choice, Command, Option

COMPILING = "Compiling"


@dataclass(frozen=True)
class CompileOptions(ModelOptions):
    """What is to be compiled, and for what."""

    targets: Sequence[str]
    cpu: str | None
    output: str
    name: str | None
    signature: str | None
    shapes: Mapping[str, Dims]
    capacity: int | None
    optimize: str
    limits: bool
    emit: str | None
    example: bool


def execute(options: CompileOptions) -> Document:
    """Compile a model to an object file, a C header and a report, for programs without Python; or to one file that
    circlet.compiled runs without LLVM."""
    name = options.name or Path(options.model).stem
    if options.output.endswith(SUFFIX):
        return _container(options, name)
    if len(options.targets) != 1:
        raise InputError(f"expected one --target, found {len(options.targets)}; files {SUFFIX} have code for several")
    target = chosen_processor(options.targets[0], options.cpu)
    found = compile_model(load(options), target, name, options.signature, options.shapes,
                          options.optimize == "size", options.limits, options.capacity)
    folder = Path(options.output)
    written = files(found, options.emit)
    if options.example:
        written["main.c"] = example(found).encode()
    folder.mkdir(parents=True, exist_ok=True)
    for each, content in written.items():
        (folder / each).write_bytes(content)
    report = json.loads(written[f"{found.name}.json"])
    if options.json:
        return {"model": options.model, "files": [str(folder / each) for each in written], **report}
    return _text(folder, list(written), target, report)


def _container(options: CompileOptions, name: str) -> Document:
    """Writes one file with the model and its code."""
    if options.emit is not None or options.cpu is not None or options.example:
        raise InputError(f"files {SUFFIX} are made without --emit, --cpu and --example")
    content = container(load(options), options.targets, name, options.signature, options.shapes,
                        options.optimize == "size", options.limits, options.capacity)
    Path(options.output).write_bytes(content)
    found = read_table(lambda offset, size: content[offset:offset + size], len(content))
    if options.json:
        return {"model": options.model, "files": [options.output], "bytes": len(content),
                "targets": {each.target: each.part.size for each in found.variants}}
    rows: list[tuple[str | int, ...]] = [
        *((each.target, each.part.size, each.arena_bytes, each.state_bytes) for each in found.variants),
        (f"the model, .{found.format}", found.model.size, "", "")]
    return (f"{plain(options.output)}: {len(content)} bytes", table(("", "bytes", "arena", "state"), rows))


def _text(folder: Path, written: Sequence[str], target: Processor, report: Mapping[str, Any]) -> Document:
    sizes: Mapping[str, int] = report["bytes"]
    rows = [(kind, sizes[kind]) for kind in ("code", "constants", "arena", "state")]
    lines = [f"{plain(str(folder))}: {', '.join(written)}, for {target.name} ({target.summary})"]
    lines += [f"  {plain(each['symbol'])}: {', '.join(map(_port, each['inputs'])) or 'no inputs'} -> "
              f"{', '.join(map(_port, each['outputs'])) or 'no outputs'}" for each in report["entries"]]
    lines.append(f"  needs {', '.join(report['needs']) or 'no other functions'}")
    return "\n".join(lines), table(("", "bytes"), rows)


def _port(found: Mapping[str, Any]) -> str:
    lengths = {each["axis"]: f"{each['least']}..{each['most']}" for each in found["lengths"]}
    sizes = [lengths.get(axis, str(size)) for axis, size in enumerate(found["shape"])]
    return f"{plain(found['name'])} {found['dtype']}[{', '.join(sizes)}]"


def _bounded_shape(text: str) -> tuple[str, Dims]:
    """Splits `NAME=2,1..128`."""
    name, equals, sizes = text.partition("=")
    if not (name and equals):
        raise click.BadParameter(f"expected NAME=LENGTH,LENGTH,..., found {text!r}")
    return name, tuple(map(_length, sizes.split(","))) if sizes else ()


def _length(text: str) -> int | Between:
    """A length, or bounds of one."""
    numbers = text.split("..")
    if text in ("?", "-1"):
        raise click.BadParameter(f"length {text} has no bound, which memory is planned for; expected one, as 1..128")
    if len(numbers) > 2 or not all(each.isascii() and each.isdecimal() for each in numbers):
        raise click.BadParameter(f"expected lengths as 16 or 1..128, found {text!r}")
    least, most = int(numbers[0]), int(numbers[-1])
    return least if len(numbers) == 1 else Between(least, most)


def _list(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    """Prints the targets that are known, and ends."""
    if is_asked and not context.resilient_parsing:
        show((table(("target", "triple", "processor"),
                    [(each.name, each.triple, each.summary) for each in PROCESSORS.values()]),))
        context.exit()


def _callback(shapes: Sequence[tuple[str, Dims]], **values: Any) -> None:
    reading = {name: values.pop(name) for name in OPTIONS}
    show(execute(CompileOptions(shapes=dict(shapes), reading=reading, **values)))


COMMAND = Command("compile", help=execute.__doc__, callback=_callback, params=[
    Argument("model", "a .tflite, .circle, .onnx or OpenVINO .xml file; - reads standard input"),
    Option("--list-targets", group=COMPILING, is_flag=True, is_eager=True, expose_value=False, callback=_list,
           help="print the targets that are known by name, and end"),
    Option("--target", "targets", group=COMPILING, metavar="NAME|TRIPLE", multiple=True,
           help="what it is for: a name of --list-targets, host, or LLVM's triple of architecture and system; for a "
                f"file {SUFFIX} names, again and again (default there: {', '.join(TARGETS)})"),
    Option("--cpu", group=COMPILING, metavar="CPU", help="LLVM's name of the processor (default: the target's)"),
    Option("--signature", group=COMPILING, metavar="KEY", help="the one to compile (default: all)"),
    Option("--shape", "shapes", group=COMPILING, metavar="NAME=LENGTH,...", multiple=True, type=_bounded_shape,
           help="of an input whose lengths the model leaves open; 1..128 for one that each run is given, within these "
                "bounds"),
    Option("--capacity", group=COMPILING, metavar="LENGTH", type=count,
           help="room along an axis where only a run tells how long it is and nothing bounds that; a run that comes to "
                "more fails (default: such operators are refused)"),
    Option("--optimize", group=COMPILING, type=Choice(["speed", "size"]), default="speed",
           help="what matters more (default: speed)"),
    Option("--limits/--no-limits", group=COMPILING, default=True,
           help="whether loops can be stopped and bounded by the caller (default: they can)"),
    Option("--output", "-o", group=OUTPUT, metavar=f"DIR|FILE{SUFFIX}", required=True, type=click.Path(),
           help=f"the folder to write to, or a file {SUFFIX} for circlet.compiled"),
    Option("--name", group=OUTPUT, metavar="NAME",
           help="what files and symbols begin with (default: the model's name)"),
    Option("--emit", group=OUTPUT, type=Choice(list(KINDS)), help="the kind of file (default: wasm for WebAssembly, "
           "else object)"),
    Option("--example", group=OUTPUT, is_flag=True, help="write main.c too, a program that runs the model on zeros"),
    Option("--json", group=OUTPUT, is_flag=True, help="print one line of JSON, errors too"),
    *reading_parameters(),
])
"""`circlet compile`."""
