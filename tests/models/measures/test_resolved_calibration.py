"""Calibration at the resolution of limits: ends from 98 to 102 % of a limit are one instant."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sojourn.features.split import Examples
from sojourn.models.curve_table import HazardTable
from sojourn.models.measures import Pit, calibration_with_ends
from sojourn.models.measures.calibration import DECILES, AgedPit, ResolvedPit, limits_of

N = 20_000
LIMIT_S = 10_000.0
NONE = np.full(N, np.nan)


def _rows(lifetime_s: np.ndarray, is_event: np.ndarray | None = None, entry_s: np.ndarray | None = None) -> Examples:
    n = len(lifetime_s)
    return Examples(np.zeros((n, 1)), (), np.asarray(lifetime_s, np.float64),
                    np.ones(n, bool) if is_event is None else is_event, np.zeros(n) if entry_s is None else entry_s,
                    np.zeros(n, np.int64), np.arange(n))


def _curve(points: dict[float, float], n: int) -> HazardTable:
    """Curves through F = value at each time of `points`, s; n equal rows."""
    edges = np.array([0.0, *points])
    cumulative = -np.log(1.0 - np.array([0.0, *points.values()]))
    return HazardTable.from_hazards(edges, np.tile(np.diff(cumulative), (n, 1)), 10.0, edges)


def _killed(n: int, share: float, at_s: float) -> np.ndarray:
    """Lifetimes: a share killed at `at_s`, the others even up to 9,000 s."""
    n_killed = round(n * share)
    return np.append(np.full(n_killed, at_s), np.ceil(np.linspace(1.0, 9_000.0, n - n_killed)))


def _coverage(points: dict[float, float], at_s: float, limit_s: float = LIMIT_S) -> float:
    rows = _rows(_killed(N, 0.5, at_s))
    return float(ResolvedPit.of(_curve(points, N), rows, np.full(N, limit_s)).at_deciles()[8])


UNTIL_KILLED = {9_000.5: 0.5, 9_799.5: 0.5 + 1e-9}
"""F = 0.5 before the instant of the limit, 9,800 to 10,200 s."""


@pytest.mark.parametrize("at_s", [9_964.0, 10_000.0, 10_010.0])
@pytest.mark.parametrize("jump_s", [9_805.0, 10_001.0, 10_199.0])
def test_only_the_mass_in_the_instant_counts_not_its_place(at_s: float, jump_s: float) -> None:
    # half end before, half are killed; the model gives the instant its half: 0.5 + 0.5 (0.9 - 0.5) / (1 - 0.5) = 0.9.
    # To the second it depends on which side of the kill the curve rises
    points = {**UNTIL_KILLED, jump_s: 0.5 + 2e-9, jump_s + 0.5: 1.0 - 1e-9}
    assert _coverage(points, at_s) == pytest.approx(0.9, abs=0.001)
    table, rows = _curve(points, N), _rows(_killed(N, 0.5, at_s))
    exact = float(Pit.of(table, rows, np.random.default_rng(0)).distribution(np.array([0.9]))[0])
    assert exact == pytest.approx(1.0 if at_s < jump_s else 0.5, abs=0.001)


def test_a_quantile_at_the_begin_of_the_instant_does_not_cover_the_ends_in_it() -> None:
    # nearly all mass lies before the instant, so every quantile up to 99.9 % does, too: the killed half is not covered
    assert _coverage({9_000.5: 0.5, 9_799.0: 0.999, 10_200.5: 0.9999}, 10_000.0) == pytest.approx(0.5, abs=0.001)
    # one rise from 9,790 to 9,810 s, 0.95 of the way before the instant: (0.9 - 0.975) < 0, so none is covered either
    assert _coverage({9_000.5: 0.5, 9_790.0: 0.5 + 1e-9, 9_799.5: 0.975, 9_810.0: 1.0 - 1e-9},
                     10_000.0) == pytest.approx(0.5, abs=0.001)


def test_too_much_and_too_little_mass_at_the_limit_is_seen() -> None:
    # F = 0.2 before the instant: all 50 % before it are covered, and (0.9 - 0.2) / 0.8 of the killed: 0.9375
    assert _coverage({9_000.5: 0.2, 9_799.5: 0.2 + 1e-9, 10_200.5: 1.0 - 1e-9}, 10_000.0) == pytest.approx(
        0.9375, abs=0.001)
    # F = 0.85: (0.9 - 0.85) / 0.15 of the killed: 0.5 + 0.5 / 3
    assert _coverage({9_000.5: 0.85, 9_799.5: 0.85 + 1e-9, 10_200.5: 1.0 - 1e-9}, 10_000.0) == pytest.approx(
        0.6667, abs=0.001)


@pytest.mark.parametrize("limit_s", [float("nan"), 59.0, 1e9, 20_000.0])
def test_without_a_limit_near_the_end_an_end_has_its_second(limit_s: float) -> None:
    points = {**UNTIL_KILLED, 10_001.0: 0.5 + 2e-9, 10_002.0: 1.0 - 1e-9}
    assert _coverage(points, 10_000.0, limit_s) == pytest.approx(1.0, abs=0.001)  # killed before the curve rises


def _drawn(seed: int) -> tuple[HazardTable, np.ndarray, np.random.Generator]:
    """Exponential curves of drawn means, lifetimes by them in whole seconds, and the generator."""
    rng = np.random.default_rng(seed)
    mean_s = np.exp(rng.uniform(np.log(100.0), np.log(50_000.0), N))
    edges = np.array([0.0, 1e7])
    table = HazardTable.from_hazards(edges, 1e7 / mean_s[:, None], 1.0, edges)
    return table, np.maximum(np.rint(rng.exponential(mean_s)), 1.0), rng


@pytest.mark.parametrize("limits_s", [(np.nan, np.nan), (600.0, 3_600.0)])
def test_a_true_model_is_calibrated_under_censoring_and_late_entry(limits_s: tuple[float, float]) -> None:
    table, true_s, rng = _drawn(0)
    entry_s = np.where(rng.random(N) < 0.3, np.floor(rng.uniform(0.0, 500.0, N)), 0.0)
    censor_s = entry_s + np.ceil(rng.uniform(0.0, 4.0 * np.median(true_s), N)) + 1.0
    is_seen = true_s > entry_s
    rows = _rows(np.minimum(true_s, censor_s), true_s <= censor_s, entry_s).take(is_seen)
    limit_s = rng.choice(limits_s, len(rows))
    n_near = (np.abs(rows.lifetime_s / limit_s - 1.0) <= 0.02).sum()
    assert 0.2 < 1.0 - rows.is_event.mean() < 0.7 and (np.isnan(limits_s[0]) or n_near > 150)
    shares = ResolvedPit.of(table.take(is_seen), rows, limit_s).at_deciles()
    np.testing.assert_allclose(shares, DECILES, atol=0.02)


def test_without_limits_it_is_the_exact_one_without_its_chance() -> None:
    table, lifetime_s, _ = _drawn(1)
    rows = _rows(lifetime_s)
    exact = np.mean([Pit.of(table, rows, np.random.default_rng(seed)).distribution(DECILES) for seed in range(20)],
                    axis=0)
    np.testing.assert_allclose(ResolvedPit.of(table, rows, NONE).at_deciles(), exact, atol=1e-3)
    again = ResolvedPit.of(table, rows, NONE).at_deciles()
    assert again.tobytes() == ResolvedPit.of(table, rows, NONE).at_deciles().tobytes()


def test_a_weight_is_that_many_rows_and_the_age_has_its_own_curve() -> None:
    table, lifetime_s, rng = _drawn(2)
    rows, limit_s = _rows(lifetime_s), np.full(N, 3_700.0)
    for age_s in (0, 3_600):  # at 1 h, the instant of the limit has begun before 3,626 s, its begin
        part = AgedPit.of(table, rows, age_s, limit_s)
        assert part is not None and part.resolved is not None
        weight = rng.integers(0, 3, N).astype(np.float64)
        taken = np.repeat(np.arange(N), weight.astype(int))
        again = AgedPit.of(table.take(taken), rows.take(taken), age_s, limit_s[taken])
        assert again is not None and again.resolved is not None
        scores, expected = part.scores(weight), again.scores()
        for name in ("pit_deviation_at_2pct", "coverage_10_at_2pct", "coverage_90_at_2pct"):
            assert scores[f"{part.prefix}.{name}"] == pytest.approx(expected[f"{part.prefix}.{name}"])
        assert expected[f"{part.prefix}.coverage_90_at_2pct"] == pytest.approx(0.9, abs=0.03)
    assert part is not None
    assert not any(name.endswith("pct") for name in dataclasses.replace(part, resolved=None).scores())


def test_a_row_censored_in_the_instant_has_outlived_what_lies_before_it() -> None:
    # F = 0.5 before the instant and 1 after it. One of four ends at F = 0.25, one is censored in the instant, so above
    # 0.5, two are killed. Of these two, 0.8 have ended at 0.9: 1 - 3/4 x 0.2
    points = {5_000.0: 0.25, 9_799.5: 0.5, 10_200.5: 1.0 - 1e-12}
    rows = _rows(np.array([5_000.0, 9_900.0, 10_000.0, 10_000.0]), np.array([True, False, True, True]))
    shares = ResolvedPit.of(_curve(points, 4), rows, np.full(4, LIMIT_S)).at_deciles()
    assert shares[[4, 8]].tolist() == pytest.approx([0.25, 0.85])


def test_what_a_run_logs_of_a_card_has_the_ends_of_its_intervals() -> None:
    measures = {"creation.coverage_90_at_2pct": (0.9, 0.88, 0.92), "age_1h.pit_deviation": (0.05, np.nan, np.nan),
                "creation.ap_long": (0.5, 0.4, 0.6)}
    assert calibration_with_ends(measures) == {
        "creation.coverage_90_at_2pct": 0.9, "creation.coverage_90_at_2pct.low": 0.88,
        "creation.coverage_90_at_2pct.high": 0.92, "age_1h.pit_deviation": 0.05}


def test_limits_are_a_feature_or_none() -> None:
    rows = Examples(np.array([[1.0, 60.0], [2.0, 120.0]]), (), np.ones(2), np.ones(2, bool), np.zeros(2),
                    np.zeros(2, np.int64), np.arange(2))
    found = limits_of(rows, ("cpu_cores", "requested_s"))
    assert found is not None and found.tolist() == [60.0, 120.0]
    assert limits_of(rows, ("cpu_cores", "mem_gib")) is None
