"""The fit of products with scales of blocks: it gives the device's constants, and finds those that times come from."""

from dataclasses import astuple, replace

import numpy as np
import product_fit
import pytest

from lego_mlir.choices.product_device import REFERENCE_DEVICE, ScaledPath


@pytest.fixture(scope="module")
def runs():
    return product_fit.scaled_runs()


def test_the_constants_of_the_device_are_those_of_the_fit(runs):
    assert astuple(product_fit.scaled_fit(runs)) == pytest.approx(astuple(REFERENCE_DEVICE.scaled), rel=0.01)


def test_the_choice_by_the_constants_loses_little_on_the_recorded_times(runs):
    by_fit, by_ones = (
        product_fit.mean_loss(runs, product_fit.scaled_times(runs, path))
        for path in (REFERENCE_DEVICE.scaled, ScaledPath(*[1.0] * 7))
    )
    assert by_fit < 1.02 < by_ones


def test_times_by_the_model_give_its_constants_again(runs):
    path = ScaledPath(1.4, 1.7, 20.0, 2.0, 3.0, 2.0, 0.5)
    times = product_fit.scaled_times(runs, path)
    made = product_fit.Groups(
        product_fit.compared([replace(row, us=float(us)) for row, us in zip(runs.rows, times, strict=True)])
    )
    np.testing.assert_allclose(product_fit.scaled_times(made, product_fit.scaled_fit(made)), times, rtol=0.05)
