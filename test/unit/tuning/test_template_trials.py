"""Templates in the tuner: their launches, checks and trials on the stand-in for the driver."""

import ctypes
import pickle

import numpy as np
import pytest
from host_cuda import scores_in_numpy

import lego_mlir as lego
from lego_mlir import Col, Row, bf16, f16, f32, i32
from lego_mlir.errors import DependencyError, TemplateError, UsageError
from lego_mlir.templates import Template
from lego_mlir.templates.library.matmul import grouped_gemm, matmul
from lego_mlir.templates.library.nw import nw
from lego_mlir.templates.library.rows import layer_norm, softmax
from lego_mlir.tuning import packed, template_checks, triton_trials
from lego_mlir.tuning.candidates import Candidate, Configuration
from lego_mlir.tuning.child import attempt
from lego_mlir.tuning.gpu_workbench import Preparing, gpu_workbench, toolchain
from lego_mlir.tuning.template_launches import AddressesOf, TemplateLaunch
from lego_mlir.tuning.work_units import SizedProblem

ROWS = 8


def in_numpy(x_ptr):
    powers = np.exp(x_ptr - x_ptr.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def rowwise(at_a_time, N):
    X = lego.Tensor(f32, Row(ROWS, N))
    return TemplateLaunch(
        softmax(ROWS, N, at_a_time=at_a_time), "softmax", lego.cdiv(ROWS, at_a_time), {"x_ptr": X, "y_ptr": X},
        writes=["y_ptr"], reference=in_numpy,
    )  # fmt: skip


def tuned():
    return lego.tune(space={"at_a_time": [1, 2], "num_warps": [1, 4]}, key=["N"])(rowwise)


def sent(launch):
    """The build of a launch, as another process gets it."""
    preparing = Preparing("sm_90")  # its folder of data lasts as long as it does
    build = preparing.trial(Candidate(Configuration.of({"a": 1}), lambda: launch), {})
    return pickle.loads(pickle.dumps(build.with_data()))


def array_at(parameters, number, dtype, shape):
    """The memory that a parameter of a launch points to."""
    address = ctypes.c_uint64.from_address(parameters[number]).value
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(address), dtype).reshape(shape)


def number_at(parameters, number, kind=ctypes.c_int32):
    return kind.from_address(parameters[number]).value


def runs_in_triton(machine, launch, *arguments):
    """Let the interpreter of Triton run the launches of a kernel; `arguments` give it from the parameters."""
    from lego_mlir.templates.run.triton_interpreter import interpret

    def run(parameters, grid):
        interpret(launch.rendered, launch.kernel, grid, *(make(parameters) for make in arguments))

    machine.kernels[launch.kernel] = run


def array(number, dtype, *shape):
    return lambda parameters: array_at(parameters, number, dtype, shape)


# ---- Triton


def test_a_triton_kernel_is_compiled_where_it_is_measured_checked_and_timed(machine):
    launch = rowwise(2, 100).with_options({"num_warps": 2})
    build = sent(launch)
    assert build.emit == "triton"
    assert build().code == launch.rendered.text.encode()  # no code before there is a device
    runs_in_triton(machine, launch, array(0, "f4", ROWS, 100), array(1, "f4", ROWS, 100))
    sampler = attempt(build)
    assert not isinstance(sampler, tuple), sampler
    assert machine.launches[0][:3] == ("softmax", (4, 1, 1), (64, 1, 1))  # two rows a program, two warps
    assert sampler.sample(5) == pytest.approx([20e-6] * 5)
    machine.kernels["softmax"] = lambda parameters, grid: None
    kind, reason = attempt(build)
    assert kind == "wrong"
    assert reason.startswith("y_ptr: WRONG: 800 of 800 elements; first wrong element at position 0")


def test_rows_and_warps_are_separate_candidates(machine):
    kept = tuned().prune({"N": 100}).kept
    assert len({candidate.digest for candidate in kept}) == 4
    assert dict(kept[0].built.options) == {"num_warps": kept[0].configuration["num_warps"]}


