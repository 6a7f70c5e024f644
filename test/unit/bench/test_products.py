"""The suites of products: every case has its ways and a baseline, and on a device made up here all are checked."""

import contextlib
import json
from dataclasses import replace
from types import SimpleNamespace

import harness  # bench/ is a folder of scripts, not a package
import mlir_kernels
import product_runs
import products
import pytest
import runner
from product_cases import Product


@pytest.mark.parametrize("name", products.SUITES)
def test_every_product_has_a_name_of_its_own_and_a_baseline(name):
    suite = products.SUITES[name]
    assert len({str(product) for product in suite.products}) == len(set(suite.products))
    for product in suite.products:
        named = [b for b in product_runs.BASELINES if b.applies(product) and b.name in (suite.baselines or [b.name])]
        unmatched = product.result == "f32" and product.epilogue  # PyTorch has no epilogue into another type
        assert named or unmatched


@pytest.mark.parametrize(("name", "labels"), [
    ("hopper", {"chosen"}), ("hopper_types", {"lego"}), ("odd_products", {"copies", "mma.sync copies", "direct"}),
    ("class_products", {"fixed", "class"}), ("small_products", {"chosen", "3 parts", "8 parts"}),
])  # fmt: skip
def test_the_ways_of_a_suite(name, labels):
    suite = products.SUITES[name]
    found = suite.ways(suite.products[0])
    assert labels <= set(found)
    assert all(way.file.startswith(("x".join(map(str, suite.products[0].size)), "513", "matmul")) or "514" in way.file
               or "520" in way.file for way in found.values())  # fmt: skip


def test_words_choose_products_by_the_parts_of_their_names_and_by_groups():
    hopper = products.benchmark("hopper")
    (only,) = hopper.chosen(["4096x4096x4096", "TT"])
    assert str(only[0]) == "4096x4096x4096-TT-f16-f16"
    squares = hopper.chosen(["squares", "bf16", "NN"])
    assert [product.size[0] for (product,) in squares] == [512, 1024, 2048, 4096, 8192, 16384]
    assert len(hopper.chosen([])) == len(hopper.cases)


def test_drawn_products_are_those_of_the_printed_seed(monkeypatch, capsys):
    done = []
    monkeypatch.setattr(harness, "time_cases", lambda name, folder, cases, *more, **facts: done.append((cases, facts)))
    for _ in range(2):
        runner.main(products.benchmark("hopper"), ["time", "--drawn", "3", "--seed", "5"])
    assert done[0] == done[1] and done[0][1] == {"seed": 5} and len(done[0][0]) == 3
    assert f"seed 5: {done[0][0][0][0]}" in capsys.readouterr().out


class Kernel:
    """A kernel that computes what its file is named for, on the host."""

    product, wrong = None, False

    def __init__(self, path):
        self.name, self.host_entry = path.stem, SimpleNamespace(arguments=[])

    def prepare(self, *arrays):
        return lambda: self(*arrays)

    def __call__(self, source, *arrays):
        if self.name.startswith("along"):
            arrays[0].copy_(source.t())
        elif self.name.startswith("pad"):
            arrays[0].zero_()[: source.shape[0], : source.shape[1]] = source
        elif self.name.startswith("crop"):
            arrays[0].copy_(source[: arrays[0].shape[0], : arrays[0].shape[1]])
        else:
            b, c, *given = arrays
            exact = product_runs.reference(self.product, source.double() @ b.double(), given)
            c.copy_(exact.to(c.dtype))
            if self.wrong:
                c[0, 0] += 40


@pytest.fixture
def device(monkeypatch, tmp_path):
    """PyTorch's CPU under the names of a GPU, where every kernel of a suite is right."""
    torch = pytest.importorskip("torch", reason="the baselines are PyTorch's")

    def on_host(make):
        return lambda *given, **more: make(*given, **{k: v for k, v in more.items() if k != "device"})

    event = SimpleNamespace(record=lambda: None, elapsed_time=lambda end: 100.0)
    names = ("randn", "rand", "randint", "empty", "full", "zeros", "tensor")
    for name, made in {n: on_host(getattr(torch, n)) for n in names}.items():
        monkeypatch.setattr(torch, name, made)
    for name, made in {
        "Event": lambda enable_timing: event, "synchronize": lambda: None, "get_device_name": lambda: "Made Up",
        "CUDAGraph": lambda: SimpleNamespace(replay=lambda: None), "graph": lambda graph: contextlib.nullcontext(),
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, made)
    monkeypatch.setattr(harness, "FLUSHED_BYTES", 16)
    monkeypatch.setattr(mlir_kernels, "kept_kernel", Kernel)
    monkeypatch.setenv("OUT", str(tmp_path))
    return tmp_path


def timed(folder, name, product):
    """The rows of a small product with the ways of another one of its kind."""
    suite = products.SUITES[name]
    like = next(p for p in suite.products if replace(p, size=product.size) == product)
    ways = {label: way.steps for label, way in suite.ways(like).items()}
    wide = [-(-n // 8) * 8 for n in product.size]
    index = []
    for label, steps in ways.items():
        sized = {**steps, "wide": wide} if "wide" in steps else steps
        index.append({"case": str(product), "kernel": label, "file": "product", "steps": sized})
    (folder / "index.json").write_text(json.dumps(index))
    Kernel.product = product
    code = harness.time_cases(name, folder, [(product,)], products.benchmark(name).timed)
    return code, json.loads((folder / f"{name}.json").read_text()) if not code else {}


@pytest.mark.parametrize(("name", "product"), [
    ("hopper", Product((24, 40, 16), "TN")), ("hopper_types", Product((24, 16, 40), "NT", "bf16", "bf16", "gate")),
    ("hopper_types", Product((24, 16, 40), "TN", "i8", "i32")), ("odd_products", Product((25, 17, 41), "TT")),
    ("odd_products", Product((25, 17, 41), "NN", "bf16", "bf16")),
])  # fmt: skip
def test_a_case_is_checked_and_timed_both_ways(device, name, product):
    code, found = timed(device, name, product)
    assert code == 0 and found["run"] == name and found["device"] == "Made Up" and found["date"]
    ours = [row for row in found["rows"] if "mean" in row]
    assert ours and len(found["rows"]) > len(ours)
    assert all({"ms", "p10", "steady_ms"} <= set(row) for row in found["rows"])


def test_a_wrong_kernel_gives_no_times(device, monkeypatch, capsys):
    monkeypatch.setattr(Kernel, "wrong", True)
    code, _ = timed(device, "hopper", Product((24, 40, 16), "TN"))
    assert code == 1 and "nothing is timed" in capsys.readouterr().err
