"""Loads above stores to other tensors: random programs whose threads exchange values, and what stays in its place."""

import re
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ptx_runs import ptx_of, run_ptx

import lego_mlir as lego
from lego_mlir import Row, f32, i32
from lego_mlir.errors import UsageError
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.toolchain import early_loads
from lego_mlir.toolchain.compile import compile_kernel

THREADS, WIDTH, NAMES = 32, 4, "abcd"


@dataclass(frozen=True)
class Move:
    """`to[i, p] = first[(i + offset) % THREADS, q] * factor + second[i, r]`, in a branch of some threads or of all.

    `at` are the columns of a tensor of numbers with p, q and r: what is loaded may be what was stored, or not.
    """

    to: str
    first: str
    second: str
    offset: int
    factor: int
    threads: int
    at: tuple[int, int, int]


@st.composite
def phases(draw):
    """Lists of moves between barriers: what a phase writes is read by the thread that wrote it, until the barrier."""
    made = []
    for _ in range(draw(st.integers(1, 3))):
        written = draw(st.sets(st.sampled_from(NAMES), min_size=1, max_size=3))
        phase = []
        for _ in range(draw(st.integers(1, 5))):
            first = draw(st.sampled_from(NAMES))
            offset = 0 if first in written else draw(st.sampled_from((0, 1, 5)))
            others = draw(st.sampled_from(sorted(written))), draw(st.sampled_from(NAMES))
            factor, threads = draw(st.integers(-3, 3)), draw(st.sampled_from((THREADS, THREADS, 11)))
            at = draw(st.tuples(*[st.integers(0, WIDTH - 1)] * 3))
            phase.append(Move(others[0], first, others[1], offset, factor, threads, at))
        made.append((tuple(phase), draw(st.sampled_from((1, 1, 2, 3)))))
    return tuple(made)


def kernel_of(program):
    @lego.kernel(grid=(1,), block=(THREADS,))
    def k(
        a: lego.Tensor(i32, Row(THREADS, WIDTH)),
        b: lego.Tensor(i32, Row(THREADS, WIDTH)),
        c: lego.Tensor(i32, Row(THREADS, WIDTH)),
        d: lego.Tensor(i32, Row(THREADS, WIDTH)),
        columns: lego.Tensor(i32, Row(THREADS, WIDTH), range=(0, WIDTH)),
    ):
        tensors, i = dict(zip(NAMES, (a, b, c, d), strict=True)), lego.thread_id[0]
        own = [columns[i, k] for k in range(WIDTH)]
        for phase, times in program:
            for _ in lego.range(times):
                for move in phase:
                    p, q, r = (own[k] for k in move.at)
                    with lego.when(i < move.threads):
                        first = tensors[move.first][(i + move.offset) % THREADS, q]
                        tensors[move.to][i, p] = first * move.factor + tensors[move.second][i, r]
            lego.barrier()

    return k


def values_of(program, memories):
    i = np.arange(THREADS)
    for phase, times in program:
        for move in phase * times:
            p, q, r = (memories["columns"][:, k] for k in move.at)
            first = memories[move.first][(i + move.offset) % THREADS, q]
            made = first * np.int32(move.factor) + memories[move.second][i, r]
            wanted = i < move.threads
            memories[move.to][i[wanted], p[wanted]] = made[wanted]
    return memories


@given(phases(), st.randoms(use_true_random=False))
def test_random_programs(program, random):
    drawn = np.random.default_rng(random.randrange(1 << 30))
    memories = {name: drawn.integers(-9, 9, (THREADS, WIDTH), np.int32) for name in NAMES}
    memories["columns"] = drawn.integers(0, WIDTH, (THREADS, WIDTH), np.int32)
    wanted = values_of(program, {name: array.copy() for name, array in memories.items()})
    kernel = kernel_of(program)
    text, facts = ptx_of(kernel)
    flat = {name: array.reshape(-1) for name, array in memories.items()}
    assert run_ptx(kernel, flat, text, facts).clean
    for name in NAMES:
        np.testing.assert_array_equal(memories[name], wanted[name])


@lego.kernel(grid=(1,), block=(THREADS,))
def two_moves(a: lego.Tensor(f32, Row(THREADS)), b: lego.Tensor(f32, Row(THREADS)), c: lego.Tensor(f32, Row(THREADS))):
    i = lego.thread_id[0]
    a[i] = b[i] * 2.0
    c[i] = c[i] + 1.0


