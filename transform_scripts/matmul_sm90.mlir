// Schedules a product of tiles for the warpgroups of sm_90a: that of lego_mlir/kernels/matmul.py, or anybody's kernel that
// stages tiles in a loop and multiplies them.
//
// Expects  a kernel whose loops copy tiles (lego.stage, or stores of threads), meet at a barrier, and multiply them
//          (lego.mma) in parts of warps that tile a block of 64 rows for each 4 warps; any epilogue. Types are f16 and bf16
//          in any layout, f8, i8 and f32 (as TF32) with K contiguous.
// Leaves   warps that copy tiles by tensor maps into rings of stages, and warps that multiply them by wgmma. With `blocks`
//          that many blocks compute all tiles of the grid, and with `lockstep` their copies meet every so many steps; with
//          `cluster` as many copy common tiles once; results that are stored by lego.store_tile leave by tile copies
//          through `buffers`, other tiles of an epilogue take the memory of the rings; with `transposed` B'A' is
//          multiplied; sums are promoted to totals after `exact` steps; copies round f32 to TF32 if `rounded`; two products
//          of one left tile are one of twice the columns if `joined`; `resident` blocks share a multiprocessor; with
//          `dependent` the kernel begins while the one before it ends.

module attributes {
  transform.with_named_sequence,
  lego.parameters = {stages = {default = 4 : i64, min = 2 : i64, max = 24 : i64},
                     blocks = {default = 0 : i64, min = 0 : i64, max = 65535 : i64},
                     cluster = {default = 1 : i64, min = 1 : i64, max = 8 : i64},
                     buffers = {default = 2 : i64, min = 0 : i64, max = 8 : i64},
                     lockstep = {default = 0 : i64, min = 0 : i64, max = 64 : i64},
                     exact = {default = 0 : i64, min = 0 : i64, max = 64 : i64},
                     resident = {default = 1 : i64, min = 1 : i64, max = 2 : i64},
                     transposed = {default = false},
                     rounded = {default = false},
                     joined = {default = false},
                     dependent = {default = false}},
  lego.schedules = [{apply = "persistent(blocks={blocks})", when = "blocks"}, "warpgroups(transposed={transposed})",
                    {apply = "exact(every={exact})", when = "exact"},
                    {apply = "copied_out(buffers={buffers}, optional=True)", when = "buffers"},
                    "pipeline(stages={stages}, rounded={rounded}, joined={joined})",
                    {apply = "clusters(blocks={cluster})", when = "cluster - 1"},
                    {apply = "overlay(optional=True)", when = "1 // (blocks + 1)"},
                    {apply = "lockstep(every={lockstep})", when = "lockstep"}, "roles",
                    {apply = "resident(blocks={resident})", when = "resident - 1"},
                    {apply = "dependent", when = "dependent"}],
  lego.pipeline = []
} {
}
