"""Vector operations against NumPy: every lane has its own 4 x 8 vector, and the result is stored unchanged."""

# ruff: noqa: E501  (MLIR reads better unbroken)
import numpy as np
import pytest

from lego_mlir import interp
from lego_mlir.errors import InterpreterError

LANES = 64


def run(body: str, shape: tuple[int, ...], result: str = "f32", **inputs: np.ndarray) -> np.ndarray:
    """`body` computes %r, of `shape` and element type `result`, from %v: vector<4x8xf32> and %t, the lane."""
    rng = np.random.default_rng(0)
    source = inputs.get("v", rng.standard_normal((LANES, 32)).astype(np.float32))
    count = int(np.prod(shape, dtype=int))
    sizes = "x".join(map(str, shape))
    vector = f"vector<{sizes}x{result}>" if shape else result
    flat = f"%flat = vector.shape_cast %r : {vector} to vector<{count}x{result}>"
    if not shape:
        flat = f"%flat = vector.broadcast %r : {result} to vector<1x{result}>"
    text = f"""gpu.module @m {{ gpu.func @k(%in: memref<{LANES}x32xf32>, %out: memref<{LANES}x{count}x{result}>) kernel {{
        %t = gpu.thread_id x
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c3 = arith.constant 3 : index
        %zero = arith.constant 0.0 : f32
        %pad = arith.constant -1.0 : f32
        %mod4 = affine.apply affine_map<(d0) -> (d0 mod 4)>(%t)
        %mod8 = affine.apply affine_map<(d0) -> (d0 mod 8)>(%t)
        %v1 = vector.load %in[%t, %c0] : memref<{LANES}x32xf32>, vector<32xf32>
        %v = vector.shape_cast %v1 : vector<32xf32> to vector<4x8xf32>
        %row = vector.extract %v[1] : vector<8xf32> from vector<4x8xf32>
        %s = vector.extract %v[2, 3] : f32 from vector<4x8xf32>
        {body}
        {flat}
        vector.store %flat, %out[%t, %c0] : memref<{LANES}x{count}x{result}>, vector<{count}x{result}>
        gpu.return }} }}"""
    dtype = {"f32": np.float32, "i1": np.bool_, "index": np.int64, "f16": np.float16, "i32": np.int32}[result]
    out = np.zeros((LANES, count), dtype)
    report = interp.launch(text, grid=1, block=LANES, args=[source.reshape(LANES, 32), out])
    assert report.clean, report.faults
    return out.reshape(LANES, *shape)


V = np.random.default_rng(0).standard_normal((LANES, 32)).astype(np.float32).reshape(LANES, 4, 8)
T = np.arange(LANES)
ROW, S = V[:, 1], V[:, 2, 3]
MN = 'iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<{kind}>'


def contraction(kind: str, left: str = "m, k", right: str = "n, k", out: str = "m, n") -> str:
    maps = ", ".join(f"affine_map<(m, n, k) -> ({dims})>" for dims in (left, right, out))
    return f"vector.contract {{indexing_maps = [{maps}], {MN.format(kind=kind)}}}"


def folded(combine, parts):
    total = parts[0]
    for part in parts[1:]:
        total = combine(total, part)
    return total


