"""PTX written by hand, for tests of the emulator: `entry` adds what every kernel declares."""

HEAD = """.version 8.4
.target sm_90
.address_size 64
"""
REGISTERS = (
    ".reg .pred %p<20>; .reg .b16 %h<20>; .reg .b32 %r<60>; .reg .b64 %rd<60>; .reg .f32 %f<40>; .reg .f64 %fd<20>;"
)


def entry(body: str, parameters: str = "x y", name: str = "k", before: str = "") -> str:
    """A kernel whose parameters are 64-bit, and loaded to %rd1, %rd2, ..; `before` precedes it in the module.

    A parameter `n:u32` is loaded to %r1 if it is the first, and so on.
    """
    declared, loads = [], []
    for number, parameter in enumerate(parameters.split(), 1):
        plain, _, dtype = parameter.partition(":")
        kind = dtype or "u64"
        register = f"%rd{number}" if kind.endswith("64") else f"%r{number}"
        declared.append(f".param .{kind} {plain}")
        loads.append(f"ld.param.{kind} {register}, [{plain}];")
    head = f"{HEAD}{before}\n.visible .entry {name}({', '.join(declared)})\n{{ {REGISTERS}\n{' '.join(loads)}\n"
    return f"{head}{body}\n}}\n"


THREAD = """mov.u32 %r50, %tid.x; mov.u32 %r51, %ctaid.x; mov.u32 %r52, %ntid.x; mad.lo.s32 %r53, %r51, %r52, %r50;
mul.wide.u32 %rd50, %r53, 4; mul.wide.u32 %rd51, %r50, 4;
"""
"""%r50: the thread, %r51: the block, %r53: the thread of the grid; %rd50: 4 bytes for each, %rd51: in the block."""
