"""Kernels that the tests with other libraries call."""

import lego_mlir as lego
from lego_mlir import Col, Row, f32, i32

M = lego.size("M")
THREADS = 128


@lego.kernel(grid=(lego.cdiv(M, THREADS),), block=THREADS)
def axpy(x: lego.Tensor(f32, Row(M)), y: lego.Tensor(f32, Row(M)), alpha: f32, z: lego.Tensor(f32, Row(M))):
    t = lego.block_id[0] * THREADS + lego.thread_id[0]
    with lego.when(t < M):
        z[t] = x[t] * alpha + y[t]


@lego.kernel(grid=1, block=THREADS)
def double(x: lego.Tensor(f32, Row(THREADS))):
    t = lego.thread_id[0]
    x[t] = x[t] * 2.0


@lego.kernel(grid=1, block=THREADS)
def two_results(
    x: lego.Tensor(i32, Row(THREADS)),
    shift: i32,
    up: lego.Tensor(i32, Row(THREADS)),
    down: lego.Tensor(i32, Row(THREADS)),
):
    t = lego.thread_id[0]
    up[t] = x[t] + shift
    down[t] = x[t] - shift


@lego.kernel(grid=1, block=(8, 16))
def columns(x: lego.Tensor(f32, Row(16, 8)), y: lego.Tensor(f32, Col(16, 8))):
    j, i = lego.thread_id[:2]
    y[i, j] = x[i, j] + 1.0
