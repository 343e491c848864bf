"""What a process loads before its first result: modules are counted, so that it stays as quick to start as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from circlet.runtime.ir.op import Skip
from circlet.runtime.ops.registry import OPERATORS, operator
from tests.needs import NATIVE

ROOT = Path(__file__).resolve().parent.parent
COUNT = "import circlet; s = circlet.Session('examples/collatz.tflite'); s.run([27])"
NEVER = ("onnx", "openvino", "tflite", "flatbuffers", "rich", "click", "importlib.metadata", "llvmlite.binding",
         "circlet.schema.openvino.read", "circlet.schema.onnx.read", "circlet.schema.writer", "circlet.network",
         "circlet.interpreter", "circlet.conversion", "circlet.runtime.passes.transforms.pad_growth",
         "circlet.runtime.passes.transforms.lower_loops", "circlet.runtime.ops.recurrent",
         "circlet.runtime.ops.loop", "circlet.runtime.ops.spectral", "circlet.backends.cpu.conv")
"""What a run of a loop that counts has no use for, families that the model does not name among them."""
MAKES_CODE = ("circlet.backends.native.load.llvm", "circlet.backends.native.load.elf.shared_object",
              "circlet.backends.native.load.workers", "circlet.backends.native.lower.span",
              "circlet.backends.native.lower.function", "circlet.backends.native.check.bounds",
              "circlet.backends.native.rules.recurrent", "circlet.backends.native.rules.quantized.requantize")
"""What a run has no use for whose functions are on the disk."""

READS = ("circlet.schema.reader", "circlet.runtime.ir.verify", "circlet.runtime.passes.pipelines",
         "circlet.runtime.exec.executor_map", "circlet.runtime.ops.registry", "circlet.backends.native.backend",
         "circlet.backends.cpu.backend", "platformdirs", "llvmlite")
"""What a run has no use for whose model has a plan."""


def modules(program: str, cache: Path | None = None, without: str = "") -> list[str]:
    """The modules that a program loads, on a platform without some features."""
    environment = {**os.environ, "CIRCLET_CACHE_DIR": "" if cache is None else str(cache), "CIRCLET_WITHOUT": without}
    text = f"{program}\nimport sys\nprint(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", text], cwd=ROOT, env=environment, capture_output=True, text=True,
                           check=True)
    return found.stdout.split()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the code of models is kept, that of each made once for all tests."""
    return tmp_path_factory.mktemp("functions")


def own(names: list[str]) -> list[str]:
    return [each for each in names if each.partition(".")[0] == "circlet"]


def test_the_package_loads_what_is_asked_for() -> None:
    assert len(own(modules("import circlet", without="llvm"))) <= 10
    errors = own(modules("import circlet; circlet.ModelError", without="llvm"))
    assert len(errors) <= 10, errors
    assert "numpy" not in modules("import circlet", without="llvm, nothing"), "a session says that this is no feature"


@NATIVE
@pytest.mark.skipif(sys.platform != "linux", reason="other systems count other things")
def test_small_arrays_find_their_lists_made() -> None:
    program = ("import resource, circlet, numpy\n"
               "counted = [resource.getrusage(resource.RUSAGE_SELF).ru_minflt for _ in range(2)][-1]\n"
               "for size in range(40, 1024, 64): numpy.empty(size, numpy.uint8)\n"
               "print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - counted)")
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(found.stdout) < 10


@NATIVE
@pytest.mark.parametrize("model", ["tests/models/collatz", "tests/models/dense_batch", "tests/models/beam"])
def test_what_runs_code_is_loaded_with_the_package(kept: Path, model: str) -> None:
    program = ("from pathlib import Path\nimport circlet, sys\nprint(*sys.modules, 'END')\n"
               f"from tests.models.expectations import read\ncall = read(Path('{model}.npz'))[0]\n"
               f"circlet.Session(circlet.load('{model}.tflite'), 'native').run(call.inputs)")
    modules(program, kept)
    found = modules(program, kept)
    before, after = found[:found.index("END")], found[found.index("END"):]
    assert {*own(before)} >= {"circlet.session", "circlet.backends.native.load.invocation"}
    assert {*own(after)} == {*own(before)}


