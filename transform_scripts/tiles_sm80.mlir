// Schedules a product of tiles for the tensor cores of sm_80 and later: anybody's kernel that stages tiles in a loop and
// multiplies them.
//
// Expects  a kernel whose loops copy tiles (lego.stage, or stores of threads), meet at a barrier, and multiply them
//          (lego.mma) in equal parts of warps, a power of two of them along each axis; any epilogue.
// Leaves   cp.async into rings of swizzled tiles, `stages - 1` steps ahead of ldmatrix and mma.sync, and one barrier a
//          step. With `blocks` that many blocks compute all tiles of the grid; with `overlay` the tiles of the epilogue
//          take the memory of the rings.

module attributes {
  transform.with_named_sequence,
  lego.parameters = {stages = {default = 3 : i64, min = 2 : i64, max = 24 : i64},
                     blocks = {default = 0 : i64, min = 0 : i64, max = 65535 : i64},
                     overlay = {default = false}},
  lego.schedules = [{apply = "persistent(blocks={blocks})", when = "blocks"}, "warps", "pipeline(stages={stages})",
                    {apply = "overlay", when = "overlay"}, "ahead"],
  lego.pipeline = []
} {
}
