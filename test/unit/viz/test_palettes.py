"""Palettes: ordered scales by luminance, categories that differ under deuteranopia, text that can be read."""

from itertools import combinations, pairwise

import pytest

from lego_mlir.viz import palettes


@pytest.mark.parametrize("scale", [palettes.BLUES, palettes.HEAT])
@pytest.mark.parametrize("seen", [str, palettes.deuteranopic], ids=["full", "deuteranopia"])
def test_a_scale_falls_in_luminance_by_steps_that_can_be_seen(scale, seen):
    shown = [seen(colour) for colour in scale.steps(16)]
    assert all(palettes.luminance(a) > palettes.luminance(b) for a, b in pairwise(shown))
    assert all(palettes.distance(a, b) > 2.3 for a, b in pairwise(shown))


def test_the_scale_of_banks_is_a_circle_of_colours_that_can_be_told_apart():
    colours = [palettes.BANKS_CYCLE.at(bank / 32) for bank in range(32)]
    assert palettes.BANKS_CYCLE.at(0) == palettes.BANKS_CYCLE.at(1)
    assert all(palettes.distance(a, b) > 2.3 for a, b in combinations(colours, 2))
    steps = [palettes.distance(a, b) for a, b in zip(colours, [*colours[1:], colours[0]], strict=True)]
    assert max(steps) < 4 * min(steps)  # none of the steps, the one from 31 to 0 among them, is a jump


def test_categories_are_far_apart_under_deuteranopia():
    assert min(palettes.distance(a, b) for a, b in combinations(map(palettes.deuteranopic, palettes.CATEGORIES), 2)) > 9


def test_deuteranopia_confuses_red_and_green_but_no_greys():
    red, green = palettes.deuteranopic("#a00000"), palettes.deuteranopic("#566000")
    assert palettes.distance(red, green) < palettes.distance("#a00000", "#566000") / 4
    assert palettes.distance(palettes.deuteranopic("#808080"), "#808080") < 1


def test_text_contrasts_with_every_background():
    colours = [
        *palettes.BLUES.steps(64),
        *palettes.HEAT.steps(64),
        *palettes.BANKS_CYCLE.steps(64),
        *palettes.CATEGORIES,
        palettes.EMPTY,
    ]
    assert min(palettes.contrast(palettes.ink(colour), colour) for colour in colours) >= 4.5


def test_distances_and_luminance_of_known_colours():
    assert palettes.luminance("#ffffff") == pytest.approx(1) and palettes.luminance("#000000") == 0
    assert palettes.contrast("#000000", "#ffffff") == pytest.approx(21)
    assert palettes.distance("#000000", "#ffffff") == pytest.approx(100, abs=0.01)
