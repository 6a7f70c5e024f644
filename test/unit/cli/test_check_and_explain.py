"""`check` gives verdicts and an exit code; `explain` shows derivations; `doctor` finds what is there."""

import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from command_line import output_of, refusal_of

from lego_mlir.cli import doctor
from lego_mlir.cli.claim_groups import Line
from lego_mlir.cli.main import BAD_INPUT, CHECK_FAILED, DONE, main
from lego_mlir.expr.verdict import Refuted

GOOD = """
import lego_mlir as lego
from lego_mlir import Row, f32, gallery
tile = gallery.xor_swizzle(8, 8)
tiled = lego.TileOrderBy(Row(2, 2), Row(3, 3)).GroupBy([6, 6])
M = lego.size("M")

@lego.kernel(grid=lego.cdiv(M, 32), block=32)
def copy(src: lego.Tensor(f32, Row(M)), dst: lego.Tensor(f32, Row(M))):
    i = lego.block_id[0] * 32 + lego.thread_id[0]
    with lego.when(i < M):
        dst[i] = src[i]
"""
REFUTED = """from lego_mlir import GenP
broken = GenP([4, 4], lambda i, j: i + j, lambda p: (p // 4, p % 4))
"""
OUTSIDE = """
import lego_mlir as lego
from lego_mlir import Row, f32

@lego.kernel(grid=5, block=32)
def copy(dst: lego.Tensor(f32, Row(128))):
    dst[lego.block_id[0] * 32 + lego.thread_id[0]] = 1.0
"""


def spec(folder, text):
    path = folder / "spec.py"
    path.write_text(text)
    return str(path)


def test_a_good_spec(tmp_path, capsys):
    path = spec(tmp_path, GOOD)
    out = output_of(capsys, ["check", path])
    assert "layout tile = gallery.xor_swizzle(8, 8)\n  proved   apply and inv" in out
    assert f"kernel copy, {path}:8" in out
    assert f"proved   {path}:12: load from src[32*bx + tx] stays inside" in out  # only the branch around it proves this
    assert out.endswith("0 refuted, 0 unknown\n")


def test_a_refuted_layout_fails_the_check_with_a_counter_example(tmp_path, capsys):
    out = output_of(capsys, ["check", spec(tmp_path, REFUTED)], CHECK_FAILED)
    assert "REFUTED  every layout of the spec is a bijection" in out
    assert "spec.py:2: GenP" in out
    assert "apply maps [0, 1] and [1, 0] both to position 1" in out


def test_a_refuted_access_fails_the_check_with_its_line(tmp_path, capsys):
    path = spec(tmp_path, OUTSIDE)
    out = output_of(capsys, ["check", path], CHECK_FAILED)
    assert f"REFUTED  every access stays inside its tensor, and no divisor is 0: {path}:7: dst" in out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("dst[t, 0] = 1.0", "dst takes 1 indices for its logical sizes"),
        ("dst[Row(8, 0).apply(t, 0)] = 1.0", "Row: a size is an int >= 1 or lego.size(...), got 0"),
    ],
)
def test_a_kernel_that_cannot_be_traced_is_no_refuted_claim(tmp_path, capsys, line, message):
    text = f"""
import lego_mlir as lego
from lego_mlir import Row, f32

@lego.kernel(grid=1, block=32)
def k(dst: lego.Tensor(f32, Row(32))):
    t = lego.thread_id[0]
    {line}
"""
    path = spec(tmp_path, text)
    errors = []
    for command in ("check", "run"):
        assert main([command, path]) == BAD_INPUT
        captured = capsys.readouterr()
        assert "REFUTED" not in captured.out
        errors.append(captured.err.split(": ", 1)[1])
    assert errors[0] == errors[1] and message in errors[0]


def test_a_layout_with_a_wrong_argument_is_no_refuted_claim(tmp_path, capsys):
    assert main(["check", spec(tmp_path, "from lego_mlir import Row\ntile = Row(4, -1)\n")]) == BAD_INPUT
    assert "Row: a size is an int >= 1" in capsys.readouterr().err


COMPUTED = """
import lego_mlir as lego
from lego_mlir import Row, f32, i32
N = lego.size("N")

@lego.kernel(grid=lego.cdiv(N, 32), block=32)
def k(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
    i, mine = lego.block_id[0] * 32 + lego.thread_id[0], lego.register(i32, 0)
    with lego.when(i < N):
        mine.set(1)
    with lego.when(mine > 0):
        y[i] = x[i]
"""


