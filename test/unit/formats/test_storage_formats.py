"""Every format of the catalogue: proved for all sizes, equal to its engine's own writing, and read back."""

import doctest
import re
from pathlib import Path

import numpy as np
import pytest
from format_oracles import ORACLES
from made_up_fields import made_up

import lego_mlir as lego
from lego_mlir.errors import LayoutError, UsageError
from lego_mlir.expr.verdict import Proved, Refuted
from lego_mlir.formats import FORMATS, StorageFormat, format_named, stored
from lego_mlir.formats.field_arrays import read, write

NAMES = sorted(FORMATS)


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def test_there_is_an_oracle_for_each_format():
    assert set(ORACLES) == set(FORMATS) and len(FORMATS) >= 24
    assert all(entry.source and entry.title for entry in FORMATS.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_format_is_proved_for_all_sizes(name):
    assert isinstance(FORMATS[name].symbolic().check(), Proved)


@pytest.mark.parametrize("name", NAMES)
def test_a_format_is_what_its_engine_writes_and_reads_back(name):
    format_ = FORMATS[name].example()
    fields = made_up(format_)
    written, expected = write(format_, fields), ORACLES[name](fields)
    assert written.keys() == expected.keys()
    for buffer, array in written.items():
        assert array.tobytes() == expected[buffer].tobytes(), buffer
        assert array.nbytes == format_.bytes_of(buffer)
    for field, array in read(format_, written).items():
        assert same_bits(array, fields[field]), field


@pytest.mark.parametrize("name", ["vllm.marlin", "gguf.q6_k", "deepgemm.scales", "megatron.qkv"])
def test_places_are_found_by_element_and_by_bit(name):
    format_ = FORMATS[name].example(1)
    for field in format_.fields:
        for number in range(0, int(np.prod(field.shape)), max(1, int(np.prod(field.shape)) // 50)):
            index = tuple(map(int, np.unravel_index(number, field.shape)))
            bit = field.bit(*index)
            assert format_.element(field.buffer, bit) == (field.name, index)
    if name == "deepgemm.scales":
        assert format_.element("data", int(format_.bits_of("data")) - 1) is None


@pytest.mark.parametrize("name", ["vllm.marlin", "awq", "aiter.16x16", "cutlass.scales_128x4", "kv.hnd"])
def test_a_dense_field_is_a_layout_of_the_algebra(name):
    field = FORMATS[name].example(1).fields[0]
    layout, shape = field.layout(), tuple(map(int, field.shape))
    index = np.unravel_index(np.arange(np.prod(shape)), shape)
    assert np.array_equal(layout.apply(*index) * field.bits, field.bit(*index) - field.at)
    assert isinstance(FORMATS[name].symbolic().fields[0].layout().check(), Proved)
    with pytest.raises(LayoutError, match="is not dense: a digit of"):
        FORMATS["gguf.q4_0"].example()["q"].layout()


def test_the_page_lists_every_format_with_its_source():
    page = (Path(__file__).parents[3] / "docs" / "reference" / "formats.md").read_text()
    for name, entry in FORMATS.items():
        assert f"| `{name}` | {entry.title} | {entry.source} |".replace("|", "") in page.replace("|", ""), name


@pytest.mark.parametrize("name", NAMES)
def test_a_format_is_drawn_with_the_element_of_each_place(name):
    format_ = FORMATS[name].example()
    panels = lego.show(format_).panels
    assert [p.title.rpartition(": ")[2] for p in panels] == (
        list(format_.buffers) if len(format_.buffers) > 1 else [name]
    )
    for panel, buffer in zip(panels, format_.buffers, strict=True):
        seen = set()
        for cell in (cell for row in panel.cells for cell in row if cell.title != "padding"):
            field, _, bit = cell.title.partition("[")[0], *cell.title.partition(" at bit ")[1:]
            found = format_.element(buffer, int(bit.split()[0]))
            assert cell.title.startswith(f"{field}{list(found[1])}") and found[0] == field
            assert bool(cell.label) == (found not in seen)
            seen.add(found)


def test_the_page_draws_every_format():
    page = (Path(__file__).parents[3] / "docs" / "reference" / "formats.md").read_text()
    names = {"lego": lego, "FORMATS": FORMATS}
    for example in doctest.DocTestParser().get_examples(page):
        if "drawn(" in example.source or example.source.startswith(("divided", "whole", "stacks")):
            exec(example.source, names)
    pictures = [names[mark] for mark in re.findall(r"<!-- picture (\w+):", page) if mark in names]
    assert {panel.title.partition(":")[0] for picture in pictures for panel in picture.panels} == set(FORMATS)


def test_a_field_that_overlaps_is_refuted_with_both_elements():
    sizes = {"r": 2, "b": 2}
    fields = [
        stored("scale", "f16", sizes, "r | b", "r b", 8, {"b": 144}),
        stored("q", "u4", sizes | {"i": 32}, "r | b i", "r b i", 16, {"b": 144}),
    ]
    verdict = StorageFormat("record", fields, {"data": ("u8", (2, 36))}).check()
    assert isinstance(verdict, Refuted)
    verdict = StorageFormat("record", fields, {"data": ("u8", (2, 36))}, {"data": 0}).check()
    assert verdict.explanation == "scale[0, 0] and q[0, 0] are both stored at bit 16"


def test_a_format_with_a_hole_or_outside_its_buffer_is_refuted():
    row = stored("w", "u8", {"r": 4}, "r", "r")
    assert (
        "data has 64 bits, its fields and padding 32"
        in StorageFormat("x", [row], {"data": ("u8", (8,))}).check().explanation
    )
    assert StorageFormat("x", [row], {"data": ("u8", (8,))}, {"data": 32}).check()
    outside = stored("w", "u8", {"r": 4}, "r", "r", at=8)
    assert isinstance(StorageFormat("x", [outside], {"data": ("u8", (4,))}).check(), Refuted)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: stored("w", "u7", {"r": 4}, "r", "r"), "no stored element type is 'u7'"),
        (lambda: stored("w", "u8", {"r": 4, "c": 2}, "r", "r"), "must name each digit of"),
        (lambda: format_named("vllm.marlim"), "did you mean vllm.marlin"),
        (lambda: FORMATS["vllm.marlin"](rows=65, columns=128), "rows = 65 must be a multiple of 64"),
        (lambda: FORMATS["vllm.marlin"](rows=64), "needs the size columns, a multiple of 128"),
        (lambda: FORMATS["vllm.marlin"](rows=64, columns=128, groups=2), "takes .*not"),
        (lambda: FORMATS["hf.linear"].example()["bias"], r"has the fields \['weight'\], not 'bias'"),
        (lambda: FORMATS["hf.linear"].example()["weight"].bit(0), "takes 2 indices"),
        (lambda: FORMATS["hf.linear"].example()["weight"].bit(9, 0), "outside 0..2"),
    ],
)
def test_what_cannot_be_is_refused(make, match):
    with pytest.raises(LayoutError, match=match):
        make()


