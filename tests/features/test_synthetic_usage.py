"""Made-up usage: its spectrum, its truth, and that one series does not depend on another."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sojourn.features import Roles, Trace
from sojourn.features.synthetic import synthesize
from sojourn.features.synthetic_usage import PERIOD_S, SHAPES, STEP_S, UsageParameters, synthesize_usage, with_usage

DAYS = 56
N = 400
STILL = replace(UsageParameters(), change_share=0.0)


def long_lived(n: int = N) -> Trace:
    """`n` requests of as many owners, each over eight weeks: spectrum bins of 1/56 d, on which all periods lie."""
    table = pd.DataFrame({"request_id": np.arange(n), "arrival_s": 0, "departure_s": DAYS * 86_400, "cpu_cores": 1.0,
                          "mem_gib": 1.0, "user": [f"u{k}" for k in range(n)]})
    return Trace(table, DAYS * 86_400, Roles(owners=("user",)))


def matrix(usage: pd.DataFrame) -> np.ndarray:
    """One row per request; all series of `long_lived` have the same times."""
    return usage["cpu_frac"].to_numpy().reshape(-1, DAYS * 86_400 // STEP_S)


def modelled(truth: pd.DataFrame) -> np.ndarray:
    """The periodic series that `truth` describes, without noise, sample by sample."""
    time_s = np.arange(0, DAYS * 86_400, STEP_S)
    rows = []
    for row in truth.to_dict("records"):
        values = []
        for at in time_s.tolist():
            is_after = at >= row["change_s"]
            names = ("peak_after", "trough_after", "phase_after_s") if is_after else ("peak", "trough", "phase_s")
            peak, trough, phase_s = (row[name] for name in names)
            half_s, duty = row["period_s"] / 2, row["duty"]
            away = abs((at - phase_s + half_s) % (2 * half_s) - half_s) / (2 * half_s)
            busy = 0.5 + (duty / 2 - away) / (0.6 * min(duty, 1 - duty))
            values.append(trough + (peak - trough) * min(max(busy, 0), 1))
        rows.append(values)
    return np.array(rows)


@pytest.fixture(scope="module")
def still() -> tuple[np.ndarray, pd.DataFrame]:
    usage, truth = synthesize_usage(long_lived(), range(N), parameters=STILL)
    return matrix(usage), truth


@pytest.mark.parametrize(("shape", "period_s"), list(zip(SHAPES[:3], PERIOD_S, strict=True)))
def test_the_spectrum_peaks_at_the_period(still: tuple[np.ndarray, pd.DataFrame], shape: str, period_s: int) -> None:
    """Every series of the shape has its strongest frequency just there: eight weeks hold whole periods."""
    series, truth = still
    chosen = series[(truth["usage_shape"] == shape).to_numpy()]
    power = np.abs(np.fft.rfft(chosen - chosen.mean(axis=1, keepdims=True)))**2
    assert (DAYS * 86_400 / power.argmax(axis=1) == period_s).all()
    share = power.max(axis=1) / power.sum(axis=1)
    assert np.median(share) > 0.5


def test_an_aperiodic_spectrum_falls_and_peaks_nowhere(still: tuple[np.ndarray, pd.DataFrame]) -> None:
    """No line holds a quarter of the variance, in no series is it one of the three periods by that much, and slow
    waves are stronger: over a day in total at least three times those of 4 hours to a day."""
    series, truth = still
    chosen = series[(truth["usage_shape"] == "aperiodic").to_numpy()]
    power = np.abs(np.fft.rfft(chosen - chosen.mean(axis=1, keepdims=True)))**2
    assert (power.max(axis=1) / power.sum(axis=1)).max() < 0.25
    mean = (power / power.sum(axis=1, keepdims=True)).mean(axis=0)
    assert mean[1:DAYS].mean() > 3 * mean[DAYS:6 * DAYS].mean()


def test_shapes_have_their_shares(still: tuple[np.ndarray, pd.DataFrame]) -> None:
    """0.40, 0.15, 0.15, 0.30 of 400 owners; 2.6 standard errors are 6.4 points at 0.40."""
    shares = still[1]["usage_shape"].value_counts(normalize=True)
    assert [shares[shape] for shape in SHAPES] == pytest.approx([0.40, 0.15, 0.15, 0.30], abs=0.064)


def test_the_truth_explains_all_but_the_noise() -> None:
    """Against a slow twin, with changes of regime: what is left has the stated spread (+-10 %) and no offset."""
    usage, truth = synthesize_usage(long_lived(60), range(60), parameters=replace(UsageParameters(), change_share=1.0))
    is_periodic = (truth["usage_shape"] != "aperiodic").to_numpy()
    left = matrix(usage)[is_periodic] - modelled(truth[is_periodic])
    spread = 1.4826 * np.median(np.abs(left), axis=1)  # deaf to the few spikes
    # Noise is cut at 0 where the trough is low, so that a few spreads lie a little below.
    assert spread / truth.loc[is_periodic, "noise"].to_numpy() == pytest.approx(1.0, abs=0.1)
    assert np.median(left, axis=1) == pytest.approx(0.0, abs=0.005)


def test_a_quarter_of_the_regimes_change_once() -> None:
    usage, truth = synthesize_usage(long_lived(), range(N))
    is_changing = truth["change_s"].notna().to_numpy()
    assert is_changing.mean() == pytest.approx(0.25, abs=0.06)
    assert truth.loc[is_changing, "change_s"].between(0.2 * DAYS * 86_400, 0.8 * DAYS * 86_400).all()
    time_s = np.arange(0, DAYS * 86_400, STEP_S)
    factors = (truth["peak_after"] / truth["peak"]).to_numpy()
    for values, factor, at in zip(matrix(usage)[is_changing], factors[is_changing],
                                  truth.loc[is_changing, "change_s"], strict=True):
        # Peak and trough change alike, so the mean does: by 0.7 or 1 / 0.7 at least.
        ratio = values[time_s >= at].mean() / values[time_s < at].mean()
        assert ratio == pytest.approx(factor, rel=0.25)
        assert abs(np.log(factor)) > 0.35 and (ratio > 1) == (factor > 1)


def test_a_series_does_not_depend_on_the_others() -> None:
    trace = synthesize(2000, seed=3)
    usage, truth = synthesize_usage(trace, [9, 400, 31], seed=5)
    alone, truth_alone = synthesize_usage(trace, [400], seed=5)
    assert truth["request_id"].tolist() == [9, 400, 31]
    pd.testing.assert_frame_equal(usage[usage["request_id"] == 400].reset_index(drop=True), alone)
    pd.testing.assert_frame_equal(truth.iloc[[1]].reset_index(drop=True), truth_alone)
    other, _ = synthesize_usage(trace, [400], seed=6)
    assert not np.array_equal(other["cpu_frac"], alone["cpu_frac"])


def test_an_owner_keeps_its_shape() -> None:
    """Shape and duty are the owner's; two of its requests are 0.15 of the period apart at most: 5 spreads of 0.028."""
    trace = synthesize(2000, seed=3)
    _, truth = synthesize_usage(trace, trace.requests["request_id"].head(600), parameters=STILL)
    owner = trace.requests["deployment"].head(600).astype(str).to_numpy()
    habits = truth.assign(owner=owner, duty=truth["duty"].fillna(0))[["owner", "usage_shape", "duty"]]
    assert habits.drop_duplicates()["owner"].is_unique and len(set(owner)) < len(owner)
    assert truth["usage_shape"].nunique() == 4
    is_periodic = truth["period_s"].notna().to_numpy()
    cycle = (truth["phase_s"] / truth["period_s"])[is_periodic]
    apart = cycle - cycle.groupby(owner[is_periodic]).transform("first")
    assert (apart - apart.round()).abs().max() < 0.15


