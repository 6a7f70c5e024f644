"""What a user of the PTX emulator can meet as a message."""

import numpy as np
import pytest

from lego_mlir.errors import InterpreterError
from lego_mlir.interp.ptx import emulate

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def kernel(body, parameters="", directives=".maxntid 32, 1, 1"):
    return (
        f"{HEAD}.visible .entry k({parameters}) {directives}\n{{ .reg .b32 %r<9>; .reg .pred %p<3>;\n{body}\nret; }}\n"
    )


CASES = {
    "tex.2d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [t, {%r1, %r2}];": r"k.ptx:6: the emulator cannot run `tex.2d.*`: t is",
    "st.async.release.gpu.global.u32 [%r1], %r2;": r"k.ptx:6: .*st.async without an mbarrier",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.inc.u32 [%r1], %r2, [%r3];": "red.async",
    "bra NOWHERE;": "PTX line 6: no label NOWHERE in k",
    "mov.u32 %r1, %r99;": "PTX line 6: %r99 is neither a declared register nor a special one",
    "mov.u32 %r1, table;": "table is not declared",
    "setp.foo.s32 %p1, %r1, %r2;": r"the comparison \.foo is not known",
    "ld.shared.v2.b32 %r1, [%r2];": "1 registers for 2 elements",
    "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 {%r1}, {%r1}, {%r1}, {%r1};": "types are not modelled",
    "mov.u32 %r1, 1": "has no end",
    "call.uni (%r1), f, (%r2);": "PTX line 6: the function f has no body in this file; compile both together",
}


@pytest.mark.parametrize("body", CASES)
def test_an_instruction_that_cannot_run(body):
    text = kernel(body) if body.endswith(";") else f"{HEAD}.visible .entry k()\n{{\n{body}"
    with pytest.raises(InterpreterError, match=CASES[body]):
        emulate(text, source="k.ptx")


def test_arguments_and_extents():
    with pytest.raises(InterpreterError, match="k takes 0 arguments, got 1"):
        emulate(kernel(""), args=[1])
    with pytest.raises(InterpreterError, match="no entry j; the PTX has: k"):
        emulate(kernel(""), "j")
    with pytest.raises(InterpreterError, match="does not fix its block size"):
        emulate(kernel("", directives=""))
    with pytest.raises(InterpreterError, match=r"blocks of at most \(32, 1, 1\), not \(64, 1, 1\)"):
        emulate(kernel(""), block=(64, 1, 1))
    with pytest.raises(InterpreterError, match=r"requires blocks of \(32, 1, 1\)"):
        emulate(kernel("", directives=".reqntid 32, 1, 1"), block=(16, 1, 1))
    with pytest.raises(InterpreterError, match="grid x = 0"):
        emulate(kernel(""), grid=(0, 1, 1))
    with pytest.raises(InterpreterError, match="p: pass a C-contiguous array"):
        emulate(kernel("", ".param .u64 p"), args=[np.zeros((4, 4))[:, :2]])
    both = np.zeros(8)
    with pytest.raises(InterpreterError, match="q overlaps p in part"):
        emulate(kernel("", ".param .u64 p, .param .u64 q"), args=[both[:6], both[2:]])
    with pytest.raises(InterpreterError, match="240000 bytes of shared memory"):
        emulate(kernel(""), dynamic_shared=240000)


def test_a_function_is_refused():
    with pytest.raises(InterpreterError, match="name one of the entries; the PTX has: none"):
        emulate(f"{HEAD}.func (.reg .b32 %o) f(.reg .b32 %i)\n{{ ret; }}\n")
