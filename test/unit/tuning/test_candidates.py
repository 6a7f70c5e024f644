"""Search spaces: order, conditions, keys that survive JSON, and messages for bad ones."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_mlir import Row, f16, gallery
from lego_mlir.errors import UsageError
from lego_mlir.tuning.candidates import Configuration, SearchSpace, ShownValue

SPACE = {"tile": [16, 32, 64], "order": ["row", "column"], "stage": [Row(32, 32), gallery.xor_swizzle(32, 32)]}


def test_the_last_name_varies_fastest():
    space = SearchSpace({"a": [1, 2], "b": [True, False]})
    assert [tuple(c.values()) for c in space] == [(1, True), (1, False), (2, True), (2, False)]


def test_conditions_exclude_and_say_why():
    space = SearchSpace(SPACE, where=["tile > 16 or order == 'row'", lambda tile, order: tile < 64])
    assert [c.key for c in space][:2] == [
        "order=row stage=Row(32, 32) tile=16",
        "order=row stage=gallery.xor_swizzle(32, 32) tile=16",
    ]
    assert (space.size, len(space)) == (12, 6)
    first = Configuration.of({"tile": 16, "order": "column", "stage": Row(32, 32)})
    assert space.excluded(first) == "the condition 'tile > 16 or order == 'row'' fails at order=column, tile=16"
    assert first not in space


def test_a_condition_on_sizes_waits_for_them():
    space = SearchSpace({"tile": [16, 32]}, where="M % tile == 0", sizes=["M"])
    assert len(space) == 2
    assert [bool(space.excluded(c, {"M": 48})) for c in space] == [False, True]


def test_keys_do_not_depend_on_the_order_of_names_nor_on_json():
    a = Configuration.of({"x": 1, "layout": Row(4, 8), "dtype": f16, "pair": (2, 3)})
    b = Configuration.of({"pair": (2, 3), "dtype": f16, "layout": Row(4, 8), "x": 1})
    restored = Configuration.from_data(json.loads(json.dumps(a.to_data())))
    assert a == b == restored
    assert hash(a) == hash(restored)
    assert restored["layout"] == ShownValue("Row(4, 8)")
    assert a != Configuration.of({**b, "x": 2})
    assert Configuration.of({"x": "1"}) != Configuration.of({"x": 1})


def test_every_configuration_is_found_by_its_key():
    space = SearchSpace(SPACE)
    assert [space.find(c.key) for c in space] == list(space)


values = st.lists(st.one_of(st.integers(-9, 99), st.booleans(), st.text(max_size=6)), min_size=1, max_size=4)


@given(st.dictionaries(st.from_regex(r"\A[a-z]{1,4}\Z"), values, min_size=1, max_size=3))
def test_keys_are_distinct_and_survive_json(named):
    named = {name: list({repr(v): v for v in vs}.values()) for name, vs in named.items()}
    space = SearchSpace(named)
    found = list(space)
    assert len({c.key for c in found}) == len(found) == space.size
    assert [Configuration.from_data(json.loads(json.dumps(c.to_data()))) for c in found] == found


def test_digests_tell_values_and_conditions_apart():
    spaces = [
        SearchSpace({"a": [1, 2]}), SearchSpace({"a": [2, 1]}), SearchSpace({"b": [1, 2]}),
        SearchSpace({"a": [1, 2]}, where="a > 1"), SearchSpace({"a": [1, 2]}, where="a > 0"),
        SearchSpace({"a": [1, 2]}, where=lambda a: a > 1), SearchSpace({"a": [1, 2]}, where=lambda a: a > 0),
    ]  # fmt: skip
    assert len({space.digest for space in spaces}) == len(spaces)
    assert SearchSpace({"a": [1, 2]}).digest == spaces[0].digest


@pytest.mark.parametrize(
    ("values", "where", "message"),
    [
        ({"tile": []}, (), "tile has no values; a space needs at least one for each name"),
        ({"tile": [1, 1]}, (), "tile: the value 1 is listed twice"),
        ({"tile": 32}, (), "tile: the values of a space are a list, got 32; write tile=[32]"),
        ({"tile": "row"}, (), "tile: the values of a space are a list, got row; write tile=['row']"),
        ({"a b": [1]}, (), "a name of the space is an identifier, got 'a b'"),
        ({"f": [lambda: 1]}, (), "has no stable text; use a number, a string, a layout or a named function"),
        ({"tile": [1]}, "tiel > 1", "tiel, which is not in the space; did you mean tile?"),
        ({"tile": [1]}, lambda warps: warps, "reads warps, which is not in the space; it has: tile"),
        ({"tile": [1]}, "tile >", "the condition 'tile >' is not a Python expression: invalid syntax"),
        ({"tile": [1]}, 3, "a condition is a text such as 'tile % 8 == 0' or a function of the names, got 3"),
        ({}, (), "a space needs at least one name with its values"),
    ],
)  # fmt: skip
def test_bad_spaces_are_refused(values, where, message):
    with pytest.raises(UsageError) as error:
        SearchSpace(values, where)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("tile // 0 > 1", "the condition 'tile // 0 > 1' fails at tile=1: ZeroDivisionError"),
        ("tile.real > 1", "uses 'tile.real'; a text has numbers, strings, arithmetic with //"),
        ("__import__('os') is None", "is not in the space"),
        ("2 ** 1000000 > tile", "computes an exponent of 1000000; at most 64"),
    ],
)
def test_conditions_that_cannot_be_evaluated(where, message):
    with pytest.raises(UsageError) as error:
        list(SearchSpace({"tile": [1]}, where))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tile=16 order=row", "'tile=16 order=row' has no value for stage"),
        ("tyle=16", "no name 'tyle' in the space; did you mean tile?"),
        ("tile=17", "tile=17: not a value of the space; tile is one of 16, 32, 64"),
        ("sixteen", "a configuration is written as name=value, separated by blanks"),
    ],
)
def test_configurations_that_are_not_in_the_space(text, message):
    with pytest.raises(UsageError) as error:
        SearchSpace(SPACE).find(text)
    assert message in str(error.value)
