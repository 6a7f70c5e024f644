"""A launch that no GPU accepts is refused by the interpreter and by the launcher in the same words.

So are arguments that the kernel does not have.
"""

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f32, interp
from lego_mlir.errors import InterpreterError, UsageError
from lego_mlir.runtime.cuda import launch_extents
from lego_mlir.toolchain import compile_kernel

B = lego.size("B")
TOO_MANY = (
    "grid z = 70000: a launch takes at most 65535 blocks along z, and 2147483647 along x; put the long axis there"
)


@lego.kernel(grid=(1, 1, B), block=1)
def along_z(x: lego.Tensor(f32, Row(B))):
    x[lego.block_id.z] = 1.0


def test_a_kernel_of_symbolic_grid():
    with pytest.raises(InterpreterError, match=TOO_MANY):
        interp.run_kernel(along_z, {"x": np.zeros(70000, np.float32)}, {"B": 70000})
    x = np.zeros(65535, np.float32)
    assert interp.run_kernel(along_z, {"x": x}, {"B": 65535}, blocks=[65534]).clean and x[-1] == 1


def test_the_launcher_has_the_same_message():
    with pytest.raises(UsageError, match=TOO_MANY):
        launch_extents("grid", (1, 1, "B"), None, {"B": 70000}, "along_z")
    assert launch_extents("grid", (1, 1, "B"), None, {"B": 65535}, "along_z") == (1, 1, 65535)
    with pytest.raises(UsageError, match="block z = 65: a launch takes at most 64 threads along z"):
        launch_extents("block", None, (1, 1, 65), {}, "k")


def test_a_launch_from_the_host():
    text = """gpu.container_module {
      gpu.module @m { gpu.func @k() kernel { gpu.return } }
      func.func @host() {
        %c1 = arith.constant 1 : index
        %many = arith.constant 65536 : index
        gpu.launch_func @m::@k blocks in (%c1, %many, %c1) threads in (%c1, %c1, %c1)
        return
      }
    }"""
    text = text.replace("gpu.container_module", "module attributes {gpu.container_module}")
    with pytest.raises(InterpreterError, match="@k: grid y = 65536: a launch takes at most 65535 blocks along y"):
        interp.launch(text, "host")


def test_a_size_gets_the_maximum_that_follows_from_its_extent():
    manifest = compile_kernel(along_z, emit="ptx").manifest
    assert [size["max"] for size in manifest["kernels"][0]["sizes"]] == [65535]


@pytest.mark.parametrize(
    ("arguments", "sizes", "message"),
    [
        ({"x": np.zeros(3, np.float32), "y": 1}, {"B": 3}, "kernel along_z has no argument y; it has: x"),
        ({"x": np.zeros(3, np.float32)}, {"B": 3, "b": 3}, "kernel along_z has no size b; it has: B"),
    ],
)
def test_a_name_that_the_kernel_does_not_have(arguments, sizes, message):
    with pytest.raises(InterpreterError, match=message):
        interp.run_kernel(along_z, arguments, sizes)
