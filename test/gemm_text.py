"""The matrix product at the vector level, as text: what a kernel looks like before its transform script.

One block computes a BM x BN tile of C = A B (f16 in, f32 out) over K, its warps 64 x 64 each. Copies are a vector of
8 halves a thread; the warps' own reads and products are vectors of the tensor core's shapes, still whole.
"""

from dataclasses import dataclass

SHARED = "#gpu.address_space<workgroup>"
LANES = 32


@dataclass(frozen=True)
class Gemm:
    """Sizes of the product and of its tile; `barriers` is what stands between copying and computing, and after it."""

    m: int = 128
    n: int = 256
    k: int = 512
    bm: int = 128
    bn: int = 256
    bk: int = 64
    warp: int = 64
    barriers: tuple[str, str] = ("gpu.barrier", "")

    @property
    def warps(self) -> int:
        return self.bm * self.bn // self.warp**2

    @property
    def threads(self) -> int:
        return self.warps * LANES

    def text(self) -> str:
        tile_a, tile_b = f"memref<{self.bm}x{self.bk}xf16, {SHARED}>", f"memref<{self.bk}x{self.bn}xf16, {SHARED}>"
        row_tiles, column_tiles = self.warp // 16, self.warp // 8
        accumulators = [f"%acc{i}_{j}" for i in range(row_tiles) for j in range(column_tiles)]
        types = ", ".join(["vector<16x8xf32>"] * len(accumulators))
        starts = ", ".join(f"{a} = %zero" for a in accumulators)
        ends = ", ".join(f"%out{i}_{j}" for i in range(row_tiles) for j in range(column_tiles))
        results = f"%res:{len(accumulators)}"
        lines = [
            self._copy("A", tile_a, self.bm, self.bk, "m0", "k0"),
            self._copy("B", tile_b, self.bk, self.bn, "k0", "n0"),
        ]
        lines += [self.barriers[0], self._compute(tile_a, tile_b), self.barriers[1]]
        stores = [
            f"""
      %sm{i}_{j} = affine.apply affine_map<(d0, d1) -> (d0 + d1 + {16 * i})>(%m0, %wm)
      %sn{i}_{j} = affine.apply affine_map<(d0, d1) -> (d0 + d1 + {8 * j})>(%n0, %wn)
      vector.transfer_write %res#{i * column_tiles + j}, %C[%sm{i}_{j}, %sn{i}_{j}] {{in_bounds = [true, true]}}
          : vector<16x8xf32>, memref<{self.m}x{self.n}xf32>"""
            for i in range(row_tiles)
            for j in range(column_tiles)
        ]
        across = self.bn // self.warp
        return f"""
module {{
  gpu.module @m {{
    gpu.func @gemm(%A: memref<{self.m}x{self.k}xf16>, %B: memref<{self.k}x{self.n}xf16>,
                   %C: memref<{self.m}x{self.n}xf32>) kernel
        attributes {{known_block_size = array<i32: {self.threads}, 1, 1>,
                    known_grid_size = array<i32: {self.n // self.bn}, {self.m // self.bm}, 1>}} {{
      %pad = arith.constant 0.0 : f16
      %zero = arith.constant dense<0.0> : vector<16x8xf32>
      %c0 = arith.constant 0 : index
      %cK = arith.constant {self.k} : index
      %cBK = arith.constant {self.bk} : index
      %t = gpu.thread_id x
      %bx = gpu.block_id x
      %by = gpu.block_id y
      %m0 = affine.apply affine_map<(d0) -> (d0 * {self.bm})>(%by)
      %n0 = affine.apply affine_map<(d0) -> (d0 * {self.bn})>(%bx)
      %wm = affine.apply affine_map<(d0) -> ((d0 floordiv {LANES * across}) * {self.warp})>(%t)
      %wn = affine.apply affine_map<(d0) -> (((d0 floordiv {LANES}) mod {across}) * {self.warp})>(%t)
      %As = memref.alloc() : {tile_a}
      %Bs = memref.alloc() : {tile_b}
      {results} = scf.for %k0 = %c0 to %cK step %cBK iter_args({starts}) -> ({types}) {{
        {"".join(lines)}
        scf.yield {ends} : {types}
      }}
      {"".join(stores)}
      gpu.return
    }}
  }}
}}
"""

    def _copy(self, name: str, tile: str, rows: int, columns: int, row0: str, column0: str) -> str:
        per_row = columns // 8
        sizes = f"{self.m}x{self.k}" if name == "A" else f"{self.k}x{self.n}"
        lines = []
        for i in range(rows * per_row // self.threads):
            lines.append(f"""
        %r{name}{i} = affine.apply affine_map<(d0) -> ((d0 + {i * self.threads}) floordiv {per_row})>(%t)
        %c{name}{i} = affine.apply affine_map<(d0) -> (((d0 + {i * self.threads}) mod {per_row}) * 8)>(%t)
        %gr{name}{i} = affine.apply affine_map<(d0, d1) -> (d0 + d1)>(%{row0}, %r{name}{i})
        %gc{name}{i} = affine.apply affine_map<(d0, d1) -> (d0 + d1)>(%{column0}, %c{name}{i})
        %v{name}{i} = vector.transfer_read %{name}[%gr{name}{i}, %gc{name}{i}], %pad {{in_bounds = [true]}}
            : memref<{sizes}xf16>, vector<8xf16>
        vector.transfer_write %v{name}{i}, %{name}s[%r{name}{i}, %c{name}{i}] {{in_bounds = [true]}}
            : vector<8xf16>, {tile}""")
        return "".join(lines)

    def _compute(self, tile_a: str, tile_b: str) -> str:
        row_tiles, column_tiles, steps = self.warp // 16, self.warp // 8, self.bk // 16
        lines = []
        for s in range(steps):
            lines.append(f"\n        %kk{s} = arith.constant {16 * s} : index")
            for i in range(row_tiles):
                lines.append(f"""
        %am{s}_{i} = affine.apply affine_map<(d0) -> (d0 + {16 * i})>(%wm)
        %a{s}_{i} = vector.transfer_read %As[%am{s}_{i}, %kk{s}], %pad {{in_bounds = [true, true]}}
            : {tile_a}, vector<16x16xf16>""")
            for j in range(column_tiles):
                lines.append(f"""
        %bn{s}_{j} = affine.apply affine_map<(d0) -> (d0 + {8 * j})>(%wn)
        %b{s}_{j} = vector.transfer_read %Bs[%kk{s}, %bn{s}_{j}], %pad {{in_bounds = [true, true],
            permutation_map = affine_map<(d0, d1) -> (d1, d0)>}} : {tile_b}, vector<8x16xf16>""")
            for i in range(row_tiles):
                for j in range(column_tiles):
                    before = f"%acc{i}_{j}" if s == 0 else f"%p{s - 1}_{i}_{j}"
                    after = f"%out{i}_{j}" if s == steps - 1 else f"%p{s}_{i}_{j}"
                    lines.append(f"""
        {after} = vector.contract {{indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
            affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"],
            kind = #vector.kind<add>}} %a{s}_{i}, %b{s}_{j}, {before}
            : vector<16x16xf16>, vector<8x16xf16> into vector<16x8xf32>""")
        return "".join(lines)


def script(*, factor: int = 3, depth: int | None = None, swizzle: bool = True) -> str:
    """The transform script: multibuffer, asynchronous copies, tensor core fragments, swizzle, pipeline."""
    depth = factor - 1 if depth is None else depth
    chosen = "nvgpu-optimize-shared-memory" if swizzle else "canonicalize"
    any_ = "!transform.any_op"
    return f"""
module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @__transform_main(%root: {any_} {{transform.readonly}}) {{
    %f0 = transform.structured.match ops{{["gpu.func"]}} in %root : ({any_}) -> {any_}
    %al = transform.structured.match ops{{["memref.alloc"]}} in %f0 : ({any_}) -> !transform.op<"memref.alloc">
    %mb = transform.memref.multibuffer %al {{factor = {factor} : i64, skip_analysis}}
        : (!transform.op<"memref.alloc">) -> {any_}
    %f1 = transform.nvgpu.create_async_groups %f0 {{bypass_l1}} : ({any_}) -> {any_}
    %f2 = transform.apply_registered_pass "convert-vector-to-gpu" with options = {{"use-nvgpu" = true}} to %f1
        : ({any_}) -> {any_}
    transform.apply_patterns to %f2 {{ transform.apply_patterns.memref.fold_memref_alias_ops
                                      transform.apply_patterns.canonicalization }} : {any_}
    transform.apply_cse to %f2 : {any_}
    %f3 = transform.apply_registered_pass "{chosen}" to %f2 : ({any_}) -> {any_}
    %loop = transform.structured.match ops{{["scf.for"]}} in %f3 : ({any_}) -> {any_}
    %pl = transform.nvgpu.pipeline_shared_memory_copies failures(propagate) %loop {{depth = {depth}}}
        : ({any_}) -> {any_}
    transform.yield
  }}
}}
"""


def transformed(text: str, transform: str) -> str:
    """The module after the script, as text with its locations."""
    from lego_mlir import bindings

    ir = bindings.load().ir
    interpreter = bindings.load().module("dialects.transform.interpreter")
    with ir.Context(), ir.Location.unknown():
        payload = ir.Module.parse(text)
        recipe = ir.Module.parse(transform)
        interpreter.apply_named_sequence(payload, recipe.body.operations[0], recipe)
        return str(payload.operation.get_asm(enable_debug_info=True))
