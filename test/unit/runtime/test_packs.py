"""Packed kernels: written by `lego-mlir pack`, called where MLIR, SymPy and Z3 are missing."""

import numpy as np
import pytest
from cuda_stand_in import DeviceArray, Machine, OwnLibrary, own, printed_without_compiler

import lego_mlir
from lego_mlir import f8e4m3fn
from lego_mlir.cli.main import main
from lego_mlir.errors import SpecError, UsageError
from lego_mlir.runtime import driver, packs
from lego_mlir.runtime.products import backends, kernels, known

SPEC = """
import lego_mlir as lego
from lego_mlir import Row, f32

M = lego.size("M", multiple_of=4)


@lego.kernel(grid=lego.cdiv(M, 64), block=64)
def twice(x: lego.Tensor(f32, Row(M)), y: lego.Tensor(f32, Row(M))):
    i = lego.block_id.x * 64 + lego.thread_id.x
    with lego.when(i < M):
        y[i] = x[i] + x[i]


@lego.kernel(grid=1, block=4)
def clear(x: lego.Tensor(f32, Row(4))):
    x[lego.thread_id.x] = 0.0
"""


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """A folder with the kernels of SPEC and one product."""
    folder = tmp_path_factory.mktemp("packed")
    spec, kernels = folder / "spec.py", folder / "kernels"
    spec.write_text(SPEC)
    assert main(["pack", str(spec), "-o", str(kernels), "--target", "sm_80"]) == 0
    assert main(["pack", "matmul", "--sizes", "32x16x64", "--target", "sm_90", "-o", str(kernels)]) == 0
    return kernels


@pytest.fixture
def machine(monkeypatch):
    known.known.clear()
    backends.forget()
    yield Machine().plug_in(monkeypatch)
    known.known.clear()
    backends.forget()
    driver.driver.cache_clear()


def test_what_a_folder_has(packed):
    kernels = lego_mlir.load_kernels(packed)
    assert list(kernels) == ["clear", "matmul_32x16x64_f16_f16_NN", "twice"]
    assert list(lego_mlir.load_kernels(packed / "twice.ptx")) == ["twice"]
    assert "packed kernel twice, sm_80" in repr(kernels["twice"])
    assert [argument.name for argument in kernels["twice"].host_entry.arguments] == ["x", "y"]


def test_a_packed_kernel_is_called_as_any_other(packed, machine):
    twice = lego_mlir.load_kernels(packed)["twice"]
    x, y = (DeviceArray(np.zeros(96, np.float32)) for _ in range(2))
    assert twice(x, y) is y
    assert machine.launches == [("twice", (2, 1, 1), (64, 1, 1), 0, 0)]
    twice.on(5)(x, y, M=96)
    twice.prepare(x, y)()
    assert [launch[-1] for launch in machine.launches] == [0, 5, 0]
    with pytest.raises(UsageError, match=r"size M = 95: .* a multiple of 4"):
        twice(DeviceArray(np.zeros(95, np.float32)), DeviceArray(np.zeros(95, np.float32)))
    with pytest.raises(UsageError, match="is packed for sm_80, and the arrays are on the CPU"):
        twice(np.zeros(96, np.float32))


def test_matmul_takes_its_kernel_from_a_folder(packed, machine, monkeypatch):
    OwnLibrary(monkeypatch)
    a, b = own(np.zeros((32, 64), np.float16)), own(np.zeros((64, 16), np.float16))
    monkeypatch.setattr(kernels, "compiled", None)
    assert lego_mlir.matmul(a, b, kernels=packed).shape == (32, 16)
    monkeypatch.setenv("LEGO_MLIR_KERNELS", str(packed))
    assert lego_mlir.matmul(a, b).shape == (32, 16)
    assert [launch[0] for launch in machine.launches] == ["matmul", "matmul"]
    message = (
        r"has no kernel matmul_64x16x32_f16_f16_TN; it has: clear, matmul_32x16x64_f16_f16_NN, twice; add it with "
        r"lego-mlir pack matmul --sizes 64x16x32 --dtype f16 --result f16 --layouts TN --target sm_90a -o"
    )
    with pytest.raises(UsageError, match=message):
        lego_mlir.matmul(a.T, own(np.zeros((32, 16), np.float16)))
    machine.set(major=8)
    backends.forget()
    with pytest.raises(UsageError, match="the code is for sm_90 and this device is sm_80; compile with --target sm_80"):
        lego_mlir.matmul(a, b, kernels=str(packed))


PROGRAM = """
kernels = lego_mlir.load_kernels(FOLDER)
x, y = (DeviceArray(np.zeros(96, np.float32)) for _ in range(2))
kernels["twice"](x, y)
a, b = own(np.zeros((32, 64), np.float16)), own(np.zeros((64, 16), np.float16))
assert lego_mlir.matmul(a, b, kernels=FOLDER).shape == (32, 16)
print(ctypes.c_int.in_dll(library, "stand_in_launches").value)
try:
    lego_mlir.matmul(a, b)
except lego_mlir.LegoError as error:
    print(error)
"""


