"""The gates of promotion: what passes, what does not, and the reason given."""

from __future__ import annotations

import dataclasses

import lightgbm
import numpy as np
import pytest

from sojourn.features.split import Examples
from sojourn.flows.retrain.gates import (
    COVERED_PCT,
    MARGIN_PCT,
    Jury,
    better_gate,
    coverage_gate,
    is_more_accurate,
    not_worse_gate,
    with_stumps,
)
from sojourn.flows.retrain.verdict import Gate, Reason
from sojourn.models.curve_table import HazardTable
from sojourn.models.lifetime.gbdt import forest_from_text
from sojourn.models.measures import BrierOverAges, OwnerDraws, card_measures, coarsest_owner, interval, mae_log10
from sojourn.models.measures.calibration import ResolvedPit

EDGES = np.array([0.0, 60.5, 600.5, 3_600.5, 14_400.5, 86_400.5])
N = 4_000


def _table(mean_s: np.ndarray) -> HazardTable:
    """Exponential lifetimes of these means."""
    return HazardTable.from_hazards(EDGES, np.diff(EDGES)[None, :] / mean_s[:, None], 20_000.0, EDGES)


def _requests(mean_s: np.ndarray, censor_s: float) -> tuple[Examples, np.ndarray]:
    """Exponential lifetimes, each followed for up to `censor_s` (uniform); and the true ones."""
    rng = np.random.default_rng(11)
    n = len(mean_s)
    true_s = np.ceil(rng.exponential(mean_s))
    seen_s = np.minimum(true_s, np.ceil(rng.uniform(0.0, censor_s, n)))
    rows = Examples(np.zeros((n, 1)), (np.arange(n) // 20,), seen_s, seen_s == true_s, np.zeros(n),
                    np.zeros(n, np.int64), np.arange(n))
    return rows, true_s


def _jury(rows: Examples) -> Jury:
    return Jury(rows.is_event, coarsest_owner(rows.keys, len(rows)), 0)


def test_under_censoring_the_true_model_passes_though_its_error_over_observed_ends_is_larger() -> None:
    mean_s = np.where(np.arange(N) % 2 == 0, 60_000.0, 2_000.0)
    rows, true_s = _requests(mean_s, 12_000.0)
    assert (~rows.is_event).mean() > 0.4
    right, short = _table(mean_s), _table(np.where(mean_s > 10_000.0, 4_000.0, 1_500.0))
    ended = rows.is_event
    observed = {name: mae_log10(table.take(ended).quantile(0.5, 0.0), rows.lifetime_s[ended])
                for name, table in (("right", right), ("short", short))}
    true = {name: mae_log10(table.quantile(0.5, 0.0), true_s) for name, table in (("right", right), ("short", short))}
    assert observed["short"] < observed["right"] and true["right"] < true["short"]
    own, other = BrierOverAges.of(right, rows), BrierOverAges.of(short, rows)
    assert better_gate(own, other, "km", _jury(rows)).is_passed
    gate = not_worse_gate(other, own, "champion v1", _jury(rows))
    assert not gate.is_passed and gate.finding.endswith("must lie below +2; worse")


def _briers(added: np.ndarray) -> BrierOverAges:
    return BrierOverAges(added, np.ones(len(added)))


def test_a_loss_below_the_margin_passes_against_a_champion_and_never_against_km() -> None:
    jury = Jury(np.ones(400, bool), np.arange(400) // 10, 0)
    score = np.random.default_rng(0).gamma(4.0, 0.025, 400)
    other, same, worse, better = (_briers(score * factor) for factor in (1.0, 1.0, 1.01, 0.99))
    assert not_worse_gate(same, other, "champion v1", jury).is_passed
    assert not_worse_gate(worse, other, "champion v1", jury).is_passed
    assert not not_worse_gate(_briers(score * 1.021), other, "champion v1", jury).is_passed
    assert [better_gate(own, other, "km", jury).is_passed for own in (worse, same, better)] == [
        False, False, True]
    assert is_more_accurate(better, other, jury) and not is_more_accurate(same, other, jury)
    assert not better_gate(same, _briers(np.zeros(400)), "km", jury).is_passed  # nothing to be a share of


def test_a_small_test_window_proves_nothing() -> None:
    # better by 10 %, by 40 % with one half of the owners and worse by 20 % with the other: over 400 owners the mean is
    # known to +-3 %, over 20 to +-13 %
    def found(n_owners: int) -> bool:
        owner = np.repeat(np.arange(n_owners), 10)
        own, score = np.where(owner % 2 == 0, 0.06, 0.12), np.full(len(owner), 0.1)
        return better_gate(_briers(own), _briers(score), "km", Jury(np.ones(len(owner), bool), owner, 0)).is_passed

    assert found(400) and not found(20)
    few = Jury(np.ones(99, bool), np.arange(99), 0)
    gate = better_gate(_briers(np.full(99, 0.1)), _briers(np.full(99, 0.2)), "km", few)
    assert (gate.is_passed, gate.finding) == (
        False, "the test window must hold at least 100 observed ends, got 99")


def test_a_window_in_which_all_end_at_once_is_said_to_have_no_score() -> None:
    rows, _ = _requests(np.full(400, 1.0), 1e6)  # exponential lifetimes of a second in the mean: none of 30 s
    own, other = (BrierOverAges.of(_table(np.full(400, mean_s)), rows) for mean_s in (1.0, 2.0))
    gate = better_gate(own, other, "km", _jury(rows))
    assert (gate.is_passed, gate.finding) == (
        False, "the test window must hold requests that can be followed for 30 s, got none: there is no Brier score of "
               "them")
    assert not not_worse_gate(own, other, "champion v1", _jury(rows)).is_passed


def test_noise_is_resampled_by_owner_not_by_request() -> None:
    # better by 10 % for 13 owners of 20 and worse by 10 % for 7, each the same for all its 20 requests: no evidence
    # (-3 %, standard error 2 %), though it would be from 400 independent requests (standard error 0.5 %)
    owner = np.arange(400) % 20
    own, other = _briers(np.where(owner < 13, 0.09, 0.11)), _briers(np.full(400, 0.1))
    ended = np.ones(400, bool)
    assert not better_gate(own, other, "km", Jury(ended, owner, 0)).is_passed
    assert better_gate(own, other, "km", Jury(ended, np.arange(400), 0)).is_passed


def _worst_after(n_weeks: int, seed: int, is_best_compared: bool) -> float:
    """How much worse than the first champion, in truth, %, the champion gets, where each candidate is a bit worse.

    Each week's candidate is in truth 1 % worse than the champion; new owners judge, and each model has luck with each.
    """
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(60), 5)
    factor, champion, best, worst = {1: 1.0}, 1, 1, 0.0
    for version in range(2, n_weeks + 2):
        factor[version] = factor[champion] * 1.01
        base = rng.gamma(4.0, 0.025, len(owner))

        def luck(model: int, base: np.ndarray = base, factor: dict[int, float] = factor) -> BrierOverAges:
            return _briers(base * (factor[model] + 0.02 * rng.standard_normal(60)[owner]))

        judged = {model: luck(model) for model in (version, champion, best)}
        jury = Jury(np.ones(len(owner), bool), owner, version)
        rivals = {champion, best} if is_best_compared else {champion}
        if all(not_worse_gate(judged[version], judged[rival], "v", jury).is_passed for rival in rivals):
            best = version if is_more_accurate(judged[version], judged[best], jury) else best
            champion = version
            worst = max(worst, 100.0 * (factor[champion] - 1.0))
    return worst


@pytest.mark.slow
def test_weekly_runs_cannot_ratchet_down() -> None:
    # against the champion alone 20 steps of 1 % add up; against the most accurate version so far too, one margin is
    # the bound. A step beyond it passes once in 740 tries, and does not move the bound
    alone = [_worst_after(20, seed, is_best_compared=False) for seed in range(2)]
    both = [_worst_after(40, seed, is_best_compared=True) for seed in range(8)]
    assert min(alone) > 3.0 * MARGIN_PCT
    assert sum(worst > MARGIN_PCT for worst in both) <= 1
    assert max(both) < 2.0 * MARGIN_PCT


def test_the_jury_is_the_coarsest_owner_key_with_enough_owners() -> None:
    from sojourn.serving.inputs import HistoryDefinition, HistoryKey

    rows = dataclasses.replace(_requests(np.full(400, 500.0), 1e6)[0],
                               keys=(np.zeros(400, np.int64), np.arange(400) % 7, np.arange(400) % 40))
    history = HistoryDefinition((HistoryKey("zone", ("zone",), "category"), HistoryKey("team", ("team",), "owner"),
                                 HistoryKey("user", ("user",), "owner")))
    assert Jury.of(rows, history, 3).owner_codes.tolist() == rows.keys[2].tolist()
    assert Jury.of(rows, HistoryDefinition(()), 3).owner_codes.tolist() == list(range(400))


@pytest.mark.parametrize(("columns", "is_said"), [((0, 0, 0), True), ((0, 0, 1), True), ((0, 1, 0), False),
                                                  ((1, 1, 1), False)])
def test_a_forest_that_tells_no_request_from_another_is_said_to_be_one(columns: tuple[int, ...], is_said: bool) -> None:
    # the first two features are of the request, the third is of its age; a 0 is a column that is constant
    values = np.random.default_rng(0).normal(0.0, 1.0, (200, 3)) * columns
    booster = lightgbm.train({"objective": "regression", "num_threads": 1, "verbose": -1},
                             lightgbm.Dataset(values, values.sum(axis=1)), 3)
    gate = Gate("accuracy against km", True, "better")
    found = with_stumps(gate, forest_from_text(booster.model_to_string()), 2)
    assert (found.name, found.is_passed) == (gate.name, gate.is_passed)
    said = "better. The forest has no split on what is known of a request: all get the same answer"
    assert found.finding == (said if is_said else "better")


N_NOISE_OWNERS, N_EACH = 60, 20


def _covered_gate(coverage: float, seed: int, age_s: int) -> Gate:
    """The gate of made requests of which `coverage` end within the true 90 % quantile, by owners of unlike luck.

    An owner's coverage is drawn with a standard deviation of 0.09 at 0.9; the table is exponential of a known mean.
    """
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(N_NOISE_OWNERS), N_EACH)
    own = rng.beta(10.0 * coverage, 10.0 * (1.0 - coverage), N_NOISE_OWNERS)[owner]
    pit = np.where(rng.random(len(owner)) < own, 0.9 * rng.random(len(owner)), 0.9 + 0.1 * rng.random(len(owner)))
    lifetime_s = age_s + np.ceil(-20_000.0 * np.log1p(-pit))
    rows = Examples(np.zeros((len(owner), 1)), (owner,), lifetime_s, np.ones(len(owner), bool), np.zeros(len(owner)),
                    np.zeros(len(owner), np.int64), np.arange(len(owner)))
    part = ResolvedPit.of(_table(np.full(len(owner), 20_000.0)), rows, np.full(len(owner), np.nan), age_s)
    drawn = [part.at_deciles(weight)[8] for weight in OwnerDraws(owner, 200, seed=0)]
    prefix, age = ("age_1h", "1 h") if age_s else ("creation", "creation")
    measures = {f"{prefix}.n_ends": (float(len(owner)), np.nan, np.nan),
                f"{prefix}.coverage_90_at_2pct": (float(part.at_deciles()[8]), *interval(drawn))}
    return coverage_gate(measures, prefix, age, Jury(rows.is_event, owner, 0))


