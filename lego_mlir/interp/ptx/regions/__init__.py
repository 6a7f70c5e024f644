"""Straight runs of instructions as machine code of the CPU, with the checks inside.

A *region* is a run of plain instructions without label, branch, barrier or atomic, in which no load follows a store:
then lane by lane equals instruction by instruction. Its function loops over the lanes of a gang. Where a check fails -
an address, a read of what nobody wrote, a race - it returns before anything is stored, and the interpreter runs the
same instructions and reports. So messages have one source, and a rare form costs only time.

region_code         a loop over lanes, registers, guards: the function around the instructions
region_operations   an instruction -> LLVM IR; refuses what a region does not hold
region_checks       the IR of checked accesses to global and shared memory
hot_regions         counts lanes, compiles what is hot, and takes the interpreter's place
"""
