"""Distributions against the systems that they come from: torch's placements, JAX's shardings, ScaLAPACK's formulas."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_mlir import RegP, Row, gallery
from lego_mlir.distributions import (
    Chunks,
    Cyclic,
    PlacedLayout,
    Replicas,
    Sharded,
    from_jax,
    from_linear,
    from_scalapack,
    from_sharding,
    from_torch,
    to_jax,
    to_linear,
    to_scalapack,
    to_sharding,
    to_torch,
)
from lego_mlir.errors import LayoutError
from lego_mlir.expr.verdict import Proved
from lego_mlir.f2 import LinearLayout


def held_by(found, **ranks):
    """The numbers of the elements on one rank, in the order of the offsets."""
    numbers = []
    for offset in range(found.axes["offset"]):
        if found.holds(**ranks, offset=offset):
            numbers.append(int(np.ravel_multi_index(found.inv(**ranks, offset=offset), found.shape)))
    return numbers


def placements():
    torch = pytest.importorskip("torch.distributed.tensor")
    from torch.distributed.tensor.placement_types import _StridedShard

    return torch, _StridedShard


@pytest.mark.parametrize("shape", [(9, 2), (8, 4), (5, 7), (1, 3)], ids=str)
@pytest.mark.parametrize("kinds", ["S0", "S1", "R", "T0", "S0 S0", "T0 S0", "S1 S0", "S0 R", "P S1", "T1 S1"])
def test_every_rank_holds_what_torch_gives_it(shape, kinds):
    torch = pytest.importorskip("torch")
    module, strided = placements()
    made = {"S": module.Shard, "T": lambda d: strided(d, split_factor=2)}
    mesh = dict(zip("ab", (3, 2), strict=True)) if " " in kinds else {"a": 4}
    given_ = [
        module.Replicate() if k == "R" else module.Partial() if k == "P" else made[k[0]](int(k[1]))
        for k in kinds.split()
    ]
    found = from_torch(shape, mesh, given_)
    whole = torch.arange(int(np.prod(shape))).reshape(shape)
    for ranks in itertools.product(*map(range, mesh.values())):
        local = whole
        for placement, rank, n in zip(given_, ranks, mesh.values(), strict=True):
            if hasattr(placement, "dim"):
                local = placement._split_tensor(local, n, with_padding=False)[0][rank]
        assert held_by(found, **dict(zip(mesh, ranks, strict=True))) == local.flatten().tolist()
    assert isinstance(found.check(), Proved) or "T" in kinds
    assert from_torch(shape, mesh, to_torch(found)).equivalent(found)


def test_what_torch_cannot_say_is_refused_with_two_places():
    placements()
    with pytest.raises(
        LayoutError, match=r"\[1\] is at rank=0 offset=1 of the first and at rank=1 offset=0 of the second"
    ):
        to_torch(Sharded([8], {"rank": 4}, [[("rank", Cyclic(4, 1))]]))
    assert [str(p) for p in to_torch(PlacedLayout(RegP([2, 4, 2], [2, 1, 3]), {"tp": 4, "offset": 4}))] == ["S(1)"]
    with pytest.raises(LayoutError, match="_MaskPartial is none of"):
        from_torch([4], {"tp": 2}, [type("_MaskPartial", (), {})()])
    with pytest.raises(LayoutError, match="divides an axis that a tensor of"):
        from_torch([4], {"tp": 2}, [type("Shard", (), {"dim": 1})()])


def test_every_device_holds_what_jax_gives_it():
    jax = pytest.importorskip("jax")
    from jax.sharding import AbstractMesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    mesh = AbstractMesh((4, 2), ("x", "y"))
    for shape, spec in (
        ((8, 6), P(("x", "y"), None)),
        ((8, 6), P("y", None)),
        ((16, 4), P(("y", "x"))),
        ((4, 8), P("x", "y")),
    ):
        sharding = NamedSharding(mesh, spec)
        found = from_sharding(sharding, shape)
        assert isinstance(found.check(), Proved)
        local = sharding.shard_shape(shape)
        numbers = np.arange(np.prod(shape)).reshape(shape)
        entries = [(() if e is None else (e,) if isinstance(e, str) else e) for e in (*spec, *[None] * (2 - len(spec)))]
        for x, y in itertools.product(range(4), range(2)):
            at, blocks = {"x": x, "y": y}, []
            for names in entries:
                index = 0
                for name in names:
                    index = index * mesh.shape[name] + at[name]
                blocks.append(index)
            part = numbers[tuple(slice(b * n, (b + 1) * n) for b, n in zip(blocks, local, strict=True))]
            assert held_by(found, x=x, y=y) == part.flatten().tolist()
        assert to_sharding(found, mesh).is_equivalent_to(sharding, len(shape))
    assert jax.__name__ == "jax"


def test_sub_axes_of_shardy_are_digits_of_a_mesh_axis():
    found = from_jax([8], {"x": 8}, ("x:(2)2",))
    for x in range(8):
        digit = x // 2 % 2  # two outside, two of the part, two inside
        assert held_by(found, x=x) == list(range(4 * digit, 4 * digit + 4))
    for entries, match in (
        (("x:(2)4", "x:(4)2"), "overlap"),
        (("x", "x"), "overlap"),
        (("x:(3)2",), "neither an axis of the mesh"),
        ((None, None, "x"), "3 entries for the 2 dimensions"),
    ):
        with pytest.raises(LayoutError, match=match):
            from_jax([8, 8], {"x": 8}, entries)
    with pytest.raises(LayoutError, match="a dimension of 9 is not divisible by 8"):
        from_jax([9], {"x": 8}, ("x",))


@st.composite
def shardings(draw):
    """A mesh whose axes are cut into digits of 2, some of which divide dimensions, and the digits of each."""
    mesh = {name: 2 ** draw(st.integers(0, 2)) for name in "xyz"[: draw(st.integers(1, 3))]}
    digits = [(name, 2**k) for name, n in mesh.items() for k in range(n.bit_length() - 1)]
    drawn = draw(st.permutations(digits))[: draw(st.integers(0, len(digits)))]
    cut = draw(st.integers(0, len(drawn)))
    return mesh, (drawn[:cut], drawn[cut:])


@given(shardings(), st.integers(1, 2), st.integers(1, 2))
@settings(max_examples=40)
def test_every_device_holds_what_its_digits_say_and_specs_come_back(drawn, m, n):
    mesh, used = drawn
    shape = [m << len(used[0]), n << len(used[1])]
    entries = [tuple(f"{name}:({outside})2" for name, outside in axis) for axis in used]
    found = from_jax(shape, mesh, entries)
    assert isinstance(found.check(), Proved)
    numbers = np.arange(np.prod(shape)).reshape(shape)
    for at in itertools.product(*map(range, mesh.values())):
        place, part = dict(zip(mesh, at, strict=True)), numbers
        for dim, axis in enumerate(used):
            for name, outside in axis:  # the digit with `outside` devices outside of it
                digit = place[name] // (mesh[name] // (2 * outside)) % 2
                part = np.split(part, 2, dim)[digit]
        assert held_by(found, **place) == part.flatten().tolist()
    spec, summed = to_jax(found)
    assert summed == () and from_jax(shape, mesh, spec).equivalent(found)


def test_what_jax_cannot_say_is_refused_with_two_places():
    for entries, unreduced in ((("x:(2)2", "y"), ()), ((("y", "x:(4)2"), None), ()), ((None, "y"), ("x",))):
        found = from_jax([8, 8], {"x": 8, "y": 2}, entries, unreduced)
        spec, summed = to_jax(found)
        assert from_jax([8, 8], {"x": 8, "y": 2}, spec, summed).equivalent(found) and summed == unreduced
    placed = PlacedLayout(RegP([2, 4, 2], [2, 1, 3]), {"tp": 4, "offset": 4}) @ Row(2, 8)
    assert to_jax(placed) == ((None, "tp"), ())
    with pytest.raises(
        LayoutError, match=r"\[1\] is at rank=0 offset=1 of the first and at rank=1 offset=0 of the second"
    ):
        to_jax(Sharded([8], {"rank": 4}, [[("rank", Cyclic(4, 1))]]))
    with pytest.raises(LayoutError, match="a dimension of 9 is not divisible by 4"):
        to_jax(Sharded([9], {"rank": 4}, [[("rank", Chunks(4))]]))


@given(
    st.integers(1, 12), st.integers(1, 9), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3),
    st.data(),
)  # fmt: skip
@settings(max_examples=30)
def test_every_process_holds_what_scalapack_gives_it(m, n, mb, nb, P, Q, data):
    """INDXG2P and INDXG2L of ScaLAPACK's TOOLS, with the source process of each axis."""
    rsrc, csrc = data.draw(st.integers(0, P - 1)), data.draw(st.integers(0, Q - 1))
    descriptor = (1, 0, m, n, mb, nb, rsrc, csrc, m + 1)
    found = from_scalapack(descriptor, (P, Q))
    assert isinstance(found.check(), Proved) and to_scalapack(found) == (descriptor, (P, Q))
    for i, j in itertools.product(range(m), range(n)):
        expected = {
            "row": (i // mb + rsrc) % P,
            "column": (j // nb + csrc) % Q,
            "offset": (i // (P * mb) * mb + i % mb) + (m + 1) * (j // (Q * nb) * nb + j % nb),
        }
        assert found.apply(i, j) == (expected,)
        assert found.inv(**expected) == (i, j)


def test_what_scalapack_cannot_say_is_refused():
    with pytest.raises(LayoutError, match="dealt by Cyclic to one axis of the mesh"):
        to_scalapack(Sharded([8, 8], {"p": 2}, [[("p", Chunks(2))], []]))
    with pytest.raises(LayoutError, match="LLD = 2 is less than 4"):
        from_scalapack((1, 0, 8, 8, 4, 4, 0, 0, 2), (2, 2))
    with pytest.raises(LayoutError, match="9 numbers and type 1"):
        from_scalapack((7, 0, 8, 8, 4, 4, 0, 0, 2), (2, 2))


@given(st.data())
@settings(max_examples=40)
def test_linear_layouts_are_distributions_with_copies(data):
    outs, ins = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 6))
    columns = data.draw(st.lists(st.integers(0, (1 << outs) - 1), min_size=ins, max_size=ins))
    layout = LinearLayout({"lane": columns[: ins // 2], "register": columns[ins // 2 :]}, {"dim0": 1 << outs})
    if not layout.is_surjective():
        with pytest.raises(LayoutError, match="is the image of no input"):
            from_linear(layout)
        return
    found = from_linear(layout)
    assert isinstance(found.check(), Proved)
    for lane, register in itertools.product(range(1 << ins // 2), range(1 << ins - ins // 2)):
        element = 0
        for bit, column in enumerate(columns):
            place = lane | register << (ins // 2)
            element ^= column * (place >> bit & 1)
        assert found.inv(lane=lane, register=register) == (element,)
    assert to_linear(found) == layout


def test_what_is_not_linear_is_refused_with_its_places():
    with pytest.raises(LayoutError, match=r"offset=1 holds .* and offset=3, their exclusive or"):
        to_linear(PlacedLayout(gallery.table([8], [0, 1, 2, 4, 3, 5, 6, 7]), {"offset": 8}))
    with pytest.raises(LayoutError, match="must be powers of two"):
        to_linear(PlacedLayout(Row(6), {"offset": 6}))
    with pytest.raises(LayoutError, match="rank=2 offset=0 holds no element"):
        to_linear(Sharded([8], {"rank": 4}, [[("rank", Cyclic(4, 4))]]))
    assert to_linear(Replicas("gpu", 2) * PlacedLayout(Row(4), {"offset": 4})).bases["gpu"] == [(0,)]
