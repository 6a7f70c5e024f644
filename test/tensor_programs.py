"""Programs with tensor memory and their results, which share no code with the emulator.

A program stores numbers to tensor memory, multiplies tiles that it copied to shared memory, and loads everything back.
Its operands are placed byte by byte, as the canonical layouts of the PTX ISA draw them, and `expected` multiplies the
numbers. The fields after `seed` plant faults.
"""

from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

# name: NumPy type, bits, number in the descriptor
F16 = {"f16": (np.float16, 16, 0), "bf16": (ml_dtypes.bfloat16, 16, 1)}
F8 = {
    "e4m3": (ml_dtypes.float8_e4m3fn, 8, 0), "e5m2": (ml_dtypes.float8_e5m2, 8, 1),
    "e2m3": (ml_dtypes.float6_e2m3fn, 6, 3), "e3m2": (ml_dtypes.float6_e3m2fn, 6, 4),
    "e2m1": (ml_dtypes.float4_e2m1fn, 4, 5),
}  # fmt: skip
F4 = {"e2m1": (ml_dtypes.float4_e2m1fn, 4, 1)}
TYPES = {
    "f16": F16, "tf32": {"tf32": (np.float32, 32, 2)}, "f8f6f4": F8,
    "i8": {"u8": (np.uint8, 8, 0), "s8": (np.int8, 8, 1)}, "mxf8f6f4": F8, "mxf4": F4, "mxf4nvf4": F4,
}  # fmt: skip
SWIZZLES = {0: 0, 128: 2, 64: 4, 32: 6}
LOADS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
COLUMNS_OF = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8, "16x32bx2": 2}
SCALES = {"ue8m0": (ml_dtypes.float8_e8m0fnu, (0.5, 1, 2, 4)), "ue4m3": (ml_dtypes.float8_e4m3fn, (0.5, 1, 1.5, 3))}
TILE, BARRIER = 32768, 16
A_AT = 128  # column of A in tensor memory
A_SCALES, B_SCALES = 320, 328


