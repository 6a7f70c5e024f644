"""Matrix products of arrays: `lego_mlir.matmul` and `lego_mlir.grouped_matmul`.

door, groups     the calls                                known           what was bound, kept for arrays like these
operands         an array, its memory, its copies         problem         all that a product's kernel depends on
batches          leading dimensions                       kernels         the kernel of a problem, and its script
fused            options and operands of an epilogue      backends        kernels on devices, packed or compiled
copies, steps    launches around a product                role_kernels    kernels of batches and groups
scaled           operands with scales of blocks
"""
