"""The scripts that come along: what each leaves, run before and after, its parameters, and planted faults."""

import re
import subprocess
import sys

import numpy as np
import pytest
from assembling import needs_ptxas
from gemm import LAYOUTS, SHIPPED, SIZES, build, check, composed, launch, operands, transformed

from lego_mlir import Col, Row, bf16, f16, gallery, interp
from lego_mlir.interp import Kind
from lego_mlir.kernels import matmul
from lego_mlir.kernels.matmul import ProductTile
from lego_mlir.schedule import ORDERS
from lego_mlir.toolchain import compile_kernel, ptxas, sass, target_named
from lego_mlir.transforms import scripts

# -- what the scripts leave, and that it means the same

STEPS = {
    "async_copies": (["async_copies.mlir"], ["nvgpu.device_async_copy", "vector.contract"], ["vector.load %arg0"]),
    "ldmatrix_mma": (["ldmatrix_mma.mlir"], ["nvgpu.ldmatrix", "nvgpu.mma.sync"], ["vector.contract"]),
    "copies and mma": (["async_copies.mlir", "ldmatrix_mma.mlir"], ["nvgpu.device_async_wait"], ["transfer_read"]),
    "swizzled": (["async_copies.mlir", "ldmatrix_mma.mlir", "swizzle.mlir"], ["arith.xori"], ["memref.alloc"]),
    "pipelined before mma": (["async_copies.mlir", "pipeline.mlir"], ["memref<4x32x32xf16"], ["memref.alloc"]),
    "pipelined": (["async_copies.mlir", "ldmatrix_mma.mlir", "pipeline.mlir"], ["numGroups = 2"], ["memref.alloc"]),
    "rotated": (
        ["async_copies.mlir", "ldmatrix_mma.mlir", "pipeline.mlir", "lego-rotate-fragments"],
        ["numGroups = 2"],
        ["memref.subview"],
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_after_every_step_the_kernel_means_the_same(tmp_path, name):
    steps, there, gone = STEPS[name]
    script = composed(tmp_path, *steps)
    kernel = build()
    text = transformed(kernel, script)
    assert all(word in text for word in there)
    assert not any(word in text for word in gone)
    check(kernel, script, *SIZES)


@pytest.mark.parametrize("c", [Row, Col], ids=["C in rows", "C in columns"])
@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
@pytest.mark.parametrize("kind", LAYOUTS)
def test_every_layout_without_a_race_or_a_conflict(kind, dtype, c):
    a, b = LAYOUTS[kind]
    report = check(build(dtype=dtype, a=a, b=b, c=c), "matmul_sm80.mlir", *SIZES, stages=3)
    assert report.totals.conflicts == 0
    assert report.totals.ldmatrix > 0
    assert {site.coalescing for site in report.sites if site.buffer == "argument 0"} == {1.0}


@pytest.mark.parametrize("kind", LAYOUTS)
def test_masked_sizes_fill_with_zeros(kind):
    a, b = LAYOUTS[kind]
    sizes = (72, 88, 104)
    kernel = build(sizes, a=a, b=b)
    assert re.search(r"device_async_copy .*, 8, %", transformed(kernel, "async_copies.mlir"))
    check(kernel, "matmul_sm80.mlir", *sizes, stages=3)


def test_rows_of_8_bytes_are_copied_8_bytes_at_a_time():
    sizes = (32, 68, 68)
    kernel = build(sizes)
    assert ", 4, %" in transformed(kernel, "async_copies.mlir")
    assert "bypassL1" not in transformed(kernel, "async_copies.mlir")
    check(kernel, "matmul_sm80.mlir", *sizes, stages=2)


@pytest.mark.parametrize("result", [f16, bf16], ids=str)
@pytest.mark.parametrize("epilogue", [None, matmul.relu()], ids=["rounded by the lanes", "rounded after ReLU"])
def test_results_are_rounded(result, epilogue):
    kernel = build(result=result, epilogue=epilogue)
    text = transformed(kernel, "matmul_sm80.mlir", stages=2)
    assert ("truncf" in text.partition("scf.for")[2]) and "vector<16x8x" not in text
    check(kernel, "matmul_sm80.mlir", *SIZES, stages=2)


@pytest.mark.parametrize("order", ORDERS)
def test_orders_with_blocks_that_have_nothing_to_do(order):
    sizes = (160, 192, 64)
    check(build(sizes, order=order), "matmul_sm80.mlir", *sizes, stages=2)


def test_a_step_of_one_product_leaves_the_copies_where_they_are():
    sizes = (32, 64, 96)
    check(build(sizes, tiling=ProductTile(32, 64, 16, (1, 2))), "matmul_sm80.mlir", *sizes, stages=3)


@pytest.mark.parametrize("stages", [2, 3, 5])
def test_every_depth_of_the_pipeline(stages):
    sizes = (32, 64, 192)
    check(build(sizes), "matmul_sm80.mlir", *sizes, stages=stages)


@pytest.mark.parametrize("k", [8, 24, 32])
@pytest.mark.parametrize("kind", LAYOUTS)
def test_a_depth_of_one_tile_gets_a_second_one_of_zeros(kind, k):
    a, b = LAYOUTS[kind]
    sizes = (40, 72, k)
    check(build(sizes, a=a, b=b, result=f16, epilogue=matmul.relu()), "matmul_sm80.mlir", *sizes, stages=3)


def test_arithmetic_on_single_numbers_is_left_alone():
    """A row of odd length is stored number by number, and its epilogue works on single numbers."""
    sizes = (40, 71, 72)
    kernel = build(sizes, b=Col, epilogue=matmul.bias(71))
    text = transformed(kernel, "ldmatrix_mma.mlir")
    assert re.search(r"arith.addf %\w+, %\w+ : f32", text)
    assert not re.search(r"arith.addf .* : vector<1xf32>", text)
    check(kernel, "matmul_sm80.mlir", *sizes, np.arange(71), stages=2)


def test_padded_tiles_need_no_swizzle(tmp_path):
    tiling = ProductTile(32, 64, 64, (1, 2))
    sizes = (64, 128, 192)
    kernel = build(sizes, tiling=tiling, tiles=(gallery.padded(32, 64, 8), gallery.padded(64, 64, 8)))
    script = composed(tmp_path, "async_copies.mlir", "ldmatrix_mma.mlir", "pipeline.mlir")
    assert check(kernel, script, *sizes).totals.conflicts == 0


def test_more_than_48_kib_becomes_dynamic_and_shares_its_place():
    """128 x 128 f32 for the result, 64 KiB and padding, over four stages of 16 KiB."""
    sizes = (128, 128, 128)
    kernel = build(sizes, tiling=ProductTile(128, 128, 32, (2, 2)))
    compiled = compile_kernel(kernel, transform="matmul_sm80.mlir", emit="transformed")
    (facts,) = compiled.kernels
    assert facts.static_shared == 0
    assert facts.dynamic_shared == max(128 * (128 + 8) * 4, 4 * (128 * 32 + 32 * 128) * 2)
    check(kernel, "matmul_sm80.mlir", *sizes)


@pytest.mark.parametrize("size", [64, 32768], ids=["small", "more than 48 KiB"])
def test_a_tile_that_nothing_uses_takes_no_memory(tmp_path, size):
    shared = "#gpu.address_space<workgroup>"
    text = f"""gpu.module @m {{ gpu.func @k(%a: memref<32xf32>)
        workgroup(%u: memref<{size}xf32, {shared}>, %t: memref<32xf32, {shared}>, %v: memref<8xf32, {shared}>) kernel {{
      %i = gpu.thread_id x
      %x = memref.load %a[%i] : memref<32xf32>
      memref.store %x, %t[%i] : memref<32xf32, {shared}>
      gpu.return }} }}"""
    script = composed(tmp_path, "lego-place-shared-memory")
    (facts,) = compile_kernel(text, transform=script, emit="transformed").kernels
    assert (facts.static_shared, facts.dynamic_shared) == (32 * 4, 0)


def test_a_script_works_on_a_kernel_that_is_not_ours():
    """What the scripts look for is upstream's vector dialect: here in a module that somebody else wrote."""
    script = (SHIPPED / "async_copies.mlir").read_text()
    text = """gpu.module @m { gpu.func @copy(%a: memref<1024xf32>, %b: memref<1024xf32>)
        workgroup(%t: memref<1024xf32, #gpu.address_space<workgroup>>)
        kernel attributes {known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 1, 1, 1>} {
      %i = gpu.thread_id x
      %j = affine.apply affine_map<(d0) -> (4 * d0)>(%i)
      %v = vector.load %a[%j] : memref<1024xf32>, vector<4xf32>
      vector.store %v, %t[%j] : memref<1024xf32, #gpu.address_space<workgroup>>, vector<4xf32>
      gpu.barrier
      %k = affine.apply affine_map<(d0) -> (1020 - 4 * d0)>(%i)
      %w = vector.load %t[%k] : memref<1024xf32, #gpu.address_space<workgroup>>, vector<4xf32>
      vector.store %w, %b[%j] : memref<1024xf32>, vector<4xf32>
      gpu.return } }"""
    after = compile_kernel(text, transform="async_copies.mlir", emit="transformed").text
    source, target = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
    report = interp.launch(after, args=[source, target])
    assert report.clean
    np.testing.assert_array_equal(target.reshape(-1, 4), source.reshape(-1, 4)[::-1])
    assert "cp.async.cg.shared.global" in compile_kernel(text, transform="async_copies.mlir").text
    assert "lego.pipeline" in script


# -- planted faults


def faults(kernel, text):
    m, n, k = SIZES
    a, b = operands(m, n, k)
    report, c = launch(kernel, text, a, b, np.zeros((m, n)))
    return {fault.kind for fault in report.faults}, bool((c == kernel.expected(a, b)).all())


def planted(tmp_path, name, old, new):
    """The composed script with one line of one of its parts changed."""
    path = composed(tmp_path, "async_copies.mlir", "ldmatrix_mma.mlir", "pipeline.mlir", "swizzle.mlir")
    script = tmp_path / name
    assert old in script.read_text()
    script.write_text(script.read_text().replace(old, new))
    return path


def test_a_pipeline_as_deep_as_it_has_buffers_races_with_the_right_values(tmp_path):
    script = planted(tmp_path, "pipeline.mlir", '"stages - 1"', '"stages"')
    found, right = faults(build(), transformed(build(), script))
    assert Kind.RACE in found or Kind.PENDING in found
    assert right


def test_without_its_barrier_the_loop_races():
    text = transformed(build(), "matmul_sm80.mlir", stages=3)
    loop = text.index("scf.for")
    at = text.index("gpu.barrier", loop)
    found, _ = faults(build(), text[:at] + text[at:].replace("gpu.barrier", "", 1))
    assert Kind.RACE in found


def test_with_one_buffer_the_first_barrier_is_needed():
    text = transformed(build(), "async_copies.mlir")
    at = text.index("gpu.barrier", text.index("scf.for"))
    found, _ = faults(build(), text[:at] + text[at:].replace("gpu.barrier", "", 1))
    assert Kind.RACE in found


def test_with_one_buffer_both_barriers_stay(tmp_path):
    """The pass that drops the first barrier requires rotating buffers, and leaves this loop alone."""
    script = composed(tmp_path, "async_copies.mlir", "lego-merge-barriers")
    loop = transformed(build(), script).partition("scf.for")[2].partition("scf.yield")[0]
    assert loop.count("gpu.barrier") == 2
    check(build(), script, *SIZES)


def test_a_wait_for_one_group_too_few_is_found():
    text = transformed(build(), "matmul_sm80.mlir", stages=3)
    assert "numGroups = 1" in text
    found, _ = faults(build(), text.replace("numGroups = 1", "numGroups = 2"))
    assert Kind.PENDING in found


def test_without_the_swizzle_banks_conflict(tmp_path):
    script = composed(tmp_path, "async_copies.mlir", "ldmatrix_mma.mlir", "pipeline.mlir")
    report = check(build(), script, *SIZES)
    assert report.totals.conflicts > 500


def test_memory_handed_over_without_a_barrier_races():
    """The tile of the result takes the place of the staged tiles, between a wait and a barrier."""
    sizes = (128, 128, 128)
    kernel = build(sizes, tiling=ProductTile(128, 128, 32, (2, 2)))
    text = transformed(kernel, "matmul_sm80.mlir")
    at = text.index("gpu.barrier", text.index("scf.yield"))
    a, b = operands(*sizes)
    report, _ = launch(kernel, text[:at] + text[at:].replace("gpu.barrier", "", 1), a, b, np.zeros(sizes[:2]))
    assert Kind.RACE in report.kinds()


def test_fragments_out_of_order_give_wrong_values(tmp_path):
    """Upstream's order of an ldmatrix's tiles is wrong for a column-major B; our pass corrects it."""
    path = composed(tmp_path, "async_copies.mlir", "ldmatrix_mma.mlir")
    part = tmp_path / "ldmatrix_mma.mlir"
    part.write_text(part.read_text().replace('"lego-order-fragments",', ""))
    kernel = build(b=Col)
    found, right = faults(kernel, transformed(kernel, path))
    assert not found
    assert not right


# -- machine code

LOOP = re.compile(r"\n(\$L__BB\d+_\d+):(?:(?!\n\$L__BB).)*?bra\s+\1;", re.DOTALL)


def main_loop(ptx):
    """The text of the loop that multiplies."""
    return next(m.group() for m in LOOP.finditer(ptx) if "mma.sync" in m.group())


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
@pytest.mark.parametrize("kind", LAYOUTS)
def test_the_main_loop_in_ptx(kind, dtype):
    a, b = LAYOUTS[kind]
    kernel = build((512, 512, 512), dtype, a, b, tiling=ProductTile(128, 128, 32, (2, 2)), result=f16)
    loop = main_loop(compile_kernel(kernel, transform="matmul_sm80.mlir").text)
    assert loop.count(f"mma.sync.aligned.m16n8k16.row.col.f32.{dtype}.{dtype}.f32") == 64
    assert len(re.findall(r"ldmatrix\.sync\.aligned\.m8n8\.x4\.(?:trans\.)?shared\.b16", loop)) == 16
    assert loop.count("x4.trans") == 8 * ((a is Col) + (b is Row))
    assert len(re.findall(r"cp\.async\.cg\.shared\.global \[", loop)) == 8
    assert loop.count("cp.async.commit_group") == 1
    assert loop.count("cp.async.wait_group") == 1
    assert loop.count("bar.sync") == 1
    assert "cp.async.ca" not in loop


def test_loads_and_copies_stand_among_the_products():
    """A step's loads among the products of the step before, one or two at a time; copies in a group for each step."""
    kernel = build((512, 512, 512), tiling=ProductTile(128, 128, 64, (2, 2)), result=f16)
    loop = main_loop(compile_kernel(kernel, transform="matmul_sm80.mlir", parameters={"stages": 3}).text)
    named = {"ldmatrix": "L", "cp.async.cg": "C", "mma.sync": "P", "bar.sync": "B"}
    order = "".join(letter for line in loop.splitlines() for name, letter in named.items() if name in line)
    before, _, after = order.partition("B")
    assert [len(run) for run in re.findall("C+", before.replace("L", ""))] == [6, 5, 5]
    assert after == 8 * "L" + 32 * "P"
    loads = before.replace("C", "")
    assert max(map(len, re.findall("L+", loads))) == 2
    positions = [loads[:at].count("P") for at, letter in enumerate(loads) if letter == "L"]
    assert [sum(32 * step < at <= 32 * (step + 1) for at in positions) for step in range(3)] == [8, 8, 8]


def test_copies_may_go_through_l1():
    kernel = build((128, 128, 128), tiling=ProductTile(128, 128, 32, (2, 2)))
    ptx = compile_kernel(kernel, transform="matmul_sm80.mlir", parameters={"bypass_l1": False, "stages": 3}).text
    assert "cp.async.ca.shared.global" in ptx
    assert "cp.async.cg" not in ptx


TILINGS = [ProductTile(128, 128, 32, (2, 2)), ProductTile(128, 256, 64, (2, 4)), ProductTile(256, 128, 64, (4, 2))]


@needs_ptxas
@pytest.mark.parametrize("tiling", TILINGS, ids=str)
def test_no_spills_and_registers_for_every_thread(tiling):
    target = target_named("sm_90")
    kernel = build((1024, 1024, 1024), tiling=tiling, result=f16)
    ptx = compile_kernel(kernel, transform="matmul_sm80.mlir", target=target.name).text
    cubin, (resources,) = ptxas.assemble(ptx, target)
    assert resources.spill_stores == resources.spill_loads == resources.stack == 0
    assert resources.registers * tiling.threads <= 64 * 1024
    assert f".maxntid {tiling.threads}" in ptx
    if sass.find_lister() is None:
        pytest.skip("needs cuobjdump (pip install nvidia-cuda-cuobjdump)")
    mix = sass.mix(sass.main_loop(sass.disassemble(cubin), "HMMA"))
    m, n = tiling.m // tiling.warps[0], tiling.n // tiling.warps[1]
    products = m // 16 * (n // 8) * (tiling.k // 16)
    assert mix["HMMA"] == products
    assert mix["LDSM"] == (m // 16 + n // 16) * (tiling.k // 16)
    assert mix["LDGSTS"] == (tiling.m + tiling.n) * tiling.k // 8 // tiling.threads
    assert mix["BAR"] == 1
    assert sum(mix.values()) < 2.5 * products


# -- the files


def test_every_script_is_valid_for_upstream():
    """The files are the transform dialect and nothing else: they parse and verify without us."""
    from lego_mlir.transforms.modules import parse, session

    assert scripts.shipped() == (
        "async_copies.mlir",
        "ldmatrix_mma.mlir",
        "matmul_narrow.mlir",
        "matmul_sm80.mlir",
        "matmul_sm90.mlir",
        "pipeline.mlir",
        "swizzle.mlir",
        "tiles_sm80.mlir",
    )
    with session():
        for name in scripts.shipped():
            assert parse((SHIPPED / name).read_text(), name).operation.verify()


def test_an_installed_package_has_its_scripts_inside(tmp_path, monkeypatch):
    inside = tmp_path / "lego_mlir" / "transform_scripts"
    inside.mkdir(parents=True)
    (inside / "only.mlir").write_text("module {}")
    monkeypatch.setattr(scripts, "__file__", str(tmp_path / "lego_mlir" / "toolchain" / "scripts.py"))
    assert scripts.folder() == inside
    assert scripts.shipped() == ("only.mlir",)
    assert scripts.read("only.mlir").path == "only.mlir"


def test_the_example_through_its_script():
    from lego_mlir import spec

    kernel = spec.load(SHIPPED.parent / "examples" / "matmul.py").kernels["matmul"]
    report = check(kernel, "matmul_sm80.mlir", 256, 512, 256, stages=3)
    assert report.totals.conflicts == 0


def test_the_command_line_takes_a_script_and_its_parameters(tmp_path):
    spec = tmp_path / "spec.py"
    spec.write_text(
        "from lego_mlir import f16\nfrom lego_mlir.kernels import matmul\n"
        "product = matmul.build(128, 128, 128, f16, result=f16)\n"
    )
    options = "--no-cache --emit ptx --transform matmul_sm80.mlir --param stages=3 -o"
    done = subprocess.run(
        [sys.executable, "-m", "lego_mlir.cli.main", "compile", str(spec), *options.split(), str(tmp_path / "k.ptx")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "mma.sync" in (tmp_path / "k.ptx").read_text()
    assert f'"dynamic_shared_bytes": {3 * 2 * 128 * 32 * 2}' in (tmp_path / "k.json").read_text()


@pytest.mark.parametrize("command", [["run", "--on", "interp"], ["analyze", "--blocks", "2"]], ids=["run", "analyze"])
def test_other_commands_take_parameters_too(command, capsys):
    from lego_mlir.cli.main import main

    options = ["--transform", "matmul_sm80.mlir", "--no-cache", "--param"]
    example = str(SHIPPED.parent / "examples" / "matmul.py")
    assert main([command[0], example, *command[1:], *options, "stages=3"]) == 0
    capsys.readouterr()
    assert main([command[0], example, *command[1:], *options, "stages=30"]) == 2
    assert "the parameter stages is 2 .. 8, got 30" in capsys.readouterr().err
