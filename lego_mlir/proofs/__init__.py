"""Proofs about whole kernels, for every launch and size: no race, barriers reached, results written, tiles initialised.

footprints    each access as a map from (block, thread, round) to a logical index; unrolled: copies as one access
phases        which accesses no barrier separates
digits        ids and rounds split into the digits that indices use
meeting       two accesses meet in one element only if they are of one thread; collisions: by enumeration
races         the claims about memory; barriers, with divergence: the claims about barriers
confirm       counter-examples from runs of the interpreter
claims        all of these, as `lego-mlir check` lists them
"""
