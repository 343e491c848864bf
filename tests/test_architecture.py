"""The rules of the source tree, checked on the source itself."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType

import pytest

import circlet.backends.cpu
import circlet.runtime.ops
from circlet.backends.cpu.rule import RULES
from circlet.runtime.ops.registry import OPERATORS
from tests.ops.cases import Case

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("circlet", "runtime", "schema", "backends", "tools")
"""The folders that are imported as `circlet`."""
ALL = (*PRODUCT, "tests", "benchmarks", "examples")
MAX_LINES = 500

FOUNDATION = {"runtime.errors", "runtime.late", "runtime.records", "runtime.digests"}
IR = FOUNDATION | {"runtime.ir"}
OPS = IR | {"runtime.ops"}
PASSES = OPS | {"runtime.passes"}
RUNTIME = PASSES | {"runtime.exec"}
SHARED = RUNTIME | {"backends.refusal", "backends.arithmetic"}
CPU = SHARED | {"backends.cpu"}
BACKENDS = CPU | {"backends.controlflow", "backends.native", "backends.platform"}
ARROWS: dict[str, set[str]] = {
    "runtime.errors": FOUNDATION,
    "runtime.late": FOUNDATION,
    "runtime.records": FOUNDATION,
    "runtime.digests": FOUNDATION,
    "runtime.ir": IR,
    "runtime.ops": OPS,
    "runtime.passes": PASSES,
    "runtime.exec": RUNTIME,
    "runtime": set(),
    "schema": RUNTIME | {"schema"},
    "backends": set(),
    "backends.platform": FOUNDATION,
    "backends.refusal": RUNTIME,
    "backends.arithmetic": SHARED,
    "backends.cpu": CPU,
    "backends.controlflow": RUNTIME | {"backends.controlflow"},
    "backends.native": CPU | {"backends.platform", "backends.native"},
    "circlet": BACKENDS | {"schema", "circlet"},
    "tools": BACKENDS | {"schema", "circlet", "tools"},
}
"""What each layer may import; `circlet` is the public face, that is the files of the folder `circlet` itself."""
STOREYS = ("abi", "timed", "targets", "compilation", "emit", "check", "parts", "program", "gemm", "rules", "lower",
           "load", "counter", "plans", "coverage", "backend", "aot")
"""The files and folders of backends/native; each may import itself and those before it."""
FACES = ("circlet.embed", "circlet", "circlet.compiled", "circlet.network", "circlet.runtime.records")
"""What users import from, with names of files below; and the dataclasses, which are Python's own to type checkers."""
MAX_FILES = 20
WIDE_FOLDERS = {
    "runtime/ops": "a file for each family of operators",
    "backends/cpu": "a file for each family of operators",
    "backends/native/rules/real": "a file for each family of operators",
    "tools": "a file for each sub-command, beside what they share",
    "schema/openvino": "a file for each family of layers",
    "schema/onnx/ops": "a file for each family of operators",
}
"""Folders that may hold more files, and why."""


@dataclass(frozen=True)
class Source:
    """A source file."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def module(self) -> str:
        """The module's name below `circlet`; of the public face's files the name itself."""
        return ".".join(self.path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")

    @property
    def full_name(self) -> str:
        """The name by which the module is imported."""
        return f"circlet.{self.module}" if self.module.split(".")[0] in PRODUCT[1:] else self.module

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """The imports, and the calls that are asked for; all nodes of all files take 260 MB."""
        tree = ast.parse(self.text, self.name)
        walk = ast.walk if any(each in self.text for each in CALLED) else _statements
        return [node for node in walk(tree)
                if isinstance(node, (ast.Import, ast.ImportFrom))
                or (isinstance(node, ast.Call) and _called(node) in CALLED)]

    @cached_property
    def imports(self) -> list[tuple[int, str]]:
        """Line and full name of everything imported: for `from a import b` that is `a.b`."""
        found: list[tuple[int, str]] = []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found.extend((node.lineno, each.name) for each in node.names)
            elif isinstance(node, ast.ImportFrom):
                found.extend((node.lineno, f"{node.module or ''}.{each.name}") for each in node.names)
            elif isinstance(node, ast.Call) and _called(node) in CALLED[:2] and node.args:
                name = node.args[0]
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    found.append((node.lineno, name.value))
        return found


CALLED = ("import_module", "__import__", "setattr", "__setattr__")


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Statements, which is where imports are; expressions are most of a file."""
    left = [tree]
    while left:
        for node in ast.iter_child_nodes(left.pop()):
            if isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)):
                left.append(node)
                yield node