@lego.kernel(grid=(1,), block=(THREADS,))
def around_a_barrier(
    a: lego.Tensor(f32, Row(THREADS)), b: lego.Tensor(f32, Row(THREADS)), c: lego.Tensor(f32, Row(THREADS))
):
    i = lego.thread_id[0]
    a[i] = b[i] * 2.0
    lego.barrier()
    c[i] = c[i] + a[THREADS - 1 - i]


def accesses(ptx):
    """Loads (l), stores (s) and barriers (b) of global memory, in order."""
    found = re.findall(r"\t(ld\.global|st\.global|bar)", ptx)
    return "".join({"ld.global": "l", "st.global": "s", "bar": "b"}[word] for word in found)


def test_a_load_moves_above_the_store_to_another_tensor():
    assert accesses(ptx_of(two_moves)[0]) == "llss"


def test_a_barrier_is_not_passed():
    assert accesses(ptx_of(around_a_barrier)[0]) == "lsblls"


def test_a_module_that_does_not_promise_it_keeps_its_order():
    text = two_moves.mlir()
    assert accesses(compile_kernel(text).text) == "llss"
    assert accesses(compile_kernel(re.sub(r"(, )?lego\.apart", "", text)).text) == "lsls"


def test_a_launch_refuses_what_is_not_apart():
    memory = np.zeros(2 * THREADS, np.float32)
    a, b = memory[:THREADS], np.ones(THREADS, np.float32)
    for other in (a, memory[1 : THREADS + 1]):
        with pytest.raises(UsageError, match=r"a, which it writes, shares \d+ bytes of memory with c"):
            two_moves(a, b, other)


@pytest.mark.parametrize(
    ("store", "passes"),
    [
        ("store i32 1, ptr addrspace(3) %s, align 4", True),
        ("store ptr addrspace(3) %s, ptr addrspace(3) %p, align 8", True),
        ("store ptr addrspace(3) %s, ptr %p, align 8", False),
        ("store ptr addrspace(3) %s, ptr addrspace(1) %p, align 8", False),
        ("store volatile i32 1, ptr addrspace(3) %s, align 4", False),
        ("%o = atomicrmw add ptr %p, i32 1 monotonic, align 4, !alias.scope !2, !noalias !3", False),
        ("fence acq_rel", False),
    ],
)
def test_what_a_load_of_a_tensor_passes(store, passes):
    load = "  %l = load i32, ptr %y, align 4, !alias.scope !3, !noalias !2"
    nodes = ['!0 = !{!"x", !4}', '!1 = !{!"y", !4}', "!2 = !{!0}", "!3 = !{!1}", '!4 = !{!"k"}']
    made = early_loads.moved("\n".join([f"  {store}", load, "  ret void", *nodes])).split("\n")
    assert (made[0] == load) is passes


def test_no_store_has_more_values_loaded_above_it_than_registers_are_given():
    lines = ['!0 = !{!"x", !4}', '!1 = !{!"y", !4}', "!2 = !{!0}", "!3 = !{!1}", '!4 = !{!"k"}']
    y, x = "!alias.scope !3, !noalias !2", "!alias.scope !2, !noalias !3"
    count = early_loads.WORDS + 3
    body = [f"  store i32 1, ptr %x, align 4, {x}"]
    body += [f"  %l{n} = load i32, ptr %p{n}, align 4, {y}" for n in range(count)]
    made = early_loads.moved("\n".join([*body, "  ret void", *lines])).split("\n")
    assert made.index(body[0]) == early_loads.WORDS
    assert sorted(made) == sorted([*body, "  ret void", *lines])


def test_a_load_stays_behind_a_store_to_the_same_memory_through_the_cluster():
    """The block's own rank may be the one that it stores to."""

    @lego.kernel(grid=2, block=32, cluster=2)
    def mailbox(x: lego.Tensor(i32, Row(64)), y: lego.Tensor(i32, Row(64))):
        own, box = lego.shared(i32, Row(32)), lego.shared(i32, Row(32))
        i, g = lego.thread_id.x, lego.block_id.x * 32 + lego.thread_id.x
        own[i] = x[g]
        box[i] = -9
        lego.cluster_barrier()
        box.of_block(lego.cluster_rank)[i] = own[i] + 1
        y[g] = box[i]
        lego.cluster_barrier()

    memories = {"x": np.arange(64, dtype=np.int32), "y": np.zeros(64, np.int32)}
    assert not PtxRun(target="sm_90")(mailbox, memories, {}).faults
    np.testing.assert_array_equal(memories["y"], memories["x"] + 1)
