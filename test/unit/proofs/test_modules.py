"""Claims about the kernels of MLIR modules: of another compiler, and of specs after transform scripts."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from command_line import output_of, refusal_of

import lego_mlir as lego
from lego_mlir import Row, f32, spec
from lego_mlir.cli.main import BAD_INPUT, CHECK_FAILED, DONE, main
from lego_mlir.cli.mlir_files import random_arguments
from lego_mlir.errors import UsageError
from lego_mlir.expr.verdict import Proved, Refuted, Unknown
from lego_mlir.proofs.confirm import chosen_sizes, is_race, launched
from lego_mlir.proofs.module_claims import compiled, module_claims, transformed_claims
from lego_mlir.toolchain import compile_kernel

ROOT = Path(__file__).parents[3]
TRANSPOSE = ROOT / "examples" / "linalg_transpose.mlir"
N = lego.size("N")
KERNEL = """
gpu.module @m {{ gpu.func @k(%x: memref<64xf32>, %y: memref<64xf32>, %order: memref<64xi32>) workgroup(%tile:
    memref<64xf32, #gpu.address_space<workgroup>>) kernel attributes {{known_block_size = array<i32: 32, 1, 1>,
    known_grid_size = array<i32: 2, 1, 1>}} {{
  %t = gpu.thread_id x
  %b = gpu.block_id x
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c32 = arith.constant 32 : index
  %one = arith.constant 1.0 : f32
{body}
  gpu.return }} }}
