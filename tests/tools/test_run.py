"""`circlet run`."""

from __future__ import annotations

from io import BytesIO, TextIOWrapper
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from circlet.runtime.ir.types import DType, Quantization
from tests.models.expectations import read
from tests.schema.onnx.graphs import parse
from tests.tools.conftest import Echo, Program

COLLATZ = "examples/collatz.tflite"
KEYS = ["model", "signature", "subgraph", "backend", "copy_elision", "inputs", "outputs", "subgraphs", "copies",
        "copied_bytes", "seconds"]


def model(name: str) -> str:
    return f"tests/models/{name}.tflite"


def test_text(program: Program) -> None:
    assert program.text("run", COLLATZ, "--input", "n=27", "--backend", "cpu") == """\
output  type     value
steps   int32[]  111
peak    int32[]  9232

subgraph                 invocations  computed by
@0 main                            1  controlflow
@1 while_cond_false_320           41  cpu
@2 while_cond_true_310            70  cpu
@3 while_cond                    112  cpu
@4 while_body                    111  controlflow, cpu

copied between subgraphs: 4 values, 16 bytes
"""


def test_without_copy_elision(program: Program) -> None:
    out = program.text("run", COLLATZ, "-i", "n=27", "--backend", "cpu", "--no-copy-elision")
    assert "111" in out
    assert out.endswith("copied between subgraphs: 1,562 values, 6,248 bytes\n")


def test_json(program: Program) -> None:
    found = program.json("run", COLLATZ, "--input", "n=27", "--backend", "cpu")
    assert list(found) == KEYS
    assert found == {
        "model": COLLATZ, "signature": "serving_default", "subgraph": 0, "backend": "cpu", "copy_elision": True,
        "inputs": [{"name": "n", "dtype": "int32", "shape": [], "quantization": None, "zeros": False}],
        "outputs": [
            {"name": "steps", "dtype": "int32", "shape": [], "quantization": None, "values": 111, "file": None},
            {"name": "peak", "dtype": "int32", "shape": [], "quantization": None, "values": 9232, "file": None},
        ],
        "subgraphs": [
            {"index": 0, "name": "main", "invocations": 1, "computed_by": {"controlflow": 1}},
            {"index": 1, "name": "while_cond_false_320", "invocations": 41, "computed_by": {"cpu": 2}},
            {"index": 2, "name": "while_cond_true_310", "invocations": 70, "computed_by": {"cpu": 1}},
            {"index": 3, "name": "while_cond", "invocations": 112, "computed_by": {"cpu": 1}},
            {"index": 4, "name": "while_body", "invocations": 111, "computed_by": {"controlflow": 1, "cpu": 5}},
        ],
        "copies": 4, "copied_bytes": 16, "seconds": None,
    }


def test_values_on_lines_of_their_own(program: Program) -> None:
    board = np.eye(6).astype(int).tolist()
    lines = program.text("run", model("game_of_life"), "-i", f"board={board}", "-i", "steps=0").splitlines()
    assert lines[:3] == ["output  type          value", "board   float32[6,6]  [[1. 0. 0. 0. 0. 0.]",
                         "                       [0. 1. 0. 0. 0. 0.]"]
    assert lines[7] == "alive   float32[]     6."


@pytest.mark.parametrize(("number", "shape"), [(5, [6]), (0, [1])])
def test_shapes_that_depend_on_data(program: Program, number: int, shape: list[int]) -> None:
    outputs = program.json("run", model("grow_concat"), "-i", f"n={number}")["outputs"]
    size, x = sorted(outputs, key=lambda each: str(each["name"]))
    assert (x["shape"], len(x["values"]), size["values"]) == (shape, shape[0], shape[0])


def test_what_computes(program: Program) -> None:
    found = program.json("run", COLLATZ, "-i", "n=27", "--backend", "native")
    assert (found["backend"], found["copies"]) == ("native", 0)
    assert [each["computed_by"] for each in found["subgraphs"]] == [
        {"native": 1}, {"native": 2}, {"native": 1}, {"native": 1}, {"native": 6}]
    body = program.json("run", model("grow_concat"), "-i", "n=0", "--backend", "native")["subgraphs"][2]
    assert (body["invocations"], body["computed_by"]) == (0, {})


