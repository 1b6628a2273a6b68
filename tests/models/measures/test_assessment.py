"""Scores by name against their parts, and what reweighing must and must not change."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from naive_concordance import harrell_c
from sojourn.features.split import Examples
from sojourn.models import score_model
from sojourn.models.curve_table import HazardTable
from sojourn.models.measures import (
    BrierOverAges,
    OwnerDraws,
    assess,
    average_precision,
    by_week,
    integrated_brier_score,
    of_owners,
)

N = 4_000
WEEK_S = 604_800
EDGES = np.array([0.0, 60.5, 600.5, 3_600.5, 14_400.5, 86_400.5])


@pytest.fixture(scope="module")
def true_s() -> np.ndarray:
    return np.ceil(np.random.default_rng(3).exponential(_means()))


def _means() -> np.ndarray:
    return np.where(np.arange(N) % 4 == 0, 20_000.0, 1_000.0)


def _examples(lifetime_s: np.ndarray, censor_s: np.ndarray | None = None) -> Examples:
    observed = lifetime_s if censor_s is None else np.minimum(lifetime_s, censor_s)
    return Examples(np.zeros((N, 1)), (np.arange(N) // 20,), observed, observed == lifetime_s, np.zeros(N),
                    np.arange(N) * 700, np.arange(N))


def _table(mean_s: np.ndarray) -> HazardTable:
    """Exponential lifetimes of these means."""
    hazards = np.diff(EDGES)[None, :] / mean_s[:, None]
    return HazardTable.from_hazards(EDGES, hazards, 20_000.0, EDGES)


def test_ranking_and_distribution_are_those_of_their_own_functions(true_s: np.ndarray) -> None:
    rows, table = _examples(true_s), _table(_means())
    scores = assess(table, rows, 7_200, (43_200,)).scores
    survival = table.survival(7_200.0, 0.0)
    assert scores["creation.ap_long"] == pytest.approx(average_precision(true_s > 7_200, survival))
    assert scores["creation.ap_12h"] == pytest.approx(average_precision(true_s > 43_200, table.survival(43_200.0, 0.0)))
    assert scores["creation.c_harrell"] == harrell_c(rows, table.quantile(0.5, 0.0))
    assert scores["creation.ibs"] == pytest.approx(integrated_brier_score(table, rows))
    # the right model is calibrated, and one twice too long is not
    assert scores["creation.pit_deviation"] < 0.03
    assert assess(_table(2.0 * _means()), rows, 7_200).scores["creation.pit_deviation"] > 0.1


def test_what_remains_at_an_age_is_scored_among_those_alive_from_there_on(true_s: np.ndarray) -> None:
    scores = score_model(_table(_means()), _examples(true_s), 7_200)
    is_alive = true_s > 3_600.0
    assert scores["age_1h.n_alive"] == is_alive.sum()
    later = dataclasses.replace(_examples(true_s), lifetime_s=true_s - 3_600.0).take(is_alive)
    # exponential lifetimes have no memory: the same table from 0 on, up to the tail's own mean
    expected = integrated_brier_score(_table(_means()).take(is_alive), later)
    assert scores["age_1h.ibs"] == pytest.approx(expected, rel=0.02)


def test_censored_requests_are_weighed_for(true_s: np.ndarray) -> None:
    table = _table(_means())
    whole = score_model(table, _examples(true_s), 7_200)
    censored = _examples(true_s, np.ceil(np.random.default_rng(4).uniform(0.0, 60_000.0, N)))
    assert (~censored.is_event).mean() > 0.08
    seen = score_model(table, censored, 7_200)
    for name, tolerance in (("creation.ap_long", 0.03), ("creation.base_rate_long", 0.01),
                            ("age_1h.base_rate_long", 0.03)):
        assert seen[name] == pytest.approx(whole[name], abs=tolerance), name
    known = censored.take(censored.is_event)
    assert (known.lifetime_s > 7_200).mean() < whole["creation.base_rate_long"] - 0.03  # what leaving them out gives
    # errors: ends alone lean to short lifetimes, weighed ones less
    off = {name: abs(seen[f"creation.{name}"] - whole["creation.mae_log10_lifetime"])
           for name in ("mae_log10_lifetime", "mae_log10_lifetime_ipcw")}
    assert off["mae_log10_lifetime_ipcw"] < off["mae_log10_lifetime"]


def test_restricted_errors_count_those_who_outlast_the_follow_up() -> None:
    lifetime_s = np.array([100.0, 1_000.0, 10_000.0, 100_000.0])
    rows = Examples(np.zeros((4, 1)), (np.arange(4),), lifetime_s, np.ones(4, bool), np.zeros(4), np.arange(4),
                    np.arange(4))
    scores = score_model(_table(np.full(4, 1_000.0 / np.log(2.0))), rows, 7_200)  # every median is 1,000 s
    # of ends |1| 0 |-1| |-2|; followed to 10,000 s, the last but one of four: |1| 0 |-1| |-1|
    assert scores["creation.mae_log10_lifetime"] == pytest.approx(1.0)
    assert scores["creation.mae_log10_lifetime_restricted"] == pytest.approx(0.75)
    assert scores["creation.bias_log10_lifetime_restricted"] == pytest.approx(-0.25)


def test_where_many_outlast_the_follow_up_restricted_errors_know_the_right_model(true_s: np.ndarray) -> None:
    rows = _examples(true_s, np.ceil(np.random.default_rng(5).uniform(0.0, 12_000.0, N)))
    right, short = (score_model(_table(factor * _means()), rows, 7_200) for factor in (1.0, 0.25))
    name = "age_1h.mae_log10_remaining"  # nearly all that run for an hour have a mean of 20,000 s
    assert short[name] < right[name] and short[f"{name}_ipcw"] < right[f"{name}_ipcw"]
    assert right[f"{name}_restricted"] < short[f"{name}_restricted"] - 0.05


def test_draws_are_paired_and_centred(true_s: np.ndarray) -> None:
    rows = _examples(true_s)
    draws = OwnerDraws(rows.keys[0], 60, seed=1)
    right, long = (assess(_table(factor * _means()), rows, 7_200, (), draws) for factor in (1.0, 3.0))
    name = "creation.mae_log10_lifetime"
    assert np.mean(right.replicates[name]) == pytest.approx(right.scores[name], abs=0.01)
    # both models see the same owners: their difference varies less than either
    difference = long.replicates["creation.ibs"] - right.replicates["creation.ibs"]
    assert difference.std() < right.replicates["creation.ibs"].std() + long.replicates["creation.ibs"].std()
    assert (difference > 0.0).all()
    again = assess(_table(_means()), rows, 7_200, (), draws)
    np.testing.assert_array_equal(again.replicates["creation.ap_long"], right.replicates["creation.ap_long"])


def test_weeks_and_owners_part_the_rows(true_s: np.ndarray) -> None:
    rows, table = _examples(true_s), _table(_means())
    weeks = by_week(table, rows, 7_200, 0)
    assert weeks["week"] == [0.0, 1.0, 2.0, 3.0, 4.0] and sum(weeks["n"]) == N
    second = rows.take(rows.arrival_s // WEEK_S == 1)
    alone = score_model(table.take(rows.arrival_s // WEEK_S == 1), second, 7_200)
    assert weeks["mae"][1] == pytest.approx(alone["creation.mae_log10_lifetime"])
    assert weeks["f1"][1] == pytest.approx(alone["creation.f1_long"])
    is_seen = np.arange(N) % 4 == 0
    owners = of_owners(table, rows, 7_200, is_seen)
    assert (owners["seen.n"], owners["unseen.n"]) == (N / 4, 3 * N / 4)
    assert owners["seen.mae_log10_lifetime"] == pytest.approx(
        score_model(table.take(is_seen), rows.take(is_seen), 7_200)["creation.mae_log10_lifetime"])
    assert "seen.ap_long" not in of_owners(table, rows, 7_200, np.zeros(N, bool))


def test_the_choice_counts_each_age_by_those_asked_at_it(true_s: np.ndarray) -> None:
    scores = score_model(_table(_means()), _examples(true_s), 7_200)
    n_asked = [N, scores["age_10m.n_alive"], scores["age_1h.n_alive"], scores["age_6h.n_alive"]]
    parts = [scores[f"{age}.ibs"] for age in ("creation", "age_10m", "age_1h", "age_6h")]
    assert scores["ages.ibs"] == pytest.approx(np.average(parts, weights=n_asked))
    draws = list(OwnerDraws(np.arange(N) // 20, 2, seed=1))
    assessed = assess(_table(_means()), _examples(true_s), 7_200, (), draws)
    briers = BrierOverAges.of(_table(_means()), _examples(true_s))
    assert assessed.replicates["ages.ibs"].tolist() == [briers.score(weight) for weight in draws]
    assert np.isnan(BrierOverAges(np.zeros(2), np.zeros(2)).score())
