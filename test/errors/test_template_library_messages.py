"""What the builders of shipped kernels refuse: sizes, letters, types and blocks that would give wrong or no kernels."""

import re

import pytest

import lego_mlir as lego
from lego_mlir import Row
from lego_mlir.errors import TemplateError
from lego_mlir.templates.library.attention import attention
from lego_mlir.templates.library.matmul import batched_matmul, grouped_gemm, matmul, matmul_fp8, relayout
from lego_mlir.templates.library.nw import nw
from lego_mlir.templates.library.rows import layer_norm, softmax
from lego_mlir.templates.library.stencil import bricks, row_major, stencil

REFUSED = {
    "matmul: tile is (rows, columns, depth), got (64, 64)": lambda: matmul(128, 128, 128, tile=(64, 64)),
    "matmul: tile's columns must be at least 1, got 0": lambda: matmul(128, 128, 128, tile=(64, 0, 64)),
    "matmul: grid must be 2 x 1, got 2 x 2": lambda: matmul(256, 256, 64, grid=Row(2, 2)),
    "matmul: persistent=-1 is the number of programs, or 0": lambda: matmul(128, 128, 128, persistent=-1),
    'a matrix is "N" (row-major) or "T" (column-major), got \'C\'': lambda: matmul_fp8(128, 128, 128, a="C"),
    "batched_matmul: a must be 4 x 64 x 32, got 4 x 32 x 32": lambda: batched_matmul(4, 64, 64, 32, a=Row(4, 32, 32)),
    "batched_matmul: c must be 4 x 64 x 64, got 64 x 64": lambda: batched_matmul(4, 64, 64, 32, c=Row(64, 64)),
    "grouped_gemm: programs must be at least 1, got 0": lambda: grouped_gemm(programs=0),
    "grouped_gemm: dtype is one of float16, bfloat16, float32, float8e4nv, float8e5, got 'half'": lambda: grouped_gemm(
        dtype="half"
    ),
    "relayout: a matrix has two axes, got Row(4, 4, 4)": lambda: relayout(Row(4, 4, 4), Row(4, 4, 4)),
    "relayout: destination must be 4 x 4, got 8 x 8": lambda: relayout(Row(4, 4), Row(8, 8)),
    "softmax: at_a_time must be at least 1, got 0": lambda: softmax(64, 100, at_a_time=0),
    "a whole row is one block, so its width must be a number, got N": lambda: softmax(64, lego.size("N")),
    "layer_norm: stages must be at least 1, got 0": lambda: layer_norm(64, 100, stages=0),
    "attention: order is one of bhsd, bshd, got 'sbhd'": lambda: attention(1, 1, 64, 64, order="sbhd"),
    "attention: tile's keys must be at least 1, got 0": lambda: attention(1, 1, 64, 64, tile=(64, 0)),
    "attention: features=80 must be a power of two": lambda: attention(1, 1, 64, 80),
    "nw: b must be at least 1, got 0": lambda: nw(64, 0),
    "nw: a block of 2048 has 2048 threads, and at most 1024 can be launched": lambda: nw(2048, 2048),
    "nw: the buffer of a block of b=256 takes 264196 bytes of shared memory, and a block has 232448 at most": lambda: (
        nw(512, 256, "row-major")
    ),
    "stencil: layout must be 64 x 64 x 64, got 32 x 32 x 32": lambda: stencil(64, "7-point", row_major(32)),
    "stencil: block's y must be at least 1, got 0": lambda: stencil(64, "7-point", row_major(64), block=(1, 0, 32)),
    "stencil: a block of 8 x 16 x 16 has 2048 threads": lambda: stencil(
        64, "7-point", row_major(64), block=(8, 16, 16)
    ),
    "bricks: side must be at least 1, got 0": lambda: bricks(64, 0),
}


@pytest.mark.parametrize("said", REFUSED)
def test_at_the_door(said):
    with pytest.raises(TemplateError, match=re.escape(said)):
        REFUSED[said]()


def test_a_block_larger_than_triton_takes():
    template = matmul(4096, 4096, 4096, tile=(2048, 1024, 16))
    with pytest.raises(TemplateError, match="a block of 2048 x 1024 exceeds the limit of 1048576 elements; use"):
        template.render()