def test_standard_input(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def give(content: bytes) -> None:
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(content)))

    give(Path(COLLATZ).read_bytes())
    found = program.json("run", "-", "-i", "n=27")
    assert (found["model"], found["outputs"][0]["values"]) == ("-", 111)
    give(Path("examples/sum_even.onnx").read_bytes())
    assert program.text("inspect", "-").startswith("-: onnx, 871 bytes, ")
    array = BytesIO()
    np.save(array, np.int32(27))
    give(array.getvalue())
    assert program.json("run", COLLATZ, "-i", "n=@-")["outputs"][0]["values"] == 111
    assert program.error("run", "-", "-i", "n=@-") == "the standard input can be read once; expected one - at most"
    give(b"")
    assert program.error("run", "-") == "the file is empty"


def test_signature(program: Program) -> None:
    found = program.json("run", model("counter"), "--signature", "increment", "-i", "by=5")
    assert (found["signature"], found["subgraph"], found["outputs"][0]["values"]) == ("increment", 1, 15)


def test_repeat(program: Program) -> None:
    seconds = program.json("run", COLLATZ, "-i", "n=6", "--repeat", "3")["seconds"]
    assert seconds["runs"] == 3
    assert 0 < seconds["minimum"] <= seconds["median"]
    assert "\ntime of a run: median " in program.text("run", COLLATZ, "-i", "n=6", "--repeat", "3")


def test_repeat_shows_the_first_run(program: Program) -> None:
    found = program.json("run", model("counter"), "--signature", "increment", "-i", "by=1", "--repeat", "2")
    assert found["outputs"][0]["values"] == 11


@pytest.mark.parametrize(("dtype", "text", "values", "stored"), [
    (DType.BFLOAT16, "[1, 2.5, 0.1]", [1, 2.5, 0.10009765625], np.float32),
    (DType.BFLOAT16, "[1, nan, -inf]", [1, "NaN", "-Infinity"], np.float32),
    (DType.FLOAT8_E4M3FN, "[1, -2.5, 448]", [1, -2.5, 448], np.float32),
    (DType.FLOAT8_E5M2, "[1, -2.5, inf]", [1, -2.5, "Infinity"], np.float32),
    (DType.INT4, "[1, -8, 7]", [1, -8, 7], np.int8), (DType.UINT4, "[1, 15, 0]", [1, 15, 0], np.uint8),
    (DType.INT2, "[1, -2, 0]", [1, -2, 0], np.int8),
])
def test_elements_that_numpy_lacks(program: Program, echo: Echo, tmp_path: Path, dtype: DType, text: str,
                                   values: list[float], stored: type) -> None:
    """They are literals, are saved in types that numpy has, and are read from there as the same values."""
    path = echo(dtype, (3,))
    outputs = program.json("run", path, "-i", f"x={text}", "--save-outputs", tmp_path)["outputs"][0]
    assert (outputs["dtype"], outputs["values"]) == (dtype.value, values)
    assert np.load(tmp_path / "x.npy").dtype == stored
    assert program.json("run", path, "-i", f"x=@{tmp_path}/x.npy")["outputs"][0]["values"] == values
    if dtype is not DType.FLOAT8_E5M2:  # of which numpy does not read what it has written
        np.save(tmp_path / "own.npy", np.load(tmp_path / "x.npy").astype(dtype.element))
        assert program.json("run", path, "-i", f"x=@{tmp_path}/own.npy")["outputs"][0]["values"] == values
    assert f"x       {dtype.value}[3]" in program.text("run", path, "-i", f"x={text}")
    assert program.json("run", path, "-i", "x=[0, 0, 0]")["outputs"][0]["values"] == [0, 0, 0]
    code, _, err = program("run", path)
    assert (code, err) == (0, f"circlet: note: no --input given, filled with zeros: x {dtype.value}[3]\n")


HOLDERS = """holders (seq(float) s, optional(float[2]) o, string[N] t, seq(bfloat16) b)
    => (seq(float) s2, optional(float[2]) o2, string[N] t2, seq(bfloat16) b2)
    { s2 = Identity(s)
      o2 = Identity(o)
      t2 = Identity(t)
      b2 = Identity(b) }"""


@pytest.fixture
def holders(tmp_path: Path) -> Path:
    path = tmp_path / "holders.onnx"
    path.write_bytes(parse(HOLDERS))
    return path


GIVEN = ("-i", "s=[[1, 2.5], [[3]], 0.1]", "-i", "t=['añ', b'\\xff']", "-i", "b=[[1.5], 2]")