@pytest.mark.parametrize(("backend", "limit"), [("cpu", 135), pytest.param("native", 79, marks=NATIVE)])
def test_a_run_loads_what_the_model_names(kept: Path, backend: str, limit: int) -> None:
    program, without = COUNT.replace("tflite'", f"tflite', '{backend}'"), "llvm" if backend == "cpu" else ""
    if backend == "native":
        modules(program, kept)
    found = modules(program, kept, without)
    assert not {*NEVER, *MAKES_CODE, *(READS if backend == "native" else ())} & {*found}
    assert len(own(found)) <= limit, f"{len(own(found))} modules: {' '.join(own(found))}"


@NATIVE
def test_a_model_with_a_plan_is_not_read_to_be_loaded(kept: Path) -> None:
    program = COUNT.replace("'examples/collatz.tflite'", "circlet.load('examples/collatz.tflite'), 'native'")
    modules(program, kept)
    found = modules(program, kept)
    unused = {*NEVER, *MAKES_CODE, *READS} & {*found}
    assert not unused
    assert len(own(found)) <= 79, f"{len(own(found))} modules: {' '.join(own(found))}"


@NATIVE
@pytest.mark.parametrize("model", ["examples/collatz", "tests/models/dense_batch"])
def test_an_interpreter_of_a_model_with_a_plan_reads_nothing(
        kept: Path, monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    monkeypatch.setenv("CIRCLET_BACKEND", "native")
    program = (f"import circlet, numpy as np\ninterpreter = circlet.Interpreter('{model}.tflite')\n"
               "details = interpreter.get_input_details()[0]\n"
               "value = np.ones([3, *details['shape'][1:]] if details['shape'].size else [], details['dtype'])\n"
               "interpreter.resize_tensor_input(details['index'], value.shape)\n"
               "interpreter.allocate_tensors()\n"
               "interpreter.set_tensor(details['index'], value)\n"
               "interpreter.invoke()")
    modules(program, kept)
    found = modules(program, kept)
    unused = {*NEVER, *MAKES_CODE, *READS}.difference(["circlet.interpreter"]) & {*found}
    assert not unused
    assert len(own(found)) <= 85, f"{len(own(found))} modules: {' '.join(own(found))}"


LOADERS = ("import sys, circlet\n"
           "for name, each in [*sys.modules.items()]:\n"
           "  if name.startswith('circlet.'): print(f'{name}:{type(each.__spec__.loader).__name__}')\n"
           "for each in sys.meta_path: print(getattr(each, '__name__', type(each).__name__))")
"""Says what loaded each module, and what finds others."""


def entry_of_modules(folder: Path) -> Path:
    """The one entry of bytecode in a folder."""
    entry, = folder.glob("*.modules")
    return entry


@NATIVE
def test_modules_are_imported_from_one_file(tmp_path: Path) -> None:
    first = modules(LOADERS, tmp_path)
    loaders = dict(each.split(":") for each in first if each.startswith("circlet.") and ":" in each)
    assert loaders["circlet.session"] == loaders["circlet.runtime.ir.terms"] == "_Loader"
    assert not any("_Modules" in each for each in first), "the finder is gone"
    entry = entry_of_modules(tmp_path)
    content, written = entry.read_bytes(), entry.stat().st_ino
    assert first == modules(LOADERS, tmp_path)
    assert entry_of_modules(tmp_path).stat().st_ino == written, "nothing has changed"
    middle = len(content) // 2
    entry.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1:])
    assert first == modules(LOADERS, tmp_path)
    assert entry_of_modules(tmp_path).read_bytes() == content, "damage is mended"


