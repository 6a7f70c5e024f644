"""Programs: steps with the sizes and memory that each kernel expects, run in order on one set of arrays."""

import json
import re

import numpy as np
import pytest
from command_line import output_of

import lego_mlir as lego
from lego_mlir import Col, Row, f16, f32, gallery, i32
from lego_mlir.cli.main import main
from lego_mlir.errors import SpecError, TraceError, UsageError
from lego_mlir.runtime import data, programs
from lego_mlir.tracing.checks.roundings import roundings

N = lego.size("N", multiple_of=32, max=2**20)
M = lego.size("M", max=2**20)

SPEC = """
import lego_mlir as lego
import numpy as np
from lego_mlir import Row, f32

N, M = lego.size("N", multiple_of=32, max=2**20), lego.size("M", max=2**15)


@lego.kernel(grid=N // 32, block=32)
def sum_blocks(x: lego.Tensor(f32, Row(N)), sums: lego.Tensor(f32, Row(N // 32))):
    b, t = lego.block_id[0], lego.thread_id[0]
    part = lego.shared(f32, Row(32))
    part[t] = x[b * 32 + t]
    lego.barrier()
    with lego.when(t == 0):
        total = lego.register(f32, 0.0)
        for k in lego.range(32):
            total += part[k]
        sums[b] = total


@lego.kernel(grid=1, block=1)
def add_up(part: lego.Tensor(f32, Row(M)), total: lego.Tensor(f32, Row(1))):
    found = lego.register(f32, 0.0)
    for k in lego.range(M):
        found += part[k]
    total[0] = found


@lego.program
def total(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(1))):
    sums = lego.empty(f32, Row(N // 32), name="sums")
    sum_blocks(x, sums)
    add_up(sums, y)


@total.reference
def expected(x):
    return np.array([x.sum()])
"""


@pytest.fixture
def spec(tmp_path):
    def write(text=SPEC):
        path = tmp_path / "spec.py"
        path.write_text(text)
        return str(path)

    return write


