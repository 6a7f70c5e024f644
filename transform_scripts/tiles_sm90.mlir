// Schedules a product of tiles for the warpgroups of sm_90a: anybody's kernel that stages tiles in a loop and multiplies
// them.
//
// Expects  a kernel whose loops copy tiles (lego.stage, or stores of threads), meet at a barrier, and multiply them
//          (lego.mma) in parts of warps that tile a block of 64 rows for each 4 warps; any epilogue.
// Leaves   warps that copy tiles by tensor maps into rings of stages, and warps that multiply them by wgmma. With
//          `blocks` that many blocks compute all tiles of the grid; with `cluster` as many copy common tiles once; with
//          `buffers` results leave by tile copies; with `overlay` the tiles of the epilogue take the memory of the
//          rings; with `dependent` the kernel begins while the one before it ends.

module attributes {
  transform.with_named_sequence,
  lego.parameters = {stages = {default = 4 : i64, min = 2 : i64, max = 24 : i64},
                     blocks = {default = 0 : i64, min = 0 : i64, max = 65535 : i64},
                     cluster = {default = 1 : i64, min = 1 : i64, max = 8 : i64},
                     buffers = {default = 0 : i64, min = 0 : i64, max = 8 : i64},
                     overlay = {default = false},
                     dependent = {default = false}},
  lego.schedules = [{apply = "persistent(blocks={blocks})", when = "blocks"}, "warpgroups",
                    {apply = "copied_out(buffers={buffers})", when = "buffers"}, "pipeline(stages={stages})",
                    {apply = "clusters(blocks={cluster})", when = "cluster - 1"},
                    {apply = "overlay", when = "overlay"}, "roles", {apply = "dependent", when = "dependent"}],
  lego.pipeline = []
} {
}
