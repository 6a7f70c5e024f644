"""Kernels of tiles as modules whose types have the chosen layouts; `test_tile_modules.py` runs what the passes make."""

import random
import re

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Col, LayoutError, Row, f16, f32
from lego_mlir.cli.main import main
from lego_mlir.engine.tile_graph import LoadTile
from lego_mlir.tracing.definition.tile_module import spread_attribute
from test.spread_layouts import custom
from test.tile_programs import kernel_of, program


def elements(text, shape):
    """The element of each place of an encoding, by enumeration: (warps, lanes, registers) of row-major numbers."""
    lists = {name: eval(listed) for name, listed in re.findall(r"(\w+) = (\[.*?\])(?=, \w+ =|>)", text)}
    sizes = [1 << len(lists[name]) for name in ("register", "lane", "warp")]
    found = np.zeros(sizes, int)
    for place in np.ndindex(*sizes):
        at = [0] * len(shape)
        for name, number in zip(("register", "lane", "warp"), place, strict=True):
            for k, basis in enumerate(lists[name]):
                if number >> k & 1:
                    at = [a ^ b for a, b in zip(at, basis, strict=True)]
        found[place] = np.ravel_multi_index(at, shape)
    return found


def test_an_encoding_holds_what_the_layout_does():
    draw = random.Random(5)
    for _ in range(20):
        shape = draw.choice([(8, 32), (64, 4), (16, 16)])
        layout = custom(draw, shape, 4) if draw.random() < 0.5 else custom(draw, shape, 1)
        text = spread_attribute(layout)
        found = elements(text, shape)
        for place in np.ndindex(*found.shape):
            at = layout.apply(register=place[0], lane=place[1], warp=place[2])
            assert found[place] == np.ravel_multi_index(tuple(at.values()), shape)
        copies = re.search(r"copies = (\d+)", text)
        assert found.size == np.unique(found).size * int(copies[1] if copies else 1)


@lego.kernel(grid=2, block=64)
def centred(x: lego.Tensor(f32, Row(32, 64)), y: lego.Tensor(f32, Row(64, 32))):
    r = 16 * lego.block_id[0]
    tile = lego.load(x, (16, 64), at=(r, 0))
    (tile - tile.max(axis=1)[:, None]).T.store(y, at=(0, r))


def test_types_have_the_chosen_layouts():
    text = centred.mlir("tiles", locations=False)
    (load,) = (n for n in centred.layout_choice.values if isinstance(n.operation, LoadTile))
    encoding = spread_attribute(centred.layout_choice.values[load].computed[0][1])
    assert f"tensor<16x64xf32, {encoding}>" in text
    assert [text.count(f'"lego.{word}"') for word in ("tile_load", "tile_store")] == [1, 1]
    moves = sum(len(value.moved) for value in centred.layout_choice.values.values())
    assert text.count('"lego.convert"') == moves
    assert "memref<32x64xf32>" in text and "gpu.thread_id" not in text
    assert text == centred.mlir("tiles", locations=False)


def test_the_command_line_prints_it(capsys, tmp_path):
    path = tmp_path / "doubled.py"
    path.write_text(
        "import lego_mlir as lego\nfrom lego_mlir import Row, f32\n\n"
        "@lego.kernel(grid=1, block=32)\n"
        "def doubled(x: lego.Tensor(f32, Row(8, 32)), y: lego.Tensor(f32, Row(8, 32))):\n"
        "    (lego.load(x, (8, 32)) * 2).store(y)\n"
    )
    assert main(["compile", str(path), "--emit", "tiles"]) == 0
    text = capsys.readouterr().out
    assert "lego.tile_load" in text and "tensor.splat" in text and "arith.mulf" in text


def kernel(body, shape=(16, 64), block=64, layout=Row):
    @lego.kernel(grid=1, block=block)
    def made(x: lego.Tensor(f32, layout(*shape)), y: lego.Tensor(f32, layout(*shape))):
        body(x, y)

    return made