def test_a_register_in_a_branch_refutes_no_access(tmp_path, capsys):
    out = output_of(capsys, ["check", spec(tmp_path, COMPUTED)])
    assert "0 refuted" in out and "store to y[32*bx + tx] stays inside: it fails for" in out
    assert "can have such values" in " ".join(out.split())


GATHER = """
import lego_mlir as lego
from lego_mlir import Row, f32, i32

@lego.kernel(grid=1, block=32)
def gather(order: lego.Tensor(i32, Row(32)), x: lego.Tensor(f32, Row(16)), y: lego.Tensor(f32, Row(32))):
    k = KIND(order[lego.thread_id[0]])
    with lego.when((0 <= k) & (k < 16)):
        y[lego.thread_id[0]] = x[k]
"""


@pytest.mark.parametrize("kind", ["", "lego.index"])
def test_an_access_by_data_is_proved_where_a_condition_on_it_guards_it(tmp_path, capsys, kind):
    out = output_of(capsys, ["check", spec(tmp_path, GATHER.replace("KIND", kind))])
    assert "0 refuted, 1 unknown" in out
    assert (
        "unknown  every element of y is written: not proved that the writes in line 9 reach every element: they" in out
    )
    half = GATHER.replace("KIND", kind).replace("(0 <= k) & ", "")
    path = spec(tmp_path, half)
    out = output_of(capsys, ["check", path])
    assert f"unknown  {path}:9: load from x[order[tx]] stays inside: it depends on the" in out
    assert int(re.search(r"and fails for order\[tx\] = (.*?); to prove", out)[1]) < 0
    assert "take i = lego.index(data)" in out


def test_a_branch_on_data_excuses_no_access_beyond_the_end(tmp_path, capsys):
    text = GATHER.replace("KIND", "lego.index").replace("y[lego.thread_id[0]] =", "y[lego.thread_id[0] + 1] =")
    path = spec(tmp_path, text.replace("(0 <= k) & (k < 16)", "order[0] > 0").replace("x[k]", "1.0"))
    assert f"REFUTED  {path}:9: store to y[tx + 1] stays inside" in output_of(capsys, ["check", path], CHECK_FAILED)


DATA = """
import lego_mlir as lego
from lego_mlir import Row, f32, i8, i32, i64

n = lego.size("n", min=64)

@lego.kernel(grid=1, block=32)
def scatter(x: lego.Tensor(KIND, Row(33)), y: lego.Tensor(f32, Row(64)), z: lego.Tensor(f32, Row(n))):
    i = lego.thread_id[0]
    v, w = x[i], lego.index(x[i + 1])
    ACCESS
"""


def bounds(capsys):
    """The lines of `check` about accesses in bounds, and how many of them have each verdict."""
    lines = [line for line in capsys.readouterr().out.splitlines() if "stays inside" in line]
    return "\n".join(lines), tuple(sum(line.split()[0] == word for line in lines) for word in ("REFUTED", "unknown"))


def data(access, kind="i32"):
    return DATA.replace("ACCESS", access.replace("; ", "\n        ")).replace("KIND", kind)


@pytest.mark.parametrize(
    "access",
    [
        "y[v & 63] = 1.0",
        "y[v % 64] = 1.0",
        "y[((v >> 26) & 31) | 32] = 1.0",
        "y[(v & 31) ^ 63] = 1.0",
        "y[lego.minimum(lego.maximum(v, 0), 63)] = 1.0",
        "y[abs(v >> 26)] = 1.0",
        "y[(v & 63).to(i64)] = 1.0",
        "y[w & 63] = y[w % 64] + y[(w & 31) ^ 32] + y[(w & 31) | 32] + y[w & 40] + y[(w >> 70) + 1]",
        "y[i32(i) + 7] = y[i32(i + 32)] + y[(v & 31) + i32(i)]",
        "with lego.when(~((v < 0) | (v - 1 >= 63)) & (v < 64)):; y[v] = 1.0",
        "with lego.when(v // 64 == 0):; y[v] = 1.0",
        "with lego.when((v & 7) + i32(i) < 30):; y[(v & 7) + i32(i) + 34] = 1.0",
        "for k in lego.range(lego.minimum(lego.index(v), 64)):; y[k] = 1.0",
        "for k in lego.range(i, i + 4):; y[k - i] = 1.0",
        "for k in lego.range(i, 8 * i + 64, 32):; y[(k - i) // 32] = 1.0",
        "for k in lego.range(lego.index(v), w):; y[(k - lego.index(v)) % 64] = 1.0",
        "with lego.when((0 <= w) & (w <= 64)):; for k in lego.range(w): y[k] = 1.0",
    ],
)
def test_what_operations_on_data_leave_is_proved(tmp_path, capsys, access):
    main(["check", spec(tmp_path, data(access))])
    assert bounds(capsys)[1] == (0, 0)


