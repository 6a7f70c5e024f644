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
from test.tile_programs import WHOLE_SIZES, kernel_of, program


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
    for _ in lego.range(2):
        total += lego.load(x, (16, 64))
    total.get().store(y)


def multiplied(x, y):
    half = lego.load(x, (16, 64)).to(f16)
    lego.mma(half, lego.load(x, (16, 64)).to(f16).T, lego.zeros(f32, (16, 16))).sum(0)
    lego.load(x, (16, 64)).store(y)
    lego.mma(half, half.T, lego.zeros(f32, (16, 16))).store(y)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (kernel(looped), ["lego.register", "no form"]),
        (kernel(multiplied), ["lego.mma", "no form"]),
        (kernel(lambda x, y: lego.load(x, (16, 64)).cumsum(1).store(y)), ["lego.scan", "no form"]),
        (kernel(lambda x, y: lego.load(x, (16, 64), at=(8, 0)).store(y)), ["load of x", "masked"]),
        (kernel(lambda x, y: lego.load(x, (16, 64)).store(y), layout=Col), ["x", "Row(..)"]),
        (kernel(lambda x, y: lego.load(x, (12, 64)).store(y), (12, 64)), ["powers of two"]),
        (kernel(lambda x, y: y.__setitem__((0, 0), x[0, 0])), ["no tiles whose layouts the engine chooses"]),
        (
            kernel(lambda x, y: (lego.load(x, (16, 64)) * lego.arange((16, 64), 1).to(f32)).store(y)),
            ["of indices"],
        ),
    ],
)
def test_what_has_no_operation_is_refused(made, words):
    with pytest.raises(LayoutError) as error:
        made.mlir("tiles")
    for word in words:
        assert word in str(error.value), str(error.value)


def test_most_random_programs_of_the_dialects_words_are_emitted():
    emitted = 0
    for number in range(60):
        made = program(random.Random(number), WHOLE_SIZES)
        if {word for word, _, _ in made.steps} <= {"add", "mul", "transpose", "reduce", "vector", "scale", "cast"}:
            emitted += "lego.tile_store" in kernel_of(made).mlir("tiles")
    assert emitted >= 3
