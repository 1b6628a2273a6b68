"""Use and violations: golden numbers, a sum over seconds, a synthetic trace, and input that is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
import sojourn.simulator as sim
from sojourn.features.synthetic import synthesize
from sojourn.features.synthetic_usage import with_usage
from sojourn.simulator import usage_metrics
from sojourn.simulator.measures import usage_series


def workload_of(rows: list[Any], horizon: int, n_hosts: int, warmup_s: int = 0) -> sim.Workload:
    trace = naive.trace_of(rows, horizon)
    hosts = pd.DataFrame({"host_id": range(n_hosts), "cpu_cores": 8.0, "mem_gib": 64.0})
    return sim.Workload("test", trace, hosts, sim.true_totals(trace, np.random.default_rng(0)), warmup_s)


def series(*samples: tuple[int, int, float]) -> pd.DataFrame:
    return pd.DataFrame(samples, columns=["request_id", "time_s", "cpu_frac"])


def test_golden_numbers() -> None:
    # One host of 8 cores, 20 s to 100 s. Request 0: 4 cores, 0..60, uses 0.5 until 40, then 1.5: 2 and 6 cores.
    # Request 1: 4 cores, 0..80, uses 1.0: 4 cores, its one sample at 30. Request 2: 2 cores, 70..100, has no series.
    # Use: 6 in 20..40, 10 in 40..60, 4 in 60..80 -> 120 + 200 + 80 = 400 of 8 x 80 = 640 core-s = 62.5 %.
    # Above 8 in 40..60: 20 of 80 s = 25 %, by 2 cores: 40 of 400 core-s = 10 %.
    # By request: 20 of 40 s, 20 of 60 s, 0 of 30 s: mean of 50, 33.3 and 0 % = 27.8 %.
    # Allocated: 4 x 40 + 4 x 60 + 2 x 30 = 460, with series 400 = 87.0 %.
    workload = workload_of([(0, 60, 4.0, 1.0), (0, 80, 4.0, 1.0), (70, 100, 2.0, 1.0)], 100, 1, warmup_s=20)
    found = usage_metrics(workload, sim.simulate(workload), series((0, 0, 0.5), (0, 40, 1.5), (1, 30, 1.0)))
    assert found.used_cpu_pct == 62.5
    assert found.violation_rate_pct == 25
    assert found.violation_severity_pct == 10
    assert found.request_violation_rate_pct == pytest.approx(100 * (1 / 2 + 1 / 3 + 0) / 3)
    assert found.covered_pct == pytest.approx(100 * 400 / 460)


def test_golden_numbers_over_time() -> None:
    # The same host: 10 of 8 cores in 40..60, the whole span of 100 s in bins of 1 s. 2 of 8 cores above: 25 %.
    workload = workload_of([(0, 60, 4.0, 1.0), (0, 80, 4.0, 1.0), (70, 100, 2.0, 1.0)], 100, 1, warmup_s=20)
    found = usage_series(workload, sim.simulate(workload), series((0, 0, 0.5), (0, 40, 1.5), (1, 30, 1.0)))
    assert found["time_s"].tolist() == list(range(100))
    is_above = found["time_s"].between(40, 59)
    assert found["violated_hosts_pct"].tolist() == np.where(is_above, 100.0, 0.0).tolist()
    assert found["excess_pct"].tolist() == np.where(is_above, 25.0, 0.0).tolist()


def test_bins_of_several_seconds_hold_means() -> None:
    # 4,000 s: bins of several seconds. One of two hosts is above capacity by 4 of 16 cores from 1,001 s to 3,000 s.
    workload = workload_of([(0, 4000, 8.0, 1.0)], 4000, 2)
    found = usage_series(workload, sim.simulate(workload), series((0, 0, 1.0), (0, 1001, 1.5), (0, 3000, 0.0)))
    span_s = np.diff(np.append(found["time_s"], 4000))
    assert span_s.max() > 1
    assert (found["violated_hosts_pct"] * span_s).sum() == pytest.approx(50 * 1999)
    assert (found["excess_pct"] * span_s).sum() == pytest.approx(25 * 1999)
    assert found["violated_hosts_pct"].max() == 50
    assert (found.loc[found["time_s"] >= 3000, "excess_pct"] == 0).all()


def test_exactly_full_is_no_violation() -> None:
    workload = workload_of([(0, 60, 4.0, 1.0), (0, 60, 4.0, 1.0)], 100, 1)
    found = usage_metrics(workload, sim.simulate(workload), series((0, 0, 1.0), (1, 0, 1.0)))
    assert (found.violation_rate_pct, found.violation_severity_pct, found.used_cpu_pct) == (0, 0, 60)


@st.composite
def cases(draw: Any) -> tuple[sim.Workload, pd.DataFrame]:
    rows, samples = [], []
    for _ in range(draw(st.integers(1, 8))):
        arrival = draw(st.integers(-3, 25))
        rows.append((arrival, draw(st.one_of(st.none(), st.integers(max(arrival, 0) + 1, 30))),
                     draw(st.sampled_from([1.0, 2.0, 4.0])), 1.0))
    rows.sort(key=lambda row: row[0])
    for i in range(len(rows)):
        for time_s in draw(st.lists(st.integers(-2, 32), max_size=4, unique=True)):
            samples.append((i, time_s, draw(st.sampled_from([0.0, 0.5, 1.0, 2.0, 5.0]))))
    workload = workload_of(rows, 30, draw(st.integers(1, 3)), draw(st.integers(0, 20)))
    return workload, series(*samples)


@settings(deadline=None, max_examples=60)
@given(cases())
def test_equals_a_sum_over_seconds(case: tuple[sim.Workload, pd.DataFrame]) -> None:
    workload, usage = case
    result = sim.simulate(workload)
    placed, departure = workload.placed_s.tolist(), workload.departure_s.tolist()
    samples: dict[int, list[tuple[int, float]]] = {}
    for i, time_s, share in sorted(usage.itertuples(index=False, name=None)):
        samples.setdefault(int(i), []).append((int(time_s), float(share)))
    if not any(result.host[i] >= 0 for i in samples):
        with pytest.raises(ValueError, match="usage must be of requests that are placed"):
            usage_metrics(workload, result, usage)
        return
    used = excess = violated = covered = allocated = 0.0
    suffered, stays = [0] * len(placed), [0] * len(placed)
    for t in range(workload.warmup_s, 30):
        for h in range(len(workload.hosts)):
            there = [i for i in range(len(placed)) if result.host[i] == h and placed[i] <= t < departure[i]]
            load = 0.0
            for i in there:
                cores = workload.need[i][workload.resources.index("cpu_cores")] / 1000
                allocated += cores
                if i in samples:
                    covered += cores
                    load += cores * ([f for s, f in samples[i] if s <= t] or [samples[i][0][1]])[-1]
            used += load
            excess += max(load - 8, 0)
            violated += load > 8
            for i in there:
                stays[i] += 1
                suffered[i] += load > 8
    found = usage_metrics(workload, result, usage)
    over_time = usage_series(workload, result, usage)
    kept = over_time["time_s"] >= workload.warmup_s
    assert (over_time["violated_hosts_pct"] / 100 * len(workload.hosts))[kept].sum() == pytest.approx(violated)
    assert (over_time["excess_pct"] / 100 * len(workload.hosts) * 8)[kept].sum() == pytest.approx(excess)
    span = (30 - workload.warmup_s) * len(workload.hosts)
    shares = [s / n for s, n in zip(suffered, stays, strict=True) if n]
    assert found.used_cpu_pct == pytest.approx(100 * used / (8 * span))
    assert found.violation_rate_pct == pytest.approx(100 * violated / span)
    assert found.violation_severity_pct == pytest.approx(100 * excess / used if used else 0)
    assert found.covered_pct == pytest.approx(100 * covered / allocated if allocated else 0)
    assert found.request_violation_rate_pct == pytest.approx(100 * np.mean(shares) if shares else 0)


def test_a_synthetic_trace_with_usage() -> None:
    trace, _ = with_usage(synthesize(2_000, seed=0, days=7.0), 200)
    workload = sim.build_workload("synthetic", trace)
    result = sim.simulate(workload)
    found = usage_metrics(workload, result, trace.usage)
    # use is at most what is allocated, and shares are at most 1, so that no host can have too much
    assert 0 < found.used_cpu_pct < result.metrics.utilisation_pct["cpu_cores"]
    assert found.violation_rate_pct == 0
    assert 0 < found.covered_pct <= 100


def test_bad_input_is_refused() -> None:
    workload = workload_of([(0, 60, 4.0, 1.0)], 100, 1)
    result = sim.simulate(workload)
    for usage, message in [
        (None, "usage must be given for a workload whose trace has none"),
        (series((9, 0, 0.5)), "usage must be of requests that are placed, got 1 samples of none of them"),
        (series((0, 0, -0.5)), r"cpu_frac must be finite and >= 0, got -0\.5 \(request 0 at 0 s\)"),
        (series((0, 0, np.nan)), "cpu_frac must be finite and >= 0, got nan"),
        (series((0, 5, 0.5), (0, 5, 0.6)), r"time_s must rise within a series, got 5 twice \(request 0\)"),
    ]:
        with pytest.raises(ValueError, match=message):
            usage_metrics(workload, result, usage)
        with pytest.raises(ValueError, match=message):
            usage_series(workload, result, usage)
    with pytest.raises(ValueError, match="and stay there, got one of policy 'best-fit' with migrations, waiting"):
        usage_metrics(workload, replace(result, is_disturbed=True), series((0, 0, 0.5)))