@dataclass(frozen=True)
class TensorProgram:
    """D = (D0 * 2^-scale_d) + sum of A_i B_i^T by one thread, in `steps` products of 32 bytes along K."""

    kind: str = "f16"
    left: str = "f16"
    right: str = "f16"
    result: str = "f32"
    m: int = 128
    n: int = 64
    steps: int = 2
    swizzles: tuple[int, int] = (128, 128)
    k_major: tuple[bool, bool] = (True, True)
    negated: tuple[bool, bool] = (False, False)
    adds: bool = True
    scale_d: int = 0
    from_tensor: bool = False
    disabled: int = 0
    load: str = "32x32b"
    pair: bool = False
    scales: str = ""
    block: int = 32
    first_scale: int = 0
    seed: int = 0
    # what is left out, or in addition
    without: tuple[str, ...] = ()
    columns: int = 512
    extra: dict[str, str] = field(default_factory=dict)

    # --- numbers ------------------------------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        return 64 if self.kind.startswith("mxf4") else 32 * 8 // max(8, TYPES[self.kind][self.left][1])

    def numbers(self):
        """A (steps, m, k), B (steps, n, k), D0 (m, n) and the scales (steps, rows, parts) of both."""
        random = np.random.default_rng(self.seed)
        low = [0 if t == "u8" else -3 for t in (self.left, self.right)]
        a = random.integers(low[0], 4, (self.steps, self.m, self.depth)).astype(float)
        b = random.integers(low[1], 4, (self.steps, self.n, self.depth)).astype(float)
        d = random.integers(-8, 9, (self.m, self.n)).astype(float)
        if not self.scales:
            return a, b, d, None, None
        choice, parts = SCALES[self.scales][1], self.depth // self.block
        sa, sb = (random.choice(choice, (1, rows, parts)).astype(float) for rows in (self.m, self.n))
        return a, b, d, sa, sb

    def expected(self):
        """D, (m, n)."""
        a, b, d, sa, sb = self.numbers()
        if sa is not None:
            a, b = a * np.repeat(sa, self.block, 2), b * np.repeat(sb, self.block, 2)
        sign = -1 if self.negated[0] != self.negated[1] else 1
        product = sign * np.einsum("smk,snk->mn", a, b)
        old = d * 2.0**-self.scale_d if self.adds and self.steps == 1 else d if self.adds else 0
        assert self.steps == 1 or not self.scale_d
        return product + old

    # --- bytes --------------------------------------------------------------------------------------------------

    def row_bytes(self, values, type_):
        """The 32 bytes along K of a row."""
        dtype, bits, _ = TYPES[self.kind][type_]
        if bits >= 8:
            return np.asarray(values).astype(dtype).view(np.uint8)
        codes = np.asarray(values).astype(dtype).view(np.uint8)
        if self.kind.startswith("mxf4"):
            return (codes[0::2] | codes[1::2] << 4).astype(np.uint8)
        found = np.zeros(32, np.uint8)
        for i, code in enumerate(codes):
            for bit in range(bits):
                at = 128 * (i // 16) + (i % 16) * bits + bit
                found[at // 8] |= (code >> bit & 1) << at % 8
        return found

    def image(self, matrix, type_, swizzle, k_major):
        """A tile of shared memory: bytes, leading and stride offsets of its descriptor."""
        tile, rows = np.zeros(TILE, np.uint8), [self.row_bytes(row, type_) for row in matrix]
        span = swizzle or 16
        turn = {0: 8, 128: 1, 64: 2, 32: 4}[swizzle]
        size = max(8, TYPES[self.kind][type_][1]) // 8
        if k_major:
            stride, leading = 8 * span, 16384
            for i, row in enumerate(rows):
                for chunk in range(2):
                    if swizzle:
                        at = i // 8 * stride + i % 8 * span + 16 * (chunk ^ i % 8 // turn)
                    else:
                        at = chunk * leading + i // 8 * stride + i % 8 * 16
                    tile[at : at + 16] = row[16 * chunk : 16 * chunk + 16]
            return tile, leading, stride
        depth = len(rows[0]) // size
        atoms = -(-len(rows) * size // span)
        block = 8 * span
        along, along_k = (block * (depth // 8), block) if swizzle else (block, block * atoms)
        for i, row in enumerate(rows):
            for k in range(depth):
                atom, byte = divmod(i * size, span)
                byte = 16 * (byte // 16 ^ (k % 8 // turn if swizzle else 0)) + byte % 16
                at = atom * along + k // 8 * along_k + k % 8 * span + byte
                tile[at : at + size] = row[k * size : (k + 1) * size]
        return (tile, along, along_k) if swizzle else (tile, along_k, along)

    def images(self):
        """(blocks, bytes) of shared memory, and the high words of all descriptors by step, A and B."""
        a, b, _, sa, sb = self.numbers()
        blocks, high = 2 if self.pair else 1, []
        tiles = np.zeros((blocks, 2 * self.steps + 1, TILE), np.uint8)
        for rank in range(blocks):
            for step in range(self.steps):
                for side, (x, type_) in enumerate(((a, self.left), (b, self.right))):
                    part = np.split(x[step], blocks)[rank]
                    swizzle, k_major = self.swizzles[side], self.k_major[side]
                    if side == 0 and self.from_tensor:
                        swizzle = 0
                    tile, leading, stride = self.image(part, type_, swizzle, k_major)
                    tiles[rank, 2 * step + side] = tile
                    if rank == 0:
                        high.append(
                            (leading >> 4 & 0x3FFF) << 16 | (stride >> 4 | 1 << 14 | SWIZZLES[swizzle] << 29) << 32
                        )
        if sa is not None:
            dtype = SCALES[self.scales][0]
            for at, x in ((0, sa[0]), (1024, sb[0])):
                for row, values in enumerate(x):
                    for part, value in enumerate(values):
                        byte = np.array(value).astype(dtype).view(np.uint8)
                        place = at + row // 128 * 512 + row % 32 * 16 + row // 32 % 4 * 4 + self.first_scale + part
                        tiles[0, -1, place] = byte
        return tiles.reshape(blocks, -1), high

    def instruction_descriptor(self):
        types = TYPES[self.kind]
        bits = types[self.left][2] << 7 | types[self.right][2] << 10 | self.n // 8 << 17 | self.m // 16 << 24
        bits |= (
            self.negated[0] << 13 | self.negated[1] << 14 | (not self.k_major[0]) << 15 | (not self.k_major[1]) << 16
        )
        if self.scales:
            return bits | (self.scales == "ue8m0") << 23 | self.first_scale << 29 | self.first_scale << 4
        return bits | {"f16": 0, "f32": 1, "s32": 2}[self.result] << 4

    # --- places -------------------------------------------------------------------------------------------------

    def lane_of(self, i, j):
        """Block, lane and column of D's element."""
        if self.pair and self.m == 256:
            return i // 128, i % 128, j
        if self.pair:
            return i // 64, i % 64 + 64 * (j >= self.n // 2), j % (self.n // 2)
        if self.m == 64:
            return 0, i % 16 + 32 * (i // 16), j
        return 0, i, j

    def words(self, d):
        """D as (blocks, 128, n) words of tensor memory; zeros where it has no element."""
        found = np.zeros((2 if self.pair else 1, 128, self.n), np.uint32)
        for i in range(self.m):
            for j in range(self.n):
                if self.result == "f16":
                    word = np.float16(d[i, j]).view(np.uint16)
                else:
                    word = np.array(d[i, j]).astype(np.float32 if self.result == "f32" else np.int32).view(np.uint32)
                found[self.lane_of(i, j)] = word
        return found

    def kept(self, before, after):
        """The words after the product: `before` where D has no element, or its lane is disabled."""
        found = before.copy()
        for i in range(self.m):
            for j in range(self.n):
                place = self.lane_of(i, j)
                if not self.disabled >> place[1] % 32 & 1:
                    found[place] = after[place]
        return found

    def loaded(self, words):
        """(128, n) words of one block as the registers of its four warps: (4, registers, 32)."""
        registers = self.n // COLUMNS_OF[self.load] * LOADS[self.load]
        found = np.zeros((4, registers * (32 // int(self.load.split("x")[0])), 32), np.uint32)
        for warp in range(4):
            for half in range(32 // int(self.load.split("x")[0])):
                for r in range(registers):
                    for t in range(32):
                        lane, column = {
                            "32x32b": (t, r),
                            "16x64b": (t // 4 + 8 * (t % 2), 2 * r + t // 2 % 2),
                            "16x128b": (t // 4 + 8 * (r % 2), 4 * (r // 2) + t % 4),
                            "16x256b": (t // 4 + 8 * (r // 2 % 2), 8 * (r // 4) + 2 * (t % 4) + r % 2),
                            "16x32bx2": (t % 16, r + self.n // 2 * (t // 16)),
                        }[self.load]
                        found[warp, half * registers + r, t] = words[32 * warp + 16 * half + lane, column]
        return found

    # --- text ---------------------------------------------------------------------------------------------------

    def part(self, name, text):
        """A part of the program that a test leaves out, or adds to."""
        return ("" if name in self.without else f"{text}\n") + self.extra.get(name, "")

    def text(self):
        """The PTX. Parameters: the image of shared memory, D0's words, the results."""
        _, high = self.images()
        total = (2 * self.steps + 1) * TILE
        group, slot, bar = f"cta_group::{2 if self.pair else 1}", total + BARRIER, total
        sync = "bar.sync 0;"
        if self.pair:
            sync = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
        before = self.part("before", "tcgen05.fence::before_thread_sync;")
        after = self.part("after", "tcgen05.fence::after_thread_sync;")
        lines = [
            "mov.u32 %me, %tid.x; shr.u32 %warp, %me, 5; mov.u32 %base, dynamic; mov.u32 %rank, %cluster_ctarank;",
            f"add.u32 %bar, %base, {bar}; add.u32 %slot, %base, {slot}; setp.ne.u32 %q, %me, 0;",
            "@!%q mbarrier.init.shared::cta.b64 [%bar], 1; @!%q fence.mbarrier_init.release.cluster;",
            f"ld.param.u64 %src, [image]; mul.wide.u32 %off, %rank, {total}; add.u64 %src, %src, %off;",
            "mul.wide.u32 %off, %me, 16; add.u64 %src, %src, %off; shl.b32 %x, %me, 4; add.u32 %dst, %base, %x;",
            "mov.u32 %i, 0;",
            "COPY: ld.global.v4.b32 {%a, %b, %c, %d}, [%src]; st.shared.v4.b32 [%dst], {%a, %b, %c, %d};",
            f"add.u64 %src, %src, 2048; add.u32 %dst, %dst, 2048; add.u32 %i, %i, 2048; setp.lt.u32 %p, %i, {total};",
            "@%p bra COPY;",
            self.part("proxy", "fence.proxy.async.shared::cta;"),
            "setp.eq.u32 %w, %warp, 0;",
            f"@%w tcgen05.alloc.{group}.sync.aligned.shared::cta.b32 [%slot], {self.columns};",
            self.part("relinquish", f"@%w tcgen05.relinquish_alloc_permit.{group}.sync.aligned;"),
            "bar.sync 0; ld.shared.b32 %tmem, [%slot]; shl.b32 %x, %warp, 21; add.u32 %own, %tmem, %x;",
        ]
        # D0, by 32x32b.x8
        lines.append(
            f"ld.param.u64 %src, [start]; mul.wide.u32 %off, %rank, {128 * self.n * 4}; add.u64 %src, %src, %off;"
        )
        lines.append(f"mul.wide.u32 %off, %me, {4 * self.n}; add.u64 %src, %src, %off;")
        for column in range(0, self.n, 8):
            regs = ", ".join(f"%v{i}" for i in range(8))
            lines += [f"ld.global.b32 %v{i}, [%src+{4 * (column + i)}];" for i in range(8)]
            lines.append(self.part("store", f"tcgen05.st.sync.aligned.32x32b.x8.b32 [%own+{column}], {{{regs}}};"))
        lines += [self.part("wait_st", "tcgen05.wait::st.sync.aligned;"), before, self.part("ready", sync)]
        lines += [
            "or.b32 %x, %me, %rank; setp.ne.u32 %q, %x, 0; @%q bra DONE;", after,
            "and.b32 %x, %base, 0x3FFFF; shr.u32 %x, %x, 4; cvt.u64.u32 %start, %x;",
        ]  # fmt: skip
        if self.scales:
            copies = [(A_SCALES, 0), *((B_SCALES + 4 * i, 1024 + 512 * i) for i in range(-(-self.n // 128)))]
            for column, at in copies:
                place = 2 * self.steps * TILE + at
                word = (place >> 4) + ((8 | 1 << 14) << 32)
                lines.append(f"add.u64 %da, %start, {word}; add.u32 %x, %tmem, {column};")
                lines.append(f"tcgen05.cp.{group}.32x128b.warpx4 [%x], %da;")
        for step in range(self.steps):
            for name, side in (("%da", 0), ("%db", 1)):
                lines.append(f"add.u64 {name}, %start, {high[2 * step + side] + ((2 * step + side) * TILE >> 4)};")
            left = "%da"
            if self.from_tensor:
                lines += [f"add.u32 %at, %tmem, {A_AT + 8 * step};", f"tcgen05.cp.{group}.128x256b [%at], %da;"]
                left = "[%at]"
            lines.append(
                f"mov.b32 %x, {self.instruction_descriptor()}; setp.ne.u32 %p, {int(self.adds or step > 0)}, 0;"
            )
            vector = {"": "scale_vec::1X", "mxf4": "scale_vec::2X"}.get(self.kind, "scale_vec::1X")
            vector = "scale_vec::4X" if self.block == 16 else "scale_vec::2X" if self.kind != "mxf8f6f4" else vector
            form = f"kind::{self.kind}" + (f".block_scale.{vector}" if self.scales else "")
            if self.scales:
                lines.append(f"add.u32 %sa, %tmem, {A_SCALES}; add.u32 %sb, %tmem, {B_SCALES};")
                tail = "[%sa], [%sb], %p"
            else:
                mask = ", ".join(["%mask"] * (8 if self.pair else 4))
                tail = f"{{{mask}}}, %p" + (f", {self.scale_d}" if self.scale_d else "")
                lines.append(f"mov.b32 %mask, {self.disabled};")
            lines.append(f"tcgen05.mma.{group}.{form} [%tmem], {left}, %db, %x, {tail};")
        commit = f"tcgen05.commit.{group}.mbarrier::arrive::one.shared::cluster"
        end = f"{commit}.multicast::cluster.b64 [%bar], %both;" if self.pair else f"{commit}.b64 [%bar];"
        lines += ["mov.b16 %both, 3;", self.part("commit", end), "DONE:"]
        poll = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0; @!%p bra WAIT;"
        lines += [self.part("wait", poll), self.part("after", "tcgen05.fence::after_thread_sync;")]
        # all lanes and columns
        height = int(self.load.split("x")[0])
        registers = self.n // COLUMNS_OF[self.load] * LOADS[self.load]
        count = registers * (32 // height)
        lines.append(
            f"ld.param.u64 %out, [result]; mad.lo.u32 %x, %rank, 4, %warp; mul.wide.u32 %off, %x, {128 * count};"
        )
        lines.append(
            "add.u64 %out, %out, %off; and.b32 %x, %me, 31; mul.wide.u32 %off, %x, 4; add.u64 %out, %out, %off;"
        )
        repeats = registers // LOADS[self.load]
        once = repeats & -repeats
        for half in range(32 // height):
            for first in range(0, repeats, once):
                own = range(LOADS[self.load] * first, LOADS[self.load] * (first + once))
                column = first * (1 if self.load == "16x32bx2" else COLUMNS_OF[self.load])
                split = f", {self.n // 2}" if self.load == "16x32bx2" else ""
                lines.append(f"add.u32 %x, %own, {(half << 20) + column};")
                names = ", ".join(f"%o{i}" for i in own)
                load = f"tcgen05.ld.sync.aligned.{self.load}.x{once}.b32 {{{names}}}, [%x]{split};"
                lines += [self.part("load", load), self.part("wait_ld", "tcgen05.wait::ld.sync.aligned;")]
                lines += [f"st.global.b32 [%out+{128 * (half * registers + i)}], %o{i};" for i in own]
        lines += [self.part("before", "tcgen05.fence::before_thread_sync;"), self.part("last", sync)]
        lines.append(self.part("dealloc", f"@%w tcgen05.dealloc.{group}.sync.aligned.b32 %tmem, {self.columns};"))
        body = "\n".join(lines)
        cluster = ".explicitcluster\n.reqnctapercluster 2, 1, 1\n" if self.pair else ""
        return (
            ".version 8.7\n.target sm_100a\n.address_size 64\n.extern .shared .align 1024 .b8 dynamic[];\n"
            ".visible .entry k(.param .u64 image, .param .u64 start, .param .u64 result)\n"
            f".maxntid 128, 1, 1\n{cluster}{{\n.reg .pred %p, %q, %w; .reg .b16 %both;\n"
            ".reg .b32 %me, %warp, %base, %rank, %x, %y, %dst, %i, %a, %b, %c, %d, %bar, %slot, %tmem, %own, %at;\n"
            ".reg .b32 %v<8>, %o<128>, %mask, %sa, %sb; .reg .b64 %src, %off, %da, %db, %start, %out;\n"
            f"{body}\nret;\n}}\n"
        )

    @property
    def shared(self):
        return (2 * self.steps + 1) * TILE + 32
