"""The synthetic trace: each calibration with its tolerance, the frozen parameters and bytes."""

import hashlib
import json
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest

from sojourn.features.describe import describe
from sojourn.features.synthetic import DAY_S, SyntheticParameters, synthesize
from sojourn.features.trace import Trace

SEEDS = (0, 1, 2)


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
        synthesize(**arguments)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_million_requests_within_20_seconds() -> None:
    import time

    started = time.perf_counter()
    trace = synthesize(1_000_000)
    assert time.perf_counter() - started < 20
    assert describe(trace).long_share == pytest.approx(0.12, abs=0.015)
    assert describe(trace).long_core_share == pytest.approx(0.98, abs=0.01)
