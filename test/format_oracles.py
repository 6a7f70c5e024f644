"""Each storage format written by NumPy alone, from what its engine publishes: fields in, buffers out.

Nothing here knows digits or strides: the functions stack, interleave, reshape, transpose and shift, as the loaders of
the engines do.
"""

import numpy as np


def words(codes):
    """8 codes of 4 bits along the last axis as 32-bit words, the first in the low bits."""
    parts = codes.astype(np.uint32).reshape(*codes.shape[:-1], -1, 8)
    return np.bitwise_or.reduce(parts << (4 * np.arange(8, dtype=np.uint32)), axis=-1).view(np.int32)


def nibbles(codes):
    """Pairs of codes as bytes, the first in the low nibble."""
    return codes[..., ::2] | codes[..., 1::2] << 4


def marlin_order(bits):
    """get_weight_perm of vLLM's marlin_utils_test."""
    order = []
    for i in range(32):
        column = i // 4
        eight = [
            16 * row + column + 8 * block
            for block in (0, 1)
            for row in (2 * (i % 4), 2 * (i % 4) + 1, 2 * (i % 4 + 4), 2 * (i % 4 + 4) + 1)
        ]
        for j in range(4):
            order += [p + 256 * j for p in eight]
    interleaved = [0, 2, 4, 6, 1, 3, 5, 7] if bits == 4 else [0, 2, 1, 3]
    return np.array(order).reshape(-1, len(interleaved))[:, interleaved].ravel()