def test_numbers_are_specialised_as_triton_does_it(machine):
    launch = TemplateLaunch(
        matmul(lego.size("M"), 32, 16, tile=(16, 16, 16)), "matmul", 4,
        {"a_ptr": lego.Tensor(f16, Row(20, 16)), "b_ptr": lego.Tensor(f16, Row(16, 32)),
         "c_ptr": lego.Tensor(f32, Row(20, 32)), "M": 20},
        writes=["c_ptr"], reference=lambda a_ptr, b_ptr: a_ptr @ b_ptr, tolerance=1e-5,
    )  # fmt: skip
    build = sent(launch)
    given = build.described["triton"]["signature"]
    assert given == {"a_ptr": "*fp16:16", "b_ptr": "*fp16:16", "c_ptr": "*fp32:16", "M": "i32"}
    runs_in_triton(
        machine, launch, array(0, "f2", 20, 16), array(1, "f2", 16, 32), array(2, "f4", 20, 32),
        lambda parameters: number_at(parameters, 3),
    )  # fmt: skip
    assert not isinstance(attempt(build), tuple)
    one = TemplateLaunch(
        Template.of(COPY, "copy.py.jinja"), "copy", 1, {"x_ptr": X8, "y_ptr": X8, "n": 1, "B": 8}, ["y_ptr"],
        lambda x_ptr: x_ptr,
    )  # fmt: skip
    described = sent(one).described["triton"]
    assert described["constants"] == {"n": 1, "B": 8}
    assert described["signature"] == {"x_ptr": "*fp32:16", "y_ptr": "*fp32:16"}


X8 = lego.Tensor(f32, Row(8))
COPY = """import triton
import triton.language as tl

@triton.jit
def copy(x_ptr, y_ptr, n, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(y_ptr + at, tl.load(x_ptr + at) * n)
"""


def test_a_group_of_products_gets_arrays_of_addresses(machine):
    dims = [(16, 32, 16), (32, 16, 32)]
    one = {
        name: AddressesOf([lego.Tensor(f16, Row(*(d[axis] for axis in axes))) for d in dims])
        for name, axes in (("a_addresses", (0, 2)), ("b_addresses", (2, 1)), ("c_addresses", (0, 1)))
    }
    launch = TemplateLaunch(
        grouped_gemm(tile=(16, 16, 16), programs=4), "grouped_gemm", 4,
        {**one, "sizes_ptr": np.array(dims, np.int32).reshape(-1), "products": 2},
        writes=["c_addresses"],
        reference=lambda a_addresses, b_addresses: [a @ b for a, b in zip(a_addresses, b_addresses, strict=True)],
    )  # fmt: skip

    def run(parameters, grid):
        assert grid == (4, 1, 1)
        addresses = [array_at(parameters, i, "u8", (2,)) for i in range(3)]
        sizes = array_at(parameters, 3, "i4", (2, 3))
        for product, (m, n, k) in enumerate(sizes):
            shapes = ((m, k), (k, n), (m, n))
            a, b, c = (
                np.frombuffer((ctypes.c_char * int(2 * np.prod(s))).from_address(int(at[product])), "f2").reshape(s)
                for at, s in zip(addresses, shapes, strict=True)
            )
            c[...] = a.astype("f4") @ b.astype("f4")

    machine.kernels["grouped_gemm"] = run
    build = sent(launch)
    assert not isinstance(attempt(build), tuple)
    assert build.described["triton"]["signature"]["a_addresses"] == "*i64:16"
    assert len(build.described["kernels"]) == 1


def test_descriptors_get_their_memory(machine):
    launch = TemplateLaunch(
        matmul(64, 64, 64, tile=(64, 64, 64), descriptors=True, dtype="float16"), "matmul", 1,
        {"a_ptr": lego.Tensor(f16, Row(64, 64)), "b_ptr": lego.Tensor(f16, Row(64, 64)),
         "c_ptr": lego.Tensor(f16, Row(64, 64))},
        writes=["c_ptr"], reference=lambda a_ptr, b_ptr: a_ptr @ b_ptr,
    )  # fmt: skip
    made = triton_trials.compiled(sent(launch)(), 90)
    scratch, *_ = made.described["programs"][0]["temporaries"]
    assert scratch["elements"] == 3 * 128  # three tensor maps of the one program


def test_a_wrong_element_of_a_large_result_is_told_by_its_position(machine):
    x = lego.Tensor(f32, Row(1000, 100))
    launch = TemplateLaunch(
        softmax(1000, 100), "softmax", 1000, {"x_ptr": x, "y_ptr": x}, writes=["y_ptr"], reference=in_numpy
    )
    checks = template_checks.check_arrays(launch, "template")
    assert sum(a.nbytes for a in checks.values()) < 400_000  # not the 400 kB of each array, twice

    def run(parameters, grid):
        x, y = (array_at(parameters, i, "f4", (1000, 100)) for i in range(2))
        y[...] = in_numpy(x)
        y[999, 98] = 0

    machine.kernels["softmax"] = run
    kind, reason = attempt(sent(launch))
    assert (kind, "first wrong element at position 99998: found 0.0" in reason) == ("wrong", True)


def test_a_layout_decides_where_the_reference_finds_its_input(machine):
    X, Y = lego.Tensor(bf16, Col(4, 6)), lego.Tensor(bf16, Row(4, 6))
    launch = TemplateLaunch(
        Template.of(COPY, "copy.py.jinja"), "copy", 1, {"x_ptr": X, "y_ptr": Y, "n": 3, "B": 8}, ["y_ptr"],
        lambda x_ptr: 3 * x_ptr,
    )  # fmt: skip

    def run(parameters, grid):
        import ml_dtypes

        x, y = (array_at(parameters, i, ml_dtypes.bfloat16, (24,)) for i in range(2))
        y[...] = 3 * x.reshape(6, 4).T.reshape(-1)

    machine.kernels["copy"] = run
    assert not isinstance(attempt(sent(launch)), tuple)


