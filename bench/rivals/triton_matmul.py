"""The rival of the rendered matmul: the same algorithm by hand, with strides, as Triton kernels are usually written."""

import triton
import triton.language as tl


@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    grid_m = tl.cdiv(M, BLOCK_M)
    grid_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * grid_n
    group = pid // in_group
    first_m = group * GROUP_M
    rows = min(grid_m - first_m, GROUP_M)
    pid_m = first_m + (pid % in_group) % rows
    pid_n = (pid % in_group) // rows
    rows_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (rows_m[:, None] * stride_am + depth[None, :] * stride_ak)
    b_ptrs = b_ptr + (depth[:, None] * stride_bk + columns_n[None, :] * stride_bn)
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs)
        b = tl.load(b_ptrs)
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    c_ptrs = c_ptr + rows_m[:, None] * stride_cm + columns_n[None, :] * stride_cn
    tl.store(c_ptrs, accumulator.to(c_ptr.dtype.element_ty))


@triton.jit
def matmul_descriptors(
    a_ptr, b_ptr, c_ptr, M, N, K,
    A_TRANSPOSED: tl.constexpr, B_TRANSPOSED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    grid_m = tl.cdiv(M, BLOCK_M)
    grid_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * grid_n
    first_m = pid // in_group * GROUP_M
    rows = min(grid_m - first_m, GROUP_M)
    from_m = (first_m + (pid % in_group) % rows) * BLOCK_M
    from_n = (pid % in_group) // rows * BLOCK_N
    if A_TRANSPOSED:
        a_tiles = tl.make_tensor_descriptor(a_ptr, shape=[K, M], strides=[M, 1], block_shape=[BLOCK_K, BLOCK_M])
    else:
        a_tiles = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_M, BLOCK_K])
    if B_TRANSPOSED:
        b_tiles = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BLOCK_N, BLOCK_K])
    else:
        b_tiles = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[N, 1], block_shape=[BLOCK_K, BLOCK_N])
    c_tiles = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N])
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        if A_TRANSPOSED:
            a = a_tiles.load([k, from_m]).T
        else:
            a = a_tiles.load([from_m, k])
        if B_TRANSPOSED:
            b = b_tiles.load([from_n, k]).T
        else:
            b = b_tiles.load([k, from_n])
        accumulator = tl.dot(a, b, accumulator)
    c_tiles.store([from_m, from_n], accumulator.to(c_ptr.dtype.element_ty))


@triton.jit
def matmul_persistent(
    a_ptr, b_ptr, c_ptr, M, N, K,
    A_TRANSPOSED: tl.constexpr, B_TRANSPOSED: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    grid_m = tl.cdiv(M, BLOCK_M)
    grid_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * grid_n
    if A_TRANSPOSED:
        a_tiles = tl.make_tensor_descriptor(a_ptr, shape=[K, M], strides=[M, 1], block_shape=[BLOCK_K, BLOCK_M])
    else:
        a_tiles = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_M, BLOCK_K])
    if B_TRANSPOSED:
        b_tiles = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BLOCK_N, BLOCK_K])
    else:
        b_tiles = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[N, 1], block_shape=[BLOCK_K, BLOCK_N])
    c_tiles = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N])
    for tile in tl.range(tl.program_id(0), grid_m * grid_n, PROGRAMS, flatten=True):
        first_m = tile // in_group * GROUP_M
        rows = min(grid_m - first_m, GROUP_M)
        from_m = (first_m + (tile % in_group) % rows) * BLOCK_M
        from_n = (tile % in_group) // rows * BLOCK_N
        accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            if A_TRANSPOSED:
                a = a_tiles.load([k * BLOCK_K, from_m]).T
            else:
                a = a_tiles.load([from_m, k * BLOCK_K])
            if B_TRANSPOSED:
                b = b_tiles.load([from_n, k * BLOCK_K]).T
            else:
                b = b_tiles.load([k * BLOCK_K, from_n])
            accumulator = tl.dot(a, b, accumulator)
        c_tiles.store([from_m, from_n], accumulator.to(c_ptr.dtype.element_ty))


@triton.jit
def batched_matmul(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_ab, stride_am, stride_ak, stride_bb, stride_bk, stride_bn, stride_cb, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    batch = tl.program_id(1)
    grid_m = tl.cdiv(M, BLOCK_M)
    grid_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * grid_n
    first_m = pid // in_group * GROUP_M
    rows = min(grid_m - first_m, GROUP_M)
    pid_m = first_m + (pid % in_group) % rows
    pid_n = (pid % in_group) // rows
    rows_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + batch * stride_ab + rows_m[:, None] * stride_am + depth[None, :] * stride_ak
    b_ptrs = b_ptr + batch * stride_bb + depth[:, None] * stride_bk + columns_n[None, :] * stride_bn
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(tl.cdiv(K, BLOCK_K)):
        accumulator = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), accumulator)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    c_ptrs = c_ptr + batch * stride_cb + rows_m[:, None] * stride_cm + columns_n[None, :] * stride_cn
    tl.store(c_ptrs, accumulator.to(c_ptr.dtype.element_ty))


@triton.jit
def grouped_gemm(
    a_addresses, b_addresses, c_addresses, sizes_ptr, products,
    PROGRAMS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    first = 0
    for product in range(products):
        M = tl.load(sizes_ptr + product * 3)
        N = tl.load(sizes_ptr + product * 3 + 1)
        K = tl.load(sizes_ptr + product * 3 + 2)
        grid_m = tl.cdiv(M, BLOCK_M)
        grid_n = tl.cdiv(N, BLOCK_N)
        tiles = grid_m * grid_n
        while tile >= first and tile < first + tiles:
            a_ptr = tl.load(a_addresses + product).to(tl.pointer_type(tl.float16))
            b_ptr = tl.load(b_addresses + product).to(tl.pointer_type(tl.float16))
            c_ptr = tl.load(c_addresses + product).to(tl.pointer_type(tl.float16))
            within = tile - first
            rows_m = within // grid_n * BLOCK_M + tl.arange(0, BLOCK_M)
            columns_n = within % grid_n * BLOCK_N + tl.arange(0, BLOCK_N)
            depth = tl.arange(0, BLOCK_K)
            a_ptrs = tl.multiple_of(a_ptr + rows_m[:, None] * K + depth[None, :], [16, 16])  # for wide, async copies
            b_ptrs = tl.multiple_of(b_ptr + depth[:, None] * N + columns_n[None, :], [16, 16])
            accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            for _ in range(tl.cdiv(K, BLOCK_K)):  # the depths are multiples of BLOCK_K
                a = tl.load(a_ptrs, mask=(rows_m < M)[:, None], other=0.0)
                b = tl.load(b_ptrs, mask=(columns_n < N)[None, :], other=0.0)
                accumulator = tl.dot(a, b, accumulator)
                a_ptrs += BLOCK_K
                b_ptrs += BLOCK_K * N
            c_ptrs = c_ptr + rows_m[:, None] * N + columns_n[None, :]
            tl.store(c_ptrs, accumulator.to(tl.float16), mask=(rows_m < M)[:, None] & (columns_n < N)[None, :])
            tile += PROGRAMS
        first += tiles
