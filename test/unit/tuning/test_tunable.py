"""Tunables: what builds, what is pruned and why, choices by size, calls on arrays, exported choices."""

import json
import math

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import GenP, Row, f32
from lego_mlir.errors import SpecError, UsageError
from lego_mlir.kernels import transpose
from lego_mlir.structured import Matrix, source_of
from lego_mlir.templates import Template
from lego_mlir.templates.library.rows import softmax
from lego_mlir.tuning.candidates import Candidate, Configuration, Timing
from lego_mlir.tuning.config_lookup import choose
from lego_mlir.tuning.launch_counts import LaunchCounts
from lego_mlir.tuning.model import DEVICES, device_named, predict
from lego_mlir.tuning.pruning import SLOW, prune
from lego_mlir.tuning.time_budget import seconds_of
from lego_mlir.tuning.tunable import tune
from lego_mlir.tuning.workbench import made_up_workbench

H200 = DEVICES["h200"]


@tune(space={"variant": list(transpose.VARIANTS), "order": ["row", "column"]}, key=["M", "N"])
def turned(variant, order, M, N):
    return transpose.build(variant, M, N, f32, order=order)


@tune(space={"threads": [32, 128, 2048], "each": [1, 4]}, key=["N"])
def doubled(threads, each, N):
    @lego.kernel(grid=lego.cdiv(N, threads * each), block=threads)
    def kernel(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
        for k in lego.unroll(each):
            i = (lego.block_id.x * each + k) * threads + lego.thread_id.x
            with lego.when(i < N):
                y[i] = 2 * x[i]

    return kernel


def timing(tunable, configuration, sizes, microseconds, failure=""):
    quartiles = (microseconds, microseconds)
    return Timing(
        tunable.name, configuration, sizes, "k", "t", "H200", 132, "580", microseconds, quartiles, 9, "2026", failure
    )


# ---- pruning


def test_slow_variants_are_pruned_with_numbers_before_anything_is_compiled():
    found = turned.prune({"M": 4096, "N": 4096})
    reasons = {pruned.configuration["variant"]: pruned for pruned in found.pruned}
    assert reasons["naive"].stage == "sectors"
    assert "times the best" in reasons["naive"].reason
    assert reasons["shared"].stage == "wavefronts"
    assert found.kept[0].configuration["variant"] == "vectorised"
    assert len(found.kept) + len(found.pruned) == len(turned.space)


@pytest.mark.parametrize("size", [997, 4093, 1, 31])
def test_prime_sizes_leave_something(size):
    found = turned.prune({"M": size, "N": 1021})
    assert found.kept
    assert all(candidate.predicted.microseconds > 0 for candidate in found.kept)


def test_a_space_of_one():
    one = tune(space={"variant": ["padded"]}, key=["M"])(lambda variant, M: transpose.build(variant, M, M, f32))
    assert [c.configuration.key for c in one.prune({"M": 64}).kept] == ["variant=padded"]
    assert one.choose({"M": 64}).basis == "model"


def test_a_space_where_all_is_pruned_names_the_commonest_reason():
    bad = tune(space={"threads": [2048, 4096]}, key=["N"])(
        lambda threads, N: doubled.builder.build({"threads": threads, "each": 1}, {"N": N})
    )
    with pytest.raises(UsageError) as error:
        bad.choose({"N": 64})
    assert "all 2 configurations are pruned, 2 of them at stage 'launch', such as threads=2048: " in str(error.value)
    assert "a block has at most 1024 threads" in str(error.value)
    none = tune(space={"a": [1, 2]}, where="a > 2")(lambda a: None)
    with pytest.raises(UsageError, match="the conditions exclude every configuration of the space"):
        none.choose()


def test_conditions_on_sizes_prune():
    whole = tune(space={"tile": [32, 48]}, key=["M"], where="M % tile == 0")(
        lambda tile, M: transpose.build("padded", M, M, f32, tile=(tile, tile), threads=96)
    )
    found = whole.prune({"M": 64})
    assert [(p.stage, p.reason) for p in found.pruned if p.configuration["tile"] == 48] == [
        ("condition", "the condition 'M % tile == 0' fails at M=64, tile=48")
    ]


def test_a_refuted_layout_is_pruned_by_its_counter_example():
    def stage(period):
        GenP([32, 32], lambda i, j: (i * 32 + j) % period, lambda p: (p // 32, p % 32))
        return transpose.build("padded", 64, 64, f32)

    found = tune(space={"period": [1024, 512, 2048]})(stage).prune()
    assert [p.stage for p in found.pruned] == ["layout", "same code"]
    assert "apply maps [0, 0] and [16, 0] both to position 0" in found.pruned[0].reason
    assert found.pruned[1].reason == "builds the same code as period=1024"


@pytest.mark.parametrize(
    ("counts", "stage", "reason"),
    [
        ({"shared_bytes": 300_000}, "shared memory", "a block takes 300000 bytes of shared memory, and sm_90"),
        ({"held": 300}, "registers", "loops carry 300 registers of a thread, and it has 255"),
        ({"threads": 1024, "held": 100}, "registers", "loops carry 100 registers of each of 1024"),
        ({"threads": 2048}, "launch", "block (2048,) has 2048 threads"),
        ({"blocks": 0}, "launch", "the grid has no block"),
        ({"wavefronts": 1e6}, "wavefronts", "wavefronts of shared memory 1.3e+08, and 0 in the best"),
        ({"instructions": 1e6}, "instructions", "instructions of warps 1.3e+08"),
        ({"blocks": 131, "fills": 1e5, "sectors": 1e5}, "sectors", "sectors of global memory"),
        ({"blocks": 8448, "rounds": 1e4}, "latency", "that wait for each other 1e+04, and 1 in the best"),
        ({"touched": 1e12}, "DRAM", "1e+12 bytes of memory"),
    ],
)  # fmt: skip
def test_each_stage_of_pruning(counts, stage, reason):
    plain = {"blocks": 130, "threads": 128}
    candidates = [Candidate(Configuration.of({"bad": bad}), lambda: None) for bad in (False, True)]
    found = prune(
        candidates,
        {},
        H200,
        counting=lambda values, sizes: LaunchCounts(**{**plain, **(counts if values["bad"] else {})}),
    )
    assert [(p.configuration["bad"], p.stage) for p in found.pruned] == [(True, stage)]
    assert reason in found.pruned[0].reason


def test_keep_bounds_the_number_or_the_factor():
    def kept(keep):
        candidates = [Candidate(Configuration.of({"n": n}), lambda n=n: n) for n in range(1, 9)]
        counting = lambda values, sizes: LaunchCounts(132 * 64 * (8 + values["n"]), 128, instructions=1000)  # noqa: E731
        return prune(candidates, {}, H200, keep=keep, counting=counting)

    assert [c.configuration["n"] for c in kept(3).kept] == [1, 2, 3]
    assert kept(3).pruned[0].stage == "rank"
    assert "ranked 4 of 8 by the model" in kept(3).pruned[0].reason
    assert [c.configuration["n"] for c in kept(1.2).kept] == [1, 2]
    assert len(kept(None).kept) == sum((8 + n) / 9 <= SLOW for n in range(1, 9))


# ---- the model


def test_a_block_more_than_fits_costs_a_wave():
    def time(blocks):
        return predict(LaunchCounts(blocks, 1024, registers=64, instructions=1e6), H200)

    assert time(132).microseconds == pytest.approx(time(1).microseconds)
    assert time(133).microseconds > 1.8 * time(132).microseconds
    assert time(133).tail > 0.9 * time(132).microseconds - 5
    assert (time(132).waves, time(264).waves) == (1, 2)


def test_the_fullest_of_resident_blocks_decides():
    even, uneven = (predict(LaunchCounts(132, 1024, instructions=1e6, imbalance=n), H200) for n in (1.0, 2.0))
    assert uneven.microseconds == pytest.approx(2 * even.microseconds, rel=0.05)


def test_more_of_anything_is_never_faster():
    base = LaunchCounts(
        1000, 256, shared_bytes=8192, requests=64, loads=32, places=64, passes=32, sectors=256, fills=128, stores=128,
        packed=128, wavefronts=64, instructions=500, mma=10, rounds=2, touched=1e7,
    )  # fmt: skip
    least = predict(base, H200).microseconds
    for name in (
        "places",
        "passes",
        "fills",
        "stores",
        "wavefronts",
        "instructions",
        "mma",
        "rounds",
        "touched",
        "blocks",
    ):
        more = {"sectors": base.sectors + 10**5} if name == "fills" else {}
        bigger = LaunchCounts(
            **{**{f: getattr(base, f) for f in base.__slots__}, **more, name: getattr(base, name) * 1000}
        )
        assert predict(bigger, H200).microseconds > least, name


def test_devices_are_named():
    with pytest.raises(UsageError, match="no constants were fitted for device 'b9000'; there are h200"):
        device_named("b9000")


# ---- tuning and choosing


def test_the_optimum_of_a_made_up_device_is_found_and_chosen():
    bench = made_up_workbench(lambda c, sizes: 1e-5 * (1 + (c["variant"] != "padded") + 0.1 * (c["order"] == "row")))
    tunable = tune(space=turned.space.values, key=["M", "N"])(turned.builder.build and _turned)
    sizes = {"M": 1024, "N": 1024}
    seen = []
    found = tunable.tune(sizes, workbench=bench, on_timing=seen.append)
    assert found.best.configuration.key == "order=column variant=padded"
    assert {t.configuration.key for t in seen} == {t.configuration.key for t in found.timings}
    assert len(found.timings) == len(found.space.kept)
    assert tunable.choose(sizes) == choose(tunable, sizes)
    assert (tunable.choose(sizes).basis, tunable.choose(sizes).configuration) == ("measured", found.best.configuration)


def _turned(variant, order, M, N):
    return transpose.build(variant, M, N, f32, order=order)


def test_an_unmeasured_size_is_chosen_by_the_model_scaled_by_timings():
    """Counts with waves: at 132 tiles `big` is right, one tile more costs it a wave, whatever was measured nearby."""

    def counts(values, sizes):
        tiles = -(-sizes["M"] // values["tile"])
        return LaunchCounts(tiles, 1024, registers=64, instructions=values["tile"] * 1e5)

    tunable = tune(space={"tile": [8, 16]}, key=["M"], counts=counts)(lambda tile, M: None)
    big, small = (Configuration.of({"tile": n}) for n in (16, 8))
    at = 16 * 132
    assert tunable.choose({"M": at}).configuration == big or tunable.choose({"M": at}).microseconds > 0
    tunable.remember([timing(tunable, big, {"M": at}, 1000.0), timing(tunable, small, {"M": at}, 1100.0)])
    assert tunable.choose({"M": at}).configuration == big
    beside = tunable.choose({"M": at + 8})
    assert (beside.basis, beside.configuration) == ("scaled", small)


def test_failed_timings_are_not_chosen():
    tunable = tune(space={"a": [1, 2]}, counts=lambda values, sizes: LaunchCounts(1, 32))(lambda a: None)
    one, two = (Configuration.of({"a": a}) for a in (1, 2))
    tunable.remember([timing(tunable, one, {}, math.inf, "crashed: .."), timing(tunable, two, {}, 3.0)])
    assert tunable.choose().configuration == two


def test_calls_on_arrays_take_the_sizes_from_the_shapes():
    x = np.arange(100, dtype=np.float32)
    assert np.array_equal(doubled(x), 2 * x)
    assert np.array_equal(doubled(x, N=100), 2 * x)
    m = np.arange(33 * 70, dtype=np.float32).reshape(33, 70)
    assert np.array_equal(turned(m, M=33, N=70), m.T)


def test_choices_are_exported_and_loaded(tmp_path):
    path = tmp_path / "choices.json"
    tunable = tune(space=doubled.space.values, key=["N"])(doubled.builder.build and _doubled)
    with pytest.raises(UsageError, match="nothing was measured, so there is no choice to export"):
        tunable.export(path)
    worst = Configuration.of({"threads": 32, "each": 4})
    tunable.remember([timing(tunable, worst, {"N": 64}, 5.0)])
    tunable.export(path)
    other = tune(space=doubled.space.values, key=["N"])(_doubled)
    other.load(path)
    assert (other.choose({"N": 64}).basis, other.choose({"N": 64}).configuration) == ("exported", worst)
    data = json.loads(path.read_text())
    for change, message in (
        ({"format": 9}, "the choices have format 9, not 1"),
        ({"tunable": "x"}, "choices of x, not of _doubled"),
        ({"choices": [{**data["choices"][0], "configuration": {"threads": 7, "each": 1}}]}, "is not in the space of"),
        ({"choices": 3}, "not a file of exported choices"),
    ):
        path.write_text(json.dumps({**data, **change}))
        with pytest.raises(SpecError, match=message):
            other.load(path)
    with pytest.raises(SpecError, match="the choices cannot be read"):
        other.load(tmp_path / "missing.json")


def _doubled(threads, each, N):
    return doubled.builder.build({"threads": threads, "each": each}, {"N": N})


# ---- what builds


def test_generic_kernels_templates_and_structured_programs_build():
    generic = lego.generic(_generic)
    found = tune(space={"threads": [32, 64]}, key=["N"])(generic).prune({"N": 256})
    assert [c.built.name for c in found.kept] == [f"_generic_{c.configuration['threads']}_256" for c in found.kept]

    rows = tune(space={"rows": [1, 2], "num_warps": [4, 8]}, key=["N"])(
        lambda rows, N: softmax(4096, N, at_a_time=rows)
    )
    built = rows.candidate("rows=2 num_warps=8", {"N": 512}).built
    assert built.options == (("num_warps", 8),)
    assert "tl.load" in built.rendered.text
    assert len({c.digest for c in rows.candidates({"N": 512})}) == 4

    text = Template.of("x = {{ n }} + {{ 1 }}\n", "twice.py.jinja")
    assert tune(space={"n": [3, 4]})(text).candidate("n=3").built.rendered.text == "x = 3 + 1\n"

    program = source_of("A = B*C", A=Matrix(4, 4), B=Matrix(4, 4), C=Matrix(4, 4)).program
    structured = tune(space={"width": [2, 4], "rows": [4], "vectors": [1, 2]})(program)
    assert len({c.digest for c in structured.candidates()}) > 1
    assert len(structured.prune().kept) >= 2


def _generic(threads, N):
    @lego.kernel(grid=N // threads, block=threads)
    def kernel(x: lego.Tensor(f32, Row(N))):
        x[lego.block_id.x * threads + lego.thread_id.x] = 1.0

    return kernel


def test_stages_of_a_transform_script_count_in_shared_memory():
    from lego_mlir import f16
    from lego_mlir.kernels import matmul

    def product(stages, N):
        kernel = matmul.build(N, N, N, f16, result=f16, tiling=matmul.ProductTile(128, 128, 64, (2, 2)))
        return kernel.transformed("matmul_sm80.mlir", stages=stages)

    found = tune(space={"stages": [2, 4, 8]}, key=["N"])(product).prune({"N": 1024})
    assert [(p.configuration["stages"], p.stage) for p in found.pruned] == [(8, "shared memory")]
    assert "take 262144 bytes at once, and a block has 232448 on sm_90" in found.pruned[0].reason


# ---- bad input


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        ({"space": {"a": [1]}, "key": "M"}, None, "key is a list of sizes, such as key=['M']"),
        ({"space": {"a": [1]}, "keep": 0}, None, "keep is a number of candidates"),
        ({"space": {"a": [1]}, "key": ["a"]}, None, "a is in the space and in the key; a name is one or the other"),
        ({"space": {"a": [1]}, "objective": "energy"}, lambda a: a, "the objective is 'time' or a function"),
        ({"space": {"a": [1]}, "device": "tpu"}, None, "no constants were fitted for device 'tpu'"),
        ({"space": {"a": [1]}}, lambda b: b, "takes b, which is neither in the space (a) nor in the key (empty)"),
        ({"space": {"a": [1], "c": [2]}}, lambda a: a, "the space has c, which <lambda>(a) does not take"),
        ({"space": {"a": [1]}}, 3, "a structured program, got 3"),
        ({"space": {"tile": [1]}}, "A = B*C", "has width, rows, vectors, rolled, fused to choose, not tile"),
        ({"space": {"a": [1]}, "where": "b > 1"}, None, "reads b, which is not in the space"),
    ],
)  # fmt: skip
def test_bad_tunables_are_refused(options, given, message):
    with pytest.raises(UsageError) as error:
        tune(**options)(given)
    assert message in str(error.value)


def test_one_kernel_has_nothing_to_choose():
    kernel = transpose.build("padded", 64, 64, f32)
    with pytest.raises(UsageError, match="transpose is one kernel, with nothing to choose"):
        tune(space={"a": [1]})(kernel)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({}, "doubled: give a value for N, such as N=4096"),
        ({"n": 4}, "doubled is keyed by N, not by n; did you mean N?"),
        ({"N": 0}, "doubled: N=0: a size is an int of at least 1"),
        ({"N": 1.5}, "doubled: N=1.5: a size is an int of at least 1"),
    ],
)
def test_bad_sizes_are_refused(sizes, message):
    with pytest.raises(UsageError) as error:
        doubled.prune(sizes)
    assert message.split("; did")[0] in str(error.value)


def test_what_does_not_build_a_kernel_is_a_reason():
    found = tune(space={"a": [1]})(lambda a: 7).prune()
    assert found.pruned[0].stage == "build"
    assert (
        "tuning builds a kernel, a program of kernels, a rendered template or a structured kernel, got 7"
        in found.pruned[0].reason
    )


@pytest.mark.parametrize("budget", ["", "fast", "-3s", "0", "10x", "infh"])
def test_bad_budgets_are_refused(budget):
    with pytest.raises(UsageError, match="a budget is a time such as 90s, 10m or 1h"):
        seconds_of(budget)