CASES = {
    "extract dynamic": ("%r = vector.extract %v[%mod4] : vector<8xf32> from vector<4x8xf32>", V[T, T % 4]),
    "extract dynamic scalar": ("%r = vector.extract %v[%mod4, %mod8] : f32 from vector<4x8xf32>", V[T, T % 4, T % 8]),
    "extract mixed": ("%r = vector.extract %v[1, %mod8] : f32 from vector<4x8xf32>", V[T, 1, T % 8]),
    "insert row": (
        "%r = vector.insert %row, %v[3] : vector<8xf32> into vector<4x8xf32>",
        np.concatenate([V[:, :3], ROW[:, None]], axis=1),
    ),
    "insert dynamic": (
        "%r = vector.insert %s, %v[%mod4, %mod8] : f32 into vector<4x8xf32>",
        np.where((np.arange(4)[:, None] == T[:, None, None] % 4) & (np.arange(8) == T[:, None, None] % 8),
                 S[:, None, None], V),
    ),
    "extract strided": (
        "%r = vector.extract_strided_slice %v {offsets = [1, 2], sizes = [2, 4], strides = [1, 1]}"
        " : vector<4x8xf32> to vector<2x4xf32>",
        V[:, 1:3, 2:6],
    ),
    "extract strided rows": (
        "%r = vector.extract_strided_slice %v {offsets = [1], sizes = [2], strides = [1]}"
        " : vector<4x8xf32> to vector<2x8xf32>",
        V[:, 1:3],
    ),
    "insert strided": (
        "%part = vector.extract_strided_slice %v {offsets = [0, 0], sizes = [2, 4], strides = [1, 1]}"
        " : vector<4x8xf32> to vector<2x4xf32>\n"
        "%r = vector.insert_strided_slice %part, %v {offsets = [2, 4], strides = [1, 1]}"
        " : vector<2x4xf32> into vector<4x8xf32>",
        np.concatenate([V[:, :2], np.concatenate([V[:, 2:, :4], V[:, :2, :4]], axis=2)], axis=1),
    ),
    "shape_cast": ("%r = vector.shape_cast %v : vector<4x8xf32> to vector<2x16xf32>", V.reshape(LANES, 2, 16)),
    "broadcast row": (
        "%r = vector.broadcast %row : vector<8xf32> to vector<3x8xf32>", np.repeat(ROW[:, None], 3, axis=1)
    ),
    "broadcast scalar": ("%r = vector.broadcast %s : f32 to vector<2x3xf32>", np.ones((1, 2, 3)) * S[:, None, None]),
    "broadcast ones": (
        "%one = vector.shape_cast %row : vector<8xf32> to vector<8x1xf32>\n"
        "%r = vector.broadcast %one : vector<8x1xf32> to vector<8x3xf32>",
        np.repeat(ROW[:, :, None], 3, axis=2),
    ),
    "transpose": ("%r = vector.transpose %v, [1, 0] : vector<4x8xf32> to vector<8x4xf32>", V.transpose(0, 2, 1)),
    "reduction": ("%r = vector.reduction <add>, %row : vector<8xf32> into f32", folded(np.add, list(ROW.T))),
    "reduction from": (
        "%r = vector.reduction <mul>, %row, %s : vector<8xf32> into f32", folded(np.multiply, [S, *ROW.T])
    ),
    "reduction max": ("%r = vector.reduction <maximumf>, %row : vector<8xf32> into f32", ROW.max(axis=1)),
    "multi_reduction": (
        "%r = vector.multi_reduction <add>, %v, %row [0] : vector<4x8xf32> to vector<8xf32>",
        folded(np.add, [ROW, *[V[:, i] for i in range(4)]]),
    ),
    "multi_reduction all": (
        "%r = vector.multi_reduction <minnumf>, %v, %s [0, 1] : vector<4x8xf32> to f32", V.min(axis=(1, 2))
    ),
    "outerproduct": (
        "%col = vector.extract_strided_slice %row {offsets = [0], sizes = [4], strides = [1]}"
        " : vector<8xf32> to vector<4xf32>\n"
        "%r = vector.outerproduct %col, %row {kind = #vector.kind<add>} : vector<4xf32>, vector<8xf32>",
        ROW[:, :4, None] * ROW[:, None, :],
    ),
    "shuffle": (
        "%r = vector.shuffle %row, %row [0, 9, 2, 15] : vector<8xf32>, vector<8xf32>", ROW[:, [0, 1, 2, 7]]
    ),
    "from_elements": (
        "%r = vector.from_elements %s, %zero, %pad, %s : vector<2x2xf32>",
        np.stack([S, 0 * S, 0 * S - 1, S], axis=1).reshape(LANES, 2, 2),
    ),
    "to_elements": (
        "%e:8 = vector.to_elements %row : vector<8xf32>\n%r = vector.from_elements %e#7, %e#0 : vector<2xf32>",
        ROW[:, [7, 0]],
    ),
    "interleave": (
        "%r = vector.interleave %row, %row : vector<8xf32> -> vector<16xf32>", np.repeat(ROW, 2, axis=1)
    ),
    "deinterleave": (
        "%even, %r = vector.deinterleave %row : vector<8xf32> -> vector<4xf32>", ROW[:, 1::2]
    ),
    "scan": (
        "%r, %last = vector.scan <add>, %v, %row {inclusive = false, reduction_dim = 0} : vector<4x8xf32>, vector<8xf32>",
        np.stack([folded(np.add, [ROW, *[V[:, j] for j in range(i)]]) for i in range(4)], axis=1),
    ),
    "fma": ("%r = vector.fma %v, %v, %v : vector<4x8xf32>", (V.astype(float) * V + V).astype(np.float32)),
    "contract nt": (
        "%z = arith.constant dense<0.0> : vector<4x4xf32>\n"
        f"%r = {contraction('add')} %v, %v, %z : vector<4x8xf32>, vector<4x8xf32> into vector<4x4xf32>",
        np.einsum("lmk,lnk->lmn", V, V),
    ),
    "contract tn, transposed result": (
        "%z = arith.constant dense<1.0> : vector<8x8xf32>\n"
        f"%r = {contraction('add', 'k, m', 'k, n', 'n, m')} %v, %v, %z"
        " : vector<4x8xf32>, vector<4x8xf32> into vector<8x8xf32>",
        np.einsum("lkm,lkn->lnm", V, V) + 1,
    ),
    "contract max": (
        "%z = arith.constant dense<-9.0> : vector<4x4xf32>\n"
        f"%r = {contraction('maximumf')} %v, %v, %z : vector<4x8xf32>, vector<4x8xf32> into vector<4x4xf32>",
        (V[:, :, None, :] * V[:, None, :, :]).max(axis=3),
    ),
    "contract to a scalar": (
        "%r = vector.contract {indexing_maps = [affine_map<(k) -> (k)>, affine_map<(k) -> (k)>, affine_map<(k) -> ()>],"
        ' iterator_types = ["reduction"], kind = #vector.kind<add>} %row, %row, %s : vector<8xf32>, vector<8xf32> into f32',
        (ROW * ROW).sum(axis=1) + S,
    ),
    "masked reduction": (
        "%m = vector.create_mask %mod8 : vector<8xi1>\n"
        "%r = vector.mask %m { vector.reduction <add>, %row, %s : vector<8xf32> into f32 } : vector<8xi1> -> f32",
        folded(np.add, [S, *[np.where(i < T % 8, ROW[:, i], 0) for i in range(8)]]),
    ),
    "masked contract": (
        "%z = arith.constant dense<0.0> : vector<4x4xf32>\n%m = vector.create_mask %c3, %c3, %mod8 : vector<4x4x8xi1>\n"
        f"%r = vector.mask %m {{ {contraction('add')} %v, %v, %z : vector<4x8xf32>, vector<4x8xf32> into vector<4x4xf32> }}"
        " : vector<4x4x8xi1> -> vector<4x4xf32>",
        np.einsum("lmk,lnk,lk->lmn", V, V, (np.arange(8) < T[:, None] % 8).astype(np.float32))
        * (np.arange(4) < 3) * (np.arange(4) < 3)[:, None],
    ),
    "gather": (
        "%i = arith.constant dense<[3, 1, 31, 8]> : vector<4xindex>\n%m = arith.constant dense<[true, true, true, false]>"
        " : vector<4xi1>\n%o = arith.constant dense<9.0> : vector<4xf32>\n"
        f"%r = vector.gather %in[%t, %c0][%i], %m, %o : memref<{LANES}x32xf32>, vector<4xindex>, vector<4xi1>,"
        " vector<4xf32> into vector<4xf32>",
        np.concatenate([V.reshape(LANES, 32)[:, [3, 1, 31]], np.full((LANES, 1), 9)], axis=1),
    ),
    "expandload": (
        "%m = arith.constant dense<[true, false, true, true]> : vector<4xi1>\n%o = arith.constant dense<9.0> : vector<4xf32>\n"
        f"%r = vector.expandload %in[%t, %c1], %m, %o : memref<{LANES}x32xf32>, vector<4xi1>, vector<4xf32>"
        " into vector<4xf32>",
        np.stack([V[:, 0, 1], 0 * S + 9, V[:, 0, 2], V[:, 0, 3]], axis=1),
    ),
    "maskedload": (
        "%m = vector.create_mask %mod4 : vector<4xi1>\n%o = arith.constant dense<9.0> : vector<4xf32>\n"
        f"%r = vector.maskedload %in[%t, %c1], %m, %o : memref<{LANES}x32xf32>, vector<4xi1>, vector<4xf32>"
        " into vector<4xf32>",
        np.where(np.arange(4) < T[:, None] % 4, V[:, 0, 1:5], 9),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_against_numpy(name: str):
    body, expected = CASES[name]
    expected = np.asarray(expected, np.float32)
    np.testing.assert_allclose(run(body, expected.shape[1:]), expected, rtol=1e-6, atol=1e-6)


def test_masks_and_steps():
    mask = run("%r = vector.constant_mask [2, 3] : vector<4x8xi1>", (4, 8), "i1")
    assert np.array_equal(mask[0], (np.arange(4)[:, None] < 2) & (np.arange(8) < 3))
    mask = run("%r = vector.create_mask %mod4, %c3 : vector<4x8xi1>", (4, 8), "i1")
    assert np.array_equal(mask[3], (np.arange(4)[:, None] < 3) & (np.arange(8) < 3))
    assert np.array_equal(run("%r = vector.step : vector<8xindex>", (8,), "index")[5], np.arange(8))
    bits = run("%r = vector.bitcast %row : vector<8xf32> to vector<16xf16>", (16,), "f16")
    assert np.array_equal(bits.view(np.uint16), np.ascontiguousarray(ROW).view(np.uint16))
    ints = run("%r = arith.constant dense<[1, -2, 3]> : vector<3xi32>", (3,), "i32")
    assert ints[7].tolist() == [1, -2, 3]


GRID = np.random.default_rng(1).standard_normal((8, 12)).astype(np.float32)
TRANSFERS = {
    "plain": ("(d0, d1) -> (d0, d1)", (4, 8), lambda w: w[:4, :8]),
    "transposed": ("(d0, d1) -> (d1, d0)", (8, 4), lambda w: w[:4, :8].T),
    "broadcast": ("(d0, d1) -> (d0, 0)", (4, 8), lambda w: np.repeat(w[:4, :1], 8, axis=1)),
    "row": ("(d0, d1) -> (d1)", (8,), lambda w: w[0, :8]),
    "column": ("(d0, d1) -> (d0)", (4,), lambda w: w[:4, 0]),
}


@pytest.mark.parametrize("name", TRANSFERS)
@pytest.mark.parametrize(("row", "column", "masked"), [(1, 4, False), (6, 9, False), (6, 9, True), (0, 0, True)])
def test_transfer_read(name: str, row: int, column: int, masked: bool):
    """Each thread of one block reads a window that may leave the matrix: what is not there is padding."""
    map_, shape, view = TRANSFERS[name]
    sizes = "x".join(map(str, shape))
    has_mask = masked and name in ("plain", "transposed", "row")
    mask_shape = {"plain": (4, 8), "transposed": (4, 8), "row": (8,)}.get(name, (1,))
    bounds = ", ".join(["%c2"] * len(mask_shape))
    mask_type = f"vector<{'x'.join(map(str, mask_shape))}xi1>"
    text = f"""gpu.module @m {{ gpu.func @k(%in: memref<8x12xf32>, %out: memref<{sizes}xf32>) kernel {{
        %row = arith.constant {row} : index
        %column = arith.constant {column} : index
        %c0 = arith.constant 0 : index
        %c2 = arith.constant 2 : index
        %pad = arith.constant -1.0 : f32
        {f"%m = vector.create_mask {bounds} : {mask_type}" if has_mask else ""}
        %r = vector.transfer_read %in[%row, %column], %pad{", %m" if has_mask else ""} {{permutation_map = affine_map<{map_}>,
            in_bounds = [{", ".join("true" if e == "0" else "false" for e in map_.split("-> (")[1][:-1].split(", "))}]}}
            : memref<8x12xf32>, vector<{sizes}xf32>
        vector.transfer_write %r, %out[{", ".join(["%c0"] * len(shape))}] {{in_bounds = [{", ".join(["true"] * len(shape))}]}}
            : vector<{sizes}xf32>, memref<{sizes}xf32>
        gpu.return }} }}"""
    out = np.zeros(shape, np.float32)
    report = interp.launch(text, grid=1, block=1, args=[GRID, out])
    assert report.clean, report.faults
    window = np.full((8 + 4, 12 + 8), -1.0, np.float32)
    window[:8, :12] = GRID
    window = window[row : row + 4, column : column + 8].copy()
    if has_mask:
        keep = np.zeros(window.shape, bool)
        keep[: (4 if name == "row" else 2), :2] = True
        window[~keep] = -1
    np.testing.assert_array_equal(out, view(window))


def test_transfer_write_drops_what_is_outside():
    text = """gpu.module @m { gpu.func @k(%out: memref<8x12xf32>) kernel {
        %c6 = arith.constant 6 : index
        %c9 = arith.constant 9 : index
        %v = arith.constant dense<1.0> : vector<8x4xf32>
        vector.transfer_write %v, %out[%c6, %c9] {permutation_map = affine_map<(d0, d1) -> (d1, d0)>,
            in_bounds = [false, false]} : vector<8x4xf32>, memref<8x12xf32>
        gpu.return } }"""
    out = np.zeros((8, 12), np.float32)
    assert interp.launch(text, grid=1, block=1, args=[out]).clean
    expected = np.zeros((8, 12), np.float32)
    expected[6:, 9:] = 1
    assert np.array_equal(out, expected)


def test_stores_through_masks_and_offsets():
    text = """gpu.module @m { gpu.func @k(%out: memref<64xf32>) kernel {
        %c0 = arith.constant 0 : index
        %c8 = arith.constant 8 : index
        %c16 = arith.constant 16 : index
        %v = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : vector<4xf32>
        %m = arith.constant dense<[true, false, true, true]> : vector<4xi1>
        %i = arith.constant dense<[7, 5, 3, 1]> : vector<4xindex>
        vector.maskedstore %out[%c0], %m, %v : memref<64xf32>, vector<4xi1>, vector<4xf32>
        vector.scatter %out[%c8][%i], %m, %v : memref<64xf32>, vector<4xindex>, vector<4xi1>, vector<4xf32>
        vector.compressstore %out[%c16], %m, %v : memref<64xf32>, vector<4xi1>, vector<4xf32>
        gpu.return } }"""
    out = np.zeros(64, np.float32)
    assert interp.launch(text, grid=1, block=1, args=[out]).clean
    assert out[:4].tolist() == [1, 0, 3, 4]
    assert out[8:16].tolist() == [0, 4, 0, 3, 0, 0, 0, 1]
    assert out[16:20].tolist() == [1, 3, 4, 0]


def test_bf16_and_f8_constants_that_are_not_splats():
    import ml_dtypes

    for type_, dtype in (("bf16", ml_dtypes.bfloat16), ("f8E4M3FN", ml_dtypes.float8_e4m3fn)):
        text = f"""gpu.module @m {{ gpu.func @k(%out: memref<4x{type_}>) kernel {{
            %c0 = arith.constant 0 : index
            %v = arith.constant dense<[1.5, -2.0, 0.25, 3.0]> : vector<4x{type_}>
            vector.store %v, %out[%c0] : memref<4x{type_}>, vector<4x{type_}>
            gpu.return }} }}"""
        out = np.zeros(4, dtype)
        interp.launch(text, grid=1, block=1, args=[out])
        assert out.astype(np.float32).tolist() == [1.5, -2.0, 0.25, 3.0]


def test_an_operation_without_a_masked_form_is_refused():
    text = """gpu.module @m { gpu.func @k(%v: f32, %out: memref<8x8xf32>) kernel {
        %c0 = arith.constant 0 : index
        %m = vector.constant_mask [3] : vector<8xi1>
        %x = vector.broadcast %v : f32 to vector<8xf32>
        %i = vector.step : vector<8xindex>
        %on = arith.constant dense<true> : vector<8xi1>
        vector.mask %m { vector.scatter %out[%c0, %c0][%i], %on, %x
            : memref<8x8xf32>, vector<8xindex>, vector<8xi1>, vector<8xf32> } : vector<8xi1>
        gpu.return } }"""
    with pytest.raises(InterpreterError, match=r"vector\.scatter|not a valid MLIR"):
        interp.launch(text, grid=1, block=1, args=[1.0, np.zeros((8, 8), np.float32)])
