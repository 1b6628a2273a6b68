"""Calibration by age: of lifetimes drawn from the model, and of models wrong by a known amount."""

from __future__ import annotations

import numpy as np
import pytest

from sojourn.features.split import Examples
from sojourn.models.curve_table import HazardTable, OnceTable
from sojourn.models.measures import N_ENDS_MIN, CalibrationByAge, Pit
from sojourn.models.measures.calibration import DECILES, AgedPit

N = 60_000
PREFIXES = ("creation", "age_10m", "age_1h", "age_6h")
LEVELS = (0.1, 0.5, 0.9)


def _exponential(mean_s: np.ndarray) -> HazardTable:
    """Curves exp(-t / mean): what remains has the same curve at every age."""
    edges = np.array([0.0, 1.0])
    return HazardTable(edges[None], edges, np.tile(1.0 / mean_s[:, None], 2),
                       np.stack([np.zeros(len(mean_s)), 1.0 / mean_s], axis=1), np.tile(mean_s[:, None], 2),
                       np.zeros((len(mean_s), 2)))


def _rows(lifetime_s: np.ndarray, is_event: np.ndarray, entry_s: np.ndarray | None = None) -> Examples:
    n = len(lifetime_s)
    return Examples(np.zeros((n, 1)), (), lifetime_s, is_event, np.zeros(n) if entry_s is None else entry_s,
                    np.arange(n), np.arange(n))


@pytest.fixture(scope="module")
def drawn() -> tuple[np.ndarray, Examples]:
    """Means, and exponential lifetimes of that mean: censored more where they are long, a third of them seen late."""
    rng = np.random.default_rng(0)
    mean_s = np.exp(rng.uniform(np.log(2e3), np.log(2e5), N))
    true_s = np.maximum(np.rint(rng.exponential(mean_s)), 1.0)
    entry_s = np.where(rng.random(N) < 1 / 3, np.floor(rng.uniform(0.0, 20_000.0, N)), 0.0)
    follow_s = entry_s + np.ceil(rng.uniform(0.0, 12.0 * mean_s**0.95))
    rows = _rows(np.minimum(true_s, follow_s), true_s <= follow_s, entry_s)
    is_seen = true_s > entry_s
    return mean_s[is_seen], rows.take(is_seen)


@pytest.mark.parametrize(("factor", "expected"), [
    (1.0, LEVELS),
    (2.0, (0.19, 0.75, 0.99)),  # predicted twice too long: 1 - (1 - q)^2
    (0.5, (1.0 - 0.9**0.5, 1.0 - 0.5**0.5, 1.0 - 0.1**0.5)),  # half as long: 1 - (1 - q)^(1/2)
])  # fmt: skip
def test_coverage_is_what_the_formula_says_at_each_age(drawn: tuple[np.ndarray, Examples], factor: float,
                                                       expected: tuple[float, ...]) -> None:
    mean_s, rows = drawn
    assert 0.1 < 1.0 - rows.is_event.mean() < 0.5
    scores = CalibrationByAge.of(_exponential(factor * mean_s), rows).scores()
    for prefix in PREFIXES:
        n_ends = scores[f"{prefix}.n_ends"]
        assert n_ends > 5_000
        for level, share in zip(LEVELS, expected, strict=True):
            # four standard errors of a share, twice the rows for what censoring and late entry cost at most here
            error = 4.0 * np.sqrt(2.0 * share * (1.0 - share) / n_ends)
            assert scores[f"{prefix}.coverage_{round(100 * level)}"] == pytest.approx(share, abs=error), prefix
        gap = np.abs(1.0 - (1.0 - DECILES) ** factor - DECILES).max()  # 0.25 at 0.5 for the one twice too long
        assert scores[f"{prefix}.pit_deviation"] == pytest.approx(gap, abs=0.03)


def test_dropping_the_censored_or_the_late_entry_would_not_do(drawn: tuple[np.ndarray, Examples]) -> None:
    mean_s, rows = drawn
    ended = CalibrationByAge.of(_exponential(mean_s[rows.is_event]), rows.take(rows.is_event)).scores()
    early = CalibrationByAge.of(_exponential(mean_s), _rows(rows.lifetime_s, rows.is_event)).scores()
    assert ended["age_1h.coverage_50"] > 0.55 and early["age_1h.coverage_50"] < 0.48


def test_a_curve_that_is_wrong_only_late_shows_only_late() -> None:
    """True mean 1,000 s up to 3,600 s and 10,000 s after it, predicted as 1,000 s at every age."""
    rng = np.random.default_rng(2)
    first = rng.exponential(1_000.0, N)
    true_s = np.maximum(np.rint(np.where(first < 3_600.0, first, 3_600.0 + rng.exponential(10_000.0, N))), 1.0)
    scores = CalibrationByAge.of(_exponential(np.full(N, 1_000.0)), _rows(true_s, np.ones(N, bool))).scores()
    assert scores["creation.pit_deviation"] < 0.02 and scores["creation.coverage_50"] == pytest.approx(0.5, abs=0.01)
    # of those alive at 1 h, 1 - exp(-ln 2 / 10) = 0.067 end by the median and 1 - exp(-ln 10 / 10) = 0.206 by 90 %
    assert scores["age_1h.coverage_50"] == pytest.approx(0.067, abs=0.02)
    assert scores["age_1h.coverage_90"] == pytest.approx(0.206, abs=0.03)


