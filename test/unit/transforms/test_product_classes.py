"""Products by warpgroups for all sizes of a class: what is read and refused, and runs of their PTX in the emulator."""

import re
import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import Col, Row, bf16, f8e4m3fn, f16, f32, i8, schedule
from lego_mlir.errors import LayoutError, ToolchainError
from lego_mlir.hardware.tensor_map_forms import SizeTerm, TensorMapForm, form_from
from lego_mlir.interp.ptx.traced_ptx import PtxRun
from lego_mlir.kernels import epilogues, matmul
from lego_mlir.kernels.class_tiles import MOST
from lego_mlir.kernels.matmul import Tiling
from lego_mlir.kernels.product_classes import class_of
from lego_mlir.kernels.warpgroup_choices import SHARED_WORK
from lego_mlir.runtime.manifest import evaluate
from lego_mlir.toolchain import compile_kernel, ptxas, sass
from lego_mlir.transforms.kernel_facts import kernels
from lego_mlir.transforms.modules import parse, session
from lego_mlir.transforms.warpgroups.class_reading import is_symbolic, read_class
from lego_mlir.transforms.warpgroups.launch_sizes import LaunchSizes, forms_of
from lego_mlir.transforms.warpgroups.plan import ProductPlan, StagedOperand
from lego_mlir.transforms.warpgroups.reading import NotStagedError

SCRIPT = "matmul_sm90.mlir"
LAYOUTS = {"N": Row, "T": Col}
SMALL = Tiling(64, 64, 64, (4, 1))
needs_ptxas = pytest.mark.skipif(ptxas.find() is None, reason=f"needs ptxas; {ptxas.REMEDY}")


def build(layouts="NN", divisors=(8, 8, 8), tiling=SMALL, rows=2, snake=False, **given_):
    m, n, k = (lego.size(name, min=1, max=65536, multiple_of=d) for name, d in zip("MNK", divisors, strict=True))
    a, b = (LAYOUTS[letter](*dims) for letter, dims in zip(layouts, ((m, k), (k, n)), strict=True))
    order = schedule.grouped(lego.cdiv(m, tiling.m), lego.cdiv(n, tiling.n), rows=rows, snake=snake)
    options = {"a": a, "b": b, "result": f16, "tiling": tiling, "order": order, "blocks": 2, **given_}
    return matmul.build(m, n, k, f16, **options)


def read_off(text, whole=False):
    with session():
        module = parse(text)
        (function,) = kernels(module)
        assert is_symbolic(function)
        return read_class(function, whole)


def run(kernel, layouts, size, dtype=np.float16, **parameters):
    m, n, k = size
    draw = np.random.default_rng(m)
    a, b = (draw.integers(-4, 5, dims).astype(np.float16) for dims in ((m, k), (k, n)))
    c = np.full(m * n, np.nan, dtype)
    given_ = {"a": np.ravel(a, "F" if layouts[0] == "T" else "C").copy(),
              "b": np.ravel(b, "F" if layouts[1] == "T" else "C").copy(), "c": c}  # fmt: skip
    emulated = PtxRun(target="sm_90a", transform=SCRIPT, parameters=parameters)
    report = emulated(kernel, given_, {"M": m, "N": n, "K": k})
    assert report.clean, [str(fault) for fault in report.faults]
    np.testing.assert_array_equal(c.reshape(m, n), (a.astype(np.float32) @ b.astype(np.float32)).astype(dtype))


# -- reading


@pytest.mark.parametrize("layouts", ["NN", "NT", "TN", "TT"])
def test_what_is_read_for_all_sizes(layouts):
    found = read_off(build(layouts).mlir())
    assert found.product.contiguous == ("k" if layouts[0] == "N" else "mn", "k" if layouts[1] == "T" else "mn")
    assert sorted(found.sizes) == [3, 4, 5]
    assert found.product.blocks == 2
    names = {"M": found.sizes[0], "N": found.sizes[1], "K": found.sizes[2]}
    assert [size.name for size in sorted(build(layouts).sizes, key=lambda s: names[s.name])] == [
        size.name for size in build(layouts).sizes
    ]


def test_sizes_that_are_not_affine_are_refused():
    text = build("NT").mlir()
    line = next(line for line in text.splitlines() if "index.mul" in line and "%arg4" in line)
    _, operand = re.search(r"(%\w+) = index.mul (%\w+), %arg4", line).groups()
    squared = line.replace(f"{operand}, %arg4", f"{operand}, %squared")
    made = text.replace(line, f"%squared = index.mul %arg4, %arg4\n{squared}", 1)
    with pytest.raises(NotStagedError, match=r"an index of vector\.load is not affine in the sizes"):
        read_off(made)