def marlin_tiles(codes, bits):
    """marlin_permute_weights of an (inputs, outputs) matrix."""
    k, n = codes.shape
    tiles = codes.reshape(k // 16, 16, n // 16, 16).transpose(0, 2, 1, 3).reshape(k // 16, n * 16)
    return tiles.reshape(-1, 1024)[:, marlin_order(bits)].reshape(k // 16, n * 16)


def marlin(f):
    order = [i + 8 * j for i in range(8) for j in range(8)]
    scales = f["scale"].T
    return {
        "qweight": words(marlin_tiles(f["q"].T, 4)),
        "scales": np.ascontiguousarray(scales).reshape(-1, 64)[:, order].reshape(scales.shape),
    }


def machete(f):
    """One code at a time: a thread's value in a fragment of `wgmma` (PTX ISA, operand A in registers), stored where
    Machete's header puts it: 32 codes a thread, 8 of them a word whose neighbours are 16 bits apart."""
    rows, inputs = f["q"].shape
    stored = np.zeros(rows * inputs, np.uint8)
    for bk, bn, thread, step, value in np.ndindex(inputs // 64, rows // 128, 256, 4, 8):
        lane, warp = thread % 32, thread // 32  # the warps of the second group have the lower 64 rows
        row = 16 * warp + lane // 4 + 8 * (value >> 1 & 1)
        column = 16 * step + 2 * (lane % 4) + (value & 1) + 8 * (value >> 2)
        first = 8192 * (bk * (rows // 128) + bn) + 32 * thread + 8 * step
        stored[first + (value % 2) * 4 + value // 2] = f["q"][128 * bn + row, 64 * bk + column]
    return {"qweight": words(stored).reshape(inputs // 8, rows), "scales": f["scale"].T}


def gptq(f):
    return {
        "qweight": np.ascontiguousarray(words(f["q"]).T),
        "scales": f["scale"].T,
        "qzeros": words(np.ascontiguousarray(f["zero_minus_1"].T)),
    }


def awq(f):
    def packed(codes):
        ordered = codes.reshape(codes.shape[0], -1, 8)[..., [0, 2, 4, 6, 1, 3, 5, 7]].reshape(codes.shape)
        return words(ordered)

    return {"qweight": packed(f["q"].T), "scales": f["scale"].T, "qzeros": packed(f["zero"].T)}


def one(array):
    return {"data": np.ascontiguousarray(array)}


def by_group(f):
    """Megatron's linear_qkv: for each group its queries, its key and its value; heads of equal depth."""
    k, v = f["k"], f["v"]
    groups = 3  # as the example has them
    depth = k.shape[0] // groups
    heads = f["q"].shape[0] // k.shape[0]
    parts = []
    for g in range(groups):
        parts += [f["q"][g * heads * depth : (g + 1) * heads * depth]]
        parts += [k[g * depth : (g + 1) * depth], v[g * depth : (g + 1) * depth]]
    return one(np.concatenate(parts))


def in_turn(f):
    out = np.empty((2 * f["gate"].shape[0], f["gate"].shape[1]), f["gate"].dtype)
    out[0::2], out[1::2] = f["gate"], f["up"]
    return one(out)


def of_ranks(f, ranks=3):
    halves = [np.concatenate([np.split(f[name], ranks)[r] for name in ("gate", "up")]) for r in range(ranks)]
    return one(np.stack(halves))


def rotary(f, heads=3):
    w = f["weight"]
    return one(w.reshape(heads, 2, w.shape[0] // heads // 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape))


def aiter(f):
    n, k = f["weight"].shape
    x = f["weight"].reshape(n // 16, 16, k // 32, 2, 16)
    return one(x.transpose(0, 2, 3, 1, 4).reshape(n, k))


def tiles_128x4(f):
    m, k = f["scale"].shape
    x = f["scale"].reshape(m // 128, 4, 32, k // 4, 4)
    return one(x.transpose(0, 3, 2, 1, 4).reshape(m, k))


def aligned(f):
    m, groups = f["scale"].shape
    out = np.zeros((groups, -(-m // 4) * 4), np.float32)
    out[:, :m] = f["scale"].T
    return one(out)


def records(*parts):
    """Bytes of the fields of a block, one after the other; parts are (rows, blocks, bytes)."""
    joined = np.concatenate([np.ascontiguousarray(p) for p in parts], axis=-1)
    return one(joined.reshape(joined.shape[0], -1))


def raw(array):
    """The bytes of an array of (rows, blocks)."""
    return np.ascontiguousarray(array)[..., None].view(np.uint8)


def halved(codes, block=32):
    """16 low nibbles of the first half of a block, high nibbles of the second half."""
    parts = codes.reshape(codes.shape[0], -1, 2, block // 2)
    return parts[:, :, 0] | parts[:, :, 1] << 4


def q5_0(f):
    bits = np.packbits(f["high"].reshape(f["high"].shape[0], -1, 32), axis=-1, bitorder="little")
    return records(raw(f["scale"]), bits, halved(f["low"]))


def q6_k(f):
    low = f["low"].reshape(f["low"].shape[0], -1, 2, 2, 64)
    high = f["high"].reshape(f["high"].shape[0], -1, 2, 4, 32)
    ql = (low[:, :, :, 0] | low[:, :, :, 1] << 4).reshape(*low.shape[:2], 128)
    qh = high[:, :, :, 0] | high[:, :, :, 1] << 2 | high[:, :, :, 2] << 4 | high[:, :, :, 3] << 6
    scales = f["scale"].view(np.uint8).reshape(*low.shape[:2], 16)
    return records(ql, qh.reshape(*low.shape[:2], 64), scales, raw(f["super_scale"]))


def nvfp4(f):
    q = f["q"].reshape(f["q"].shape[0], -1, 4, 2, 8)
    packed = (q[..., 0, :] | q[..., 1, :] << 4).reshape(*q.shape[:2], 32)
    return records(f["scale"].view(np.uint8).reshape(*q.shape[:2], 4), packed)


def ordered(order):
    def cache(f):
        both = np.concatenate([f["k"], f["v"]], axis=-1)
        return one(both.transpose(["lbhnc".index(axis) for axis in order]))

    return cache


def nhd(f):
    return one(np.stack([f["k"].transpose(0, 2, 1, 3), f["v"].transpose(0, 2, 1, 3)]))


def in_parts(f):
    b, h, n, d = f["k"].shape
    x = 16 // f["k"].itemsize
    key = f["k"].reshape(b, h, n, d // x, x).transpose(0, 1, 3, 2, 4)
    return {"key_cache": key, "value_cache": f["v"].transpose(0, 1, 3, 2)}


def token(*names):
    def cache(f):
        parts = [nibbles(f[n]) if n == "latent" and f[n].dtype == np.uint8 else f[n].view(np.uint8) for n in names]
        return one(np.concatenate(parts, axis=-1))

    return cache


def stacked(*names, axis=0):
    return lambda f: one(np.concatenate([f[name] for name in names], axis=axis))


ORACLES = {
    "hf.linear": lambda f: one(f["weight"]),
    "conv1d.linear": lambda f: one(f["weight"].T),
    "vllm.gate_up": stacked("gate", "up"),
    "hf.gate_up": lambda f: {f"{name}_proj": f[name] for name in ("gate", "up")},
    "flashinfer.up_gate": stacked("up", "gate"),
    "gptoss.gate_up": in_turn,
    "megatron.gate_up": of_ranks,
    "vllm.moe_w13": stacked("gate", "up", axis=1),
    "mixtral.experts": lambda f: {"w1": f["gate"], "w3": f["up"]},
    "gptoss.moe_gate_up": lambda f: one(np.stack([f["gate"], f["up"]], axis=2).reshape(-1, *f["gate"].shape[2:])),
    "moe.down": lambda f: one(f["weight"]),
    "hf.latent_in": lambda f: {f"{name}_proj": f[name] for name in ("q_a", "kv_a")},
    "vllm.latent_in": stacked("q_a", "kv_a"),
    "llama4.experts": lambda f: one(np.concatenate([f["gate"].swapaxes(1, 2), f["up"].swapaxes(1, 2)], axis=2)),
    "vllm.qkv": stacked("q", "k", "v"),
    "megatron.qkv": by_group,
    "hf.qkv": lambda f: {f"{name}_proj": f[name] for name in "qkv"},
    "gguf.rope_rows": rotary,
    "megatron.column_parallel": lambda f: one(np.stack(np.split(f["weight"], 3, axis=0))),
    "megatron.row_parallel": lambda f: one(np.stack(np.split(f["weight"], 3, axis=1))),
    "aiter.16x16": aiter,
    "gptq": gptq,
    "gptq.act_order": lambda f: {**gptq(f), "g_idx": f["group"]},
    "awq": awq,
    "vllm.marlin": marlin,
    "vllm.marlin_act_order": lambda f: {**marlin(f), "g_idx": f["group"], "g_idx_sort_indices": f["order"]},
    "vllm.machete": machete,
    "vllm.marlin_int8": lambda f: one(marlin_tiles(f["q"].T, 8).view(np.int32)),
    "gptoss.mxfp4": lambda f: {
        "blocks": nibbles(f["q"].reshape(f["q"].shape[0], -1, 32)), "scales": f["scale"],
    },
    "deepseek.fp8": lambda f: {"weight": f["q"], "weight_scale_inv": f["scale"]},
    "deepgemm.scales": aligned,
    "cutlass.scales_128x4": tiles_128x4,
    "hf.scales": lambda f: one(f["scale"]),
    "bitsandbytes.nf4": lambda f: one(f["even"] << 4 | f["odd"]),
    "gguf.q4_0": lambda f: records(raw(f["scale"]), halved(f["q"])),
    "gguf.q4_1": lambda f: records(raw(f["scale"]), raw(f["least"]), halved(f["q"])),
    "gguf.q5_0": q5_0,
    "gguf.q8_0": lambda f: records(raw(f["scale"]), f["q"].view(np.uint8).reshape(f["q"].shape[0], -1, 32)),
    "gguf.q6_k": q6_k,
    "gguf.mxfp4": lambda f: records(raw(f["scale"]), halved(f["q"])),
    "gguf.nvfp4": nvfp4,
    **{f"kv.{order}": ordered(order) for order in ("lbnhc", "lbhnc", "lhbnc", "blhnc", "blnhc", "bhlnc")},
    "kv.nhd": nhd,
    "kv.hnd": lambda f: one(np.stack([f["k"], f["v"]])),
    "kv.paged": lambda f: one(np.stack([f["k"].transpose(0, 2, 1, 3), f["v"].transpose(0, 2, 1, 3)], axis=1)),
    "kv.paged_x": in_parts,
    "kv.mla": token("latent", "scale", "rope"),
    "kv.mla_separate": lambda f: dict(f),
    "kv.mla_nvfp4": token("latent", "rope", "scale"),
}  # fmt: skip