def looped(x, y):
    total = lego.register(lego.zeros(f32, (16, 64)))
    for step in lego.range(2):
        with lego.when(step > 0):
            total += lego.load(x, (16, 64))
    total.get().store(y)


def multiplied(x, y):
    half = lego.load(x, (16, 64)).to(f16)
    lego.mma(half, lego.zeros(f16, (64, 64)), lego.load(x, (16, 64))).store(y)


def indexed(x, y):
    tile = lego.load(x, (16, 64))
    lego.where(tile.index(0) >= tile.index(1), tile, 0).store(y)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (kernel(looped), ["scf.for", "iter_args", "scf.if", "scf.yield", "tensor<16x64xf32, #lego.spread"]),
        (kernel(multiplied), ['"lego.mma"', "tensor<16x64xf16, #lego.spread", "tensor<64x64xf16, #lego.spread"]),
        (kernel(indexed), ["linalg.map", '"lego.tile_index"() {axis = 0 : i64}', "arith.select"]),
        (
            kernel(lambda x, y: lego.load(x, (16, 64), at=(8, 0), other=-1).store(y, at=(8, 0))),
            ["operandSegmentSizes = array<i32: 1, 2, 1, 1>", "array<i32: 1, 1, 2, 1>", "arith.cmpi ult", "-1.0"],
        ),
        (kernel(lambda x, y: lego.load(x, (12, 64)).store(y), (12, 64)), ["tensor<12x64xf32", "box = [12, 64]"]),
        (kernel(lambda x, y: lego.load(x, (24, 64)).store(y), (24, 64), 96), ["box = [24, 64]"]),
    ],
)
def test_each_word_has_its_operation(made, words):
    text = made.mlir("tiles", locations=False)
    for word in words:
        assert word in text, text
    assert text.count('"lego.tile_store"') == 1


def read_by_thread(x, y):
    (lego.load(x, (16, 64)) * x[0, 0]).store(y)


def shared(x, y):
    tile = lego.shared(f32, Row(16, 64))
    lego.load(x, (16, 64)).store(tile)
    lego.load(tile, (16, 64)).store(y)


def shared_operand(x, y):
    tile = lego.shared(f16, Row(64, 64))
    lego.mma(lego.load(x, (16, 64)).to(f16), tile, lego.load(x, (16, 64))).store(y)


def added_up(x, y):
    (lego.load(x, (16, 64)) + lego.load(x.tile_by([2, 1], [8, 64]), (8, 64), at=(0, 0, 0, 0)).sum(0)[None, :]).store(y)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (kernel(lambda x, y: lego.load(x, (16, 64)).cumsum(1).store(y)), ["lego.scan", "no form"]),
        (kernel(lambda x, y: lego.load(x, (16, 64)).store(y), layout=Col), ["x", "Row(..)"]),
        (kernel(lambda x, y: y.__setitem__((0, 0), x[0, 0])), ["no tiles whose layouts the engine chooses"]),
        (kernel(read_by_thread), ["load is a statement of single threads"]),
        (kernel(shared), ["of another view than a whole tensor"]),
        (kernel(shared_operand), ["lego.mma", "a product with an operand in shared memory"]),
        (kernel(added_up), ["in a tensor of 4 axes"]),
    ],
)
def test_what_has_no_operation_is_refused(made, words):
    with pytest.raises(LayoutError) as error:
        made.mlir("tiles")
    for word in words:
        assert word in str(error.value), str(error.value)


def test_most_random_programs_of_the_dialects_words_are_emitted():
    emitted, wanted = 0, 0
    known = {"add", "mul", "transpose", "reduce", "vector", "scale", "cast", "mask", "loop", "product"}
    for number in range(60):
        made = program(random.Random(number))
        if {word for word, _, _ in made.steps} <= known:
            wanted += 1
            emitted += "lego.tile_store" in kernel_of(made).mlir("tiles")
    assert emitted == wanted >= 15
