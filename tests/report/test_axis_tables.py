import itertools

import pytest

from triprune import Lattice, Observation, Scale, fit_predictor, schedule
from triprune.report.axis_tables import axis_tables


@pytest.fixture(scope="module")
def observations():
    plan = schedule(0.4)
    scales = [Scale(), *plan.depth, *plan.width, *plan.resolution, Scale(0.8, 0.9, 0.8)]
    return [Observation(s, 0.9 * s.depth**0.1 * s.width**0.15 * s.resolution**0.2) for s in scales]


@pytest.mark.parametrize(
    "form", [{}, {"link": "identity", "degree": 3}, {"link": "logit", "degree": 2, "ridge": 1e-3}]
)
@pytest.mark.parametrize("lattice", [None, Lattice(9, 16, 32, fixed_blocks=2)])
def test_the_tables_are_the_predictor(observations, form, lattice):
    predictor = fit_predictor(observations, **form)
    tables = axis_tables(predictor, lattice, (0.4, 0.5, 0.6))
    sides = [table.kept[:: max(1, len(table.kept) // 4)] for table in tables.axes]
    for point in itertools.product(*sides):
        assert tables.accuracy(Scale(*point)) == pytest.approx(predictor(Scale(*point)), abs=1e-12)
    assert [table.kept[-1] for table in tables.axes] == [1.0] * 3
    if lattice is not None:
        assert tables.axes[0].kept == tuple(k / 9 for k in range(4, 10))


def test_a_product_that_is_zero_at_full_scale_can_be_cut_too():
    scales = [Scale(), *(Scale.along(a, x) for a in ("depth", "width") for x in (0.9, 0.7, 0.5))]
    observations = [Observation(s, 1.0 - 1.0 / (s.depth * s.width)) for s in scales]
    predictor = fit_predictor(observations, degree=1, link="identity")
    tables = axis_tables(predictor, None, (0.5, 0.5, 1.0))
    assert tables.axes[2].kept == (1.0,)
    for point in itertools.product(tables.axes[0].kept[::7], tables.axes[1].kept[::7]):
        assert tables.accuracy(Scale(*point)) == pytest.approx(predictor(Scale(*point)), abs=1e-9)


def test_a_sum_of_products_has_no_tables(observations):
    predictor = fit_predictor(observations, rank=2, degree=2, ridge=1e-2)
    assert axis_tables(predictor, None, (0.5, 0.5, 0.5)) is None
