"""Names from CUDA, Triton and NumPy, and their counterparts in the kernel language.

An unknown name of `lego_mlir` is looked up here before similar spellings: `min` means `minimum`, and no name spelt like
`atomic_add` would help.

>>> instead("syncthreads")
'; write lego.barrier()'
>>> instead("nothing_like_it")
''
"""

from __future__ import annotations

from typing import Final

_REDUCTIONS: Final = (
    "add in a lego.register(..) inside a lego.range(..), and across threads with lego.warp_reduce(v, op), "
    "lego.block_reduce(v, op) or lego.block_scan(v, op)"
)
_STORES: Final = "tensors are indexed: y[i] = x[i], or y.store(x.load(i, width=4), i) for vectors"

_MEANINGS: Final[dict[str, tuple[str, ...]]] = {
    "write lego.barrier()": ("syncthreads", "__syncthreads", "sync_threads", "debug_barrier", "sync", "synchronize"),
    "write lego.barriers(n), a ring of barriers: full[k].wait(), full[k].arrive()": ("mbarrier", "arrive", "pipeline"),
    "write `with lego.warps(first, end):`, in which lego.barrier() is that of these warps": (
        *("named_barrier", "warp_specialize", "role", "bar_sync"),
    ),
    "write lego.copy_async(x, tile, at=(..), barrier=full[k])": ("tma", "tma_load", "async_copy", "bulk_copy"),
    "write lego.cluster_barrier()": ("cluster_sync", "cluster_arrive", "cluster_wait"),
    "write @lego.kernel(.., cluster=(2, 1)), and tile.of_block(rank) for a tile of another block": (
        *("mapa", "cluster", "map_shared_rank", "dsmem", "cluster_dims"),
    ),
    "write lego.cluster_rank, or lego.block_in_cluster": ("cluster_id", "block_rank", "cluster_ctarank", "cta_rank"),
    "write lego.thread_id[0]": ("threadIdx", "thread_idx", "tid", "local_id", "get_local_id", "thread"),
    "write lego.block_id[0]": ("blockIdx", "block_idx", "program_id", "get_group_id", "block", "bid"),
    "write lego.block_dim[0]": ("blockDim", "block_size", "get_local_size", "num_threads"),
    "write lego.grid_dim[0]": ("gridDim", "num_programs", "num_blocks", "get_num_groups"),
    "write lego.block_id[0] * lego.block_dim[0] + lego.thread_id[0]": ("global_id", "get_global_id"),
    **{
        f"atomic updates are methods of tensors and tiles: write y.atomic_{name}({value}, i, j)": (
            *(f"atomic_{what}" for what in words),
            *(f"atomic{what[:1].upper()}{what[1:]}" for what in words),
            *(("atomic", "atomics") if name == "add" else ()),
        )
        for name, value, words in (
            ("add", "value", ("add", "sub", "inc", "dec")),
            ("min", "value", ("min", "fmin")),
            ("max", "value", ("max", "fmax")),
            ("exchange", "value", ("exchange", "xchg", "exch")),
            ("cas", "expected, value", ("cas", "CAS", "compare_exchange")),
            ("and", "value", ("and", "and_")),
            ("or", "value", ("or", "or_")),
            ("xor", "value", ("xor", "xor_")),
            ("store", "value", ("store",)),
        )
    },
    "atomic loads are methods of tensors and tiles: write y.atomic_load(i, j)": (
        "atomic_load",
        "volatile",
        "ld_acquire",
    ),
    "write lego.shuffle(v, lane)": ("shfl", "shfl_sync", "__shfl_sync", "shuffle_sync", "readlane"),
    "write lego.shuffle_up(v, distance)": ("shfl_up", "shfl_up_sync", "__shfl_up_sync"),
    "write lego.shuffle_down(v, distance)": ("shfl_down", "shfl_down_sync", "__shfl_down_sync"),
    "write lego.shuffle_xor(v, mask)": ("shfl_xor", "shfl_xor_sync", "__shfl_xor_sync", "butterfly"),
    "write lego.warp_ballot(condition)": ("ballot", "__ballot_sync", "ballot_sync", "vote"),
    "write lego.match_any(v)": ("match", "match_any_sync", "__match_any_sync"),
    "write lego.activemask()": ("__activemask", "active_mask"),
    "write lego.warp_any(condition)": ("any_sync", "__any_sync", "any"),
    "write lego.warp_all(condition)": ("all_sync", "__all_sync", "all"),
    "write lego.warp_sync()": ("syncwarp", "__syncwarp", "sync_warp"),
    "write lego.lane_id": ("laneid", "lane", "lane_index"),
    "write lego.warp_id": ("warpid", "warp", "subgroup_id"),
    _REDUCTIONS: ("sum", "reduce", "mean", "prod", "cumsum", "argmax", "argmin", "softmax"),
    "write lego.scan(x, axis, function) of a spread value": ("associative_scan",),
    'write lego.printf("x = %f\\n", x)': ("print", "device_print", "static_print", "Print"),
    'write lego.assert_(condition, "message")': ("device_assert", "trap", "breakpoint", "static_assert"),
    "write lego.fence()": ("threadfence", "__threadfence", "memory_barrier", "membar", "threadfence_block"),
    'write lego.mlir_op("math.cbrt", x, result=lego.f32)': ("inline_asm", "inline_asm_elementwise", "asm", "extern"),
    _STORES: ("scatter", "get", "set", "make_block_ptr", "advance", "ldg", "__ldg"),
    "write lego.minimum(a, b)": ("min", "fmin", "fminf"),
    "write lego.maximum(a, b)": ("max", "fmax", "fmaxf"),
    "write abs(x)": ("abs", "fabs", "fabsf"),
    "write lego.where(condition, a, b)": ("select", "ifelse", "cond", "ternary"),
    "write lego.pow(x, y), or x ** y": ("power", "powf"),
    "write lego.round(x), to the nearest even whole number": ("rint", "nearbyint", "roundeven"),
    "write lego.popcount(x)": ("popc", "__popc", "bitcount"),
    "write lego.clz(x)": ("__clz", "ffs"),
    "write lego.atan2(y, x)": ("arctan2", "atan2f"),
    "write lego.exp(x)": ("expf", "__expf"),
    "write lego.log(x)": ("logf", "__logf", "ln"),
    "write lego.sqrt(x)": ("sqrtf", "sqrt_rn"),
    "write lego.rsqrt(x)": ("rsqrtf",),
    "write lego.fma(a, b, c)": ("fmaf", "mad", "__fmaf_rn"),
    "write 1 / (1 + lego.exp(-x))": ("sigmoid",),
    "write lego.maximum(x, 0)": ("relu",),
    "write `with lego.when(condition):`": ("if_", "If", "mask", "predicate"),
    "write `with lego.otherwise():` after a lego.when": ("else_", "Else", "elif_"),
    "write `for i in lego.range(..):`": ("for_", "For", "fori_loop", "loop"),
    "write `with lego.while_(running):`": ("while_loop", "While"),
    "write `for i in lego.unroll(..):`": ("static_range", "unrolled", "range_constexpr"),
    "write lego.shared(dtype, layout)": (
        "shared_memory",
        "smem",
        "__shared__",
        "shared_array",
        "alloc_shared",
        "SharedMemory",
    ),
    "write lego.register(dtype, value)": ("local", "registers", "local_memory", "variable", "var"),
    "write lego.mma(a, b, accumulator), with lego.accumulator(dtype, rows, columns)": (
        "dot",
        "wmma",
        "tensordot",
        "gemm",
    ),
    "write lego.Tensor(dtype, layout)": ("Array", "array", "tensor", "ndarray", "Buffer", "Pointer", "pointer_type"),
    "write lego.vector(..)": ("float4", "float2", "int4", "int2", "make_float4", "vec"),
    "write @lego.kernel(grid=.., block=..)": ("jit", "global_", "__global__", "cuda_jit", "func"),
    "write @lego.function, or call a plain Python function": (
        "device",
        "device_function",
        "__device__",
        "inline",
        "noinline",
    ),
    "write @lego.generic above a function that returns the kernel": ("template", "specialize", "specialise"),
    "a plain Python number is a constant of the kernel": ("constexpr", "const", "constant", "static"),
    "write lego.f16": ("float16", "half", "fp16", "float_16"),
    "write lego.bf16": ("bfloat16", "nv_bfloat16"),
    "write lego.f32": ("float32", "float", "single", "fp32", "tf32"),
    "write lego.f64": ("float64", "double", "fp64"),
    "write lego.i1": ("bool", "bool_", "int1"),
    "write lego.i8": ("int8", "char"),
    "write lego.i16": ("int16", "short"),
    "write lego.i32": ("int32", "int"),
    "write lego.i64": ("int64", "long"),
    "write lego.u8": ("uint8", "uchar", "byte"),
    "write lego.u16": ("uint16", "ushort"),
    "write lego.u32": ("uint32", "uint", "unsigned"),
    "write lego.f8e4m3fn": ("float8_e4m3fn", "float8e4nv", "fp8e4m3", "e4m3", "f8e4m3"),
    "write lego.f8e5m2": ("float8_e5m2", "float8e5", "fp8e5m2", "e5m2"),
    "write lego.i4": ("int4", "int4_t", "s4"),
    "write lego.u4": ("uint4", "uint4b_t"),
    "write lego.f4e2m1fn": ("float4_e2m1fn", "float4_e2m1fn_x2", "fp4", "e2m1", "f4e2m1", "nvfp4", "mxfp4"),
    "write lego.f6e2m3fn": ("float6_e2m3fn", "fp6e2m3", "e2m3", "f6e2m3"),
    "write lego.f6e3m2fn": ("float6_e3m2fn", "fp6e3m2", "e3m2", "f6e3m2"),
    "write lego.f8e8m0fnu": ("float8_e8m0fnu", "e8m0", "ue8m0", "f8e8m0"),
    "write lego.bitcast(x, dtype)": (
        "bitcast_convert_type",
        "view_as",
        "reinterpret",
        "reinterpret_cast",
        "__float_as_int",
        "__int_as_float",
        "__float_as_uint",
        "__uint_as_float",
        "__half_as_ushort",
    ),
    "write lego.u64": ("uint64", "ulong", "size_t"),
}
_REMEDIES: Final = {word: remedy for remedy, words in _MEANINGS.items() for word in words}


def instead(word: str) -> str:
    """The end of a message about an unknown name: its counterpart in the kernel language, or nothing."""
    remedy = _REMEDIES.get(word)
    return "" if remedy is None else f"; {remedy}"
