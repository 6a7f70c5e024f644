"""Choices of tiles for products: the record of a tile, its candidates, the counts of its work, and the model of time.

    product_tile       how a kernel divides a product: one record for all kernels, with JSON
    warp_tiles         candidates and choice for `mma.sync`, K whole or in parts
    warpgroup_tiles    candidates and choice for `wgmma`
    families           which of the two
    role_tiles         candidates and choice for batched and grouped products
    class_tiles        a few tiles for all numbers of rows
    product_counts     work of a product in tiles of a kind
    product_time       .. and its time, with constants of a device (`hardware.devices`)

Numbers alone: nothing here builds a kernel, so that a machine which only launches can choose.
"""