# ---- CUDA


DOUBLE = """
extern "C" __global__ void __launch_bounds__(64) doubled(const float *__restrict__ x, float *y, int n, float by) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n) y[i] = by * x[i];
}
"""


def doubled(**more):
    x = lego.Tensor(f32, Row(100))
    given = {"y": x, "n": 100, "x": x, "by": 2.0}  # in any order
    return TemplateLaunch(
        Template.of(DOUBLE, "doubled.cu.jinja"), "doubled", 2, given, ["y"], lambda x: 2 * x, block=64, **more
    )


@pytest.mark.tools
def test_a_cuda_template_is_compiled_to_a_cubin(machine):
    build = sent(doubled())
    trial = build()
    assert build.emit == "cubin"
    assert trial.code[:4] == b"\x7fELF"

    def run(parameters, grid):
        x, y = (array_at(parameters, i, "f4", (100,)) for i in range(2))
        y[: number_at(parameters, 2)] = number_at(parameters, 3, ctypes.c_float) * x

    machine.kernels["doubled"] = run
    assert not isinstance(attempt(build), tuple)
    assert machine.launches == [("doubled", (2, 1, 1), (64, 1, 1), 0, 0)]


@pytest.mark.tools
def test_the_launches_of_a_sweep_are_timed_together(machine):
    n, b, blocks = 48, 16, 3
    scores = lego.Tensor(i32, Row(n + 1, n + 1))
    after = [("nw_growing", d + 1, {"diagonal": d}) for d in range(1, blocks)]
    after += [("nw_shrinking", 2 * blocks - 1 - d, {"diagonal": d}) for d in range(blocks, 2 * blocks - 1)]
    launch = TemplateLaunch(
        nw(n, b), "nw_growing", 1, {"scores": scores, "substitution": scores, "penalty": 3, "diagonal": 0},
        ["scores"], lambda scores, substitution: edged(scores, substitution), block=b, then=after,
    )  # fmt: skip
    seen = []

    def run(parameters, grid):
        seen.append((grid[0], number_at(parameters, 2), number_at(parameters, 3)))
        if len(seen) == 5:
            s, t = (array_at(parameters, i, "i4", (n + 1, n + 1)) for i in range(2))
            s[...] = edged(s.copy(), t)

    machine.kernels |= {"nw_growing": run, "nw_shrinking": run}
    sampler = attempt(sent(launch))
    assert not isinstance(sampler, tuple), sampler
    assert seen == [(1, 3, 0), (2, 3, 1), (3, 3, 2), (2, 3, 3), (1, 3, 4)]
    assert sampler.sample(1) == pytest.approx([100e-6])


def edged(scores, substitution):
    found = scores.copy()
    for i in range(1, scores.shape[0]):
        for j in range(1, scores.shape[0]):
            gap = max(found[i, j - 1], found[i - 1, j]) - 3
            found[i, j] = max(found[i - 1, j - 1] + substitution[i, j], gap)
    return found


def test_the_sweep_of_the_test_is_that_of_needleman_and_wunsch():
    substitution = np.random.default_rng(0).integers(-4, 5, (9, 9)).astype(np.int32)
    start = np.zeros((9, 9), np.int32)
    start[0] = start[:, 0] = -3 * np.arange(9)
    assert np.array_equal(edged(start, substitution), scores_in_numpy(substitution, 3))


def test_a_machine_without_a_compiler_refuses_the_candidate_with_the_remedy(machine, monkeypatch):
    from lego_mlir.templates.run import nvcc, nvrtc

    build = sent(doubled())
    monkeypatch.setattr(nvcc, "version", lambda: None)
    monkeypatch.setattr(nvrtc, "version", lambda: None)
    assert attempt(build)[0] == "refused"
    with pytest.raises(DependencyError, match="compiled by NVRTC or nvcc, and neither was found"):
        build()


# ---- workbenches and packing


def test_the_workbench_of_templates_needs_no_mlir(machine, monkeypatch):
    from lego_mlir import bindings
    from lego_mlir.tuning.cpu_workbench import workbench_for

    def missing():
        raise DependencyError("MLIR is missing")

    monkeypatch.setattr(bindings, "load", missing)
    toolchain.cache_clear()
    candidate = tuned().prune({"N": 100}).kept[0]
    assert workbench_for(candidate).prepare(candidate, {"N": 100}).emit == "triton"
    with pytest.raises(DependencyError, match="MLIR is missing"):
        gpu_workbench()


