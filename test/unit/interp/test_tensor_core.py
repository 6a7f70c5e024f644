"""Asynchronous copies, ldmatrix, mma.sync; and a whole GEMM tile as a transform script leaves it."""

import re

import ml_dtypes
import numpy as np
import pytest
from gemm_text import Gemm, script, transformed

from lego_mlir import interp
from lego_mlir.interp import Kind

SHARED = "#gpu.address_space<workgroup>"


def fragment_index(which: str, registers: int, elements: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of a fragment by the words of the PTX ISA, lane by lane."""
    rows, columns = np.zeros((2, 32, registers, elements), int)
    for lane in range(32):
        group, thread = lane >> 2, lane % 4
        for r in range(registers):
            for e in range(elements):
                i = r * elements + e
                if which == "a":
                    rows[lane, r, e] = group if r % 2 == 0 else group + 8
                    columns[lane, r, e] = thread * elements + e + (4 * elements if r >= 2 else 0)
                elif which == "b":
                    rows[lane, r, e] = thread * elements + e + (4 * elements if r >= 1 else 0)
                    columns[lane, r, e] = group
                else:
                    rows[lane, r, e] = group if i < 2 else group + 8
                    columns[lane, r, e] = thread * 2 + (i & 1)
    return rows, columns


MMA = {
    "f16": ("f16", "f32", (16, 8, 16), (4, 2), (2, 2), (2, 2)),
    "f16, k 8": ("f16", "f32", (16, 8, 8), (2, 2), (1, 2), (2, 2)),
    "f16 accumulator": ("f16", "f16", (16, 8, 16), (4, 2), (2, 2), (2, 2)),
    "bf16": ("bf16", "f32", (16, 8, 16), (4, 2), (2, 2), (2, 2)),
    "tf32": ("f32", "f32", (16, 8, 8), (4, 1), (2, 1), (2, 2)),
    "f8": ("f8E4M3FN", "f32", (16, 8, 32), (4, 4), (2, 4), (2, 2)),
    "f8 e5m2": ("f8E5M2", "f32", (16, 8, 32), (4, 4), (2, 4), (2, 2)),
    "i8": ("i8", "i32", (16, 8, 32), (4, 4), (2, 4), (2, 2)),
    "f64": ("f64", "f64", (8, 8, 4), (1, 1), (1, 1), (1, 2)),
}
DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2, "i8": np.int8, "i32": np.int32, "f64": np.float64,
}  # fmt: skip


@pytest.mark.parametrize("name", MMA)
def test_mma_sync(name: str):
    operand, total, (m, n, k), *shapes = MMA[name]
    rng = np.random.default_rng(0)
    draw = (lambda *s: rng.integers(-100, 100, s)) if operand == "i8" else (lambda *s: rng.standard_normal(s))
    matrices = [
        draw(m, k).astype(DTYPES[operand]),
        draw(k, n).astype(DTYPES[operand]),
        draw(m, n).astype(DTYPES[total]),
    ]
    fragments, types = [], []
    for which, matrix, shape in zip("abc", matrices, shapes, strict=True):
        rows, columns = fragment_index(which, *shape)
        fragments.append(np.ascontiguousarray(np.tile(matrix[rows, columns].reshape(32, -1), (2, 1))))
        types.append((shape[0] * shape[1], f"{shape[0]}x{shape[1]}x{operand if which != 'c' else total}"))
    text = "gpu.module @m { gpu.func @k(" + ", ".join(
        f"%m{i}: memref<64x{size}x{type_.split('x')[2]}>" for i, (size, type_) in enumerate(types)
    ) + ") kernel {\n%t = gpu.thread_id x\n%c0 = arith.constant 0 : index\n"  # fmt: skip
    for i, (size, type_) in enumerate(types):
        element = type_.split("x")[2]
        text += f"""%f{i} = vector.load %m{i}[%t, %c0] : memref<64x{size}x{element}>, vector<{size}x{element}>
            %v{i} = vector.shape_cast %f{i} : vector<{size}x{element}> to vector<{type_}>\n"""
    a, b, c = (f"vector<{type_}>" for _, type_ in types)
    flag = ", tf32Enabled" if name == "tf32" else ""
    size, element = types[2][0], total
    text += f"""%r = nvgpu.mma.sync(%v0, %v1, %v2) {{mmaShape = [{m}, {n}, {k}]{flag}}} : ({a}, {b}, {c}) -> {c}
        %s = vector.shape_cast %r : {c} to vector<{size}x{element}>
        vector.store %s, %m2[%t, %c0] : memref<64x{size}x{element}>, vector<{size}x{element}>
        gpu.return }} }}"""
    report = interp.launch(text, grid=1, block=64, args=fragments)
    assert report.clean, report.faults
    wide = np.int64 if operand == "i8" else np.float64
    left, right = matrices[0], matrices[1]
    if name == "tf32":
        left, right = ((x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (left, right))
    expected = left.astype(wide) @ right.astype(wide) + matrices[2].astype(wide)
    rows, columns = fragment_index("c", *shapes[2])
    found = fragments[2][32:].reshape(rows.shape)
    tolerance = {"f16": 2e-3, "f64": 1e-14}.get(total, 1e-6)
    np.testing.assert_allclose(found.astype(wide), expected[rows, columns], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("tiles", [1, 2, 4])
@pytest.mark.parametrize("transpose", [False, True])
def test_ldmatrix(tiles: int, transpose: bool):
    """Lane i of a tile points at its row i; each lane gets two neighbours of a row, or of a column."""
    text = f"""gpu.module @m {{ gpu.func @k(%in: memref<32x8xf16>, %out: memref<32x{2 * tiles}xf16>)
        workgroup(%s: memref<32x8xf16, {SHARED}>) kernel {{
        %t = gpu.thread_id x
        %c0 = arith.constant 0 : index
        %v = vector.load %in[%t, %c0] : memref<32x8xf16>, vector<8xf16>
        vector.store %v, %s[%t, %c0] : memref<32x8xf16, {SHARED}>, vector<8xf16>
        gpu.barrier
        %r = nvgpu.ldmatrix %s[%t, %c0] {{numTiles = {tiles} : i32, transpose = {str(transpose).lower()}}}
            : memref<32x8xf16, {SHARED}> -> vector<{tiles}x2xf16>
        %f = vector.shape_cast %r : vector<{tiles}x2xf16> to vector<{2 * tiles}xf16>
        vector.store %f, %out[%t, %c0] : memref<32x{2 * tiles}xf16>, vector<{2 * tiles}xf16>
        gpu.return }} }}"""
    source = np.arange(256, dtype=np.float16).reshape(32, 8)
    out = np.zeros((32, 2 * tiles), np.float16)
    report = interp.launch(text, grid=1, block=32, args=[source, out])
    assert report.clean, report.faults
    for lane in range(32):
        for tile in range(tiles):
            matrix = source[8 * tile : 8 * tile + 8]
            matrix = matrix.T if transpose else matrix
            assert out[lane, 2 * tile : 2 * tile + 2].tolist() == matrix[lane // 4, 2 * (lane % 4) :][:2].tolist()
    (site,) = [s for s in report.sites if s.operation == "nvgpu.ldmatrix"]
    assert (report.totals.ldmatrix, site.wavefronts, site.conflicts, site.lanes) == (1, tiles, 0, 8 * tiles)


def copies(body: str) -> str:
    """Each of 64 threads copies 4 floats; `body` says when it looks at them, %r: f32 goes out."""
    tile = f"memref<512xf32, {SHARED}>"
    return f"""gpu.module @m {{ gpu.func @k(%in: memref<512xf32>, %out: memref<64xf32>) workgroup(%s: {tile}) kernel {{
        %t = gpu.thread_id x
        %a = affine.apply affine_map<(d0) -> (d0 * 4)>(%t)
        %b = affine.apply affine_map<(d0) -> (d0 * 4 + 256)>(%t)
        %n = affine.apply affine_map<(d0) -> ((d0 * 4 + 4) mod 256)>(%t)
        %c2 = arith.constant 2 : index
        {body}
        memref.store %r, %out[%t] : memref<64xf32>
        gpu.return }} }}""".replace("COPY", f"memref<512xf32> to {tile}").replace("TILE", tile)


COPY_A = "%k0 = nvgpu.device_async_copy %in[%a], %s[%a], 4 : COPY\n%g0 = nvgpu.device_async_create_group %k0\n"
COPY_B = "%k1 = nvgpu.device_async_copy %in[%b], %s[%b], 4 : COPY\n%g1 = nvgpu.device_async_create_group %k1\n"
WAIT_0 = "nvgpu.device_async_wait %g0 {numGroups = 0 : i32}\n"
WAIT_1 = "nvgpu.device_async_wait %g0 {numGroups = 1 : i32}\n"
OWN = "%r = memref.load %s[%a] : TILE"
NEXT = "%r = memref.load %s[%n] : TILE"
OTHER = "%r = memref.load %s[%b] : TILE"


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        (COPY_A + WAIT_0 + OWN, set()),
        (COPY_A + OWN, {Kind.PENDING}),
        (COPY_A + "gpu.barrier\n" + NEXT, {Kind.PENDING}),
        (COPY_A + WAIT_1 + OWN, {Kind.PENDING}),
        (COPY_A + COPY_B + WAIT_1 + OWN, set()),
        (COPY_A + COPY_B + WAIT_1 + OTHER, {Kind.PENDING}),
        (COPY_A + COPY_B + WAIT_0 + OTHER, set()),
        (COPY_A + WAIT_0 + NEXT, {Kind.RACE}),
        (COPY_A + WAIT_0 + "gpu.barrier\n" + NEXT, set()),
        (COPY_A + "gpu.barrier\n" + WAIT_0 + NEXT, {Kind.RACE}),
        (OWN.replace("%r", "%q").replace("memref.load %s[%a]", "memref.load %in[%a]").replace("TILE", "memref<512xf32>")
         + "\n" + COPY_A + "memref.store %q, %s[%a] : TILE\n" + WAIT_0 + OWN, {Kind.PENDING}),
    ],
)  # fmt: skip
def test_a_copy_lands_at_its_wait_and_not_before(body: str, kinds: set):
    source, out = np.arange(512, dtype=np.float32), np.zeros(64, np.float32)
    report = interp.launch(copies(body), grid=1, block=64, args=[source, out])
    assert report.kinds() == kinds, report.faults
    if not kinds:
        own = 4 * np.arange(64)
        looked_at = own + 256 if body.endswith(OTHER) else (own + 4) % 256 if body.endswith(NEXT) else own
        assert np.array_equal(out, source[looked_at])
    if kinds == {Kind.PENDING} and "store %q" not in body:
        assert (out == 0).all()


def test_a_copy_of_fewer_elements_fills_up_with_zeros():
    body = "%k0 = nvgpu.device_async_copy %in[%a], %s[%a], 4, %c2 : COPY\n%g0 = nvgpu.device_async_create_group %k0\n"
    body += (
        WAIT_0
        + "%v = vector.load %s[%a] : TILE, vector<4xf32>\n%r = vector.reduction <add>, %v : vector<4xf32> into f32"
    )
    source, out = np.arange(512, dtype=np.float32), np.zeros(64, np.float32)
    assert interp.launch(copies(body), grid=1, block=64, args=[source, out]).clean
    assert np.array_equal(out, source[0:256:4] + source[1:256:4])


def test_misaligned_copy():
    body = COPY_A.replace("%in[%a]", "%in[%c2]") + WAIT_0 + OWN
    report = interp.launch(copies(body), grid=1, block=64, args=[np.zeros(512, np.float32), np.zeros(64, np.float32)])
    assert report.kinds() == {Kind.MISALIGNED}


SMALL = Gemm(m=128, n=128, k=96, bm=64, bn=128, bk=32)


def run(text: str, sizes: Gemm) -> tuple[interp.Report, np.ndarray]:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((sizes.m, sizes.k)).astype(np.float16)
    b = rng.standard_normal((sizes.k, sizes.n)).astype(np.float16)
    c = np.zeros((sizes.m, sizes.n), np.float32)
    report = interp.launch(text, args=[a, b, c], names=["A", "B", "C"])
    error = c - a.astype(np.float64) @ b.astype(np.float64)
    assert np.linalg.norm(error) < 1e-6 * np.linalg.norm(c)
    return report, c


def test_gemm_before_its_script_has_the_same_values_and_no_race():
    text = Gemm(**{**vars(SMALL), "barriers": ("gpu.barrier", "\ngpu.barrier")}).text()
    before, c0 = run(text, SMALL)
    assert before.clean, before.faults
    after, c1 = run(transformed(text, script()), SMALL)
    assert after.clean, after.faults
    np.testing.assert_allclose(c0, c1, rtol=1e-5, atol=1e-4)


def test_gemm_after_its_script_needs_one_barrier_and_has_no_conflict():
    before, _ = run(SMALL.text(), SMALL)
    assert before.kinds() == {Kind.RACE}  # one buffer and one barrier: the next copy overwrites what is being read
    report, _ = run(transformed(SMALL.text(), script()), SMALL)
    assert report.clean, report.faults
    assert report.totals.conflicts == 0
    assert report.totals.ldmatrix > 0
    assert report.totals.compulsory == 2 * (SMALL.m * SMALL.k + SMALL.k * SMALL.n) + 4 * SMALL.m * SMALL.n


def test_gemm_with_its_tiles_in_dynamic_shared_memory():
    """As a kernel needs them whose tiles exceed 48 KB: views of one buffer of bytes in the place of allocations."""
    text = transformed(SMALL.text(), script())
    at, lines = 0, []
    for line in text.splitlines():
        found = re.match(r"\s*(%\w+) = memref\.alloc\(\) : memref<(3x\d+x\d+)xf16, (#\S+)>", line)
        if found is None:
            lines.append(line)
            continue
        name, shape, space = found.groups()
        raw = f"memref<?xi8, {space}>"
        lines += [
            f"%raw{at} = gpu.dynamic_shared_memory : {raw}",
            f"%at{at} = arith.constant {at} : index",
            f"{name} = memref.view %raw{at}[%at{at}][] : {raw} to memref<{shape}xf16, {space}>",
        ]
        at += 2 * int(np.prod([int(n) for n in shape.split("x")]))
    assert at > 0
    report, _ = run("\n".join(lines), SMALL)
    assert report.clean, report.faults
    assert {s.buffer for s in report.sites if s.space == "shared"} == {"dynamic shared memory"}
    assert report.totals.conflicts == 0


def test_planted_depth_equal_to_factor_races_although_the_values_are_right():
    report, _ = run(transformed(SMALL.text(), script(factor=3, depth=3)), SMALL)
    assert report.kinds() == {Kind.RACE}
    assert any("asynchronous copy" in fault.message and "read by" in fault.message for fault in report.faults)


def test_planted_missing_barrier_races_although_the_values_are_right():
    text = transformed(SMALL.text(), script())
    lines = [line for line in text.splitlines() if "gpu.barrier" not in line]
    assert len(lines) < len(text.splitlines())
    report, _ = run("\n".join(lines), SMALL)
    assert report.kinds() == {Kind.RACE}


def test_planted_missing_swizzle_is_counted():
    report, _ = run(transformed(SMALL.text(), script(swizzle=False)), SMALL)
    assert report.clean
    assert report.totals.conflicts > 0
    sites = [s for s in report.by_line() if s.conflicts]
    assert all(s.operation == "nvgpu.ldmatrix" for s in sites if s.kind == "read")


def test_planted_missing_wait_is_a_pending_copy():
    text = transformed(SMALL.text(), script())
    lines = [line for line in text.splitlines() if "nvgpu.device_async_wait" not in line]
    a, b = np.zeros((SMALL.m, SMALL.k), np.float16), np.zeros((SMALL.k, SMALL.n), np.float16)
    report = interp.launch("\n".join(lines), args=[a, b, np.zeros((SMALL.m, SMALL.n), np.float32)])
    assert report.kinds() == {Kind.PENDING}
