"""Checks of the emulator beyond addresses, barriers and shared memory, and what it takes for granted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks of a launch.

    `global_races`: two accesses of one element of global memory, one of them a write, that nothing orders. `counts`:
    bank conflicts and sectors of each line. `nonfinite`: an instruction whose operands are finite and whose result is
    not. `overflow`: 32-bit integers that overflow and from which an address is made. `fenced_barriers`: a bulk copy may
    complete only on an mbarrier whose initialisation was fenced, a wgmma reads no copy that was made since the last
    wgmma.fence, its registers are not moved before the wait, and a warp stores to what other warps of its group read in
    it only after a barrier, which Triton's text does not keep to. `replicated`: threads may compute one element several
    times, as Triton's do with a tensor of few elements: warps load what another warp of their block loads in the same
    instruction and stores back, and lanes store sums to one shared address that differ by rounding. `lanes`: lanes of
    one warp are ordered by barriers only, not by the order of their instructions. `compiled`: hot runs of instructions
    become machine code of the CPU, with the checks inside. `tensor_fences`: warps that share tensor memory have
    `tcgen05.fence` on both sides of their synchronisation, as PTX asks for, and neither Triton nor CUTLASS write.
    """

    global_races: bool = True
    counts: bool = False
    nonfinite: bool = False
    overflow: bool = False
    fenced_barriers: bool = True
    replicated: bool = False
    lanes: bool = False
    compiled: bool = True
    tensor_fences: bool = False


DEFAULT = Checks()
TRITON = Checks(fenced_barriers=False, replicated=True)
