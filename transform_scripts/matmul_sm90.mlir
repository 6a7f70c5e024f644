// Turns a matrix product at the vector level into a kernel of warpgroups for sm_90a.
//
// Expects  what lego_mlir/kernels/matmul.py emits, in steps of 128 bytes along K, with any elementwise
//          epilogue: f16 and bf16 in any layout, f8, i8 and f32 (as TF32) with K contiguous; results of f16, bf16, f32
//          and i32. With `exact`, sums are promoted to f32 totals after that number of steps; with `rounded`, the
//          copies of f32 round to TF32.
//          Sizes are numbers, or symbols of persistent blocks: then the kernel computes all sizes of a class, rows of
//          multiples of 16 bytes, or with whole_columns of 128 bytes.
//          With cluster_k the blocks of a cluster divide K, and add their sums; with transposed, B^T A^T is multiplied.
//          With `splits` as many clusters divide K, and add their sums through the kernel's last two arguments.
//          Blocks of narrow tiles and few stages may be resident two to a multiprocessor; with few stages there is
//          room for more `buffers` through which each warpgroup stores C. What an epilogue loads for rows and columns
//          of the first `early` buffers is loaded before the products of a tile.
//          A kernel of another form is scheduled, as by tiles_sm90.mlir, with `stages`, `exact`, `cluster_m`,
//          `resident` and `dependent`.
// Leaves   one warpgroup that copies tiles by tensor maps into a ring of stages, the others multiplying them by wgmma,
//          and the result stored through stmatrix and tensor maps; shared memory as dynamic. Tensors are passed as
//          tensor maps.

module attributes {
  transform.with_named_sequence,
  lego.parameters = {stages = {default = 4 : i64, min = 2 : i64, max = 24 : i64},
                     lockstep = {default = 0 : i64, min = 0 : i64, max = 64 : i64},
                     cluster_m = {default = 1 : i64, min = 1 : i64, max = 8 : i64},
                     cluster_n = {default = 1 : i64, min = 1 : i64, max = 8 : i64},
                     cluster_k = {default = 1 : i64, min = 1 : i64, max = 8 : i64},
                     splits = {default = 1 : i64, min = 1 : i64, max = 64 : i64},
                     transposed = {default = 0 : i64, min = 0 : i64, max = 1 : i64},
                     resident = {default = 1 : i64, min = 1 : i64, max = 2 : i64},
                     buffers = {default = 2 : i64, min = 2 : i64, max = 8 : i64},
                     early = {default = 0 : i64, min = 0 : i64, max = 8 : i64},
                     exact = {default = 0 : i64, min = 0 : i64, max = 64 : i64},
                     dependent = {default = 0 : i64, min = 0 : i64, max = 1 : i64},
                     whole_columns = {default = 0 : i64, min = 0 : i64, max = 1 : i64},
                     rounded = {default = 0 : i64, min = 0 : i64, max = 1 : i64}},
  lego.pipeline = ["lego-warpgroup-products"],
  lego.otherwise = ["warpgroups", {apply = "exact(every={exact})", when = "exact"}, "pipeline(stages={stages})",
                    {apply = "clusters(blocks={cluster_m})", when = "cluster_m - 1"}, "overlay(optional=True)", "roles",
                    {apply = "resident(blocks={resident})", when = "resident - 1"},
                    {apply = "dependent", when = "dependent"}]
} {
}