"""


def verdicts(text, name="k", grid=None, block=None):
    found = module_claims(compiled(text, "m.mlir"), name, grid, block, lambda f: random_arguments(f, 0))
    return dict(found)


def kinds(text, **options):
    return {claim: type(verdict) for claim, verdict in verdicts(text, **options).items()}


def test_a_transpose_of_another_compiler_is_proved():
    found = kinds(TRANSPOSE.read_text(), name="transpose")
    assert len(found) == 7 and set(found.values()) == {Proved}


@pytest.mark.parametrize(
    ("old", "new", "claim", "words"),
    [
        ("      gpu.barrier\n", "", "no race for the buffer of m.mlir:17 between two threads of a block", "no barrier"),
        (
            "memref.subview %out[%j, %i]",
            "memref.subview %out[%i, %i]",
            "no race for argument 1 between two blocks",
            "thread",
        ),
        ("%c8 = arith.constant 8", "%c8 = arith.constant 16", "every element of argument 1 is written", "not written"),
        (
            "      %c8 = arith.constant 8 : index\n",
            "      %c8 = arith.constant 4 : index\n",
            "no element of argument 1 is written twice",
            "is written by thread",
        ),
    ],
)
def test_mutants_of_the_transpose_are_refuted_by_runs(old, new, claim, words):
    text = TRANSPOSE.read_text()
    assert old in text
    verdict = verdicts(text.replace(old, new), name="transpose")[claim]
    assert isinstance(verdict, Refuted) and words in verdict.explanation


PROVED_BODIES = {
    "affine": """  affine.for %i = 0 to 1 {
    %p = affine.apply affine_map<(d0)[s0] -> (d0 * 32 + s0)>(%b)[%t]
    affine.store %one, %y[%p] : memref<64xf32>
  }""",
    "index": """  %p = index.mul %b, %c32
  %q = index.add %p, %t
  memref.store %one, %y[%q] : memref<64xf32>""",
    "division": """  %n = arith.muli %b, %c32 : index
  %p = arith.addi %n, %t : index
  %high = arith.divui %p, %c2 : index
  %low = arith.remsi %p, %c2 : index
  %twice = arith.muli %high, %c2 : index
  %q = arith.addi %twice, %low : index
  memref.store %one, %y[%q] : memref<64xf32>""",
    "branch": """  %first = arith.cmpi eq, %b, %c0 : index
  scf.if %first {
    memref.store %one, %y[%t] : memref<64xf32>
  } else {
    %q = arith.addi %t, %c32 : index
    memref.store %one, %y[%q] : memref<64xf32>
  }""",
    "narrow": """  %i = arith.index_cast %t : index to i32
  %p = arith.index_castui %i : i32 to index
  %n = arith.muli %b, %c32 : index
  %q = arith.addi %n, %p : index
  memref.store %one, %y[%q] : memref<64xf32>""",
    "loop": """  %half = arith.cmpi ult, %t, %c32 : index
  scf.for %k = %t to %c32 step %c32 {
    %n = arith.muli %b, %c32 : index
    %q = arith.addi %n, %k : index
    memref.store %one, %y[%q] : memref<64xf32>
  }""",
}


@pytest.mark.parametrize("body", PROVED_BODIES.values(), ids=PROVED_BODIES)
def test_indices_of_several_dialects_are_read(body):
    found = kinds(KERNEL.format(body=body))
    assert {c: k for c, k in found.items() if "every element" not in c} == {
        "no race for argument 1 between two threads of a block": Proved,
        "no race for argument 1 between two blocks": Proved,
        "no element of argument 1 is written twice": Proved,
    }


OUTSIDE = {
    "extui": "%e = arith.extui %d : i32 to i64\n  %f = arith.index_cast %e : i64 to index",
    "index_castui": "%f = arith.index_castui %d : i32 to index",
    "castu": "%f = index.castu %d : i32 to index",
}


@pytest.mark.parametrize("cast", OUTSIDE.values(), ids=OUTSIDE)
def test_zero_extension_of_a_negative_number_is_unread(cast):
    """The upper half of the threads alone store: the number of the others, zero-extended, is above 2^31."""
    body = f"""  %i = arith.index_cast %t : index to i32
  %sixteen = arith.constant 16 : i32
  %d = arith.subi %i, %sixteen : i32
  {cast}
  %p = arith.cmpi slt, %f, %c32 : index
  %n = arith.muli %b, %c32 : index
  %q = arith.addi %n, %t : index
  scf.if %p {{ memref.store %one, %y[%q] : memref<64xf32> }}"""
    found = verdicts(KERNEL.format(body=body))
    assert not isinstance(found["every element of argument 1 is written"], Proved)
    assert isinstance(found["no element of argument 1 is written twice"], Proved)


def test_a_transfer_past_the_end_of_a_row_writes_the_row_only():
    text = """gpu.module @m { gpu.func @k(%y: memref<2x4xf32>) kernel attributes
    {known_block_size = array<i32: 1, 1, 1>, known_grid_size = array<i32: 1, 1, 1>} {
  %z = arith.constant 0 : index
  %v = arith.constant dense<1.0> : vector<8xf32>
  vector.transfer_write %v, %y[%z, %z] {in_bounds = [false]} : vector<8xf32>, memref<2x4xf32>
  gpu.return } }"""
    assert Proved not in kinds(text).values()


def test_elements_that_are_vectors_are_unread():
    text = """gpu.module @m { gpu.func @k(%y: memref<32xvector<4xf32>>) kernel attributes
    {known_block_size = array<i32: 8, 1, 1>, known_grid_size = array<i32: 1, 1, 1>} {
  %t = gpu.thread_id x
  %four = arith.constant 4 : index
  %v = arith.constant dense<1.0> : vector<4xf32>
  %p = arith.muli %t, %four : index
  memref.store %v, %y[%p] : memref<32xvector<4xf32>>
  gpu.return } }"""
    assert set(kinds(text).values()) == {Unknown}


def test_private_memory_is_not_a_shared_tile():
    """One thread's write initialises its own element, and the others read theirs."""
    private = "memref<4xf32, #gpu.address_space<private>>"
    text = f"""gpu.module @m {{ gpu.func @k(%y: memref<32xf32>) private(%w: {private}) kernel attributes
    {{known_block_size = array<i32: 32, 1, 1>, known_grid_size = array<i32: 1, 1, 1>}} {{
  %t = gpu.thread_id x
  %z = arith.constant 0 : index
  %one = arith.constant 1.0 : f32
  %first = arith.cmpi eq, %t, %z : index
  scf.if %first {{ memref.store %one, %w[%z] : {private} }}
  gpu.barrier
  %v = memref.load %w[%z] : {private}
  memref.store %v, %y[%t] : memref<32xf32>
  gpu.return }} }}"""
    found = kinds(text)
    assert not any("shared" in claim for claim in found) and set(found.values()) == {Proved}


