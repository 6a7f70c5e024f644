"""Layout conversions and gathers in Gluon and Triton: the same tiles in the same registers as ours."""

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def convert(
    x_ptr, y_ptr, SOURCE: gl.constexpr, TARGET: gl.constexpr, M: gl.constexpr, N: gl.constexpr, TURNS: gl.constexpr
):
    first = gl.program_id(0) * M * N
    rows = gl.arange(0, M, layout=gl.SliceLayout(1, SOURCE))
    columns = gl.arange(0, N, layout=gl.SliceLayout(0, SOURCE))
    x = gl.load(x_ptr + first + rows[:, None] * N + columns[None, :])
    for _ in range(TURNS):
        there = gl.convert_layout(x, TARGET) + 1
        x = gl.convert_layout(there, SOURCE)
    gl.store(y_ptr + first + rows[:, None] * N + columns[None, :], x)


@gluon.jit
def convert_once(x_ptr, y_ptr, SOURCE: gl.constexpr, TARGET: gl.constexpr, M: gl.constexpr, N: gl.constexpr):
    rows = gl.arange(0, M, layout=gl.SliceLayout(1, SOURCE))
    columns = gl.arange(0, N, layout=gl.SliceLayout(0, SOURCE))
    x = gl.load(x_ptr + rows[:, None] * N + columns[None, :])
    x = gl.convert_layout(x, TARGET)
    rows = gl.arange(0, M, layout=gl.SliceLayout(1, TARGET))
    columns = gl.arange(0, N, layout=gl.SliceLayout(0, TARGET))
    gl.store(y_ptr + rows[:, None] * N + columns[None, :], x)


@triton.jit
def gather(x_ptr, i_ptr, y_ptr, M: tl.constexpr, N: tl.constexpr, TURNS: tl.constexpr, AXIS: tl.constexpr):
    offsets = tl.program_id(0) * M * N + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + offsets)
    index = tl.load(i_ptr + offsets)
    for _ in range(TURNS):
        x = tl.gather(x, index, axis=AXIS)
    tl.store(y_ptr + offsets, x)


@gluon.jit
def reduce_once(x_ptr, y_ptr, SOURCE: gl.constexpr, AXIS: gl.constexpr, M: gl.constexpr, N: gl.constexpr):
    rows = gl.arange(0, M, layout=gl.SliceLayout(1, SOURCE))
    columns = gl.arange(0, N, layout=gl.SliceLayout(0, SOURCE))
    x = gl.load(x_ptr + rows[:, None] * N + columns[None, :])
    kept = gl.arange(0, N if AXIS == 0 else M, layout=gl.SliceLayout(AXIS, SOURCE))
    gl.store(y_ptr + kept, gl.sum(x, AXIS))


@gluon.jit
def reduce_all(x_ptr, y_ptr, SOURCE: gl.constexpr, N: gl.constexpr):
    x = gl.load(x_ptr + gl.arange(0, N, layout=SOURCE))
    gl.store(y_ptr, gl.sum(x, 0))