def test_a_mask_that_differs_at_some_sizes_is_refused():
    text = build("NT").mlir()
    line = next(line for line in text.splitlines() if "index.cmp slt" in line and "%arg4" in line)
    made = text.replace(line, f"%c1_less = arith.constant 1 : index\n%less = index.sub %arg4, %c1_less\n"
                              f"{line.replace('%arg4', '%less')}", 1)  # fmt: skip
    with pytest.raises(NotStagedError, match="no condition of this copy is that its element is inside of the matrix"):
        read_off(made)


def test_a_loop_that_leaves_out_the_last_step_is_refused():
    text = build("NT").mlir()
    loop = next(line for line in text.splitlines() if "iter_args" in line)
    steps = re.search(r"to (%\w+) step", loop).group(1)
    less = f"%one_ = arith.constant 1 : index\n%fewer = index.sub {steps}, %one_\n"
    made = text.replace(loop, less + loop.replace(f"to {steps} ", "to %fewer "))
    with pytest.raises(NotStagedError, match=r"the loop along K must have \(K \+ 63\) / 64 steps"):
        read_off(made)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"blocks": None}, "a kernel of symbolic sizes needs persistent blocks"),
        ({"divisors": (8, 8, 64)}, "declare K as a multiple of 8 only"),
        ({"divisors": (8, 64, 8)}, "declare the sizes as multiples of 8 only"),
    ],
)
def test_kernels_that_are_refused(given_, message):
    """As text: a kernel object is scheduled instead."""
    with pytest.raises(ToolchainError, match=message):
        compile_kernel(build(**given_).mlir(), target="sm_90a", transform=SCRIPT, emit="transformed")


def test_a_kernel_of_other_sizes_is_scheduled():
    kernel = build(divisors=(8, 8, 64))
    (source,) = compile_kernel(kernel, target="sm_90a", transform=SCRIPT, emit="transformed").sources
    assert "roles" in source.schedules


# -- running


@pytest.mark.parametrize(
    ("layouts", "options", "parameters", "size"),
    [
        ("NT", {"divisors": (1, 8, 8)}, {"stages": 3}, (65, 136, 200)),
        ("NT", {"divisors": (1, 8, 8)}, {"stages": 3}, (1, 8, 8)),
        ("NT", {"divisors": (1, 8, 8), "tiling": Tiling(64, 72, 64, (4, 1))}, {"stages": 2}, (65, 80, 72)),
        ("NN", {"tiling": Tiling(64, 128, 64, (4, 1))}, {"stages": 3, "whole_columns": 1}, (136, 192, 136)),
        ("TN", {"snake": True}, {"stages": 2, "lockstep": 2}, (136, 264, 136)),
        ("TT", {"tiling": Tiling(128, 64, 64, (8, 1))}, {"stages": 2, "cluster_m": 2, "dependent": 1}, (200, 8, 72)),
        ("NT", {"result": f32}, {"stages": 2}, (72, 72, 72)),
        ("NN", {"tiling": Tiling(144, 128, 64, (1, 4)), "snake": True},
         {"transposed": 1, "cluster_n": 2, "lockstep": 2, "stages": 2}, (152, 200, 136)),
        ("NT", {"divisors": (1, 8, 8), "tiling": Tiling(320, 128, 64, (4, 1))}, {"transposed": 1, "stages": 2},
         (23, 136, 72)),
        ("NT", {"divisors": (1, 8, 8), "tiling": Tiling(256, 72, 64, (8, 1)), "blocks": 1},
         {"stages": 2, "cluster_m": 4, "dependent": 1}, (72, 80, 72)),
        ("NT", {"divisors": (1, 8, 8), "tiling": Tiling(128, 272, 64, (8, 1))}, {"stages": 2}, (65, 280, 72)),
        ("NN", {"tiling": Tiling(352, 64, 64, (1, 4)), "blocks": 1},
         {"transposed": 1, "stages": 2, "cluster_m": 4, "dependent": 1}, (360, 72, 72)),
    ],
)  # fmt: skip
def test_one_kernel_in_the_emulator(layouts, options, parameters, size):
    run(build(layouts, **options), layouts, size, np.float32 if "result" in options else np.float16, **parameters)


