"""Hand-written kernels over rows, as they are usually written: strides and a width as arguments, always a mask."""

import triton
import triton.language as tl


@triton.jit
def softmax(x_ptr, y_ptr, x_stride, y_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row * x_stride + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    powers = tl.exp(x - tl.max(x, axis=0))
    y = powers / tl.sum(powers, axis=0)
    tl.store(y_ptr + row * y_stride + offsets, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def layer_norm_forward(x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, stride, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row * stride + offsets, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(mask, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / columns + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    weight = tl.load(w_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    bias = tl.load(b_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    y = centred * rstd * weight + bias
    tl.store(y_ptr + row * stride + offsets, y.to(y_ptr.dtype.element_ty), mask=mask)


@triton.jit
def layer_norm_backward(
    dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, stride, rows, columns, groups,
    BLOCK: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    weight = tl.load(w_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    dw = tl.zeros([BLOCK], dtype=tl.float32)
    db = tl.zeros([BLOCK], dtype=tl.float32)
    for row in range(group, rows, groups):
        x = tl.load(x_ptr + row * stride + offsets, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * stride + offsets, mask=mask, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + row)
        rstd = tl.load(rstd_ptr + row)
        normal = tl.where(mask, (x - mean) * rstd, 0.0)
        weighted = weight * dy
        along = tl.sum(normal * weighted, axis=0) / columns
        shift = tl.sum(weighted, axis=0) / columns
        dx = (weighted - (normal * along + shift)) * rstd
        tl.store(dx_ptr + row * stride + offsets, dx.to(dx_ptr.dtype.element_ty), mask=mask)
        dw += dy * normal
        db += dy
    tl.store(dw_ptr + group * columns + offsets, dw, mask=mask)
    tl.store(db_ptr + group * columns + offsets, db, mask=mask)


@triton.jit
def sum_groups(part_ptr, out_ptr, columns, groups, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < columns
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for group in range(groups):
        total += tl.load(part_ptr + group * columns + offsets, mask=mask, other=0.0)
    tl.store(out_ptr + offsets, total.to(out_ptr.dtype.element_ty), mask=mask)