def test_an_aligned_memref_is_the_memref():
    body = """  %u = memref.assume_alignment %y, 16 : memref<64xf32>
  %n = arith.muli %b, %c32 : index
  %q = arith.addi %n, %t : index
  memref.store %one, %u[%q] : memref<64xf32>"""
    found = kinds(KERNEL.format(body=body))
    assert len(found) == 4 and set(found.values()) == {Proved}


def test_an_index_from_memory_is_unknown():
    body = """  %v = memref.load %order[%t] : memref<64xi32>
  %p = arith.index_castui %v : i32 to index
  memref.store %one, %y[%p] : memref<64xf32>"""
    found = verdicts(KERNEL.format(body=body))
    verdict = found["no race for argument 1 between two threads of a block"]
    assert isinstance(verdict, Unknown) and "contents of memory" in verdict.reason


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ("gpu.all_reduce add %one uniform {} : (f32) -> (f32)", "gpu.all_reduce is not read"),
        (
            "scf.while : () -> () {\n %z = arith.constant false\n scf.condition(%z)\n } do {\n scf.yield\n }",
            "scf.while",
        ),
    ],
)
def test_what_is_not_read_leaves_every_claim_unproved(operation, reason):
    start = "%r = " if "all_reduce" in operation else ""
    found = verdicts(KERNEL.format(body=f"  {start}{operation}\n{PROVED_BODIES['index']}"))
    assert found and all(isinstance(v, Unknown) and reason in v.reason for v in found.values())


def test_views_that_overlap_are_one_buffer():
    body = """  %d = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
  %u = memref.view %d[%c0][]
    : memref<?xi8, #gpu.address_space<workgroup>> to memref<32xf32, #gpu.address_space<workgroup>>
  %w = memref.view %d[%c32][]
    : memref<?xi8, #gpu.address_space<workgroup>> to memref<32xf32, #gpu.address_space<workgroup>>
  memref.store %one, %u[%t] : memref<32xf32, #gpu.address_space<workgroup>>
  memref.store %one, %w[%t] : memref<32xf32, #gpu.address_space<workgroup>>"""
    found = {c: v for c, v in verdicts(KERNEL.format(body=body)).items() if "race" in c}
    assert list(found) == ["no race for dynamic shared memory between two threads of a block"]
    assert all(isinstance(v, Refuted) for v in found.values())
    apart = {c: v for c, v in verdicts(KERNEL.format(body=body.replace("%d[%c32]", "%d[%c128]").replace(
        "  %d =", "  %c128 = arith.constant 128 : index\n  %d ="))).items() if "race" in c}  # fmt: skip
    assert len(apart) == 2 and all(isinstance(v, Proved) for v in apart.values())


@pytest.mark.parametrize(("barrier", "verdict"), [("  gpu.barrier\n", Proved), ("", Refuted)])
def test_a_tile_that_threads_exchange_needs_its_barrier(barrier, verdict):
    body = f"""  memref.store %one, %tile[%t] : memref<64xf32, #gpu.address_space<workgroup>>
{barrier}  %u = arith.xori %t, %c1 : index
  %v = memref.load %tile[%u] : memref<64xf32, #gpu.address_space<workgroup>>
  %n = arith.muli %b, %c32 : index
  %q = arith.addi %n, %t : index
  memref.store %v, %y[%q] : memref<64xf32>"""
    found = verdicts(KERNEL.format(body=body))
    assert type(found["no race for shared0 between two threads of a block"]) is verdict


def test_a_block_size_is_needed():
    text = KERNEL.format(body=PROVED_BODIES["index"]).replace("known_block_size = array<i32: 32, 1, 1>,", "")
    with pytest.raises(UsageError, match=r"@k: the module does not fix the block size; give --block X\[,Y\[,Z\]\]"):
        verdicts(text)
    assert Refuted not in kinds(text, block=[32]).values()


