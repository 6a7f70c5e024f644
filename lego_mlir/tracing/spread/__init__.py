"""Values spread over the threads of a block: tiles whose elements are in registers, placed by a linear layout.

    distributed    the class `Spread`, arithmetic and comparison
    coordinates    the elements that a thread holds, as indices
    accesses       `lego.load` and `x.store`: the widest accesses that are proved

Everything here is written with words of the kernel language, so that the interpreter, the analyses and every back end
see loads, stores, arithmetic and shuffles only.
"""