def test_a_tie_with_the_quantile_counts_by_its_share_of_the_second() -> None:
    """Half of all ends lie on the second that is predicted, which is the median: a right model covers half."""
    rng = np.random.default_rng(7)
    score = np.log10(rng.integers(100, 5_000, N))
    residuals = np.concatenate([np.linspace(-1.0, 0.0, 51), np.zeros(99), np.linspace(0.0, 1.0, 51)])
    lifetime_s = np.rint(10.0 ** (score + np.interp(rng.random(N), np.linspace(0.0, 1.0, 201), residuals)))
    table, rows = OnceTable(score, 1.0, residuals), _rows(lifetime_s, np.ones(N, bool))
    assert CalibrationByAge.of(table, rows).scores()["creation.coverage_50"] == pytest.approx(0.5, abs=0.01)
    assert np.mean(lifetime_s <= table.quantile(0.5, 0.0)) > 0.7  # compared in seconds, all ties are within


def test_at_an_age_by_hand() -> None:
    # mean 1,000 s; alive at 600 s are the last three: F = 1 - exp(-R / 1,000) of what remains, 0.2, 0.6 and above 0.4
    lifetime_s = np.array([100.0, 600.0, *(600.0 - 1_000.0 * np.log(1.0 - np.array([0.2, 0.6, 0.4])))])
    rows = _rows(lifetime_s, np.array([True, True, True, True, False]))
    part = AgedPit.of(_exponential(np.full(5, 1_000.0)), rows, 600)
    assert part is not None and part.idx.tolist() == [2, 3, 4]
    # 1 of 3 by 0.2, the censored one leaves, then the last: F(0.5) = 1/3, F(0.9) = 1
    scores = part.scores()
    assert scores["age_10m.n_ends"] == 2.0
    assert [scores[f"age_10m.coverage_{q}"] for q in (10, 50, 90)] == pytest.approx([0.0, 1 / 3, 1.0])
    assert "age_10m.d_calibration_chi2" not in scores and "age_10m.n_ends" not in part.scores(np.ones(5))
    assert AgedPit.of(_exponential(np.full(5, 1_000.0)), rows, 21_600) is None
    with pytest.raises(ValueError, match=r"age_s must be outlived .* got 600 for 5 rows, 2 of them not"):
        Pit.of(_exponential(np.full(5, 1_000.0)), rows, np.random.default_rng(0), 600)


def test_a_weight_is_that_many_rows(drawn: tuple[np.ndarray, Examples]) -> None:
    mean_s, rows = drawn
    few = rows.take(np.arange(3_000))
    found = CalibrationByAge.of(_exponential(mean_s[:3_000]), few)
    weight = np.arange(3_000) % 3
    for part in found.parts:
        again = np.repeat(np.arange(len(part.idx)), weight[part.idx])
        pit = Pit(part.pit.value[again], part.pit.is_event[again], part.pit.entry[again],
                  type(part.pit.over).of(part.pit.value[again], part.pit.is_event[again], part.pit.entry[again]))
        expected = AgedPit(part.age_s, again, pit).scores()
        del expected[f"{part.prefix}.n_ends"]
        assert part.scores(weight.astype(float)) == pytest.approx(expected, nan_ok=True)


def test_weeks_are_their_own_rows_and_small_ones_say_nothing(drawn: tuple[np.ndarray, Examples]) -> None:
    mean_s, rows = drawn
    week = np.where(np.arange(len(rows)) < 10_000, 3, 5)
    week[-40:] = 8
    table = _exponential(2.0 * mean_s)
    found = CalibrationByAge.of(table, rows).by_week(week)
    assert set(found) == {f"{prefix}.{name}" for prefix in ("creation", "age_1h")
                          for name in ("n_ends", "pit_deviation", "coverage_10", "coverage_50", "coverage_90")}
    part = AgedPit.of(table, rows, 3_600)
    assert part is not None
    alone = part.scores((week == 3).astype(float))
    assert found["age_1h.coverage_90"][0] == alone["age_1h.coverage_90"] == pytest.approx(0.99, abs=0.01)
    assert found["creation.coverage_50"][:2] == pytest.approx([0.75, 0.75], abs=0.02)
    assert found["creation.n_ends"][2] < N_ENDS_MIN <= found["creation.n_ends"][1]
    assert all(np.isnan(values[2]) for name, values in found.items() if not name.endswith("n_ends"))


def test_an_age_that_no_end_follows_has_no_figures() -> None:
    rows = _rows(np.array([10.0, 900.0]), np.array([True, False]))
    scores = CalibrationByAge.of(_exponential(np.full(2, 1_000.0)), rows).scores()
    assert scores["age_10m.n_ends"] == 0.0
    assert np.isnan([scores["age_10m.coverage_50"], scores["age_10m.coverage_90"]]).all()
    assert "age_1h.n_ends" not in scores