def test_nothing_of_the_compiler_is_needed(packed):
    launches, message = printed_without_compiler(PROGRAM, FOLDER=str(packed))
    assert launches == "2"
    assert "has to be compiled, and sympy is not installed; install lego-mlir with its dependencies, or pack" in message
    assert "lego-mlir pack matmul --sizes 32x16x64 --target sm_90a -o kernels, and set LEGO_MLIR_KERNELS" in message


def test_folders_without_kernels(tmp_path, packed):
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(SpecError, match="no folder of packed kernels; write one with lego-mlir pack SPEC -o"):
            lego_mlir.load_kernels(path)
    (tmp_path / "twice.ptx").write_bytes((packed / "clear.ptx").read_bytes())
    (tmp_path / "twice.json").write_bytes((packed / "twice.json").read_bytes())
    with pytest.raises(SpecError, match=r"twice.ptx is not the code that its manifest describes"):
        packs.read_code(tmp_path / "twice.ptx")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["matmul"], "lego-mlir pack matmul needs --sizes, such as --sizes 512"),
        (["matmul", "--sizes", "12x"], "--sizes takes sizes MxNxK, or one number for a square product, not '12x'"),
        (["spec.py", "--sizes", "12"], "--sizes belong to lego-mlir pack matmul, not to spec.py"),
        (["missing.py"], "missing.py: no such file"),
        (["attention", "--narrow", "--gradients"], "lego-mlir pack attention --narrow has no gradients"),
        (["matmul", "--sizes", "16", "--target", "sm_9"], "unknown target 'sm_9'"),
    ],
)
def test_bad_input_to_pack(arguments, message, tmp_path, capsys):
    assert main(["pack", *arguments, "-o", str(tmp_path / "kernels")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "kernels").exists()


def test_attention_takes_its_kernels_from_a_folder(machine, monkeypatch, tmp_path, capsys):
    OwnLibrary(monkeypatch)
    folder, words = tmp_path / "kernels", ["--features", "64", "--causal", "--target", "sm_80"]
    assert main(["pack", "attention", *words, "-o", str(folder)]) == 0
    assert [file.suffix for file in folder.iterdir()].count(".ptx") == 1
    monkeypatch.setenv("LEGO_MLIR_KERNELS", str(folder))
    machine.set(major=8)
    for length in (64, 71, 300):  # one kernel for all lengths
        q, k = own(np.zeros((2, 4, length, 64), np.float16)), own(np.zeros((2, 4, 40, 64), np.float16))
        assert lego_mlir.attention(q, k, k, causal=True).shape == q.shape
    assert [launch[:2] for launch in machine.launches] == [("attention", (8 * n, 1, 1)) for n in (1, 1, 2)]
    remedy = r"has no kernel attention-f16-64-1-3x64x4; .* lego-mlir pack attention --dtype f16 --features 64 --group 1"
    with pytest.raises(UsageError, match=remedy):
        lego_mlir.attention(q, k, k)


def test_attention_of_8_bits_takes_its_kernel_from_a_folder(machine, monkeypatch, tmp_path, capsys):
    OwnLibrary(monkeypatch)
    folder, words = tmp_path / "kernels", ["--features", "64", "--dtype", "bf16", "--narrow", "--target", "sm_80"]
    assert main(["pack", "attention", *words, "-o", str(folder)]) == 0
    monkeypatch.setenv("LEGO_MLIR_KERNELS", str(folder))
    machine.set(major=8)
    q, scale = own(np.zeros((2, 4, 70, 64), f8e4m3fn.numpy)), own(np.ones(1, np.float32))
    found = lego_mlir.attention(q, q, q, scales=(scale, scale, scale))
    assert (found.shape, str(found.dtype)) == (q.shape, "bfloat16")
    assert [launch[:2] for launch in machine.launches] == [("attention", (8, 1, 1))]
    with pytest.raises(UsageError, match=r"lego-mlir pack attention --dtype f16 --narrow --features 64 --group 1"):
        lego_mlir.attention(q, q, q, scales=(scale, scale, scale), result="float16")


def test_attention_of_packed_sequences_takes_its_kernel_from_a_folder(machine, monkeypatch, tmp_path, capsys):
    OwnLibrary(monkeypatch)
    folder, words = tmp_path / "kernels", ["--features", "64", "--causal", "--target", "sm_80", "--varlen-heads"]
    assert main(["pack", "attention", *words, "4", "-o", str(folder)]) == 0
    monkeypatch.setenv("LEGO_MLIR_KERNELS", str(folder))
    machine.set(major=8)
    starts = own(np.array([0, 10, 71], np.int32))
    for heads in (4, 2):
        q = own(np.zeros((71, heads, 64), np.float16))
        if heads == 4:
            assert lego_mlir.attention_varlen(q, q, q, starts, causal=True).shape == q.shape
            assert [launch[0] for launch in machine.launches] == ["packed_attention"]
        else:
            with pytest.raises(UsageError, match=r"lego-mlir pack attention .* --causal --varlen-heads 2 --target"):
                lego_mlir.attention_varlen(q, q, q, starts, causal=True)