def everything(m, n):
    """Loads of each kind: one number, one for each row and column, and a matrix of C's shape."""
    scaled = epilogues.factors(1, "one", rows=True).then(epilogues.factors(m, "by_row", rows=True))
    return scaled.then(epilogues.bias(n, f16)).then(epilogues.relu()).then(epilogues.residual(m, n, f16))


@pytest.mark.parametrize(
    ("dtype", "result", "divisors", "size", "parameters"),
    [
        (f16, f16, (1, 8, 8), (72, 136, 200), {}), (f16, f32, (1, 8, 8), (1, 8, 8), {}),
        (f8e4m3fn, bf16, (1, 8, 16), (136, 72, 272), {}), (f32, f32, (1, 4, 4), (72, 68, 68), {"rounded": 1}),
        (i8, f16, (1, 8, 16), (65, 72, 144), {"dependent": 1}), (f16, f16, (1, 8, 8), (48, 136, 72), {"transposed": 1}),
        (f8e4m3fn, f8e4m3fn, (1, 16, 16), (72, 80, 272), {}),
    ],
)  # fmt: skip
def test_an_epilogue_of_all_sizes(dtype, result, divisors, size, parameters):
    (m, n, k), step = size, 128 // dtype.bytes
    sizes = [lego.size(name, min=1, max=65536, multiple_of=d) for name, d in zip("MNK", divisors, strict=True)]
    order = schedule.grouped(lego.cdiv(sizes[0], 64), lego.cdiv(sizes[1], 64), rows=2)
    kernel = matmul.build(
        *sizes, dtype, b=Col(sizes[2], sizes[1]), result=result, tiling=Tiling(64, 64, step, (4, 1)), order=order,
        blocks=2, epilogue=everything(sizes[0], sizes[1]),
    )  # fmt: skip
    draw = np.random.default_rng(m)
    a, b = (draw.integers(-4, 5, dims).astype(dtype.numpy) for dims in ((m, k), (k, n)))
    operands = {"one": np.float32([0.5]), "by_row": draw.integers(1, 4, m).astype(np.float32),
                "bias": draw.integers(-4, 5, n).astype(np.float16),
                "residual": draw.integers(-4, 5, (m, n)).astype(np.float16)}  # fmt: skip
    c = np.zeros(m * n, result.numpy)
    given_ = {"a": a.ravel(), "b": np.ravel(b, "F").copy(), "c": c, **{x: v.ravel() for x, v in operands.items()}}
    emulated = PtxRun("sm_90a", SCRIPT, {"stages": 2, **parameters})
    report = emulated(kernel, given_, {"M": m, "N": n, "K": k})
    assert report.clean, [str(fault) for fault in report.faults]
    expected = everything(m, n).reference(a.astype(np.float32) @ b.astype(np.float32), **operands)
    if result is f8e4m3fn:
        expected = np.clip(expected, -448, 448)
    np.testing.assert_array_equal(c.reshape(m, n), expected.astype(result.numpy))


def test_loads_that_are_no_place_of_c_at_all_sizes_are_refused():
    def text(m, n):
        wide = lego.as_layout(Row(m, n + 8)) if shifted else lego.as_layout(Row(m, n))
        return epilogues.residual(m, n, f16, layout=wide)

    shifted = False
    m, n, _ = (lego.size(name, min=1, max=65536, multiple_of=d) for name, d in zip("MNK", (1, 8, 8), strict=True))
    read_off(build("NT", divisors=(1, 8, 8), epilogue=text(m, n)).mlir())
    shifted = True
    with pytest.raises(NotStagedError, match="another N changes the product"):
        read_off(build("NT", divisors=(1, 8, 8), epilogue=text(m, n)).mlir())


def test_the_manifest_has_forms_and_the_grid():
    compilation = compile_kernel(build("NN"), target="sm_90a", transform=SCRIPT, parameters={"whole_columns": 1})
    (entry,) = compilation.manifest["kernels"]
    assert evaluate(entry["grid"][0], {"M": 64, "N": 64, "K": 8}) == 1
    assert evaluate(entry["grid"][0], {"M": 640, "N": 64, "K": 8}) == 2
    a, b, _ = (argument["tensor_map"] for argument in entry["arguments"])
    names = [size["name"] for size in entry["sizes"]]
    values = [{"M": 200, "N": 128, "K": 72}[name] for name in names]
    assert form_from(a).at(values).sizes == (72, 200)
    assert form_from(b).at(values).sizes == (128, 72)  # a tile of one column
    assert re.search(r"\.param \.u64 matmul_param_[345]", compilation.text)