@pytest.fixture(scope="module")
def matmul():
    (kernel,) = spec.load(ROOT / "examples" / "matmul.py").kernels.values()
    script = ROOT / "transform_scripts" / "async_copies.mlir"
    compilation = compile_kernel(kernel.mlir(), emit="transformed", transform=str(script), name="matmul")
    return kernel, compilation.stage("transformed", locations=True)


def test_a_kernel_is_proved_after_a_shipped_script(matmul):
    kernel, text = matmul
    assert "device_async_copy" in text
    found = dict(transformed_claims(kernel, text))
    assert len(found) == 13 and all(isinstance(v, Proved) for v in found.values())


@pytest.mark.parametrize(
    ("dropped", "number", "claim"),
    [
        ("gpu.barrier", 1, "no race for shared0 between two threads of a block"),
        ("gpu.barrier", 2, "no race for shared2 between two threads of a block"),
        ("nvgpu.device_async_wait", 0, "every read of shared0 comes after a write of that element"),
    ],
)
def test_a_script_that_drops_a_barrier_or_a_wait_is_not_proved(matmul, dropped, number, claim):
    kernel, text = matmul
    lines = text.splitlines()
    at = [k for k, line in enumerate(lines) if line.strip().startswith(dropped)][number]
    verdict = dict(transformed_claims(kernel, "\n".join(lines[:at] + lines[at + 1 :])))[claim]
    assert isinstance(verdict, Refuted if dropped == "gpu.barrier" else Refuted | Unknown)


@pytest.fixture(scope="module")
def ring(matmul):
    """The product with a ring of four stages, in the shared memory of which the result is staged at last."""
    kernel, _ = matmul
    script = ROOT / "transform_scripts" / "matmul_sm80.mlir"
    compilation = compile_kernel(kernel.mlir(), emit="transformed", transform=str(script), name="matmul")
    return kernel, compilation.stage("transformed", locations=True)


def test_a_ring_of_stages_is_proved_after_the_scripts_of_a_matrix_product(ring):
    kernel, text = ring
    found = dict(transformed_claims(kernel, text))
    assert "no race for dynamic shared memory between two threads of a block" in found
    assert len(found) == 9 and all(isinstance(v, Proved) for v in found.values())


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_ring_without_one_of_its_barriers_is_not_proved(ring, number):
    kernel, text = ring
    lines = text.splitlines()
    at = [k for k, line in enumerate(lines) if line.strip().startswith("gpu.barrier")]
    if number >= len(at):
        pytest.skip(f"the script leaves {len(at)} barriers")
    mutant = "\n".join(lines[: at[number]] + lines[at[number] + 1 :])
    races = [v for c, v in transformed_claims(kernel, mutant) if "race for dynamic" in c]
    faults = launched(kernel, chosen_sizes(kernel, None), module=mutant).report.faults
    assert any(map(is_race("dynamic shared memory", False), faults)) <= (not isinstance(races[0], Proved))


def test_a_ring_that_waits_for_one_group_less_is_refuted(ring):
    kernel, text = ring
    found = re.search(r"nvgpu.device_async_wait [^\n]*numGroups = (\d+)", text)
    late = text.replace(f"numGroups = {found[1]}", f"numGroups = {int(found[1]) + 1}")
    verdicts = dict(transformed_claims(kernel, late))
    assert isinstance(verdicts["no race for dynamic shared memory between two threads of a block"], Refuted)


