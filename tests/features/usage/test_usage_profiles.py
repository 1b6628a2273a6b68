"""Profiles by slot against a slow twin, on samples, on a grid and streamed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from naive_usage_grid import naive_profile
from sojourn.features.synthetic import START_UNIX_S
from sojourn.features.usage import UsageGrid, UsageProfiles, UsageStream, profiles_of, store_usage, streamed_profiles
from sojourn.features.usage.trace_usage import stream_synthetic
from sojourn.features.usage.usage_grid import TOLERANCE, TOLERANCE_ABOVE
from sojourn.serving.usage import DAY_S, DayClock


def made_grid(n_requests: int = 3, n_days: int = 3, seed: int = 5) -> UsageGrid:
    rng = np.random.default_rng(seed)
    cpu = rng.gamma(1.0, 0.3, (n_requests, 288 * n_days)).astype(np.float32)
    cpu[rng.random(cpu.shape) < 0.1] = np.nan
    cpu[:, 100:104] = np.nan
    return UsageGrid(np.arange(n_requests) + 7, cpu, None, np.full(n_requests, 2.0), np.full(n_requests, 8.0), 0, 300,
                     DayClock())


def test_profiles_equal_their_slow_twin() -> None:
    grid = made_grid()
    profiles = profiles_of(grid, n_slots=96, slot_quantile=0.5)
    for row in range(len(grid)):
        series = [(time_s, float(value)) for time_s, value in zip(grid.time_s().tolist(), grid.cpu[row], strict=True)
                  if not np.isnan(value)]
        maximum, mean, count = naive_profile(series, 96)
        np.testing.assert_allclose(profiles.maximum[row], maximum, rtol=1e-6)
        np.testing.assert_allclose(profiles.mean[row], mean, rtol=1e-5)
        assert profiles.count[row].tolist() == count
        values = np.array([value for _, value in series])
        np.testing.assert_allclose(profiles.quantiles[row], np.quantile(values, (0.05, 0.5, 0.95)), rtol=1e-6)
        assert profiles.peak[row] == values.max() and profiles.average[row] == pytest.approx(values.mean())
        of_slot = [values[[time % DAY_S // 900 == slot for time, _ in series]] for slot in range(96)]
        assert profiles.slot_quantile is not None
        np.testing.assert_allclose(profiles.slot_quantile[row], [np.median(each) for each in of_slot], rtol=1e-6)


def test_a_window_holds_what_stands_in_it_and_the_future_changes_nothing() -> None:
    grid = made_grid()
    later = grid.cpu.copy()
    later[:, 288:] = 5.0
    changed = UsageGrid(grid.request_ids, later, None, grid.cpu_cores, grid.mem_gib, 0, 300, grid.clock)
    before, after = (profiles_of(each, to_s=DAY_S) for each in (grid, changed))
    for name in ("maximum", "mean", "count", "quantiles", "peak", "average"):
        np.testing.assert_array_equal(getattr(before, name), getattr(after, name))
    assert profiles_of(grid, from_s=DAY_S, to_s=DAY_S + 900).count.sum(1).max() <= 3


def test_a_request_without_a_sample_in_the_window_is_nan_and_counts_none() -> None:
    grid = made_grid()
    grid.cpu[1] = np.nan
    profiles = profiles_of(grid)
    assert np.isnan(profiles.maximum[1]).all() and np.isnan(profiles.mean[1]).all() and not profiles.count[1].any()
    assert np.isnan([profiles.peak[1], profiles.average[1], *profiles.quantiles[1]]).all()


@pytest.mark.parametrize(("changed", "error"), [
    ({"n_slots": 7}, "n_slots must divide 86400, got 7"),
    ({"slot_quantile": 1.5}, "slot_quantile must be between 0 and 1, got 1.5"),
    ({"resource": "gpu"}, "resource must be cpu or mem, got 'gpu'"),
    ({"resource": "mem"}, "resource must be cpu where the series have no memory"),
])
def test_what_is_refused(changed: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        profiles_of(made_grid(), **changed)  # type: ignore[arg-type]


def stream() -> UsageStream:
    return stream_synthetic(n_requests=1000, n_usage=12, days=4, seed=3)


def ordered(profiles: UsageProfiles) -> np.ndarray:
    return np.argsort(profiles.request_ids)


def test_streamed_profiles_equal_those_of_the_store(tmp_path: Path) -> None:
    from_s, to_s = START_UNIX_S + DAY_S, START_UNIX_S + 3 * DAY_S
    exact = store_usage(stream(), tmp_path / "usage", n_parts=3).profiles(n_slots=48, from_s=from_s, to_s=to_s)
    found = streamed_profiles(stream(), n_slots=48, from_s=from_s, to_s=to_s)
    assert exact.count.sum() > 0
    a, b = ordered(exact), ordered(found)
    for name in ("request_ids", "maximum", "count", "peak", "cpu_cores"):
        np.testing.assert_array_equal(getattr(found, name)[b], getattr(exact, name)[a])
    np.testing.assert_allclose(found.mean[b], exact.mean[a], rtol=1e-6)
    np.testing.assert_allclose(found.average[b], exact.average[a], rtol=1e-9)
    assert np.abs(found.quantiles[b] - exact.quantiles[a]).max() <= TOLERANCE


def test_streamed_quantiles_above_one_keep_their_tolerance(tmp_path: Path) -> None:
    """Every use is eight times as high; the reader's cap of 10 lets it pass."""
    def high() -> UsageStream:
        made = stream()
        assert callable(made.read)
        read = made.read

        def eightfold(table, ledger):  # type: ignore[no-untyped-def]
            from dataclasses import replace
            yield from (replace(raw, cpu=raw.cpu * 8) for raw in read(table, ledger))

        return UsageStream(made.source, made.clock, eightfold, made.table)

    exact, found = store_usage(high(), tmp_path / "usage").profiles(), streamed_profiles(high())
    one, other = exact.quantiles[ordered(exact)], found.quantiles[ordered(found)]
    assert (one > 1).sum() > 10
    assert (np.abs(other - one) <= np.maximum(TOLERANCE, TOLERANCE_ABOVE * one) + 1e-9).all()