def test_samples_lie_on_one_grid_between_start_and_end() -> None:
    table = pd.DataFrame({"request_id": ["a", "b", "c", "d"], "arrival_s": [None, -700, 301, 310],
                          "departure_s": [601, 300, None, 590], "cpu_cores": 1.0, "mem_gib": 1.0})
    usage, truth = synthesize_usage(Trace(table, 1300), ["a", "b", "c", "d"])
    times = {name: rows["time_s"].tolist() for name, rows in usage.groupby("request_id")}
    assert times == {"a": [0, 300, 600], "b": [0], "c": [600, 900, 1200]}  # d begins and ends between two samples
    assert usage["cpu_frac"].between(0, 1).all()
    assert len(truth) == 4


def test_with_usage_adds_to_the_trace_and_changes_nothing_else(tmp_path: Path) -> None:
    trace = synthesize(2000, seed=3, days=7)
    more, truth = with_usage(trace, 20)
    pd.testing.assert_frame_equal(more.requests.drop(columns="usage_shape"), trace.requests)
    assert "usage_shape" not in more.roles.columns() and more.meta["known_at_end"] == ["usage_shape"]
    assert more.usage is not None
    assert list(more.usage["request_id"].unique()) == list(truth["request_id"])
    inside_s = trace.end_s() - np.maximum(trace.start_s(), trace.begin_s)
    is_chosen = trace.requests["request_id"].isin(truth["request_id"])
    assert is_chosen.sum() == 20 and inside_s[is_chosen].min() >= inside_s[~is_chosen].max()
    again = Trace.load(more.save(tmp_path / "trace"))
    assert again.usage is not None
    pd.testing.assert_frame_equal(again.usage, more.usage)
    assert again.requests["usage_shape"].dropna().tolist() == truth["usage_shape"].tolist()
    fewer, _ = with_usage(trace, 10)
    assert fewer.usage is not None
    assert set(fewer.usage["request_id"]) < set(more.usage["request_id"])


def test_bytes_are_frozen() -> None:
    usage, _ = synthesize_usage(long_lived(8), range(8), seed=1)
    assert hashlib.sha256(usage.round(9).to_csv(index=False).encode()).hexdigest()[:16] == "64459508c7354aa6"


@pytest.mark.parametrize(("ids", "seed", "message"), [
    ([1, 1], 0, "request_ids must be unique, got 1 twice"),
    ([1, 77], 0, "request_ids must be in the trace, got 77"),
    ([1], -1, "seed must be at least 0, got -1"),
])
def test_refusals(ids: list[int], seed: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        synthesize_usage(long_lived(4), ids, seed=seed)


@pytest.mark.parametrize("n_usage", [0, 5])
def test_a_number_that_the_trace_cannot_give_is_refused(n_usage: int) -> None:
    with pytest.raises(ValueError, match=f"n_usage must be between 1 and the 4 requests, got {n_usage}"):
        with_usage(long_lived(4), n_usage)
