"""Values spread over the threads of a block: tiles whose elements are in registers, placed by a linear layout.

    distributed        the class `Spread`, arithmetic and comparison; `variables`: tiles that loops change
    coordinates        the elements that a thread holds, as indices; `index_comparisons`: masks
    accesses           `lego.load` and `x.store`: the widest accesses that are proved, in strided memory
                       (`strided_tiles`) and in swizzled tiles (`bit_tiles`)
    derivatives        `lego.value_and_derivative`
    filled             `lego.full`, `lego.zeros`, `lego.arange`
    folds              reductions: registers, then lanes, then warps
    reshaping          new labels for the same registers
    conversion         `lego.convert`; `lane_exchange`: by shuffles; `scratch`: the shared memory that they use
    gather             `lego.gather`
    open_tiles         tiles whose layouts the layout engine chooses; `open_layouts`: recorded, then filled in
    open_orders        scans, sorts, gathers and tiles of indices of such tiles
    multiplication     `lego.mma` on spread values; `fragments`: the operands of one instruction

Everything here is written with words of the kernel language, so that the interpreter, the analyses and every back end
see loads, stores, arithmetic and shuffles only.

Sections:

- values: `distributed`, `variables`, `filled`, `coordinates`, `index_comparisons`, `reshaping`, `derivatives`
- memory: `accesses`, `indexed_accesses`, `strided_tiles`, `bit_tiles`, `packed_tiles`, `repeated_tiles`,
  `copied_stores`
- exchange: `conversion`, `axis_exchange`, `lane_exchange`, `warp_exchange`, `scratch`
- along an axis: `folds`, `scans`, `sorts`, `selection`, `gather`, `histograms`
- products: `multiplication`, `fragments`, `warpgroups`, `two_of_four_products`, `staged_tiles`
- without a layout: `open_tiles`, `open_layouts`, `open_orders`
"""