def _called(node: ast.Call) -> str:
    """The last name of what is called."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _sources(folders: tuple[str, ...]) -> Iterator[Source]:
    """The files of folders, not going through the symbolic links that lie in `circlet`."""
    for folder in folders:
        for place, _, files in os.walk(ROOT / folder, followlinks=False):
            yield from (Source(Path(place, file)) for file in sorted(files) if file.endswith(".py"))


SOURCES = list(_sources(ALL))
PRODUCT_SOURCES = [source for source in SOURCES if source.name.partition("/")[0] in PRODUCT]


def _layer(module: str) -> str:
    """The layer that a module below `circlet` belongs to."""
    parts = module.split(".")
    if parts[-1] == "__main__":
        return "tools"
    two = ".".join(parts[:2])
    if two in ARROWS:
        return two
    return parts[0] if parts[0] in ARROWS else "circlet"


def _report(problems: list[str], advice: str) -> None:
    if problems:
        pytest.fail("\n".join([*problems, advice]), pytrace=False)


def test_sources_are_found() -> None:
    layers = {_layer(source.module) for source in PRODUCT_SOURCES}
    assert layers == set(ARROWS), "a folder is gone, or a new one in runtime/ or backends/ has no place in ARROWS"


def test_project_modules_are_imported_by_their_full_name() -> None:
    _report(
        [f"{source.name}:{line}: imports {name}" for source in SOURCES for line, name in source.imports
         if name.partition(".")[0] in PRODUCT[1:]],
        "The project is one package: import `circlet.runtime...`, `circlet.schema...`, never the bare folder name.")


def test_no_relative_imports() -> None:
    _report(
        [f"{source.name}:{node.lineno}: relative import" for source in SOURCES for node in source.nodes
         if isinstance(node, ast.ImportFrom) and node.level],
        "Import by the full name, `from circlet.runtime.ir.model import Model`.")


def test_names_are_imported_from_where_they_are_defined() -> None:
    passed_on = {source.full_name: _imported_names(source) for source in SOURCES if source.full_name not in FACES}
    problems: list[str] = []
    for source in SOURCES:
        for node in source.nodes:
            if isinstance(node, ast.ImportFrom):
                problems += [f"{source.name}:{node.lineno}: {each.name} of {node.module}" for each in node.names
                             if each.name in passed_on.get(node.module or "", ())
                             and f"{node.module}.{each.name}" not in passed_on]
    _report(problems, "Import a name from the file that defines it; only the faces of users pass names on.")


def _imported_names(source: Source) -> set[str]:
    """The names that a file itself has from others."""
    return {each.asname or each.name for node in source.nodes if isinstance(node, ast.ImportFrom)
            for each in node.names}


def test_arrows_point_one_way() -> None:
    problems = []
    for source in PRODUCT_SOURCES:
        own = _layer(source.module)
        for line, name in source.imports:
            top, _, rest = name.partition(".")
            if top == "circlet" and _layer(rest) not in ARROWS[own]:
                problems.append(f"{source.name}:{line}: {own} imports {name} of {_layer(rest)}")
    _report(problems,
            "Arrows: tools -> circlet -> {schema, backends} -> runtime, in runtime exec -> passes -> ops -> ir, and "
            "errors for all; in backends native -> cpu -> arithmetic. "
            "Move what is needed down to the lower layer, or have the upper layer hand it in.")


def test_storeys_of_native_stand_on_each_other() -> None:
    problems = []
    for source in PRODUCT_SOURCES:
        own = _storey(source.full_name)
        for line, name in source.imports:
            other = _storey(name)
            if own and other and STOREYS.index(other) > STOREYS.index(own):
                problems.append(f"{source.name}:{line}: {own} imports {name} of {other}")
    _report(problems, "Move what is needed down to the lower storey, or have the upper one hand it in.")


def _storey(module: str) -> str:
    """The storey of backends/native that a module is of; empty where it is of none."""
    inner = module.removeprefix("circlet.backends.native.")
    return "" if inner == module else inner.split(".")[0]


def test_processors_are_named_in_their_own_files() -> None:
    names = re.compile(r"llvm\.(?:x86|aarch64)|\.triple\.startswith|target\.has\(")
    _report([f"{source.name}:{number}: {line.strip()}" for source in PRODUCT_SOURCES
             if source.name.startswith("backends/native/") and not source.name.startswith("backends/native/targets/")
             for number, line in enumerate(source.text.splitlines(), 1) if names.search(line)],
            "Let the target offer the operation, or say that it has none: backends/native/targets/target.py.")


def test_modules_do_not_import_each_other() -> None:
    """Counting imports within functions and those for types alone."""
    graph = _import_graph()
    reached = {module: _reachable(graph, module) for module in graph}
    circles = {frozenset(other for other in reached[module] if module in reached[other])
               for module in graph if module in reached[module]}
    _report([" - ".join(sorted(each)) for each in circles],
            "Break the circle: move what both need down, or state what the lower module needs as a Protocol.")


def _import_graph() -> dict[str, set[str]]:
    """The modules of the product that each of them imports."""
    names = {source.full_name for source in PRODUCT_SOURCES}
    return {source.full_name: {found for _, name in source.imports
                               if (found := name if name in names else name.rpartition(".")[0]) in names}
            for source in PRODUCT_SOURCES}


def _reachable(graph: dict[str, set[str]], module: str) -> set[str]:
    """The modules that one imports, and those that these import."""
    found: set[str] = set()
    left = [module]
    while left:
        new = graph[left.pop()] - found
        found |= new
        left.extend(new)
    return found


def test_product_does_not_import_tests() -> None:
    _report(
        [f"{source.name}:{line}: imports {name}" for source in PRODUCT_SOURCES for line, name in source.imports
         if name.partition(".")[0] in ("tests", "benchmarks", "examples")],
        "Move what the product needs into the product.")


def test_files_are_short() -> None:
    lengths = {source.name: len(source.text.splitlines()) for source in SOURCES}
    _report([f"{name}: {count} lines" for name, count in lengths.items() if count >= MAX_LINES],
            f"A file has fewer than {MAX_LINES} lines: split it along a sub-family or a noun of the design.")


def test_folders_are_small() -> None:
    counts: dict[str, int] = {}
    for source in PRODUCT_SOURCES:
        folder = source.name.rpartition("/")[0]
        counts[folder] = counts.get(folder, 0) + (not source.name.endswith("/__init__.py"))
    _report([f"{folder}: {count} files" for folder, count in counts.items()
             if count > MAX_FILES and folder not in WIDE_FOLDERS],
            f"A folder has at most {MAX_FILES} files: sort them into rooms, or give the reason in WIDE_FOLDERS.")


def test_nothing_sets_attributes_by_name() -> None:
    _report(
        [f"{source.name}:{node.lineno}: calls {_called(node)}" for source in SOURCES for node in source.nodes
         if isinstance(node, ast.Call) and _called(node) in CALLED[2:]
         and not (isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "monkeypatch")],
        "Assign to the attribute, build the object with all its values, or use dataclasses.replace.")


def test_llvm_is_imported_in_one_place() -> None:
    files = sorted({source.name for source in SOURCES for _, name in source.imports
                    if name == "llvmlite.binding" or name.startswith("llvmlite.binding.")})
    _report(files if len(files) > 1 else [],
            "llvmlite.binding has ownership traps: keep it in one file and give that file what the others need.")


def _import_modules(package: ModuleType) -> None:
    for each in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{each.name}")


def _family(module: str) -> str:
    return module.rpartition(".")[2]


def test_a_family_has_one_name_everywhere() -> None:
    _import_modules(circlet.backends.cpu)
    _report(
        [f"{op.name}: defined in {op.__module__}, its rule in {found.bind.__module__}" for op, found in RULES.items()
         if _family(op.__module__) != _family(found.bind.__module__)],
        "The rules of runtime/ops/FAMILY.py lie in backends/cpu/FAMILY.py; modules without rules may serve several.")


def test_operators_are_defined_in_families() -> None:
    _import_modules(circlet.runtime.ops)
    _report([f"{name}: defined in {op.__module__}" for name, op in OPERATORS.items()
             if op.__module__.rpartition(".")[0] != circlet.runtime.ops.__name__],
            "Define operators in runtime/ops/FAMILY.py.")


def _cases() -> Iterator[Case]:
    folder = ROOT / "tests" / "ops"
    for file in sorted(folder.glob("test_*.py")):
        module = importlib.import_module(f"tests.ops.{file.stem}")
        for value in vars(module).values():
            if isinstance(value, (list, tuple)):
                yield from (each for each in value if isinstance(each, Case))


def test_every_rule_has_a_case() -> None:
    _import_modules(circlet.backends.cpu)
    tested = {case.op.name for case in _cases()}
    _report(
        [f"{name}: no case in tests/ops/test_{_family(op.__module__)}.py"
         for name, op in sorted(OPERATORS.items()) if op in RULES and name not in tested],
        "Add a Case to a list of that module, e.g. CASES, and run it with case_test(CASES).")