@NATIVE
def test_a_module_that_changed_is_imported_as_it_is(tmp_path: Path) -> None:
    copy, folder = tmp_path / "copy", tmp_path / "functions"
    for each in ("circlet", "runtime", "backends", "schema"):
        shutil.copytree(ROOT / each, copy / each, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    name = "circlet.runtime.exec.values.exact"
    file = copy / f"{name.replace('.', '/')}.py"
    program = (f"import sys\nsys.path.insert(0, {str(copy)!r})\nimport {name} as found\n"
               "print(found.__file__, getattr(found, 'NEW', None))")
    assert modules(program, folder)[:2] == [str(file), "None"]
    before, source = file.stat(), file.read_text(encoding="utf-8")
    for value in ("1", "22"):
        file.write_text(f"{source}\nNEW = {value}\n", encoding="utf-8")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        for _ in range(2):
            assert modules(program, folder)[:2] == [str(file), value]
    file.unlink()
    with pytest.raises(subprocess.CalledProcessError):
        modules(program, folder)


@NATIVE
def test_what_changes_modules_is_asked_before(tmp_path: Path) -> None:
    program = ("import sys\nasked = []\nclass Hook:\n def find_spec(self, name, *_):\n  asked.append(name)\n"
               "sys.meta_path.insert(0, Hook())\nimport circlet\nprint('circlet.session' in asked)")
    for _ in range(2):
        assert modules(program, tmp_path)[0] == "True"


@NATIVE
@pytest.mark.skipif(os.name != "posix", reason="the system has no such rights")
def test_an_import_says_nothing_of_a_folder_of_others(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    program = f"import warnings\nwarnings.simplefilter('error')\n{COUNT.split(';')[0]}\n"
    modules(program, tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(subprocess.CalledProcessError) as found:
        modules(f"{program}circlet.Session('examples/collatz.tflite', 'native').run([27])", tmp_path)
    assert "can be written to by others" in found.value.stderr


RULES = """
import os, sys
from circlet.backends.native.rules.families import MODULES, modules, modules_of_stored
from circlet.backends.native.rules.rule import RULES
from circlet.runtime.late import imported

def of(family):
    package = f"circlet.runtime.ops.{family}"
    classes = [each for each in vars(imported(package)).values()
               if getattr(each, "__module__", "") == package and hasattr(each, "infer")]
    return {each.__name__: [rule.name for rule in RULES.of(each, 2) or ()] for each in classes}

for family in MODULES:  # each in a process in which nothing else was asked for
    sys.stdout.flush()
    if os.fork() == 0:
        print(family, of(family), flush=True)
        os._exit(0)
    os.wait()
for family in MODULES:
    for each in (*modules(family), *modules_of_stored(family)):
        imported(each)
for family in MODULES:
    print(family, of(family))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
@NATIVE
def test_a_family_has_all_its_rules_when_it_is_asked_for() -> None:
    found = subprocess.run([sys.executable, "-c", RULES], cwd=ROOT, capture_output=True, text=True, check=True)
    lines = found.stdout.splitlines()
    assert lines
    assert lines[:len(lines) // 2] == lines[len(lines) // 2:]


def test_operators_are_defined_where_the_table_says() -> None:
    for name, cls in OPERATORS.items():
        assert cls.name == name

    class Foreign(Skip):
        name = "FOREIGN"

    with pytest.raises(ValueError, match=r"operator FOREIGN is not in FAMILIES\['test_start'\]"):
        operator(Foreign)
    with pytest.raises(ValueError, match="operator ADD is defined twice"):
        operator(OPERATORS["ADD"])


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_the_program_loads_little_to_say_what_it_is(option: str) -> None:
    found = modules(f"import sys; sys.argv[:] = ['bin/circlet', '{option}']\nfrom circlet.__main__ import main\nmain()")
    assert not {"numpy", "rich", "llvmlite", "importlib.metadata"} & {*found}
    assert len(own(found)) <= 15, own(found)


def test_an_interrupt_while_the_program_loads() -> None:
    text = ("import sys\nclass Interrupt:\n def find_spec(self, name, *_):\n"
            "  if name == 'click':\n   raise KeyboardInterrupt\n"
            "sys.meta_path.insert(0, Interrupt())\nfrom circlet.__main__ import main\nsys.exit(main())")
    found = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "")
