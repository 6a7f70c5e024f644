"""Pictures: what each view claims is compared with the layout, the hardware counts or the thread's holdings."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import Col, GenP, LegoError, OrderBy, Padded, RegP, Row, cute, f2, gallery
from lego_mlir.analysis.patterns import parse
from lego_mlir.analysis.repair import TileAccess
from lego_mlir.hardware import banks
from lego_mlir.viz import palettes, show
from lego_mlir.viz.views.element_positions import tiles
from lego_mlir.viz.views.repairs import side_by_side
from lego_mlir.viz.views.warp_request import WarpRequest, wavefront_of

SVG = "{http://www.w3.org/2000/svg}"
PAPER = OrderBy(RegP([2, 2], [2, 1]), gallery.antidiagonal(3)).OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4])).GroupBy([6, 6])


def labels(panel):
    return [[cell.label for cell in row] for row in panel.cells]


@pytest.mark.parametrize("layout", [PAPER, Row(4, 6), Col(4, 6), gallery.hilbert(8), Padded(Row(3, 5), [3, 4])])
def test_a_cell_is_labelled_with_the_position_of_its_index(layout):
    (panel,) = show(layout).panels
    rows, columns = layout.dims()
    assert labels(panel) == [[str(layout.apply(i, j)) for j in range(columns)] for i in range(rows)]


def test_leading_dimensions_are_counted_downwards():
    layout = RegP([2, 3, 4], [3, 1, 2])
    (panel,) = show(layout).panels
    assert panel.shape == (6, 4)
    assert panel.cells[5][2].label == str(layout.apply(1, 2, 2))
    assert panel.cells[5][2].title.startswith("[1, 2, 2]: ")
    assert show(Row(5)).panels[0].shape == (1, 5)


def test_banks_and_sectors_follow_the_size_of_an_element():
    (banked,), (sectors,) = show(Row(2, 64), by="bank", dtype="f16").panels, show(Row(2, 64), by="sector").panels
    assert labels(banked)[1][:4] == ["0", "0", "1", "1"]  # row 1 begins 128 bytes on, in bank 0 again
    assert labels(sectors)[0][7:9] == ["0", "1"]


def test_an_order_is_a_path_through_all_cells_in_memory():
    (panel,) = show(gallery.hilbert(8), by="order").panels
    assert [int(labels(panel)[r][c]) for r, c in panel.path] == list(range(64))
    assert all(abs(a - c) + abs(b - d) == 1 for (a, b), (c, d) in zip(panel.path, panel.path[1:], strict=False))


def test_borders_surround_what_is_contiguous_in_memory():
    assert show(PAPER).panels[0].borders == ((3, 3), (6, 3))
    assert show(gallery.morton(8)).panels[0].borders == ((2, 2), (2, 4), (4, 4), (4, 8))
    assert tiles(np.arange(12).reshape(3, 4)) == []


@given(st.data())
def test_borders_are_found_and_surround_consecutive_positions(data):
    rows, columns, tall, wide = (data.draw(st.integers(1, 3)) for _ in range(4))
    inner = data.draw(st.permutations(range(tall * wide)))
    outer = data.draw(st.permutations(range(rows * columns)))
    place = np.block(
        [
            [np.reshape(inner, (tall, wide)) + outer[r * columns + c] * tall * wide for c in range(columns)]
            for r in range(rows)
        ]
    )
    if tall > 1 and wide > 1 and rows > 1 and columns > 1:
        assert tiles(place)
    for a, b in tiles(place):
        for r, c in np.ndindex(place.shape[0] // a, place.shape[1] // b):
            block = place[r * a : (r + 1) * a, c * b : (c + 1) * b]
            assert block.max() - block.min() == a * b - 1


@given(st.lists(st.integers(0, 255), min_size=32, max_size=32), st.sampled_from([4, 8, 16]))
def test_the_wavefronts_drawn_are_as_many_as_the_hardware_counts(units, width):
    address = np.array(units) * width
    assert wavefront_of(address, width).max() + 1 == int(banks.wavefronts(address, width))


def test_an_access_shows_the_lanes_that_collide_and_the_count_of_analyze():
    tile, memory = show(Row(32, 32), access="lane, 0").panels
    assert [row[0].label for row in tile.cells] == [str(lane) for lane in range(32)]
    assert all(row[0].is_framed for row in tile.cells)
    assert any("32 wavefronts for 1 warp, 1 at best; 32-way" in line for line in tile.caption)
    assert {row[0].label for row in memory.cells} == {str(lane) for lane in range(32)}
    tile, memory = show(gallery.xor_swizzle(32, 32), access="lane, 0").panels
    assert not any(cell.is_framed for row in (*tile.cells, *memory.cells) for cell in row)


def test_a_repair_is_drawn_beside_what_it_repairs_with_its_cost():
    before, after, cost = show(Row(32, 32), access="lane, j", free={"j": 32}, by="repair").panels
    assert (before.title, after.title) == ("Row(32, 32)", "gallery.xor_swizzle(32, 32)")
    assert [row[:4] for row in cost.rows][:2] == [
        ("Row(32, 32)", "1024", "32", "0"),
        ("gallery.xor_swizzle(32, 32)", "32", "32", "0"),
    ]
    assert show(Row(32, 32), access="0, lane", by="repair").panels[-1].caption == ("no conflict to repair",)


def test_a_repair_is_drawn_on_the_scale_of_what_it_repairs():
    layouts = Row(48, 48), gallery.xor_swizzle(48, 48)
    asked = WarpRequest.of(TileAccess.of(parse("lane, 0")), 4)
    colours = [[row[0].colour for row in panel.cells[:32]] for panel in side_by_side(layouts, asked, ((), ()))]
    served = [wavefront_of(np.array([layout.apply(i, 0) for i in range(32)]) * 4, 4) for layout in layouts]
    assert served[1].max() == 1 < served[0].max() == 15  # the swizzle removes most of the conflict
    expected = [[palettes.HEAT.at(w / 15) for w in waves] for waves in served]
    assert colours == expected


def test_the_worst_warp_of_an_access_is_drawn():
    tile, _ = show(Row(32, 32), access="lane * k, 0", free={"k": 2}).panels
    assert tile.cells[31][0].label == "31" and all(row[0].is_framed for row in tile.cells)


def test_the_part_of_a_large_tile_that_a_request_touches_is_drawn():
    tile, _ = show(Row(256, 128), access="100 + lane, 90").panels
    assert tile.row_labels[0] == "100" and tile.column_labels[0] == "64"
    assert [row[26].label for row in tile.cells[:32]] == [str(lane) for lane in range(32)]
    assert tile.caption[-1] == "64 x 64 of 256 x 128 elements"


@lego.kernel(grid=1, block=(32, 4))
def turned(x: lego.Tensor(lego.f32, Row(32, 32)), y: lego.Tensor(lego.f32, Row(32, 32))):
    tile = lego.shared(lego.f32, Row(32, 32))
    tx, ty = lego.thread_id[0], lego.thread_id[1]
    for r in lego.range(0, 32, 4):
        tile[ty + r, tx] = x[ty + r, tx]
    lego.barrier()
    for r in lego.range(0, 32, 4):
        y[ty + r, tx] = tile[tx, ty + r]


READ = turned.source.line + 8


def test_the_repair_of_a_kernel_s_tile():
    from lego_mlir.analysis.kernel_repairs import tile_repairs

    before, after, cost = show(turned, line=READ, by="repair").panels
    assert (before.title, after.title) == ("Row(32, 32)", "gallery.xor_swizzle(32, 32)")
    column = next(c for c in range(32) if before.cells[0][c].label)
    assert [row[column].label for row in before.cells] == [row[column].label for row in after.cells]
    assert all(row[column].is_framed for row in before.cells) and not any(row[column].is_framed for row in after.cells)
    assert before.caption[1] == "32 wavefronts, 1 at best; all accesses of a block: 1056, 64 at best"
    (found,) = tile_repairs(turned, {}).values()
    rows = [(repr(r.layout), str(r.wavefronts), str(r.ideal), str(r.extra_bytes)) for r in found.repairs]
    assert [row[:4] for row in cost.rows] == [("Row(32, 32)", "1056", "64", "0"), *rows]
    (read,) = (a for s, a in turned.trace().accesses() if a.source.line == READ and a.buffer.name == "shared0")
    assert int(cost.rows[0][4]) == read.derivation.after < int(cost.rows[1][4])
    assert [p.title for p in show(turned, by="repair").panels] == [before.title, after.title, cost.title]


def test_the_repair_of_a_tile_whose_accesses_depend_on_data():
    @lego.kernel(grid=1, block=32)
    def gathered(i: lego.Tensor(lego.i32, Row(32)), y: lego.Tensor(lego.f32, Row(32))):
        tile = lego.shared(lego.f32, Row(32, 32))
        t = lego.thread_id[0]
        for r in lego.range(32):
            tile[r, t] = 0.0
        lego.barrier()
        y[t] = tile[t, lego.index(i[0]) % 32]

    line = gathered.source.line + 7
    before, _, cost = show(gathered, line=line, by="repair").panels
    assert "32 wavefronts, 1 at best" in before.caption[1]
    assert cost.caption[0].startswith("on this run's data")


def test_wavefronts_of_inactive_lanes_are_not_counted():
    active = np.arange(32) >= 8  # the first pass of 16 bytes a lane has no lane
    served = wavefront_of(np.arange(32) * 16, 16, active)
    assert served.tolist() == [0] * 8 + [0] * 8 + [1] * 8 + [2] * 8


@pytest.mark.parametrize("warps", [(1, 1), (2, 1), (1, 2)])
def test_threads_of_a_tile_are_those_that_hold_the_element(warps):
    layout = f2.MmaSync(warps).layout([32, 16])
    (panel,) = show(layout).panels
    seen = 0
    for values in np.ndindex(*layout.in_sizes.values()):
        held = layout.apply(*values)
        register, lane, warp = values[:3]
        cell = panel.cells[held["dim0"]][held["dim1"]]
        assert (
            cell.label.endswith(f"T{lane}:{register}")
            and f"warp {warp}, lane {lane}, register {register}" in cell.title
        )
        seen += 1
    assert seen == 512


def test_copies_are_marked():
    layout = f2.MmaSync((1, 1)).layout([8, 8])  # smaller than the instruction: registers hold copies
    (panel,) = show(layout).panels
    assert any(cell.label.endswith("+") for row in panel.cells for cell in row)
    assert panel.caption[-1].startswith("+: ")


def test_the_matrix_of_a_linear_layout_is_its_bases():
    layout = f2.MmaSync((1, 2)).layout([32, 16])
    (panel,) = show(layout, by="matrix").panels
    column = {label: i for i, label in enumerate(panel.column_labels)}
    ones = {(panel.row_labels[r], c) for r, row in enumerate(labels(panel)) for c, one in enumerate(row) if one == "1"}
    assert ("dim1.0", column["r0"]) in ones and ("dim0.3", column["r1"]) in ones and ("dim1.3", column["w0"]) in ones
    assert len(ones) == 9


def test_a_cute_layout_is_drawn_by_its_modes():
    layout = cute.CuteLayout((4, (2, 2)), (1, (4, 8)))
    assert labels(show(layout).panels[0])[1] == ["1", "5", "9", "13"]
    swizzled = cute.CuteLayout((8, 8), (8, 1), swizzle=cute.CuteSwizzle(3, 0, 3))
    (panel,) = show(swizzled).panels
    assert [int(x) for row in labels(panel) for x in row] == [swizzled(i, j) for i in range(8) for j in range(8)]


def test_a_refuted_layout_shows_which_indices_collide():
    with pytest.raises(LegoError) as caught:
        GenP([2, 3], lambda i, j: i, lambda p: (p, 0))
    (panel,) = show(caught.value).panels
    assert all(cell.is_framed for row in panel.cells for cell in row)
    assert panel.arrows == (((0, 1), (0, 0)),)
    assert "apply maps [0, 0] and [0, 2] both to position 0" in panel.caption[0]
    assert "GenP([2, 3], &lt;lambda&gt;" in show(caught.value).svg()


def test_a_derivation_is_a_table_of_its_steps():
    (panel,) = show(PAPER, by="derivation").panels
    derived = PAPER.derive()
    assert (panel.rows[0][0], panel.rows[-1][0]) == (str(derived.before), str(derived.after))
    assert [row[1] for row in panel.rows[1:-1]] == [step.rule for step in derived.steps]


def test_a_derivation_whose_text_would_have_no_end_is_cut():
    """Written out, the index of the Hilbert curve doubles with each level; its shared parts are few."""
    layout = gallery.hilbert(512)
    (panel,) = show(layout, by="derivation").panels
    assert panel.rows[-1][1] == "result" and panel.rows[-1][0] == str(layout.derive().after)
    assert all(len(cell) <= 60 for row in panel.rows[:-1] for cell in row[2:])
    assert panel.rows[-1][3].startswith("s0 = i0 ^ i1; s1 = ") and 60 < len(panel.rows[-1][3]) <= 160
    (panel,) = show(layout.derive()).panels
    assert panel.title == f"{layout.derive().before} -> {layout.derive().after} operations"


@lego.kernel(grid=(2, 1), block=32)
def columns(x: lego.Tensor(lego.f32, Row(64, 32)), y: lego.Tensor(lego.f32, Row(64, 32))):
    for k in lego.range(8):
        y[32 * lego.block_id[0] + lego.thread_id[0], k] = x[32 * lego.block_id[0] + lego.thread_id[0], k]


LINE = columns.source.line + 3


def test_the_worst_request_of_a_kernel_s_line():
    write, read = sorted(show(columns, line=LINE).panels, key=lambda panel: panel.title, reverse=True)
    assert write.title == f"write of y, line {LINE}" and read.title == f"read of x, line {LINE}"
    assert write.shape == (32, 8) and "32 sectors of 32 bytes, 4 at best" in write.caption[0]
    assert write.caption[1] == "128 of 1024 bytes that this request fetches are used: 12%; blue, .: the others"
    assert [cell.text for cell in write.cells[3]] == ["3", *"......."]


@lego.kernel(grid=1, block=32)
def through_banks(y: lego.Tensor(lego.f32, Row(32, 32))):
    tile = lego.shared(lego.f32, Row(32, 32))
    tile[lego.thread_id.x, 3] = 1.0
    tile[3, lego.thread_id.x] = 2.0
    lego.barrier()
    y[0, lego.thread_id.x] = tile[lego.thread_id.x, 3]


def test_a_request_of_a_shared_tile_names_the_busiest_bank_and_the_idle_ones():
    across, along = (show(through_banks, line=through_banks.source.line + row).panels[0] for row in (3, 4))
    assert across.caption[1] == "bank 3 serves 32 of 32 words, one by one; 31 of 32 banks serve none"
    assert along.caption[1] == "all 32 banks serve, each at most 1 of 32 words"


def test_a_request_that_uses_all_that_it_fetches_has_no_other_bytes():
    (panel,) = show(through_banks, line=through_banks.source.line + 6).panels[-1:]
    assert panel.caption[1] == "128 of 128 bytes that this request fetches are used: 100%"


def test_requests_in_time_show_which_sectors_are_fetched_again():
    (panel,) = (p for p in show(columns, line=LINE, by="time").panels if p.title.startswith("read"))
    colours = [{cell.colour for cell in row} for row in panel.cells]
    assert panel.shape == (8, 32)
    assert (
        all(len(row) == 1 for row in colours) and colours[0] != colours[1] == colours[7]
    )  # one sector a lane, then kept
    assert "32 sectors of 32 bytes fetched first" in panel.caption[1]
    assert panel.caption[2] == (
        "8 requests ask for 256 sectors: a cache that keeps them all fetches 32, and 1024 of their 1024 bytes are used"
    )
    assert panel.row_labels[:2] == ("0: 32 new", "1: 0 new")
    text = show(columns, line=LINE, by="time").text(width=200)
    marks = [row.split()[3:] for row in text.splitlines() if " new " in row]
    assert marks[0] == ["+"] * 32


def test_the_stages_of_a_kernel_grow_to_ptx():
    (table,) = show(columns, by="stage").panels
    assert [row[0] for row in table.rows] == ["mlir", "transformed", "nvvm", "llvm", "ptx"]
    assert all(0 < int(row[2]) <= int(row[1]) for row in table.rows)
    text = columns.mlir()
    index = sum(line.split("=")[-1].strip().startswith(("arith.", "affine.", "index.")) for line in text.splitlines())
    assert int(table.rows[0][3]) == index > 0


def test_the_stages_of_a_script_differ_from_those_without():
    from lego_mlir.kernels import matmul

    kernel = matmul.build(64, 128, 256, lego.f16)
    (table,) = show(kernel, by="stage", script="matmul_sm80.mlir").panels
    rows = {row[0]: row for row in table.rows}
    assert rows["transformed"][2] != rows["mlir"][2] and table.title.endswith("by matmul_sm80.mlir")


def test_the_accesses_of_a_kernel_with_their_positions():
    (table,) = show(columns).panels
    trace = list(columns.trace().accesses())
    assert [int(row[0]) for row in table.rows] == [access.source.line for _, access in trace]
    assert [row[2] for row in table.rows] == [str(access.position) for _, access in trace]


def test_a_verdict_shows_its_method_or_its_counter_example():
    proved, refuted = Row(2, 2).check(), Row(2, 3).equivalent(Col(2, 3))
    assert show(proved).panels[0].rows == ((proved.by,),)
    (table,) = show(refuted).panels
    assert [row[0] for row in table.rows] == list(refuted.counter_example)
    assert table.caption == (refuted.explanation,)


def test_counts_of_an_access_are_a_table():
    from lego_mlir.analysis import layouts

    found = layouts.shared(Row(32, 32), parse("lane, 0"), 4)
    (table,) = show(found).panels
    assert table.title == "access lane, 0"
    assert dict(table.rows) == {name: str(value) for name, value in found.to_dict().items() if name != "pattern"}
    (table,) = show(layouts.through_cache(Row(32, 32), parse("lane, 0"), 4)).panels
    assert ("sectors", "32") in table.rows


def test_the_contents_of_a_cache_under_an_order():
    from lego_mlir.caches.levels import CacheLevel
    from lego_mlir.caches.simulation import rows
    from lego_mlir.caches.space_time import space_time
    from lego_mlir.caches.workloads import stencil

    found = space_time(stencil(8, 8, 3), rows(8), (CacheLevel("L1", 6 * 16, line=16, sector=16),))
    (panel,) = show(found).panels
    reads = sum("reads" in cell.title for row in panel.cells for cell in row)
    memory = sum(cell.title.endswith("from memory") for row in panel.cells for cell in row)
    assert reads == int((found.served >= 0).sum()) and memory == int((found.served == 1).sum())
    assert f"{found.compulsory} lines are read at all" in panel.caption[0]


def test_a_report_is_a_table_of_its_lines():
    x, y = np.zeros(2048, np.float32), np.zeros(2048, np.float32)
    report = lego.interp.launch(columns.mlir(), grid=(2, 1), block=32, args=[x, y])
    (table,) = show(report).panels
    assert [row[1] for row in table.rows] == [f"{site.kind} of {site.buffer}" for site in report.by_line()]
    assert all((row[4], row[5]) == ("512", "64") for row in table.rows)  # 16 requests, 32 sectors each; 4 would do
    assert table.caption == ("no fault",) and table.colours


def test_a_large_layout_is_sampled():
    picture = show(Row(4096, 4096))
    (panel,) = picture.panels
    assert panel.shape == (64, 64)
    assert panel.cells[1][2].label == str(64 * 4096 + 128)
    assert "each cell is the first element of a block of 64 x 64" in panel.caption
    assert len(picture.svg()) < 2_000_000


@pytest.mark.parametrize(
    "picture",
    [
        show(PAPER, by="order"),
        show(Row(32, 32), access="lane, 0", by="repair"),
        show(f2.MmaSync((1, 2)).layout([32, 16])),
        show(Row(4, 4), gallery.morton(4), by="bank"),
    ],
    ids=["order", "repair", "threads", "two"],
)
def test_svg_is_well_formed_and_described(picture):
    root = ElementTree.fromstring(picture.svg())
    assert root.get("role") == "img" and root.get("aria-label") == picture.title
    described = root.find(f"{SVG}desc").text
    assert all(panel.title in described for panel in picture.panels)
    texts = {"".join(text.itertext()) for text in root.iter(f"{SVG}text")}
    assert {panel.title for panel in picture.panels} <= texts
    width, height = float(root.get("width")), float(root.get("height"))
    assert width < 2000 and height < 3000


def test_svg_is_deterministic_and_html_holds_it():
    assert show(PAPER).svg() == show(PAPER).svg()
    assert show(PAPER).svg() in show(PAPER).html()


def test_formats_of_files(tmp_path):
    picture = show(PAPER)
    for suffix, begin in ((".svg", b"<svg"), (".html", b"<!doctype html>"), (".png", b"\x89PNG"), (".txt", b"OrderBy")):
        path = picture.save(tmp_path / f"picture{suffix}")
        assert path.read_bytes().startswith(begin)
    assert picture._repr_mimebundle_()["image/svg+xml"] == picture._repr_svg_()
    assert picture._repr_mimebundle_()["text/plain"] == str(picture)


def test_colours_of_a_terminal_differ_in_their_codes():
    plain = show(Row(2, 4)).text()
    for colours, code in (("16", "\x1b[3"), ("256", "48;5;"), ("truecolor", "48;2;")):
        text = show(Row(2, 4)).text(colours=colours)
        assert code in text
        assert [line.split() for line in _without_codes(text).splitlines()] == [x.split() for x in plain.splitlines()]


def _without_codes(text):
    import re

    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_text_fits_the_terminal(width):
    lines = show(Row(4, 32)).text(width=width).splitlines()
    assert max(map(len, lines)) <= width
    shown = [token for line in lines for token in line.split()]
    assert {str(n) for n in range(128)} <= set(shown)


@pytest.mark.parametrize("width", [24, 40, 60])
@pytest.mark.parametrize("colours", [None, "256"])
def test_tables_and_captions_fit_the_terminal(width, colours):
    picture = show(Row(16, 32), access="lane // 2, lane % 2", by="repair")
    lines = _without_codes(picture.text(width=width, colours=colours)).splitlines()
    assert max(map(len, lines)) <= width
    words = "".join("".join(lines).split())
    for text in (*picture.panels[0].caption, *(cell for row in picture.panels[-1].rows for cell in row)):
        assert text.replace(" ", "") in words or width == 60  # in columns, the parts of a cell are not in one line


LAYOUTS_OF_ANY_KIND = [
    Row(7), gallery.reverse(7), Row(1, 1), Row(2, 3, 2, 3, 4), RegP([2, 3, 2, 3, 4], [5, 1, 3, 2, 4]),
    Padded(Row(7, 9), [5, 7]), Row(10, 10).tile_by([3, 3], [4, 4]), Row(1 << 24), gallery.table([5], [4, 3, 2, 1, 0]),
    cute.CuteLayout(7, 3), cute.CuteLayout(((2, 2), (2, 3)), ((1, 4), (2, 8))), cute.CuteLayout((8, 8), (0, 1)),
    f2.LinearLayout.identity(8, "a", "b"), f2.from_layout(gallery.xor_swizzle(8, 8)),
    f2.MmaSync((1, 1, 1)).layout([2, 16, 8]), f2.LinearLayout.identity(1 << 24, "a", "b"),
    f2.MixedLayout(f2.LinearLayout.identity(8, "a", "b"), [("a", 3, "b")]),
    f2.LinearLayout.identity(8, "a", "b") * f2.LinearLayout.identity(4, "c", "d"),
]  # fmt: skip


def test_layouts_of_any_kind_side_by_side():
    picture = show(*LAYOUTS_OF_ANY_KIND)
    assert len(picture.panels) == len(LAYOUTS_OF_ANY_KIND)
    ElementTree.fromstring(picture.svg())
    assert max(map(len, picture.text(width=40).splitlines())) <= 40


def test_a_mixed_layout_is_drawn_by_its_positions():
    (panel,) = show(f2.MixedLayout(f2.LinearLayout.identity(8, "a", "b"), [("a", 3, "b")])).panels
    assert labels(panel) == [[str(n) for n in range(24)]]


def test_threads_of_three_dimensions_are_counted_downwards():
    layout = f2.MmaSync((2, 1, 1)).layout([4, 16, 8])
    (panel,) = show(layout).panels
    found = layout.apply(register=5, lane=7, warp=1, block=0)
    cell = panel.cells[16 * found["dim0"] + found["dim1"]][found["dim2"]]
    assert panel.shape == (64, 8) and cell.label == "w1 T7:5"


def test_lego_show_is_the_same_function():
    assert lego.show is show