@pytest.mark.tools
def test_a_packed_template_travels_as_text_and_its_check_as_a_seed(tmp_path, machine):
    made = tuned()
    problems = [SizedProblem(made.prune({"N": n}).kept, {"N": n}) for n in (100, 4096)]
    found = packed.write(tmp_path, made, problems, "sm_90", "made-up", Preparing("sm_90", small=True).trial)
    texts = list((tmp_path / "code").glob("*.triton"))
    assert len(texts) == 8
    assert len({file.read_bytes() for file in texts}) == 4  # rows and sizes are in the text, warps are an option
    assert sum(file.stat().st_size for file in tmp_path.rglob("*.npz")) < 500_000
    again = packed.read(tmp_path)
    assert again.compiled_by != found.toolchain  # Triton here compiles
    problem = again.problems[0]
    trials = {c.configuration.key: again.trial(c, problem.sizes) for c in problem.candidates}
    assert [trials[f"at_a_time=2 num_warps={n}"].described["triton"]["options"]["num_warps"] for n in (1, 4)] == [1, 4]
    launch = rowwise(2, 100)
    runs_in_triton(machine, launch, array(0, "f4", ROWS, 100), array(1, "f4", ROWS, 100))
    assert not isinstance(attempt(trials["at_a_time=2 num_warps=4"]), tuple)


def test_launches_of_one_reference_share_the_data_of_their_check():
    one, other, narrow = rowwise(1, 100), rowwise(2, 100), rowwise(1, 50)
    assert template_checks.identity(one) == template_checks.identity(other)
    assert template_checks.identity(one) != template_checks.identity(narrow)
    factors = [
        TemplateLaunch(one.template, "softmax", 8, one.arguments, ["y_ptr"], lambda x_ptr, by=by: by * x_ptr)
        for by in (1, 2)
    ]  # fmt: skip
    assert len({template_checks.identity(launch) for launch in factors}) == 2


# ---- errors


def changed(**more):
    x = lego.Tensor(f32, Row(ROWS, 100))
    given = {"grid": ROWS, "arguments": {"x_ptr": x, "y_ptr": x}, "writes": ["y_ptr"], "reference": in_numpy}
    return TemplateLaunch(softmax(ROWS, 100), **{"kernel": "softmax", **given, **more})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"grid": 0}, r"softmax\.py\.jinja: softmax: grid x = 0: a launch takes at least 1"),
        ({"block": 64}, "block, shared_bytes and then are for CUDA templates"),
        ({"writes": []}, "name what it writes and give a reference"),
        ({"reference": None, "writes": []}, "name what it writes and give a reference"),
        ({"writes": ["z"]}, "z is written, and its argument must be a Tensor or AddressesOf, got None"),
        (
            {"reference": lambda x_ptrs: 1},
            "the reference takes x_ptrs, and the arguments are x_ptr, y_ptr; did you mean",
        ),
    ],
)
def test_a_launch_that_cannot_be(more, message):
    with pytest.raises(UsageError, match=message):
        changed(**more)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"arguments": {"y_ptr": X8}}, "has no value for x_ptr; the arguments are y_ptr"),
        ({"arguments": {"x_ptr": X8, "y_ptr": X8, "n": 3}}, r"softmax\(x_ptr, y_ptr\) does not take n"),
        ({"kernel": "soft"}, "the rendered text has no kernel 'soft'"),
        ({"reference": lambda x_ptr: (x_ptr, x_ptr)}, "the reference returns 2 results, and the kernel writes y_ptr"),
        ({"reference": lambda x_ptr: x_ptr[0]}, r"the reference returns shape \(100,\) for y_ptr, whose layout has"),
    ],
)
def test_a_launch_that_does_not_fit_its_text(more, message):
    if "arguments" in more:
        more = {"reference": lambda y_ptr: y_ptr, **more}
    with pytest.raises((UsageError, TemplateError), match=message):
        sent(changed(**more))


def test_a_cuda_kernel_without_a_block_and_text_without_a_launch_are_refused():
    with pytest.raises(UsageError, match="a CUDA kernel needs the threads of a block"):
        TemplateLaunch(Template.of(DOUBLE, "doubled.cu.jinja"), "doubled", 2, {"y": X8}, ["y"], lambda: 1)
    text = lego.tune(space={"groups": [32, 64]}, key=["N"])(lambda groups, N: layer_norm(64, N, groups=groups))
    with pytest.raises(UsageError, match=r"layer_norm.py.jinja is text, which does not say how it is launched; return"):
        Preparing("sm_90").trial(text.prune({"N": 64}).kept[0], {"N": 64})
    with pytest.raises(UsageError, match="num_ctas above 1 is not timed"):
        sent(changed().with_options({"num_ctas": 2}))