def test_a_program_runs_on_the_command_line(spec, capsys):
    out = output_of(capsys, ["run", spec(), "--size", "N=256"])
    assert "ok    total N=256: 2 launches" in out
    assert "  sum_blocks: 8 blocks of (32, 1, 1)" in out
    assert "add_up: 1 blocks of (1, 1, 1)" in out
    assert "kernel sum_blocks has no reference" not in out  # a step is not run by itself
    assert main(["run", spec(), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["kernels"]
    assert (found["program"], [launch["kernel"] for launch in found["launches"]]) == ("total", ["sum_blocks", "add_up"])


def test_it_is_analyzed_checked_and_compiled(spec, capsys):
    out = output_of(capsys, ["analyze", spec(), "--kernel", "total", "--size", "N=256"])
    assert "kernel sum_blocks N=256" in out
    assert "kernel add_up M=8" in out
    out = output_of(capsys, ["check", spec()])
    assert re.search(r"proved   .*spec.py:34: sums is passed as part of add_up, Row\(N // 32\): the same layout", out)
    assert main(["compile", spec(), "--kernel", "total", "--emit", "ptx", "--target", "sm_90"]) == 0
    assert re.findall(r"\.entry (\w+)", capsys.readouterr().out) == ["sum_blocks", "add_up"]


def test_kernels_that_no_variable_holds_are_compiled_with_their_program(spec, capsys):
    text = SPEC.replace("\n\n@lego.program", "\nsteps = (sum_blocks, add_up)\ndel sum_blocks, add_up\n\n@lego.program")
    text = text.replace("    sum_blocks(x", "    sum_blocks, add_up = steps\n    sum_blocks(x")
    assert main(["compile", spec(text), "--emit", "ptx"]) == 0
    assert re.findall(r"\.entry (\w+)", capsys.readouterr().out) == ["sum_blocks", "add_up"]


def test_faults_and_wrong_values_are_those_of_the_step(spec, capsys):
    racing = SPEC.replace("    lego.barrier()\n", "")
    assert main(["run", spec(racing), "--size", "N=64"]) == 1
    assert re.search(r"FAULT total.*\n.*\n  sum_blocks: .*\n    .*race: read of shared0", capsys.readouterr().out)
    wrong = SPEC.replace("total[0] = found", "total[0] = found + 1")
    assert main(["run", spec(wrong), "--size", "N=64"]) == 1
    assert re.search(r"WRONG total.*\n.*written by block \(0, 0, 0\), .*spec.py:27", capsys.readouterr().out)


def test_a_sample_of_blocks_is_refused(spec, capsys):
    for command in ("run", "analyze"):
        assert main([command, spec(), "--kernel", "total", "--blocks", "2"]) == 2
        assert "the kernels of program total need all results of those before them" in capsys.readouterr().err


@lego.kernel(grid=N // 32, block=32)
def double(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
    i = lego.block_id[0] * 32 + lego.thread_id[0]
    y[i] = x[i] * 2


@lego.kernel(grid=1, block=1)
def shift(x: lego.Tensor(f32, Row(M)), by: f32, count: i32, y: lego.Tensor(f32, Row(M))):
    for k in lego.range(M):
        y[k] = x[k] + by * count.to(f32)


def run(program, sizes, **arrays):
    given = data.arguments(program, sizes, 0)
    memories = {p.name: np.asarray(given.logical[p.name]) for p in program.params} | arrays
    return memories, programs.run_program(program, memories, sizes)


def test_sizes_come_from_shapes_from_names_and_from_the_call():
    K = lego.size("K", multiple_of=64, max=2**20)

    @lego.program
    def chain(x: lego.Tensor(f32, Row(K)), y: lego.Tensor(f32, Row(K // 2))):
        half, other, more = lego.empty(f32, Row(K // 2)), lego.empty(f32, Row(K)), lego.empty(f32, Row(K // 2))
        shift(x, 1.0, 1, other)
        shift(half, 0.0, 0, more, M=K // 2)
        double(more, y)

    assert [{n: str(v) for n, v in step.sizes.items()} for step in chain.steps] == [
        {"M": "K"}, {"M": "K // 2"}, {"N": "K // 2"},
    ]  # fmt: skip
    assert [size.name for size in chain.sizes] == ["K"]
    assert [step.kernel.name for step in chain.steps] == ["shift", "shift", "double"]


def test_numbers_and_sizes_are_arguments():
    @lego.program
    def offset(a: f32, x: lego.Tensor(f32, Row(M)), y: lego.Tensor(f32, Row(M))):
        middle = lego.empty(f32, Row(M))
        shift(x, a, M // 2, middle)
        shift(middle, 0.5, 2, y)

    x = np.arange(6, dtype=np.float32)
    memories, runs = run(offset, {"M": 6}, a=np.float32(10), x=x)
    assert all(run.report.clean for run in runs)
    assert memories["y"].tolist() == (x + 30 + 1).tolist()


@lego.program
def quadruple(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
    between = lego.empty(f32, Row(N))
    double(x, between)
    double(between, y)


def test_a_program_is_part_of_another():
    @lego.program
    def sixteen(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
        between = lego.empty(f32, Row(N))
        quadruple(x, between)
        quadruple(between, y)

    assert [tensor.name for tensor in sixteen.temporaries] == ["temporary0", "temporary1", "temporary2"]
    x = np.arange(64, dtype=np.float32)
    memories, _ = run(sixteen, {"N": 64}, x=x)
    assert (memories["y"] == 16 * x).all()


def test_layouts_may_differ_in_form_but_not_in_memory():
    @lego.kernel(grid=1, block=1)
    def first(x: lego.Tensor(f32, Col(8, 4))):
        x[0, 0] = 1.0

    @lego.kernel(grid=1, block=1)
    def flat(x: lego.Tensor(f32, Row(32))):
        x[0] = 1.0

    @lego.program
    def fits(x: lego.Tensor(f32, Row(4, 8).transpose())):
        first(x)
        flat(x)

    assert [type(verdict).__name__ for step in fits.steps for _, verdict in step.claims] == ["Proved", "Proved"]

    @lego.program
    def swapped(x: lego.Tensor(f32, Row(8, 4))):
        first(x)

    with pytest.raises(TraceError, match=r"x of first is Col\(8, 4\) here, and x is Row\(8, 4\): \[0, 1\] is at posit"):
        _ = swapped.steps


def test_the_roundings_of_all_steps_count():
    @lego.program
    def chain(x: lego.Tensor(f32, Row(M)), y: lego.Tensor(f32, Row(M))):
        between = lego.empty(f32, Row(M))
        shift(x, 1.0, 1, between)
        shift(between, 1.0, 1, y)

    one = roundings(shift.trace(), {"M": 4})["y"].count("f32")
    assert chain.roundings({"M": 4})["y"].count("f32") > one


def test_a_parameter_that_is_written_first_is_not_an_input():
    @lego.program
    def chain(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N)), z: lego.Tensor(f32, Row(N))):
        double(x, y)
        double(y, z)

    assert [(p.name, p.read, p.written) for p in chain.params] == [
        ("x", True, False), ("y", False, True), ("z", False, True),
    ]  # fmt: skip


def test_the_grid_of_every_step_limits_a_size():
    L = lego.size("L", multiple_of=32)

    @lego.kernel(grid=(1, L), block=32)
    def tall(x: lego.Tensor(f32, Row(L))):
        x[lego.block_id[1]] = 1.0

    @lego.program
    def chain(x: lego.Tensor(f32, Row(2 * N))):
        tall(x)

    (size,) = chain.sizes
    assert chain.greatest(size) == 32767  # grid y is at most 65535


U = lego.size("U", max=1000)
WRONG = {
    "too few": (lambda x, y: double(x), r"kernel double takes x, y; got 1 arguments"),
    "an array": (
        lambda x, y: double(x, [1.0]),
        r"y of double is a tensor: pass a parameter of the program or lego.emp",
    ),
    "a tensor": (lambda x, y: shift(x, y, 1, y), r"by of shift is a f32: pass a number, a size or a number of the"),
    "a type": (lambda x, y: double(x, lego.empty(f16, Row(32))), r"y of double has elements of f32, and temporary0 of"),
    "an extent": (
        lambda x, y: double(x, lego.empty(f32, Row(64))),
        r"y of double is Row\(32\) here, and temporary0 is",
    ),
    "a size": (lambda x, y: double(x, y, K=3), r"kernel double has no size K; its sizes: N; tensors and numbers are"),
    "a value": (lambda x, y: double(x, y, N="3"), r"N='3': a size of a program is an int or an expression of sizes"),
    "a fact": (
        lambda x, y: double(lego.empty(f32, Row(U)), lego.empty(f32, Row(U))),
        r"N of double is U here, and must be a multiple of 32, which U = \d+ violates; declare it of the size of",
    ),
    "twice": (lambda x, y: double(x, x), r"x is passed as x and as y of double, which writes one of them; threads ru"),
    "a program": (lambda x, y: quadruple(x), r"program quadruple takes x, y, in order"),
    "an element": (lambda x, y: x[3], r"x\[3\]: a program passes tensors to kernels; elements are read and written"),
    "a name": (
        lambda x, y: lego.empty(f32, Row(4), name="x"),
        r"lego.empty: the name of a temporary is an unused identifier, got",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_calls_that_do_not_fit(case):
    call, message = WRONG[case]

    @lego.program
    def wrong(x: lego.Tensor(f32, Row(32)), y: lego.Tensor(f32, Row(32))):
        call(x, y)

    with pytest.raises(TraceError, match=r"test_program.py:\d+: " + message):
        _ = wrong.steps


def test_numbers_of_another_type_and_run_time_tables_do_not_fit():
    table = gallery.table([4], [3, 2, 1, 0], name="perm", runtime=True)

    @lego.kernel(grid=1, block=4)
    def place(x: lego.Tensor(f32, table)):
        x[lego.thread_id[0]] = 1.0

    @lego.program
    def tables(x: lego.Tensor(f32, Row(4))):
        place(x)

    @lego.program
    def types(a: i32, x: lego.Tensor(f32, Row(M))):
        shift(x, a, 1, lego.empty(f32, Row(M)))

    with pytest.raises(TraceError, match=r"kernel place takes the run-time table perm, which a program does not pass"):
        _ = tables.steps
    with pytest.raises(TraceError, match=r"by of shift is a f32, and a a i32"):
        _ = types.steps


def test_programs_without_results():
    @lego.program
    def idle(x: lego.Tensor(f32, Row(32))):
        double(x, lego.empty(f32, Row(32)))

    @lego.program
    def returning(x: lego.Tensor(f32, Row(32))):
        double(lego.empty(f32, Row(32)), x)
        return x

    with pytest.raises(TraceError, match=r"no kernel of the program idle writes one of its parameters"):
        _ = idle.steps
    with pytest.raises(
        TraceError, match=r"a program returns nothing, its kernels store into its parameters; returning"
    ):
        _ = returning.steps


def test_what_a_program_decorates_and_where_empty_is_used():
    with pytest.raises(TraceError, match=r"@lego.program decorates a Python function, got 3"):
        lego.program(3)
    with pytest.raises(TraceError, match=r"lego.empty can be used only inside a function decorated with @lego.program"):
        lego.empty(f32, Row(4))


def test_a_size_that_a_kernel_does_not_take_at_a_launch():
    @lego.program
    def chain(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
        double(x, y)

    assert [launch.sizes for launch in programs.launches(chain, {"N": 64})] == [{"N": 64}]
    with pytest.raises(UsageError, match=r"program chain at N = 40: double gets N = 40, and needs at least 1, at most"):
        list(programs.launches(chain, {"N": 40}))


def test_an_error_in_a_program_is_one_of_the_spec(spec):
    from lego_mlir import spec as specs

    with pytest.raises(SpecError, match=r"spec.py:34: kernel add_up takes part, total; got 1 arguments"):
        specs.load(spec(SPEC.replace("add_up(sums, y)", "add_up(sums)")))