def test_sequences_optionals_and_text(program: Program, holders: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    s, o, t, b = program.json("run", holders, *GIVEN, "-i", "o=null", "--save-outputs", folder)["outputs"]
    assert s["values"] == [[1, 2.5], [[3]], float(np.float32(0.1))]
    assert (s["dtype"], s["shape"], s["file"]) == ("sequence of float32", None, str(folder / "s2.npz"))
    assert (o["dtype"], o["values"], o["file"]) == ("optional float32", None, None)
    assert (t["dtype"], t["shape"], t["values"]) == ("string", [2], ["añ", "\\xff"])
    assert b["values"] == [[1.5], 2]
    assert sorted(each.name for each in folder.iterdir()) == ["b2.npz", "s2.npz", "t2.npy"]
    assert np.load(folder / "t2.npy").dtype.kind == "U"
    again = program.json("run", holders, "-i", f"s=@{folder}/s2.npz", "-i", "o=[1, 2]", "-i", f"t=@{folder}/t2.npy",
                         "-i", f"b=@{folder}/b2.npz", "--save-outputs", folder)["outputs"]
    assert [each["values"] for each in again] == [s["values"], [1, 2], t["values"], b["values"]]
    assert np.load(folder / "o2.npy").tolist() == [1, 2]
    once_more = program.json("run", holders, *GIVEN, "-i", f"o=@{folder}/o2.npy")["outputs"]
    assert once_more[1]["values"] == [1, 2]


def test_sequences_as_text(program: Program, holders: Path) -> None:
    lines = program.text("run", holders, *GIVEN, "-i", "o=null").splitlines()
    assert lines[1:5] == [
        "s2      sequence of float32   [[1.  2.5], [[3.]], 0.1]", "o2      optional float32      none",
        "t2      string[2]             ['añ' '\\\\xff']", "b2      sequence of bfloat16  [[1.5], 2]"]
    lines = program.text("run", holders, *GIVEN[:4], "-i", "o=null", "-i", "b=[[[1], [2]], 3]").splitlines()
    assert lines[4:8] == ["b2      sequence of bfloat16  [[[1]", "                                [2]],",
                          "                               3]", ""]
    code, out, err = program("run", holders)
    assert (code, err) == (0, "circlet: note: no --input given, filled with zeros: s sequence of float32, "
                              "o optional float32, t string[1], b sequence of bfloat16\n")
    assert "s2      sequence of float32   []" in out


@pytest.mark.parametrize(("name", "text", "message"), [
    ("s", "3", "input 's': expected sequence of float32, as a list, found int"),
    ("s", "null", "input 's': expected sequence of float32, as a list, found NoneType"),
    ("s", "['a']", "input 's[0]': expected element type float32, found <U1"),
    ("o", "[1, 2", "input 'o': expected a literal such as 27, true or [1.5, 2], or @FILE, found '[1, 2'"),
    ("b", "@missing.npz", "missing.npz: No such file or directory"),
])
def test_holders_that_do_not_fit(program: Program, holders: Path, name: str, text: str, message: str) -> None:
    given = {"s": "[]", "o": "null", "t": "['']", "b": "[]", name: text}
    arguments = [each for key, value in given.items() for each in ("-i", f"{key}={value}")]
    assert program.error("run", holders, *arguments) == message


def test_zeros(program: Program) -> None:
    code, out, err = program("run", model("cond_shapes"))
    assert (code, err) == (0, "circlet: note: no --input given, filled with zeros: x float32[4], flag bool[]\n")
    assert "sum     float32[]   0." in out


def test_quantization(program: Program) -> None:
    expected = read(Path("tests/models/cnn_int8.npz"))[1]
    file = f"x=@tests/models/cnn_int8.npz:{expected.signature}/in.1/x"
    found = program.json("run", model("cnn_int8"), "-i", file)["outputs"][0]
    assert (found["dtype"], found["values"]) == ("int8", expected.outputs["output_0"].tolist())
    assert found["quantization"] == {"scales": [0.00390625], "zero_points": [-128], "axis": None}


def test_quantization_of_slices(program: Program, echo: Echo) -> None:
    path = echo(np.int8, (2, 1), quantization=Quantization((0.5, 0.25), (1, 0), axis=0))
    found = program.json("run", path, "-i", "x=[[1],[2]]")["outputs"][0]["quantization"]
    assert found == {"scales": [0.5, 0.25], "zero_points": [1, 0], "axis": 0}


def test_strings(program: Program) -> None:
    given = "run", model("string_gather"), "-i", 'words=["añ", b"\\xff", ""]'
    assert program.json(*given, "-i", "index=0")["outputs"][0]["values"] == "añ"
    assert program.json(*given, "-i", "index=1")["outputs"][0]["values"] == "\\xff"
    assert program.text(*given, "-i", "index=0").splitlines()[1] == "word    string[]  'añ'"


@pytest.mark.parametrize(("dtype", "shape", "text", "values"), [
    (np.float32, (4,), "[nan, -inf, inf, 1.5]", ["NaN", "-Infinity", "Infinity", 1.5]),
    (np.float32, (), "NaN", "NaN"),
    (np.float32, (2,), "[1e3, -0]", [1000.0, 0.0]),
    (np.float32, (-1, 2), "[[1,2],[3,4],[5,6]]", [[1, 2], [3, 4], [5, 6]]),
    (np.int64, (), "0x7fff_ffff_ffff_ffff", 2**63 - 1),
    (np.int32, (-1,), "[]", []),
    (np.uint8, (2,), "(1, 255)", [1, 255]),
    (np.bool_, (3,), "[true, False, True]", [True, False, True]),
    (np.complex64, (2,), "[1+2j, 3]", [[1.0, 2.0], [3.0, 0.0]]),
    (DType.STRING, (), "plain text", "plain text"),
    (DType.STRING, (), "27", "27"),
    (DType.STRING, (), "'27'", "27"),
    (DType.STRING, (), '"@home"', "@home"),
    (DType.STRING, (2,), "['a', 'b=c']", ["a", "b=c"]),
])
def test_literals(program: Program, echo: Echo, dtype: type, shape: tuple[int, ...], text: str,
                  values: object) -> None:
    assert program.json("run", echo(dtype, shape), "-i", f"x={text}")["outputs"][0]["values"] == values


@pytest.mark.parametrize(("dtype", "shape", "text", "message"), [
    (np.int32, (), "1.5", "input 'x': 1.5 does not fit element type int32"),
    (np.int32, (), "3000000000", "input 'x': 3000000000 does not fit element type int32"),
    (np.int32, (), "true", "input 'x': True does not fit element type int32"),
    (np.bool_, (), "1", "input 'x': 1 does not fit element type bool"),
    (np.float32, (), "1e39", "input 'x': 1e+39 does not fit element type float32"),
    (np.float32, (), "'1'", "input 'x': expected element type float32, found <U1"),
    (np.int32, (3,), "1", "input 'x': expected shape (3,), found ()"),
    (np.int32, (-1, 2), "[1, 2]", "input 'x': expected shape (any, 2), found (2,)"),
    (np.int32, (2, 2), "[[1, 2], [3]]", "input 'x': expected rows of equal length, found [[1, 2], [3]]"),
    (DType.STRING, (1,), "[1]", "input 'x': expected str or bytes elements, found int"),
    (DType.STRING, (2,), "word", "input 'x': expected shape (2,), found ()"),
    *((np.int32, (), text, f"input 'x': expected a literal such as 27, true or [1.5, 2], or @FILE, found {text!r}")
      for text in ("", "word", "[1", "1 +", "open('x')", "(" * 500)),
])
def test_literals_that_do_not_fit(program: Program, echo: Echo, dtype: type, shape: tuple[int, ...], text: str,
                                  message: str) -> None:
    assert program.error("run", echo(dtype, shape), "-i", f"x={text}") == message


def test_files(program: Program, echo: Echo, tmp_path: Path) -> None:
    path, array = echo(np.float32, (2,)), np.array([1.5, -2], np.float32)
    np.save(tmp_path / "plain.npy", array)
    np.save(tmp_path / "foreign.npy", array.astype(">f4"))
    np.savez(tmp_path / "alone.npz", other=array)
    np.savez(tmp_path / "named.npz", x=array, other=array + 1)
    for file, values in {"plain.npy": [1.5, -2], "foreign.npy": [1.5, -2], "alone.npz": [1.5, -2],
                         "named.npz": [1.5, -2], "named.npz:other": [2.5, -1]}.items():
        assert program.json("run", path, "-i", f"x=@{tmp_path / file}")["outputs"][0]["values"] == values


def test_files_that_do_not_fit(program: Program, echo: Echo, tmp_path: Path) -> None:
    path, array = echo(np.float32, (2,)), np.array([1.5, 0.1])
    np.save(tmp_path / "double.npy", array)
    np.save(tmp_path / "objects.npy", array.astype(object))
    np.savez(tmp_path / "many.npz", a=array, b=array)
    with ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("a.npy", "text")
    np.savez(tmp_path / "many_objects.npz", a=array.astype(object))
    (tmp_path / "empty.npy").touch()
    (tmp_path / "cut.npy").write_bytes((tmp_path / "double.npy").read_bytes()[:-1])
    (tmp_path / "cut.npz").write_bytes((tmp_path / "many.npz").read_bytes()[:-30])
    faults = dict.fromkeys(["objects.npy", "many_objects.npz", "text.npz", "empty.npy", "cut.npy", "cut.npz"],
                           "expected a .npy or .npz file of plain arrays")
    faults["many.npz"] = "expected FILE.npz:KEY with a KEY among a, b"
    for file, message in faults.items():
        assert program.error("run", path, "-i", f"x=@{tmp_path / file}") == f"input 'x': {tmp_path / file}: {message}"
    assert program.error("run", path, "-i", f"x=@{tmp_path}/many.npz:c") == (
        f"input 'x': {tmp_path}/many.npz: expected FILE.npz:KEY with a KEY among a, b, found c")
    assert program.error("run", path, "-i", f"x=@{tmp_path / 'double.npy'}") == (
        "input 'x': expected element type float32, found float64 with 0.1 at [1], which float32 does not hold: "
        ".astype('float32') would change it")
    assert program.error("run", path, "-i", "x=@missing.npy") == "missing.npy: No such file or directory"


def test_save_outputs(program: Program, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "outputs"
    out = program.text("run", COLLATZ, "-i", "n=27", "--save-outputs", folder)
    assert out.splitlines()[-2:] == [f"saved {folder / 'steps.npy'}", f"saved {folder / 'peak.npy'}"]
    saved = np.load(folder / "peak.npy")
    assert (saved.dtype, saved.shape, saved.item()) == (np.int32, (), 9232)
    outputs = program.json("run", COLLATZ, "-i", "n=27", "--save-outputs", folder)["outputs"]
    assert [each["file"] for each in outputs] == [str(folder / "steps.npy"), str(folder / "peak.npy")]


def test_save_outputs_of_strange_names(program: Program, echo: Echo, tmp_path: Path) -> None:
    program.text("run", echo(np.int32, (), "../a b:0"), "-i", "../a b:0=3", "--save-outputs", tmp_path / "out")
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["_a_b_0.npy"]


def test_save_outputs_of_strings(program: Program, echo: Echo, tmp_path: Path) -> None:
    path = echo(DType.STRING, (2,))
    program.text("run", path, "-i", "x=['añ', '']", "--save-outputs", tmp_path)
    assert np.load(tmp_path / "x.npy").tolist() == ["añ".encode(), b""]
    assert program.error("run", path, "-i", "x=['a\\0b', 'a\\0']", "--save-outputs", tmp_path) == (
        "output 'x': a .npy file cannot hold strings that end in zero bytes")


@pytest.mark.parametrize(("arguments", "message"), [
    (["nosuch.tflite"], "nosuch.tflite: No such file or directory"),
    (["tests"], "tests: Is a directory"),
    (["README.md"],
     "README.md: expected a .tflite, .circle, .circlet, .onnx or OpenVINO model (TFL3 or CIR0 at byte 4), "
     "found b'# circle'"),
    ([COLLATZ, "-i", "m=1"], "no input 'm'; the entry point takes n"),
    ([COLLATZ, "-i", "n=1", "-i", "n=2"], "input 'n' is given twice"),
    ([model("gcd"), "-i", "a=1"], "inputs: missing b (the entry point takes b, a)"),
    ([COLLATZ, "-i", "nn=1"], "no input 'nn'; the entry point takes n; did you mean 'n'?"),
    ([COLLATZ, "--signature", "serving_defualt", "-i", "n=1"],
     "no signature 'serving_defualt'; the model has serving_default; did you mean 'serving_default'?"),
    ([COLLATZ, "--signature", "nope"], "no signature 'nope'; the model has serving_default"),
    ([COLLATZ, "-i", "n=1", "--save-outputs", "README.md"], "README.md: File exists"),
])
def test_errors(program: Program, arguments: list[str], message: str) -> None:
    assert program.error("run", *arguments) == message


@pytest.mark.parametrize(("limit", "message"), [
    (["--max-iterations", "10"], "more than max_iterations=10 loop iterations"),
    (["--deadline", "0"], "went over its deadline of 0 s"),
    (["--memory", "3"], "bytes; with what the run has that is "),
])
def test_limits(program: Program, limit: list[str], message: str) -> None:
    assert message in program.error("run", COLLATZ, "-i", "n=27", *limit)
    program.text("run", COLLATZ, "-i", "n=27", "--max-iterations", "111", "--deadline", "60",
                 "--memory", "10000000")
