"""CUDA kernels in this folder: features (cuda_features.cu) and textbook algorithms (cuda_algorithms.cu). Needs nvcc."""

from pathlib import Path

import numpy as np
import torch
from cases import add

from lego_mlir import sanitize
from lego_mlir.sanitize.cuda_text import compile_to_ptx

HERE = Path(__file__).parent
TOLERANCE = 1e-5
_texts: dict[str, str] = {}


def kernel(file: str, name: str):
    """A kernel of a file that is compiled once; only its own entry is kept for the recordings."""
    if file not in _texts:
        path = HERE / file
        _texts[file] = compile_to_ptx(path.read_text(), path, "sm_90")
    return sanitize.ptx(_texts[file], name)


def f(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def n(*shape, high=100, dtype=np.int32, low=0):
    return np.random.default_rng(1).integers(low, high, shape).astype(dtype)


def z(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def run(name, grid, block, arguments, check=None, *, shared=0, file="cuda_algorithms.cu"):
    """A case: `check` gives (found, wanted) from the arguments before and after."""

    def call():
        values = arguments()
        before = [v.copy() if isinstance(v, np.ndarray) else v for v in values]
        report = kernel(file, name)[grid, block, shared](*values)
        if report.printed:
            print(report.printed.splitlines()[0])
        if check is None:
            return None
        found, wanted = check(before, values)
        pair = [torch.tensor(np.asarray(v).astype(np.float64)) for v in (found, wanted)]
        return pair[0].reshape(pair[1].shape), pair[1]

    add(name, call)


run("saxpy", 4, 128, lambda: [f(1000), f(1000), 2.0, 1000], lambda b, a: (a[1], b[1] + 2 * b[0]))
run("transpose", (3, 2), (32, 8), lambda: [f(50, 70), z(70, 50), 50, 70], lambda b, a: (a[1], b[0].T))
run("product", (4, 4), (16, 16), lambda: [f(64, 64), f(64, 64), z(64, 64), 64], lambda b, a: (a[2], b[0] @ b[1]))
run("tree_sum", 3, 256, lambda: [f(1300), z(3), 1300], lambda b, a: (a[1].sum(), b[0].sum()))
run("warp_sum", 5, 256, lambda: [n(5, 700), z(5, dtype=np.int32), 700], lambda b, a: (a[1], b[0].sum(1)))
run("hillis_steele", 1, 256, lambda: [n(200), z(200, dtype=np.int32), 200], lambda b, a: (a[1], b[0].cumsum()))
run("blelloch", 1, 256, lambda: [n(512), z(512, dtype=np.int32)], lambda b, a: (a[1], b[0].cumsum() - b[0]))
run("bitonic", 3, 256, lambda: [n(3, 256, high=10000)], lambda b, a: (a[0], np.sort(b[0], 1)))
run("odd_even", 1, 64, lambda: [n(100, high=10000), 100], lambda b, a: (a[0], np.sort(b[0])))
run("histogram", 3, 128, lambda: [n(3000, high=256, dtype=np.uint8), z(256, dtype=np.uint32), 3000],
    lambda b, a: (a[1], np.bincount(b[0], minlength=256)))  # fmt: skip
run("radix_ranks", 1, 256, lambda: [n(256, high=1 << 20, dtype=np.uint32), z(256, dtype=np.uint32), 3],
    lambda b, a: (a[1], b[0][np.argsort(b[0] >> 3 & 1, kind="stable")]))  # fmt: skip
run("stencil", 4, 128, lambda: [f(500), z(500), 500],
    lambda b, a: (a[1], np.convolve(b[0], [0.125, 0.25, 0.5, 0.25, 0.125], "same")))  # fmt: skip
run("jacobi", (3, 2), (16, 16), lambda: [f(30, 40), z(30, 40), 30, 40], lambda b, a: (
    a[1][1:-1, 1:-1], sum(np.roll(b[0], s, axis) for axis in (0, 1) for s in (1, -1))[1:-1, 1:-1] / 4))  # fmt: skip
run("life", (2, 2), (16, 16), lambda: [n(32, 32, high=2, dtype=np.uint8), z(32, 32, dtype=np.uint8), 32])
run("convolution", 3, 128, lambda: [f(308), f(9), z(300), 300],
    lambda b, a: (a[2], np.correlate(b[0], b[1], "valid")), shared=136 * 4)  # fmt: skip


def rows():
    lengths = n(20, high=60)
    starts = np.concatenate([[0], lengths.cumsum()]).astype(np.int32)
    return [starts, n(starts[-1], high=50), f(starts[-1]), f(50), z(20), 20]


run("sparse_rows", 5, 128, rows, lambda b, a: (
    a[4], [sum(b[2][i] * b[3][b[1][i]] for i in range(b[0][r], b[0][r + 1])) for r in range(20)]))  # fmt: skip
run("edit_distance", 1, 128, lambda: [n(100, high=4), n(100, high=4)[::-1].copy(), z(1, dtype=np.int32), 100])
run("floyd", (3, 3), (16, 16), lambda: [n(40, 40, high=100), 40, 7])
run("mandelbrot", (4, 4), (16, 16), lambda: [z(64, 64, dtype=np.int32), 64, 64, 50])
run("random_bits", 4, 128, lambda: [z(500, dtype=np.uint32), 7, 500])
run("hashed", 2, 128, lambda: [np.arange(200, dtype=np.uint32) * 977, np.full(512, 0xFFFFFFFF, np.uint32), 200, 512],
    lambda b, a: (sorted(a[1][a[1] != 0xFFFFFFFF]), sorted(b[0])))  # fmt: skip
run("crc32", 2, 64, lambda: [n(128, 20, high=256, dtype=np.uint8), z(128, dtype=np.uint32), 20],
    lambda b, a: (a[1], [__import__("zlib").crc32(row.tobytes()) for row in b[0]]))  # fmt: skip
run("walsh", 3, 256, lambda: [f(3, 512)])
run("last_block", 6, 64, lambda: [n(384), z(6, dtype=np.int32), z(1, dtype=np.uint32), z(1, dtype=np.int32)],
    lambda b, a: (a[3], b[0].sum()))  # fmt: skip
run("decoupled", 6, 128, lambda: [n(768), z(6, dtype=np.int32), z(6, dtype=np.int32), z(768, dtype=np.int32)],
    lambda b, a: (a[3], b[0].cumsum()))  # fmt: skip
run("locked", 8, 32, lambda: [z(1, dtype=np.int32), z(1, dtype=np.int32)], lambda b, a: (a[1], 36))
HALVES = lambda: f(128, 16).astype(np.float16).view(np.uint32)
run("dot_half", 2, 64, lambda: [HALVES(), HALVES(), z(128), 8])
run("dot_bytes", 2, 64, lambda: [n(128, 8, low=-(2**31), high=2**31), n(128, 8, low=-(2**31), high=2**31),
                                 z(128, dtype=np.int32), 8])  # fmt: skip
run("roundings", 2, 128, lambda: [f(200), z(8, 200), 200])
run("doubles", 2, 128, lambda: [f(200).astype(np.float64), z(5, 200, dtype=np.float64), 200])
run("conversions", 2, 128, lambda: [f(200), z(8, 200, dtype=np.int32), 200])
run("bits", 2, 128, lambda: [n(200, low=0, high=2**32, dtype=np.uint32), z(5, 200, dtype=np.uint32), 200])


def feature(name, grid, block, arguments, check=None, **options):
    run(name, grid, block, arguments, check, file="cuda_features.cu", **options)


I32, U, L = np.int32, np.uint32, np.int64
feature("call_noinline", 2, 32, lambda: [f(64), z(64), 64])
feature("recursion", 1, 32, lambda: [z(32, dtype=I32)], lambda b, a: (a[0][:8], [0, 1, 1, 2, 3, 5, 8, 13]))
feature("function_pointer", 1, 32, lambda: [f(32), z(32), 0],
        lambda b, a: (a[1], np.where(np.arange(32) % 2, b[0] * 3, b[0] + 3)))  # fmt: skip


def box():
    record = np.zeros((), np.dtype([("w", "f4"), ("h", "f4"), ("tag", "i4", 3), ("pad", "i4"), ("p", "u8")]))
    record["w"], record["h"], record["tag"] = 2, 3, (1, 2, 3)
    return [(record, {"p": f(32)}), z(32)]


def boxed():
    report = kernel("cuda_features.cu", "struct_param")[1, 32](*(values := box()))
    assert report.clean
    return torch.tensor(values[1]), torch.tensor(6 + np.arange(32) % 3 + 1 + values[0][1]["p"])


add("struct_param", boxed)
feature("print_assert", 1, 32, lambda: [np.arange(32, dtype=I32), 40])
feature("local_array", 1, 32, lambda: [n(512, high=16), z(32, dtype=I32), 9])
feature("constants", 1, 32, lambda: [z(32)], lambda b, a: (a[0], np.arange(32) % 8 + 8))
feature("atomics", 2, 64, lambda: [z(9, dtype=I32), z(2, dtype=U), z(1), z(1, dtype=np.uint64), z(1, dtype=np.float64)])
feature("half_atomics", 1, 32, lambda: [z(2, dtype=np.float16), z(2, dtype=np.float16), z(2, dtype=np.uint16)])
feature("cas_loop", 1, 64, lambda: [z(1), f(64)], lambda b, a: (a[0], b[1].sum()))
feature("warp_ops", 1, 32, lambda: [z(32, dtype=I32)])
feature("warp_match_all", 1, 32, lambda: [z(32, dtype=I32)])
feature("cg_reduce", 1, 128, lambda: [f(1000), z(1), 1000], lambda b, a: (a[1], b[0].sum()))
feature("cg_coalesced", 1, 32, lambda: [z(32, dtype=I32)])
feature("cg_grid_sync", 4, 64, lambda: [z(256, dtype=I32), z(256, dtype=I32)],
        lambda b, a: (a[1], ((np.arange(256) + 97) % 256) ** 2))  # fmt: skip
feature("cp_async_pipeline", 1, 64, lambda: [f(8, 64, 4), z(8, 64, 4), 8], lambda b, a: (a[1], b[0][:, ::-1]))
IMAGE = np.arange(64, dtype=np.float32).reshape(8, 8)
feature("textures", 1, 32, lambda: [sanitize.TextureArgument(IMAGE.reshape(-1).copy()), z(32), 8])
feature("surfaces", 1, 8, lambda: [sanitize.TextureArgument(IMAGE.copy()), z(32)])
feature("math", 1, 64, lambda: [f(64), z(64), z(64, dtype=np.float64)])
feature("integers", 1, 64, lambda: [n(64, low=1, high=1 << 26), z(64, dtype=I32), z(64, dtype=L)])
feature("halves", 1, 64, lambda: [(f(64) ** 2).astype(np.float16), z(64, dtype=np.float16), z(64, dtype=np.uint16)])
feature("clocks", 1, 32, lambda: [z(32, dtype=L)])
feature("heap", 1, 32, lambda: [z(32, dtype=np.uint64)])
feature("dynamic_shared", 1, 64, lambda: [f(64), z(64)], lambda b, a: (a[1], b[0][::-1]), shared=256)
feature("warp_switch", 1, 64, lambda: [n(64, low=-99, high=99), z(64, dtype=I32)])
feature("templates", 1, 32, lambda: [f(256), z(32)], lambda b, a: (a[1], b[0].reshape(32, 8).sum(1)))
feature("wmma_product", 1, 32, lambda: [f(16, 16).astype(np.float16), f(16, 16).astype(np.float16), z(16, 16)],
        lambda b, a: (a[2], b[0].astype("f4") @ b[1].astype("f4")))  # fmt: skip


def clustered():
    from lego_mlir.sanitize.sanitized_kernels import SanitizedLaunch

    out = z(256, dtype=I32)
    report = SanitizedLaunch(kernel("cuda_features.cu", "cg_cluster"), 4, 64, cluster=(2, 1, 1))(out)
    assert report.clean
    return torch.tensor(out[:1]), torch.tensor([1063])


add("cg_cluster", clustered)
