"""gpu.subgroup_reduce as shuffles: the same values in the interpreter, and PTX that ptxas takes."""

import ml_dtypes
import numpy as np
import pytest
from assembling import needs_ptxas

from lego_mlir import interp
from lego_mlir.errors import ToolchainError
from lego_mlir.toolchain import compile_kernel
from lego_mlir.transforms import modules
from lego_mlir.transforms.passes.subgroup_reduce import LowerSubgroupReduce

FLOAT_KINDS = ("add", "mul", "minnumf", "maxnumf", "minimumf", "maximumf")
INTEGER_KINDS = ("add", "mul", "minui", "minsi", "maxui", "maxsi", "and", "or", "xor")
DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
}  # fmt: skip
CASES = [(e, kind) for e in DTYPES for kind in (INTEGER_KINDS if e.startswith("i") else FLOAT_KINDS)]
CLUSTERS = (
    "",
    " cluster(size = 8)",
    " cluster(size = 4, stride = 2)",
    " cluster(size = 1)",
    " cluster(size = 2, stride = 16)",
)


def kernel(element, lines, block=(64, 1, 1)):
    return f"""module attributes {{gpu.container_module}} {{ gpu.module @m {{
      gpu.func @k(%p: memref<1024x{element}>, %q: memref<1024x{element}>) kernel
          attributes {{known_block_size = array<i32: {", ".join(map(str, block))}>}} {{
        %x = gpu.thread_id x
        %y = gpu.thread_id y
        %i = affine.apply affine_map<(x, y) -> (x + {block[0]} * y)>(%x, %y)
        %v = memref.load %p[%i] : memref<1024x{element}>
        {lines}
        gpu.return
      }} }} }}"""


def reduced(element, kind, clusters=CLUSTERS):
    """One reduction for each cluster, its results one after another."""
    return "\n".join(
        f"""%r{n} = gpu.subgroup_reduce {kind} %v{cluster} : ({element}) -> {element}
        %j{n} = affine.apply affine_map<(i) -> (i + {n * 128})>(%i)
        memref.store %r{n}, %q[%j{n}] : memref<1024x{element}>"""
        for n, cluster in enumerate(clusters)
    )


def lowered(text):
    with modules.session():
        module = modules.parse(text)
        LowerSubgroupReduce().run_on_kernels(module)
        module.operation.verify()
        return modules.to_text(module, locations=False)


def run(text, given):
    p, q = given.copy(), np.zeros_like(given)
    report = interp.launch(text, grid=1, args=[p, q])
    assert report.clean, report.faults
    return q


@pytest.mark.parametrize(
    ("element", "kind", "block"),
    [(*case, block) for case in CASES for block in ((64, 1, 1), (48, 1, 1))] + [("i32", "add", (9, 5, 1))],
    ids=str,
)
def test_shuffles_compute_what_the_reduction_means(element, kind, block):
    random = np.random.default_rng(5)
    # sums and products that every order of operations rounds alike
    low, high = (1, 3) if kind == "mul" else (-8, 9)
    given = random.integers(low, high, 1024).astype(DTYPES[element])
    if kind == "mul":
        given = np.where(random.random(1024) < 0.9, 1, given).astype(DTYPES[element])
    text = kernel(element, reduced(element, kind), block)
    shuffled = lowered(text)
    assert "subgroup_reduce" not in shuffled
    np.testing.assert_array_equal(run(shuffled, given), run(text, given))


def test_a_vector_is_reduced_element_by_element():
    lines = """%j = affine.apply affine_map<(i) -> (4 * i)>(%i)
        %w = vector.load %p[%j] : memref<1024xf32>, vector<4xf32>
        %r = gpu.subgroup_reduce add %w : (vector<4xf32>) -> vector<4xf32>
        vector.store %r, %q[%j] : memref<1024xf32>, vector<4xf32>"""
    given = np.arange(1024, dtype=np.float32) % 13
    text = kernel("f32", lines)
    found = run(lowered(text), given)
    np.testing.assert_array_equal(found, run(text, given))
    assert found[:4].tolist() == [given[k:128:4].sum() for k in range(4)]


@needs_ptxas
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("block", [(64, 1, 1), (48, 1, 1)], ids=str)
def test_ptxas_takes_every_reduction(target, block):
    texts = []
    for number, (element, kind) in enumerate(CASES):
        text = kernel(element, reduced(element, kind, CLUSTERS[:3]), block)
        texts.append(text.replace("@m ", f"@m{number} ").replace("@k(", f"@k{number}("))
    compiled = compile_kernel(modules.merge(texts), emit="cubin", target=target)
    assert ("shfl.sync.bfly" in compiled.stage("ptx")) == (block == (64, 1, 1))


@pytest.mark.parametrize(
    ("lines", "where"),
    [
        ("%c = arith.cmpi ult, %i, %x : index\nscf.if %c {{ {} }}", "scf.if"),
        (
            "%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\nscf.for %k = %c0 to %i step %c1 {{ {} }}",
            "scf.for",
        ),
    ],
)
def test_lanes_that_may_be_elsewhere_are_refused(lines, where):
    text = kernel("f32", lines.format(reduced("f32", "add", CLUSTERS[:1])))
    with pytest.raises(ToolchainError, match=f"inside {where} that lanes of a warp may take differently; .*`uniform`"):
        compile_kernel(text, emit="ptx")
    compile_kernel(text.replace("add %v", "add %v uniform"), emit="ptx")


def test_a_loop_that_all_lanes_take_alike_is_taken():
    lines = """%c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %b = gpu.block_id x
        scf.for %k = %c0 to %b step %c1 {{ {} }}"""
    compile_kernel(kernel("f32", lines.format(reduced("f32", "add", CLUSTERS[:1]))), emit="ptx")


def test_clusters_past_the_end_of_a_warp_are_refused():
    text = kernel("f32", reduced("f32", "add", (" cluster(size = 16, stride = 4)",)))
    with pytest.raises(ToolchainError, match="16 lanes with stride 4 reach past the 32 lanes of a warp"):
        compile_kernel(text, emit="ptx")
