"""Products with weights of few bits, `examples/low_bits`: right in the interpreter and by their PTX at odd sizes."""

from pathlib import Path

import pytest

from lego_mlir import spec
from lego_mlir.cli.main import main
from lego_mlir.toolchain import compile_kernel

FILE = Path(__file__).parents[1] / "examples" / "low_bits" / "few_bits.py"
MANY = FILE.with_name("many_tokens.py")
KERNELS = ("w4a16", "w4a16_many", "w4a8", "mxfp4", "mxfp4_by_expert")
SIZES = ({"M": 1, "N": 16, "K": 128, "E": 1, "Z": 1}, {"M": 18, "N": 144, "K": 384, "E": 3, "Z": 4})


def test_every_kernel_is_listed():
    assert {path.name for path in FILE.parent.glob("*.py")} == {FILE.name, MANY.name}
    assert set(spec.load(FILE).kernels) == set(KERNELS)


@pytest.mark.parametrize("on", ["interp", "ptx"])
@pytest.mark.parametrize("sizes", SIZES, ids=["least", "ragged"])
@pytest.mark.parametrize("name", KERNELS)
def test_it_agrees_with_its_reference(name, sizes, on, capsys):
    known = {size.name for size in spec.load(FILE).kernels[name].sizes}
    words = [word for size, n in sizes.items() if size in known for word in ("--size", f"{size}={n}")]
    target = ["--target", "sm_90"] if on == "ptx" else []
    assert main(["run", str(FILE), "--kernel", name, "--on", on, *target, *words]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("name", ["w4a16", "w4a8", "mxfp4"])
def test_a_lane_loads_sixteen_bytes_of_weights_ahead_and_converts_by_instructions(name):
    """Two loads for 64 numbers of a lane, of four groups before the loop and in it, straight into registers."""
    text = compile_kernel((spec.load(FILE).kernels[name],), target="sm_90a").text
    assert text.count("ld.global.v4.b32") + text.count("ld.global.nc.v4.b32") == 2 * 4 * 2
    assert text.count("cvt.rn.f16x2.e4m3x2") == 4 * 32 * (name == "w4a8")  # e4m3 is widened in pairs


@pytest.mark.parametrize("on", ["interp", "ptx"])
@pytest.mark.parametrize("sizes", [{"M": 1, "N": 16, "G": 1}, {"M": 130, "N": 144, "G": 3}], ids=["least", "ragged"])
def test_many_tokens_agree_with_the_reference(sizes, on, capsys):
    words = [word for size, n in sizes.items() for word in ("--size", f"{size}={n}")]
    target = ["--target", "sm_90a"] if on == "ptx" else []
    assert main(["run", str(MANY), "--kernel", "w4a16", "--on", on, *target, *words]) == 0, capsys.readouterr().out


def test_many_tokens_are_multiplied_by_warpgroups_and_copied_by_the_copy_unit():
    """Also the bytes of packed numbers, whose tensor map has half of the columns."""
    text = compile_kernel((spec.load(MANY).kernels["w4a16"],), target="sm_90a").text
    assert text.count("wgmma.mma_async") == 4 and "mma.sync" not in text
    assert text.count("cp.async.bulk.tensor") == 2 and "cp.async.cg" not in text
