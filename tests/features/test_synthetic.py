"""The synthetic trace: each calibration with its tolerance, the frozen parameters and bytes."""

import hashlib
import json
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sojourn.features import Trace
from sojourn.features.describe import describe
from sojourn.features.synthetic import START_UNIX_S, SyntheticParameters
from sojourn.features.synthetic import synthesize as synthesize_dated
from sojourn.features.trace import DAY_S

SEEDS = (0, 1, 2)


def synthesize(*sizes: int, **settings: Any) -> Trace:
    """The synthetic trace with its times from 0, Monday 00:00."""
    return synthesize_dated(*sizes, **settings).since_begin()


@pytest.fixture(scope="module", params=SEEDS)
def trace(request: pytest.FixtureRequest) -> Trace:
    """The size that the default flow uses: 60,000 requests over four weeks."""
    return synthesize(60_000, seed=request.param)


def table_digest(table: pd.DataFrame) -> str:
    return hashlib.sha256(table.to_csv(index=False).encode()).hexdigest()


def arrived(trace: Trace) -> np.ndarray:
    """Arrival times inside the window, seconds."""
    start_s = trace.start_s()
    return start_s[trace.is_start_known() & (start_s >= 0)]


def by_deployment(trace: Trace) -> pd.DataFrame:
    lifetime_s = trace.lifetime_s()
    rows = pd.DataFrame({"deployment": trace.requests["deployment"], "log": np.log(np.maximum(lifetime_s, 1)),
                         "is_brief": lifetime_s < 1800, "is_hours": lifetime_s > 4 * 3600,
                         "week": trace.start_s() // (7 * DAY_S)})
    return rows[trace.is_start_known()]


def split_in_two(values: np.ndarray) -> tuple[float, float]:
    """Ashman's D of the best cut in two (the most variance between), and the smaller part's share.

    D is the means' distance over the root mean square of the two spreads. A cut normal has 2.65: each half has its
    mean 0.80 from the middle and a spread of 0.60. A cut uniform has 3.46.
    """
    values = np.sort(values)
    n_low = np.arange(1, len(values))
    sum_low = values.cumsum()[:-1]
    distance = (values.sum() - sum_low) / (len(values) - n_low) - sum_low / n_low
    cut = int(np.argmax(n_low * (len(values) - n_low) * distance**2)) + 1
    low, high = values[:cut], values[cut:]
    spread = np.sqrt((low.var() + high.var()) / 2)
    return float((high.mean() - low.mean()) / max(spread, 1e-9)), min(len(low), len(high)) / len(values)


def is_two_modes(values: np.ndarray) -> bool:
    separation, share = split_in_two(values)
    return separation > 4 and share >= 0.1


def shift_by_week(trace: Trace) -> tuple[list[float], list[float]]:
    """Of deployments with 10 requests in the first week and in each of weeks 2 to 4: the mean absolute shift of
    their mean log lifetime since the first week, and the rank correlation with it."""
    rows = by_deployment(trace)
    is_many = rows.groupby(["deployment", "week"], observed=True)["log"].transform("size") >= 10
    means = [rows[is_many & (rows["week"] == week)].groupby("deployment", observed=True)["log"].mean()
             for week in range(4)]
    pairs = [pd.concat([means[0], later], axis=1, join="inner").to_numpy() for later in means[1:]]
    ranks = [pd.DataFrame(pair).rank().to_numpy() for pair in pairs]
    return ([float(np.abs(pair[:, 1] - pair[:, 0]).mean()) for pair in pairs],
            [float(np.corrcoef(rank.T)[0, 1]) for rank in ranks])


def burst_index(trace: Trace) -> tuple[float, float]:
    """The largest hour of cores asked for over the median of its hour of the day (weekdays apart from weekends),
    and the variance of hourly arrivals around that hour's mean over the mean (1 = Poisson)."""
    hour = arrived(trace) // 3600
    is_inside = trace.is_start_known() & (trace.start_s() >= 0)
    cores = np.bincount(hour, weights=trace.requests["cpu_cores"].to_numpy()[is_inside], minlength=28 * 24)
    table = pd.DataFrame({"n": np.bincount(hour, minlength=28 * 24), "cores": cores})
    times = np.arange(28 * 24)
    like = table.groupby(times % 24 + 24 * (times // 24 % 7 >= 5))
    mean = like["n"].transform("mean")
    return float((cores / like["cores"].transform("median")).max()), float(((table["n"] - mean)**2 / mean).mean())


def test_short_requests_are_88_percent_within_1_5_points(trace: Trace) -> None:
    assert describe(trace).long_share == pytest.approx(0.12, abs=0.015)


def test_long_requests_hold_98_percent_of_core_hours_within_1_point(trace: Trace) -> None:
    assert describe(trace).long_core_share == pytest.approx(0.98, abs=0.01)


def test_a_sixth_of_the_requests_come_from_bimodal_deployments(trace: Trace) -> None:
    """Of deployments with 20 requests and more, 20 % (+-5 points) have both modes in at least 15 % each."""
    groups = by_deployment(trace).groupby("deployment", observed=True)
    shares = groups[["is_brief", "is_hours"]].mean()
    counts = groups.size()
    is_bimodal = (shares >= 0.15).all(axis=1) & (counts >= 20)
    assert is_bimodal.sum() / (counts >= 20).sum() == pytest.approx(0.20, abs=0.05)
    assert counts[is_bimodal].sum() / counts.sum() == pytest.approx(0.16, abs=0.04)


def test_a_quarter_of_the_deployments_have_two_separate_modes(trace: Trace) -> None:
    """26 % (+-4 points) of those with 20 requests and more; under 2 % were each lognormal with its own moments."""
    logs = by_deployment(trace).groupby("deployment", observed=True)["log"]
    groups = [values.to_numpy() for _, values in logs if len(values) >= 20]
    assert np.mean([is_two_modes(values) for values in groups]) == pytest.approx(0.26, abs=0.04)
    rng = np.random.default_rng(0)
    assert np.mean([is_two_modes(rng.normal(v.mean(), v.std(), len(v))) for v in groups]) < 0.02


def test_half_of_the_variance_is_between_deployments(trace: Trace) -> None:
    """Intraclass correlation of log lifetimes 0.50 (+-0.06): variance components of a one-way layout, which unlike
    the share explained does not grow with the number of deployments."""
    rows = by_deployment(trace)
    is_many = rows["log"].groupby(rows["deployment"], observed=True).transform("size") >= 20
    logs = rows["log"][is_many].groupby(rows["deployment"], observed=True)
    n, mean, variance = logs.size(), logs.mean(), logs.var()
    within = ((n - 1) * variance).sum() / (n - 1).sum()
    n_0 = (n.sum() - (n**2).sum() / n.sum()) / (len(n) - 1)
    between = ((n * (mean - (n * mean).sum() / n.sum())**2).sum() / (len(n) - 1) - within) / n_0
    assert between / (between + within) == pytest.approx(0.50, abs=0.06)


def test_habits_persist(trace: Trace) -> None:
    """Knowing the deployment explains at least 30 % of the variance of log lifetimes, its shape under 15 %."""
    rows = by_deployment(trace)
    shape = trace.requests.loc[rows.index, "cpu_cores"]

    def explained(key: pd.Series) -> float:
        mean = rows["log"].groupby(key, observed=True).transform("mean")
        return float(1 - (rows["log"] - mean).var() / rows["log"].var())

    assert explained(rows["deployment"]) > 0.30
    assert explained(shape) < 0.15


def test_new_owners_appear(trace: Trace) -> None:
    """In the fourth week 45 % (+-10 points) of the requests come from deployments not seen in the first."""
    rows = by_deployment(trace)
    early = set(rows.loc[rows["week"] <= 0, "deployment"])
    late = rows.loc[rows["week"] == 3, "deployment"]
    assert 1 - late.isin(early).mean() == pytest.approx(0.45, abs=0.10)


def test_new_owners_appear_week_by_week(trace: Trace) -> None:
    """Requests from deployments not seen in week 1: 13 % in week 2, 29 % in week 3 (+-6 points)."""
    rows = by_deployment(trace)
    early = set(rows.loc[rows["week"] <= 0, "deployment"])
    second, third = (1 - rows.loc[rows["week"] == week, "deployment"].isin(early).mean() for week in (1, 2))
    assert second == pytest.approx(0.13, abs=0.06)
    assert third == pytest.approx(0.29, abs=0.06)


def test_means_shift_week_by_week(trace: Trace) -> None:
    """A mean fitted in week 1 is off by 0.29 (+-0.05) log units a week later, which is mostly chance, and by 0.41
    (+-0.07) after three; the ranks' correlation falls from 0.93 (+-0.03) to 0.89 (+-0.03)."""
    shift, rank = shift_by_week(trace)
    assert shift == pytest.approx([0.29, 0.34, 0.41], abs=0.07)
    assert shift[0] == pytest.approx(0.29, abs=0.05)
    assert shift[2] > 1.2 * shift[0]
    assert [rank[0], rank[2]] == pytest.approx([0.93, 0.89], abs=0.03)
    assert rank[2] < rank[0] - 0.02


def test_without_drift_nothing_shifts() -> None:
    """The same figures with no slopes and no changes: 0.26 in every week, on average over the seeds."""
    still = SyntheticParameters(drift_per_week=0.0, change_share=0.0)
    shifts = [shift_by_week(synthesize(60_000, seed=seed, parameters=still))[0] for seed in SEEDS]
    assert np.mean(shifts, axis=0) == pytest.approx([0.26, 0.26, 0.26], abs=0.03)


def test_habits_drift(trace: Trace) -> None:
    """The first week's median per deployment errs more in the fourth week than in the second."""
    rows = by_deployment(trace)
    early = rows[rows["week"] <= 0].groupby("deployment", observed=True)["log"].median()
    error = (rows["log"] - rows["deployment"].astype(str).map(early)).abs()
    assert error[rows["week"] == 3].mean() > 1.02 * error[rows["week"] == 1].mean()


def test_days_and_weeks_have_waves(trace: Trace) -> None:
    """Peak hour over lowest hour 2.7 (+-0.4); weekend over weekday 0.6 (+-0.06)."""
    start_s = arrived(trace)
    hours = np.bincount(start_s % DAY_S // 3600, minlength=24)
    days = np.bincount(start_s // DAY_S % 7, minlength=7)
    assert hours.max() / hours.min() == pytest.approx(2.7, abs=0.4)
    assert days[5:].mean() / days[:5].mean() == pytest.approx(0.6, abs=0.06)


def test_the_peak_hour_is_in_the_early_afternoon(trace: Trace) -> None:
    """14:00 (+-1 h) by the first harmonic of the hourly counts, whose amplitude is 0.45 (+-0.05) of the mean."""
    hours = np.bincount(arrived(trace) % DAY_S // 3600, minlength=24)
    wave = (hours * np.exp(2j * np.pi * (np.arange(24) + 0.5) / 24)).sum() / hours.sum()
    assert np.angle(wave) * 24 / (2 * np.pi) % 24 == pytest.approx(14, abs=1)
    assert 2 * abs(wave) == pytest.approx(0.45, abs=0.05)


def test_bursts_stand_out_of_the_waves() -> None:
    """Burst index above 3 on every seed, below 2 without bursts; variance over mean 2.2 (+-0.4), else 1 (+-0.15)."""
    shares = (*SyntheticParameters().kind_shares[:3], 0.0)
    for seed in SEEDS:
        index, dispersion = burst_index(synthesize(60_000, seed=seed))
        assert index > 3
        assert dispersion == pytest.approx(2.2, abs=0.4)
        parameters = SyntheticParameters(kind_shares=shares)
        index, dispersion = burst_index(synthesize(60_000, seed=seed, parameters=parameters))
        assert index < 2
        assert dispersion == pytest.approx(1.0, abs=0.15)


def test_bursts_raise_the_peak() -> None:
    """Peak over mean demand of cores: at least 1.4 with bursts on every seed, at most 1.4 without."""
    shares = (*SyntheticParameters().kind_shares[:3], 0.0)
    for seed in SEEDS:
        with_bursts = describe(synthesize(60_000, seed=seed))
        without = describe(synthesize(60_000, seed=seed, parameters=SyntheticParameters(kind_shares=shares)))
        assert with_bursts.peak["cpu_cores"] > 1.4 * with_bursts.mean["cpu_cores"]
        assert without.peak["cpu_cores"] < 1.4 * without.mean["cpu_cores"]


def test_the_window_begins_and_ends_amid_running_requests(trace: Trace) -> None:
    """0.4 to 1.5 % run at 0 (some of unknown start) and as many at the horizon."""
    summary = describe(trace)
    assert 0.004 < summary.n_running_at_0 / len(trace) < 0.015
    assert 0.004 < summary.n_censored / len(trace) < 0.015
    assert 0 < summary.n_unknown_start < 0.1 * summary.n_running_at_0
    assert (trace.start_s() < 0).sum() == summary.n_running_at_0 - summary.n_unknown_start


@pytest.mark.parametrize("days", [7, 14, 56])
def test_other_lengths_keep_the_two_shares(days: int) -> None:
    """88 % (+-2 points) short, 98 % (+-1 point) of the core-hours long, from one week to eight."""
    summary = describe(synthesize(60_000, seed=0, days=days))
    assert summary.long_share == pytest.approx(0.12, abs=0.02)
    assert summary.long_core_share == pytest.approx(0.98, abs=0.01)


def test_shapes_are_powers_of_two_with_2_4_or_8_gib_per_core(trace: Trace) -> None:
    cores = trace.requests["cpu_cores"]
    assert set(cores) == {1.0, 2.0, 4.0, 8.0, 16.0}
    assert set(trace.requests["mem_gib"] / cores) == {2.0, 4.0, 8.0}


def test_a_deployment_belongs_to_one_subscription(trace: Trace) -> None:
    owners = trace.requests[["subscription", "deployment"]].drop_duplicates()
    assert owners["deployment"].is_unique


def test_hosts_meet_the_load(trace: Trace) -> None:
    assert trace.hosts is not None
    summary, n = describe(trace), len(trace.hosts)
    load = max(summary.peak["cpu_cores"] / (96 * n), summary.peak["mem_gib"] / (384 * n))
    assert 0.8 * (n - 1) / n < load <= 0.8


def test_times_are_unix_seconds_from_a_monday_on() -> None:
    dated, plain = synthesize_dated(1000, seed=0, days=7), synthesize(1000, seed=0, days=7)
    assert (dated.begin_s, dated.horizon_s) == (START_UNIX_S, START_UNIX_S + 7 * DAY_S)
    assert pd.Timestamp(dated.begin_s, unit="s") == pd.Timestamp("2024-01-01") and not plain.is_dated
    for name in ("arrival_s", "departure_s"):
        assert (dated.requests[name] - plain.requests[name]).dropna().eq(START_UNIX_S).all()


def test_same_seed_same_bytes_and_another_seed_other_bytes() -> None:
    one, again, other = (synthesize(3000, seed=seed, days=7) for seed in (4, 4, 5))
    assert table_digest(one.requests) == table_digest(again.requests) != table_digest(other.requests)


def test_parameters_and_bytes_are_frozen() -> None:
    """Published results name these; change them only with a new major version of the recipe."""
    text = json.dumps(asdict(SyntheticParameters()), sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "faf66f3b67b61ccb"
    assert table_digest(synthesize(1000, seed=0, days=7).requests)[:16] == "a801251be57283a5"


@pytest.mark.parametrize("n_requests", [1, 2, 50])
def test_small_traces(n_requests: int) -> None:
    assert len(synthesize(n_requests, seed=1, days=1)) == n_requests


@pytest.mark.parametrize(("arguments", "message"), [
    ({"n_requests": 0}, "n_requests must be at least 1, got 0"),
    ({"days": 0.5}, r"days must be between 1 and 3650, got 0\.5"),
    ({"days": float("nan")}, "days must be between 1 and 3650, got nan"),
    ({"seed": -1}, "seed must be at least 0, got -1"),
])
def test_refusals(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        synthesize(**arguments)


@pytest.mark.slow
def test_a_million_requests_have_the_same_shares() -> None:
    trace = synthesize(1_000_000)
    assert describe(trace).long_share == pytest.approx(0.12, abs=0.015)
    assert describe(trace).long_core_share == pytest.approx(0.98, abs=0.01)
