"""Packed kernels of batched and grouped products: found by name, called where MLIR, SymPy and Z3 are missing."""

import ctypes

import numpy as np
import pytest
from cuda_stand_in import Machine, OwnLibrary, own, printed_without_compiler

import lego_mlir
from lego_mlir.choices import role_tiles
from lego_mlir.cli.main import main
from lego_mlir.errors import UsageError
from lego_mlir.runtime import driver
from lego_mlir.runtime.calls import Calls
from lego_mlir.runtime.products import known, role_kernels

SHAPE = (64, 128)
"""Of the only tile in the folder."""


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """A folder with a kernel of each product."""
    folder = tmp_path_factory.mktemp("packed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(role_tiles, "SHAPES", (SHAPE,))
        for what in ("batched_matmul", "grouped_matmul"):
            assert main(["pack", what, "--target", "sm_90a", "-o", str(folder / "kernels")]) == 0
    return folder / "kernels"


@pytest.fixture
def machine(monkeypatch):
    monkeypatch.setattr(role_tiles, "SHAPES", (SHAPE,))
    forgotten = (role_tiles.choose.cache_clear, role_kernels._packed.cache_clear, known.known.clear)
    for forget in forgotten:
        forget()
    found = Machine().plug_in(monkeypatch)
    OwnLibrary(monkeypatch)
    yield found
    for forget in forgotten:
        forget()
    driver.driver.cache_clear()


def zeros(*shape, dtype=np.float16):
    return own(np.zeros(shape, dtype))


def test_products_take_their_kernels_from_a_folder(packed, machine, monkeypatch):
    names = ["batched_matmul-f16-f16-NN-8-64x128x8-132", "grouped_matmul-f16-f16-NN-8-64x128x8-132"]
    assert list(lego_mlir.load_kernels(packed)) == names
    monkeypatch.setenv("LEGO_MLIR_KERNELS", str(packed))
    monkeypatch.setattr(role_kernels, "_built", None)
    a, b, ends = zeros(20, 16), zeros(3, 16, 24), zeros(3, dtype=np.int32)
    for _ in range(2):
        assert lego_mlir.grouped_matmul(a, b, ends).shape == (20, 24)
        assert lego_mlir.matmul(zeros(3, 20, 16), b).shape == (3, 20, 24)
    assert [launch[0] for launch in machine.launches] == ["grouped_product", "batched_product"] * 2


def test_a_second_call_binds_nothing(packed, machine, monkeypatch):
    monkeypatch.setenv("LEGO_MLIR_KERNELS", str(packed))
    launched = []
    machine.kernels["batched_product"] = lambda parameters, grid: launched.append(
        [ctypes.c_uint64.from_address(parameters[i]).value for i in range(3)]  # the first word of a tensor map
    )
    lego_mlir.matmul(zeros(2, 3, 20, 16), zeros(2, 1, 16, 24))
    monkeypatch.setattr(Calls, "_bound", None)
    a, b = zeros(2, 3, 20, 16), zeros(2, 1, 16, 24)
    c = lego_mlir.matmul(a, b)
    assert c.shape == (2, 3, 20, 24)
    assert launched[-1] == [x.__array_interface__["data"][0] for x in (a, b, c)]


def test_kernels_that_are_missing(packed, machine, monkeypatch):
    monkeypatch.setenv("LEGO_MLIR_KERNELS", str(packed))
    a, ends = zeros(20, 16), zeros(3, dtype=np.int32)
    message = r"has no kernel grouped_matmul-f16-f32-NN-8-64x128x8-132; it has: .*--dtype f16 --result f32 --layouts NN"
    with pytest.raises(UsageError, match=message):
        lego_mlir.grouped_matmul(a, zeros(3, 16, 24), ends, result="float32")
    with pytest.raises(UsageError, match="let N be a multiple of 8, for which kernels are packed"):
        lego_mlir.matmul(zeros(3, 20, 16), zeros(3, 9, 16).swapaxes(1, 2))


PROGRAM = """
import os
from lego_mlir.choices import role_tiles

os.environ["LEGO_MLIR_KERNELS"] = FOLDER
role_tiles.SHAPES = (SHAPE,)
a, b = own(np.zeros((20, 16), np.float16)), own(np.zeros((3, 16, 24), np.float16))
print(lego_mlir.grouped_matmul(a, b, own(np.zeros(3, np.int32))).shape)
print(lego_mlir.matmul(own(np.zeros((3, 20, 16), np.float16)), b).shape)
"""


def test_nothing_of_the_compiler_is_needed(packed):
    found = printed_without_compiler(PROGRAM, FOLDER=str(packed), SHAPE=SHAPE)
    assert found == ["(20, 24)", "(3, 20, 24)"]


@pytest.mark.parametrize(("arguments", "message"), [
    (["grouped_matmul", "--layouts", "TT"], "pack grouped_matmul takes the layouts NN, NT, TN, not TT"),
    (["batched_matmul", "--sizes", "512"], "not to batched_matmul; its kernels take all sizes"),
])  # fmt: skip
def test_bad_input_to_pack(arguments, message, tmp_path, capsys):
    assert main(["pack", *arguments, "-o", str(tmp_path / "kernels")]) == 2
    assert message in capsys.readouterr().err
