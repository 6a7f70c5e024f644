"""Objects loaded without a linker: the same functions as with one, and a refusal of all that is not understood."""

import ctypes
import platform
import struct
from pathlib import Path

import numpy as np
import pytest

from lego_mlir.runtime import cpu, image
from lego_mlir.structured import mlir_text
from lego_mlir.structured.language import parse
from lego_mlir.structured.lower import lower
from lego_mlir.structured.vector import generate
from lego_mlir.structured.vector.generate import Variant

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the loader is for x86-64")

# tables of positions, scratch, several functions: everything that needs a relocation
TEXT = "A = Matrix(20, 20); S = Symmetric(L, 20, storage=packed); L = LowerTriangular(20); A = S*L;"


@pytest.fixture(scope="module")
def code():
    function = generate.emit(lower(parse(TEXT)), "k", "f64", Variant(8, 8, 2, True))
    return cpu.assemble(mlir_text.text(function), ("k",))


def test_the_same_results_as_with_llvms_linker(code):
    results = []
    for library in (image.load(code), cpu.linked(code, ("k",))):
        random = np.random.default_rng(1)
        arrays = [np.zeros((20, 20)), random.uniform(size=210), random.uniform(size=(20, 20))]
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(library.address("k"))
        call(*(array.ctypes.data for array in arrays))
        results.append(arrays[0])
    assert np.array_equal(*results)
    assert results[0].any()
    assert image.load(code).address("k_core")


def test_cpu_load_takes_it(code):
    assert isinstance(cpu.load(code, ("k",)), image.Image)


def test_a_function_of_the_c_library():
    library = image.load(
        cpu.assemble(
            """func.func @grow(%x: memref<1xf64>) {
            %c0 = arith.constant 0 : index
            %v = memref.load %x[%c0] : memref<1xf64>
            %w = math.exp %v : f64
            memref.store %w, %x[%c0] : memref<1xf64>
            return }""",
            ("grow",),
        )
    )
    x = np.array([2.0])
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.address("grow"))(x.ctypes.data)
    assert x[0] == pytest.approx(np.exp(2.0))


@pytest.mark.skipif(platform.system() != "Linux", reason="this system has no /proc")
def test_code_may_not_be_written(code):
    library = image.load(code)
    at = library.address("k")
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, rights, *_ = line.split()
        low, high = (int(end, 16) for end in place.split("-"))
        if low <= at < high:
            assert rights.startswith("r-x")
            return
    pytest.fail("the code is nowhere")


def changed(code, at, kind, value):
    copy = bytearray(code)
    struct.pack_into(kind, copy, at, value)
    return bytes(copy)


def test_what_is_not_understood_is_refused(code):
    with pytest.raises(image.UnknownObjectError, match="only relocatable objects of x86-64"):
        image.load(b"\x7fELF")
    with pytest.raises(image.UnknownObjectError, match="only relocatable objects of x86-64"):
        image.load(changed(code, 18, "<H", 183))
    sections = image._sections(code)
    table = next(section for section in sections if section.kind == image.RELA)
    with pytest.raises(image.UnknownObjectError, match="relocation of kind 2"):
        image.load(changed(code, table.offset + 8, "<I", 2))
    (first,) = struct.unpack_from("<Q", code, 40)
    with pytest.raises(image.UnknownObjectError, match="without addends"):
        image.load(changed(code, first + 64 * sections.index(table) + 4, "<I", image.REL))
    text = next(section for section in sections if section.size and section.flags & image.ALLOCATED)
    with pytest.raises(image.UnknownObjectError, match="is of kind 1 with flags 0x"):
        image.load(changed(code, first + 64 * sections.index(text) + 8, "<Q", text.flags | image.WRITABLE))


def test_a_symbol_that_is_nowhere_is_refused():
    with pytest.raises(image.UnknownObjectError, match="'nowhere_at_all' is defined nowhere"):
        image._value("nowhere_at_all", None)
