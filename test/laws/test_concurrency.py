"""Threads, forks and spawned processes find what one thread finds, and end.

Each scene runs in a separate process, because a failure is a crash or a deadlock; this file is also the script.
"""

import multiprocessing
import os
import subprocess
import sys
import threading
import time

import pytest

THREADS = 4
ENOUGH_SECONDS = 300  # a deadlock, not a slow machine


def _prove(round_):
    import lego_mlir as lego

    M, N = lego.size("M"), lego.size("N")
    i, j = lego.symbols("i j")
    box = {i.expr: lego.Range(0, M), j.expr: lego.Range(0, N)}
    claims = [
        (i * i + j * j >= 2 * i * j) & (i * N + j < M * N),
        lego.minimum(M - 8 * (i // (8 * N)), 8) >= 1,
        i**3 + j**3 != (i + round_) ** 3,
        (i ^ j) <= i + j,
        j * N * N >= i * j * j * M - i * i * i - round_,  # whose answer no other round has cached
    ]
    return [str(lego.prove(claim, box)) for claim in claims]


def _derive(_):
    import lego_mlir as lego
    from lego_mlir import OrderBy, gallery

    M, N = lego.size("M"), lego.size("N", multiple_of=8)
    i, j = lego.symbols("i j")
    flat = (i * N + j) % N * M + (i * N + j) // N
    found = [lego.simplify(flat, {i: lego.Range(0, M), j: lego.Range(0, N)})]
    for layout in (gallery.hilbert(8), gallery.morton(8), OrderBy(gallery.antidiagonal(6)).GroupBy([4, 9])):
        box = {s: lego.Range(0, n) for s, n in zip((i, j), lego.as_layout(layout).dims(), strict=False)}
        found.append(lego.simplify(lego.as_layout(layout).apply(*list(box)), box))
    return [str(part) for derivation in found for part in (derivation.expr, *derivation.steps)]


def _check(_):
    import lego_mlir as lego
    from lego_mlir import GenP, Row, gallery

    n = lego.size("n", multiple_of=4)
    layouts = [
        gallery.antidiagonal(12),
        GenP([n, 4], lambda i, j: i * 4 + (j ^ 1), lambda p: (p // 4, p % 4 ^ 1)),
        GenP([n], lambda i: i // 2, lambda p: p * 2),
        Row(n, 8).tile_by([n // 4, 2], [4, 4]),
    ]
    return [str(layout.check()) for layout in layouts]


def _kernel():
    import lego_mlir as lego
    from lego_mlir import Row, f32, gallery

    M, N = lego.size("M", multiple_of=32), lego.size("N", multiple_of=32)

    @lego.kernel(grid=(N // 32, M // 32), block=(32, 8))
    def turned(src: lego.Tensor(f32, Row(M, N)), dst: lego.Tensor(f32, Row(N, M))):
        bx, by, tx, ty = *lego.block_id[:2], *lego.thread_id[:2]
        tile = lego.shared(f32, gallery.xor_swizzle(32, 32))
        a, b = src.tile_by([M // 32, N // 32], [32, 32]), dst.tile_by([N // 32, M // 32], [32, 32])
        for r in lego.unroll(0, 32, 8):
            tile[ty + r, tx] = a[by, bx, ty + r, tx] * 0.5
        lego.barrier()
        for r in lego.unroll(0, 32, 8):
            b[bx, by, ty + r, tx] = lego.exp2(tile[tx, ty + r])

    return turned


def _compile(_):
    from lego_mlir.toolchain.compile import compile_kernel

    compiled = compile_kernel(_kernel(), target="sm_80")
    return [compiled.stage("mlir"), compiled.text, str(compiled.manifest)]


def _run(round_):
    import numpy as np

    from lego_mlir.interp.traced_kernels import run_kernel

    source, result = np.arange(64 * 32, dtype=np.float32) % (7 + round_), np.zeros(64 * 32, np.float32)
    report = run_kernel(_kernel(), {"src": source, "dst": result}, {"M": 64, "N": 32})
    return [result.tolist(), report.clean]


def _render(_):
    import lego_mlir as lego
    from lego_mlir import gallery
    from lego_mlir.templates import Template

    i, j = lego.symbols("i j")
    box = {i.expr: lego.Range(0, 8), j.expr: lego.Range(0, 8)}
    text = "x = {{ A[i, j] }}; y = {{ B[i, j] }}"
    layouts = {"A": gallery.hilbert(8), "B": gallery.xor_swizzle(8, 8)}
    return [
        Template.of(text, f"t.{kind}.jinja", i=i, j=j, ranges=box, **layouts).render().text for kind in ("py", "cu")
    ]


TASKS = {"prove": _prove, "derive": _derive, "check": _check, "compile": _compile, "run": _run, "render": _render}


def _all(round_):
    return {name: task(round_) for name, task in TASKS.items()}


def threads():
    """All tasks in each thread, each beginning at another; a kernel that all share is traced by all at once."""
    rounds = 2
    alone = [_all(round_) for round_ in range(rounds)]
    _forget()
    shared, found, barrier = _kernel(), {}, threading.Barrier(THREADS)

    def work(number):
        barrier.wait()
        found[number] = [shared.mlir()]
        for round_ in range(rounds):
            begin = number % len(TASKS)
            names = list(TASKS)[begin:] + list(TASKS)[:begin]
            results = {name: TASKS[name](round_) for name in names}
            found[number].append({name: results[name] for name in TASKS})

    workers = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == THREADS, "a thread ended by an exception"
    for number in range(THREADS):
        assert found[number] == [_kernel().mlir(), *alone], f"thread {number} found something else"


def _forget():
    from lego_mlir.expr import solver
    from lego_mlir.expr.simplify import forget

    forget()
    solver._solve.cache_clear()


def fork():
    """The child of a fork proves and derives what the parent does, also while other threads of the parent prove."""
    expected = [_prove(0), _derive(0), _check(0)]
    stop = threading.Event()

    def keep_proving():
        round_ = 1
        while not stop.is_set():
            _prove(round_)
            round_ += 1

    workers = [threading.Thread(target=keep_proving) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(4):
            child = os.fork()
            if child == 0:
                _forget()
                os._exit(0 if [_prove(0), _derive(0), _check(0)] == expected else 3)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            time.sleep(0.05)
    finally:
        stop.set()
        for worker in workers:
            worker.join()


def spawn():
    """A spawned process begins anew and finds the same; derivations, verdicts and sizes travel to it and back."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(_all, [0, 0]) == [_all(0)] * 2


SCENES = {"threads": threads, "spawn": spawn} | ({"fork": fork} if hasattr(os, "fork") else {})


@pytest.mark.parametrize("scene", SCENES)
def test_results_are_those_of_one_thread(scene):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", __file__, scene],
        capture_output=True,
        text=True,
        timeout=ENOUGH_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]


if __name__ == "__main__":
    SCENES[sys.argv[1]]()