@pytest.mark.parametrize(
    ("access", "words"),
    [
        ("y[v & 127] = 1.0", "store to y[x[tx] & 127] stays inside: it depends on the"),
        ("y[v + 1] = 1.0", "store to y[x[tx] + 1] stays inside"),  # which may wrap around
        ("y[i8(v)] = 1.0", "store to y[x[tx]] stays inside"),
        ("with lego.when(v + 1 > 0):; y[v] = 1.0", "store to y[x[tx]] stays inside"),
        ("with lego.when((x[i] >= 0) & (x[i] < 64)):; y[v] = 1.0", "store to y[x[tx]"),
        ("y[2 * w] = 1.0", "store to y[2*x[tx + 1]] stays inside"),
        ("for k in lego.range(lego.index(v)):; y[k] = 1.0", "store to y[k0] stays inside: it depends on the"),
        ("for k in lego.range(lego.index(v), w):; z[k] = 1.0", "store to z[k0] stays inside: it depends on the"),
        ("for k in lego.range(32, w):; y[k + 31] = 1.0", "store to y[k0 + 31] stays inside: it depends on the"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["i32", "i64"])
def test_a_position_that_data_decides_is_unknown(tmp_path, capsys, access, words, kind):
    main(["check", spec(tmp_path, data(access, kind))])
    out, verdicts = bounds(capsys)
    assert words in out
    assert verdicts == (0, 1)


def test_the_values_of_an_unknown_position_satisfy_its_loop(tmp_path, capsys):
    main(["check", spec(tmp_path, data("for k in lego.range(lego.index(v), w):; z[k] = 1.0"))])
    values = re.search(r"for (k0 = .*?); to prove", capsys.readouterr().out)[1]
    found = {name: int(value) for name, value in (part.rsplit(" = ", 1) for part in values.split(", "))}
    assert found["x[tx]"] <= found["k0"] < found["x[tx + 1]"]
    assert found["n"] >= 64 and not 0 <= found["k0"] < found["n"]


@pytest.mark.parametrize(
    "access", ["for k in lego.range(33, w):; y[k + 31] = 1.0", "with lego.when(v > 0):; y[i + 33] = 1.0"]
)
def test_data_that_only_decides_whether_excuses_nothing(tmp_path, capsys, access):
    """A loop to an end from memory can begin, and begins outside; a branch on data can be taken."""
    assert main(["check", spec(tmp_path, data(access))]) == CHECK_FAILED
    assert bounds(capsys)[1] == (1, 0)


def test_a_refutation_gives_its_values_once():
    line = Line("a claim", Refuted({"i": 4}, "i < 4 is false for i = 4"))
    assert str(line) == "  REFUTED  a claim: i < 4 is false for i = 4"
    assert str(Line("a claim", Refuted({"i": 4}, "too large"))) == "  REFUTED  a claim: too large (i = 4)"


def test_one_kernel_alone(tmp_path, capsys):
    assert "tile" not in output_of(capsys, ["check", spec(tmp_path, GOOD), "--kernel", "copy"])


def test_explain_shows_the_derivations(tmp_path, capsys):
    path = spec(tmp_path, GOOD)
    out = output_of(capsys, ["explain", path])
    assert "layout tile = gallery.xor_swizzle(8, 8)\n  apply\n" in out
    assert "  inv, dimension 1\n" in out
    assert f"  {path}:12: load src[32*bx + tx]\n" in out
    assert "     2  32*bx + tx\n" in out
    assert "remainder: (6*i0 + i1) % 3\n" in out
    assert "18*(i0 // 3) + 9*(i1 // 3) + 3*(i0 % 3) + i1 % 3\n" in out


@pytest.mark.parametrize("command", ["check", "explain"])
def test_nothing_to_look_at(tmp_path, capsys, command):
    assert "this spec has no layout" in refusal_of(capsys, [command, spec(tmp_path, "x = 1\n")])


def test_doctor_finds_what_these_tests_need(capsys):
    out = output_of(capsys, ["doctor"])
    for name in ("numpy", "sympy", "z3-solver", "MLIR bindings", "llvmlite"):
        assert f"  ok       {name}" in out
    assert "with NVPTX" in out
    assert "cache" in out


def test_doctor_says_how_to_get_what_is_missing(monkeypatch, capsys):
    from lego_mlir.toolchain import mathlib, ptxas

    monkeypatch.setattr(doctor, "_installed", lambda distribution, module: None)
    monkeypatch.setattr(ptxas, "find", lambda: None)
    monkeypatch.setattr(mathlib, "libdevice", lambda: None)
    out = output_of(capsys, ["doctor"], CHECK_FAILED)
    assert "  MISSING  sympy          run: pip install sympy" in out
    assert "  missing  ptxas          for --emit cubin; run: pip install nvidia-cuda-nvcc" in out
    assert "pip install nvidia-nvvm" in out


# -- for other programs: --json, and a spec on standard input


def documented(heading):
    """The keys that docs/reference/command-line.md names in the JSON schema of a command."""
    text = (Path(__file__).parents[3] / "docs" / "reference/command-line.md").read_text()
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    common = text.partition("\n**JSON.**")[2].partition("\n\n")[0]
    return set(re.findall(r"`(\w+)`", section + common))


def keys(value):
    if isinstance(value, dict):
        return set(value) | {key for name, inner in value.items() if name != "counter_example" for key in keys(inner)}
    return {key for inner in value for key in keys(inner)} if isinstance(value, list) else set()


def as_json(capsys, *arguments, code=DONE):
    assert main([*arguments, "--json"]) == code
    captured = capsys.readouterr()
    return json.loads(captured.out)


def test_check_as_json(tmp_path, capsys):
    path = spec(tmp_path, GOOD)
    found = as_json(capsys, "check", path)
    assert (found["spec"], found["refuted"], found["unknown"]) == (path, 0, 0)
    claims = [claim for group in found["groups"] for claim in group["claims"]]
    assert found["proved"] == len(claims) == sum(claim["verdict"] == "proved" for claim in claims) > 5
    assert [(group["kind"], group["name"]) for group in found["groups"]] == [
        ("layout", "tile"),
        ("layout", "tiled"),
        ("kernel", "copy"),
    ]
    assert keys(found) <= documented("check")


def test_a_refutation_as_json(tmp_path, capsys):
    found = as_json(capsys, "check", spec(tmp_path, REFUTED), code=CHECK_FAILED)
    assert found["refuted"] == 1
    assert "apply maps [0, 1] and [1, 0] both to position 1" in found["groups"][0]["claims"][0]["why"]
    found = as_json(capsys, "check", spec(tmp_path, OUTSIDE), code=CHECK_FAILED)
    (claim,) = (c for group in found["groups"] for c in group["claims"] if c["verdict"] == "refuted")
    assert "spec.py:7" in claim["claim"] + claim["why"]
    assert keys(found) <= documented("check")


def test_the_values_of_a_counter_example_are_numbers():
    made = Line("a claim", Refuted({"i": np.int64(4), "L": "any"}, "too large")).to_dict()
    assert json.loads(json.dumps(made))["counter_example"] == {"i": 4, "L": "any"}


def test_explain_as_json(tmp_path, capsys):
    found = as_json(capsys, "explain", spec(tmp_path, GOOD))
    assert [layout["name"] for layout in found["layouts"]] == ["tile", "tiled"]
    assert len(found["layouts"][0]["inv"]) == 2
    load, store = found["kernels"][0]["accesses"]
    assert (load["kind"], load["tensor"], load["index"]) == ("load", "src", ["32*bx + tx"])
    assert (store["kind"], store["position"]["result"]) == ("store", "32*bx + tx")
    steps = found["layouts"][1]["apply"]["steps"]
    assert {"remainder", "small remainder"} & {step["rule"] for step in steps}
    assert steps[-1]["operations"] == found["layouts"][1]["apply"]["operations"]["after"]
    assert keys(found) <= documented("explain")


def test_doctor_as_json(capsys, monkeypatch):
    found = as_json(capsys, "doctor")
    assert found["complete"] is True
    rows = {row["name"]: row for row in found["findings"]}
    assert rows["numpy"] == {"name": "numpy", "found": np.__version__, "needed": True, "remedy": None}
    assert keys(found) <= documented("doctor")
    monkeypatch.setattr(doctor, "_installed", lambda distribution, module: None)
    missing = as_json(capsys, "doctor", code=CHECK_FAILED)
    assert missing["complete"] is False
    assert {"name": "sympy", "found": None, "needed": True, "remedy": "run: pip install sympy"} in missing["findings"]


@pytest.mark.parametrize("command", ["check", "explain"])
def test_a_spec_on_standard_input(capsys, monkeypatch, command):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode())))
    assert "kernel copy, <stdin>:8" in output_of(capsys, [command, "-"])


def test_a_mistake_in_a_spec_on_standard_input_has_its_line(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a = 1\nb = a / 0\n")))
    assert main(["check", "-"]) == 2
    assert capsys.readouterr().err == ("lego-mlir check: <stdin>:2: ZeroDivisionError: division by zero\n  b = a / 0\n")
