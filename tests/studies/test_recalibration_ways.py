"""The study's own counting of factors is the product's, and a map puts a wrong model right."""

import numpy as np
import pytest

from sojourn.features.split import Examples
from sojourn.models.curve_table import HazardTable, online_table
from sojourn.models.measures import CalibrationByAge
from studies.recalibration_ways import AGES, WAYS, Window, recalibrated_by

EDGES = np.unique([0.0, *(np.floor(np.geomspace(2.0, 200_000.0, 30)) + 0.5)])
N, MEAN_S = 8_000, 3_600.0


def _window(limit_s: float = np.nan) -> Window:
    """Requests one every 10 s, whose hazards are twice what the model says; some are killed at a limit."""
    drawn_s = np.maximum(np.rint(np.random.default_rng(3).exponential(MEAN_S / 2.0, N)), 1.0)
    lifetime_s = drawn_s if np.isnan(limit_s) else np.minimum(drawn_s, limit_s)
    arrival_s = 10 * np.arange(N)
    rows = Examples(np.zeros((N, 1)), (), lifetime_s, np.ones(N, bool), np.zeros(N), arrival_s, np.arange(N))
    table = HazardTable.from_hazards(EDGES, np.tile(np.diff(EDGES) / MEAN_S, (N, 1)), MEAN_S, EDGES)
    return Window(rows, table, arrival_s, np.full(N, limit_s))


def test_factors_are_those_of_the_product() -> None:
    window = _window()
    product = online_table(window.table, window.rows, window.decided_s)
    for table in recalibrated_by(window, WAYS["factors"]).values():
        np.testing.assert_allclose(table.cumulative, product.cumulative, rtol=1e-9)


@pytest.mark.parametrize("name", ["map", "map-fine"])
def test_a_map_puts_doubled_hazards_right(name: str) -> None:
    window, late = _window(), np.arange(N // 2, N)
    for age_s, table in recalibrated_by(window, WAYS[name]).items():
        scores = CalibrationByAge.of(table.take(late), window.rows.take(late)).scores()
        if age_s in AGES[:3]:  # few outlive 6 h
            prefix = {0: "creation", 600: "age_10m", 3_600: "age_1h"}[age_s]
            assert scores[f"{prefix}.pit_deviation"] < 0.06


def test_ends_at_a_limit_are_left_out() -> None:
    """Without the kills the hazard is twice the model's; with them the ends at 2,000 s look like more."""
    window = _window(2_000.0)
    inside, outside = (recalibrated_by(window, WAYS[name])[0].cumulative[-1] for name in
                       ("factors", "factors-without-limit"))
    at = np.searchsorted(EDGES, 3_000.0)
    assert inside[at] > outside[at]