def test_symbolic_sizes_are_those_of_the_kernel():
    @lego.kernel(grid=lego.cdiv(N, 64), block=64)
    def double(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
        i = lego.block_id[0] * 64 + lego.thread_id[0]
        with lego.when(i < N):
            y[i] = x[i] + x[i]

    text = double.mlir()
    assert all(isinstance(v, Proved) for _, v in transformed_claims(double, text))
    wrong = text.replace("* 64)>", "* 32)>")
    assert wrong != text
    found = dict(transformed_claims(double, wrong))
    assert isinstance(found["no race for y between two blocks"], Refuted)


def test_check_takes_modules_and_scripts(tmp_path, capsys):
    assert main(["check", str(TRANSPOSE), "--json"]) == DONE
    (group,) = json.loads(capsys.readouterr().out)["groups"]
    assert {c["verdict"] for c in group["claims"]} == {"proved"}
    broken = tmp_path / "broken.mlir"
    broken.write_text(TRANSPOSE.read_text().replace("      gpu.barrier\n", ""))
    assert "REFUTED  no race for the buffer of" in output_of(capsys, ["check", str(broken)], CHECK_FAILED)


LOOPS = """module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %copies = transform.structured.match interface{LinalgOp} in %root : (!transform.any_op) -> !transform.any_op
    transform.structured.convert_to_loops %copies : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
"""


def test_check_proves_a_module_again_after_a_script(tmp_path, capsys):
    script = tmp_path / "loops.mlir"
    script.write_text(LOOPS)
    assert main(["check", str(TRANSPOSE), "--transform", str(script), "--no-cache", "--json"]) == DONE
    before, after = json.loads(capsys.readouterr().out)["groups"]
    assert after["title"] == f"{before['title']} after {script}"
    assert [c["verdict"] for c in after["claims"]] == ["proved"] * 7


def test_check_proves_a_kernel_again_after_a_script(capsys):
    script = ROOT / "transform_scripts" / "async_copies.mlir"
    assert main(["check", str(ROOT / "examples" / "matmul.py"), "--transform", str(script), "--json"]) == DONE
    *_, after = json.loads(capsys.readouterr().out)["groups"]
    assert after["title"] == f"kernel matmul after {script}"
    assert [c["verdict"] for c in after["claims"]] == ["proved"] * 13


def test_check_refuses_a_module_without_a_kernel(tmp_path, capsys):
    path = tmp_path / "host.mlir"
    path.write_text("func.func @f() { return }")
    assert "nothing to check: this module has no gpu.func that is a kernel" in refusal_of(capsys, ["check", str(path)])


def test_check_refuses_extents_for_a_spec(capsys):
    assert main(["check", str(ROOT / "examples" / "transpose.py"), "--grid", "4"]) == BAD_INPUT
    assert "the grid size applies to the kernels of a .mlir file" in capsys.readouterr().err


def mutants(text):
    """The module without each of its barriers, and with each stride of a map halved."""
    lines = text.splitlines()
    for k, line in enumerate(lines):
        if line.strip().startswith("gpu.barrier"):
            yield "\n".join(lines[:k] + lines[k + 1 :])
        stride = re.search(r"#map.*\* (\d+)", line)
        if stride:
            half = line.replace(f"* {stride[1]}", f"* {max(1, int(stride[1]) // 2)}", 1)
            yield "\n".join([*lines[:k], half, *lines[k + 1 :]])


def test_no_claim_about_a_mutant_is_proved_that_a_run_contradicts():
    (kernel,) = spec.load(ROOT / "examples" / "transpose.py").kernels.values()
    sizes = chosen_sizes(kernel, None)
    faulty = 0
    for text in list(mutants(kernel.mlir()))[:3]:
        faults = launched(kernel, sizes, module=text).report.faults
        faulty += bool(faults)
        for claim, verdict in transformed_claims(kernel, text):
            race = re.match("no race for (.*) between (.*)", claim)
            if race and isinstance(verdict, Proved):
                assert not any(map(is_race(race[1], race[2] == "two blocks"), faults)), claim
    assert faulty


def test_the_run_that_refutes_is_one_of_the_module(matmul):
    """The counter-example of a dropped barrier names an element that the module itself races for."""
    text = TRANSPOSE.read_text().replace("      gpu.barrier\n", "")
    (verdict,) = (v for v in verdicts(text, name="transpose").values() if isinstance(v, Refuted))
    compiler = compiled(text, "m.mlir")
    arguments = [np.zeros((128, 128), np.float32) for _ in range(2)]
    report = lego.interp.launch(compiler, "transpose", args=arguments)
    assert verdict.counter_example["element"] in {fault.address for fault in report.faults}