# -- tensor maps


@settings(deadline=None, max_examples=40)
@given(
    st.integers(16, 90), st.integers(32, 60), st.integers(1, 40), st.sampled_from(["k", "mn"]),
    st.sampled_from(["k", "mn"]), st.booleans(),
)  # fmt: skip
def test_a_form_at_a_launch_is_the_map_of_those_sizes(m, n, k, of_a, of_b, whole):
    """For at least one tile of rows: a kernel of fewer has a box of their number."""
    m, n, k = (64 if whole else 8) * m, (64 if whole else 8) * n, 8 * k

    def plan(m, n, k):
        a, b = StagedOperand("f16", m, k, 128, 64, of_a), StagedOperand("f16", n, k, 256, 64, of_b)
        return ProductPlan("p", a, b, "f16", 4, 4, 4)

    point = (704, 1088, 192) if whole else (712, 1096, 200)
    forms = forms_of(plan(*point), LaunchSizes(3, 5, 4, first=3))
    if not whole and (m % 64 == 0 or n % 64 == 0):
        return  # the plan of these sizes copies whole columns, that of the class does not
    wanted = plan(m, n, k)
    assert [form.at([m, k, n]) for form in forms] == [wanted.a.map, wanted.b.map, wanted.c_map]
    assert [form_from(form.to_data()) for form in forms] == list(forms)


def test_a_form_of_whole_columns_refuses_others():
    sizes = (64, SizeTerm(0), SizeTerm(1, over=64))
    form = TensorMapForm("f16", sizes, (SizeTerm(1, times=2), 128), (64, 64, 4), 128)
    assert form.at([100, 128]).sizes == (64, 100, 2)
    with pytest.raises(LayoutError, match="a size of 136: this kernel takes multiples of 64"):
        form.at([100, 136])


# -- the code


def test_classes_of_sizes():
    one = class_of((4096, 4096, 4096), "NN", "f16", "f16", 132)
    assert one.whole
    assert class_of((4095, 4096, 4096), "NN", "f16", "f16", 132) == one
    assert not class_of((4096, 4104, 4096), "NN", "f16", "f16", 132).whole
    assert not class_of((4096, 4096, 4096), "NT", "bf16", "bf16", 132).whole
    assert one.kernel().params[0].dtype == f16
    assert class_of((512, 512, 512), "NT", "bf16", "bf16", 132).kernel().params[0].dtype == bf16


@pytest.mark.parametrize("layouts", ["NT", "NN"])
def test_classes_of_short_unaligned_products_have_larger_clusters(layouts):
    found = {m: class_of((m, 1176, 1176), layouts, "f16", "f16", 132) for m in range(520, 3000, 40)}
    larger = {m for m, one in found.items() if one.tile.cluster[0] * one.tile.cluster[1] > 2}
    assert {m * 1176**2 in SHARED_WORK for m in larger} == {True} and 1160 in larger
    assert len({one.name for m, one in found.items() if 1024 < m <= 2048}) <= 2 * MOST
    aligned = class_of((1160, 1152, 1152), layouts, "f16", "f16", 132)
    assert aligned.tile.cluster[0] * aligned.tile.cluster[1] <= 2


@needs_ptxas
@pytest.mark.parametrize(("layouts", "n"), [("NT", 4096), ("NN", 4096), ("NN", 4104)])
def test_the_main_loop_is_that_of_numbers(layouts, n, tmp_path):
    made = class_of((4096, n, 4096), layouts, "f16", "f16", 132)
    compilation = compile_kernel(made.kernel(), target="sm_90a", transform=SCRIPT, parameters=made.parameters)
    source, output = tmp_path / "kernel.ptx", tmp_path / "kernel.cubin"
    source.write_text(compilation.text)
    done = subprocess.run(
        [ptxas.required(), "-arch=sm_90a", "-v", source, "-o", output], capture_output=True, text=True, check=True
    )
    report = done.stdout + done.stderr
    assert not re.search(r"C7\d\d\d", report), report
    (resources,) = ptxas.parse_report(report)
    assert resources.spill_stores <= 16  # of what a tile's place takes, outside of the loop
    if sass.find_lister() is not None:
        loop = sass.main_loop(sass.disassemble(output.read_bytes()), "GMMA")
        assert 0 < len(loop) <= 54
        assert sass.mix(loop)["HGMMA"] == 4 * max(1, made.tile.m // 128)