@pytest.mark.slow
@pytest.mark.parametrize("age_s", [0, 3_600])
def test_of_200_made_sets_a_right_quantile_passes_and_one_that_covers_73_percent_fails(age_s: int) -> None:
    n_passed = {coverage: sum(_covered_gate(coverage, seed, age_s).is_passed for seed in range(200))
                for coverage in (0.9, 0.73)}
    assert n_passed[0.9] >= 198 and n_passed[0.73] == 0


def _covers(value: float, low: float, high: float, n_ends: float = 300.0, prefix: str = "creation") -> Gate:
    measures = {f"{prefix}.n_ends": (n_ends, np.nan, np.nan), f"{prefix}.coverage_90": (0.8, 0.7, 0.85),
                f"{prefix}.coverage_90_at_2pct": (value, low, high)}
    return coverage_gate(measures, prefix, "creation" if prefix == "creation" else "1 h",
                         Jury(np.ones(300, bool), np.arange(300) // 10, 0))


def test_the_coverage_fails_only_if_its_whole_interval_lies_outside() -> None:
    assert COVERED_PCT == (85.0, 95.0)
    assert all(_covers(*found).is_passed for found in ((0.9, 0.88, 0.92), (0.8, 0.7, 0.86), (0.97, 0.94, 1.0)))
    assert not _covers(0.98, 0.96, 1.0).is_passed  # too long answers hold hosts for nothing
    gate = _covers(0.73, 0.7, 0.76)
    assert (gate.name, gate.is_passed, gate.finding) == (
        "coverage of the quantile 0.9 at creation", False,
        "73.0 % (80.0 to the second), 95 % interval 70.0 to 76.0 (over 30 owners, 300 ends), must reach into 85 to 95")
    assert _covers(0.8, 0.7, 0.86).finding.startswith("80.0 %, 95 % interval 70.0 to 86.0")  # the same to the second


def test_few_ends_are_not_judged_and_fail_at_creation_alone() -> None:
    assert [(_covers(0.5, 0.4, 0.6, 99.0, prefix).is_passed) for prefix in ("creation", "age_1h")] == [False, True]
    nobody = [coverage_gate({}, prefix, age, Jury(np.ones(3, bool), np.arange(3), 0))
              for prefix, age in (("creation", "creation"), ("age_1h", "1 h"))]
    assert [gate.is_passed for gate in nobody] == [False, True]
    assert all(gate.finding.startswith("not judged: at least 100 observed ends") and gate.reason == Reason.FEW_ENDS
               for gate in nobody)


def test_the_card_measures_hold_what_the_gate_takes() -> None:
    # exponential lifetimes of which 40 % are censored: the true model's 90 % quantile covers, one of half the mean not
    mean_s = np.full(N, 20_000.0)
    rows, _ = _requests(mean_s, 60_000.0)
    jury, draws = _jury(rows), OwnerDraws(np.arange(N) // 20, 50, seed=0)
    for factor, is_right in ((1.0, True), (0.5, False)):
        measures = card_measures(_table(factor * mean_s), rows, 3_600, draws)
        gates = [coverage_gate(measures, *age, jury) for age in (("creation", "creation"), ("age_1h", "1 h"))]
        assert [gate.is_passed for gate in gates] == [is_right, is_right]


@pytest.mark.parametrize("name", ["beyond the 90 % bound", "a, b", "", "größe?"])
def test_a_name_that_mlflow_would_change_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name of a gate must be letters"):
        Gate(name, True, "")