def test_buffers_that_do_not_fit_are_refused():
    format_ = FORMATS["vllm.marlin"](rows=64, columns=128)
    with pytest.raises(UsageError, match=r"has the buffers \['qweight', 'scales'\]"):
        read(format_, {"data": np.zeros(4)})
    with pytest.raises(UsageError, match=r"qweight is i32.*4096 bytes; got"):
        read(format_, {"qweight": np.zeros(4, np.int32), "scales": np.zeros((1, 64), np.float16)})
    with pytest.raises(UsageError, match="cannot hold an array of shape"):
        write(format_, {"q": np.zeros((2, 2), np.uint8), "scale": np.zeros((64, 1), np.float16)})
    with pytest.raises(UsageError, match="has the fields"):
        write(format_, {"q": np.zeros((64, 128), np.uint8)})


def test_replay_of_gate_and_up_in_the_wrong_order():
    """vllm#52240: backends took rows g0 u0 g1 u1 as [gate; up], and [w1; w3] as [w3; w1], without converting."""
    sizes = {"rows": 4, "columns": 8}
    turn, stacked, swapped = (FORMATS[n](**sizes) for n in ("gptoss.gate_up", "vllm.gate_up", "flashinfer.up_gate"))
    verdict = turn.agrees(stacked)
    assert isinstance(verdict, Refuted)
    assert verdict.explanation == "gate[1, 0] is at data[16] in gptoss.gate_up and at data[8] in vllm.gate_up"
    assert verdict.counter_example == {"index": (1, 0), "places": (16, 8)}
    assert stacked.agrees(swapped).counter_example == {"index": (0, 0), "places": (0, 32)}
    assert FORMATS["gptoss.gate_up"].symbolic().agrees(FORMATS["gptoss.gate_up"].symbolic())
    assert isinstance(FORMATS["gptoss.gate_up"].symbolic().agrees(FORMATS["vllm.gate_up"].symbolic()), Refuted)


def test_replay_of_a_cache_handed_over_in_the_other_order():
    """vllm#46204: an engine that keeps tokens before heads hands its cache to one that keeps heads before tokens."""
    sizes = {"blocks": 2, "heads": 8, "tokens": 16, "depth": 128}
    verdict = FORMATS["kv.nhd"](**sizes).agrees(FORMATS["kv.hnd"](**sizes))
    assert verdict.counter_example == {"index": (0, 0, 1, 0), "places": (1024, 128)}
    assert verdict.explanation == "k[0, 0, 1, 0] is at data[1024] in kv.nhd and at data[128] in kv.hnd"
    assert isinstance(FORMATS["kv.nhd"].symbolic().agrees(FORMATS["kv.hnd"].symbolic()), Refuted)
