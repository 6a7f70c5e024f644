"""Machine instructions of the map of an order: the table of docs/reference/schedules.md.

    python bench/order_counts.py [count]     count, print, and write the table; no GPU

A kernel writes the number of each task where the task works, `out[y, x] = i`; counted are its PTX and SASS instructions
(sm_90) above those of `out[i] = i`, and its reciprocals, one for each division that the machine computes. By hand is
CUDA C++ compiled by nvcc, listing 5 of the thesis and the plain division.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import mlir_kernels
import runner

TARGET, PAGE, MARKER = "sm_90", "reference/schedules.md", "instructions"
RECIPROCAL = "MUFU"
BY_HAND = """
__global__ void mapped(int *out, int width, int height, int col_w) {
  const int tid = blockIdx.x * 256 + threadIdx.x;
  if (tid >= width * height) return;
  BODY
}
"""
BODIES = {
    "none": "out[tid] = tid;",
    "row": "out[tid / width * width + tid % width + 0 * col_w] = tid;",
    "listing 5": """
  const int col_size = height * col_w;
  const int col_id = tid / col_size, col_tid = tid % col_size, col_off = col_id * col_w;
  const int col_tw = min(width - col_id * col_w, col_w);
  out[col_tid % col_tw + col_off + col_tid / col_tw * width] = tid;
""",
}


def orders() -> Iterator[tuple[str, Any, Any, Any]]:
    """The name of each order, its layout (None: no map), and the sizes."""
    import lego_mlir as lego
    from lego_mlir import schedule

    H, W, w = (lego.size(name, max=32768) for name in ("H", "W", "w"))
    yield "run time", None, H, W
    yield "columns, H x W by w", schedule.columns(H, W, width=w), H, W
    yield "columns, H x W by 32", schedule.columns(H, W, width=32), H, W
    yield "columns, H x W by w, prepared", schedule.prepared_columns(H, W, width=w), H, W
    for n in (4096, 4037):
        yield f"{n}", None, n, n
        yield f"columns, {n} x {n} by 32", schedule.columns(n, n, width=32), n, n
        yield f"columns, {n} x {n} by 48", schedule.columns(n, n, width=48), n, n
        yield f"zigzag, {n} x {n} by 32", schedule.columns(n, n, width=32, zigzag=True), n, n
        yield f"tiles, {n} x {n} by 8 x 32", schedule.tiles(n, n, tile=(8, 32)), n, n


def counted(order: Any, H: Any, W: Any) -> tuple[int, int, int]:
    """PTX instructions, machine instructions and reciprocals of the kernel of an order."""
    import lego_mlir as lego
    from lego_mlir import Row
    from lego_mlir.toolchain import compile_kernel, ptxas, sass, target_named

    @lego.kernel(grid=lego.cdiv(H * W, 256), block=256)
    def mapped(out: lego.Tensor(lego.i32, Row(H, W))):  # type: ignore[no-untyped-def, valid-type]
        i = lego.block_id.x * 256 + lego.thread_id.x
        with lego.when(i < H * W):
            out[(i // W, i % W) if order is None else order.inv(i)] = lego.i32(i)

    text = compile_kernel(mapped, target=TARGET).text
    cubin, _ = ptxas.assemble(text, target_named(TARGET))
    code = sass.disassemble(cubin)
    return ptx_instructions(text), len(code), dict(sass.mix(code)).get(RECIPROCAL, 0)


def by_hand(body: str) -> tuple[int, int, int]:
    from lego_mlir.templates.run import nvcc
    from lego_mlir.toolchain import sass

    made = nvcc.compile_text(f'extern "C" {BY_HAND.replace("BODY", body).strip()}', target=TARGET, name="mapped")
    code = sass.disassemble(made.cubin)
    return 0, len(code), dict(sass.mix(code)).get(RECIPROCAL, 0)


def ptx_instructions(text: str) -> int:
    body = text[text.index("\n{") :]
    return sum(line.startswith("\t") and not line.startswith("\t.") for line in body.splitlines())


def count(_: Sequence[str]) -> None:
    rows, base = [], (0, 0, 0)
    plain = by_hand(BODIES["none"])
    for name in ("row", "listing 5"):
        _, sass_count, reciprocals = by_hand(BODIES[name])
        rows.append([f"by hand, {name}, run time", "", str(sass_count - plain[1]), str(reciprocals)])
    for name, order, H, W in orders():
        found = counted(order, H, W)
        if order is None:
            base = found
            continue
        rows.append([name, str(found[0] - base[0]), str(found[1] - base[1]), str(found[2])])
    table = mlir_kernels.table("order|PTX|SASS|reciprocals", rows)
    print(table)
    mlir_kernels.put_into(PAGE, MARKER, table)


BENCHMARK = runner.Benchmark("order_counts", steps={"count": count})

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
