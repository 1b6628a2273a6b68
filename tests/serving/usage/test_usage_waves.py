"""Pulse waves and their sum: use at a time, the largest over an interval, the next busy window."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sojourn.serving.usage import PulseWave, UsageWaves

DAY = PulseWave(0.75, 0.25, period_s=24.0, phase_s=8.0, duty=0.5)
WEEK = PulseWave(0.125, -0.25, period_s=168.0, phase_s=20.0, duty=5 / 7)


def drawn(rng: np.random.Generator, is_added: bool) -> PulseWave:
    """A wave whose edges are whole seconds and whose levels are eighths, so that sums have no rounding."""
    period_s = int(rng.integers(2, 40))
    trough, swing = int(rng.integers(-8 if is_added else 0, 8)), int(rng.integers(0, 8))
    return PulseWave((trough + swing) / 8, trough / 8, float(period_s), float(rng.integers(0, period_s)),
                     int(rng.integers(1, period_s)) / period_s)


def brute_largest(waves: UsageWaves | PulseWave, from_s: float, to_s: float) -> float:
    """Every half second of the interval: edges are whole seconds, so each level is met in its middle."""
    times = np.arange(math.floor(from_s * 2), math.ceil(to_s * 2)) / 2
    return float(waves.at(np.maximum(times, from_s) + 1e-7).max())


@pytest.mark.parametrize("seed", range(60))
def test_the_largest_is_that_of_every_instant(seed: int) -> None:
    rng = np.random.default_rng(seed)
    waves = UsageWaves((drawn(rng, False), drawn(rng, True)))
    for _ in range(20):
        from_s = float(rng.integers(-100, 200)) / 2
        to_s = from_s + float(rng.integers(1, 100)) / 2
        assert waves.largest(from_s, to_s) == brute_largest(waves, from_s, to_s)
        assert waves.waves[0].largest(from_s, to_s) == brute_largest(waves.waves[0], from_s, to_s)


def test_the_largest_is_found_where_peaks_meet_after_thousands_of_windows() -> None:
    # 101 k = 10,007 j + 50 mod 1: windows of one second meet first at 101 k = 10,007 j, k = 10,007
    waves = UsageWaves((PulseWave(1.0, 0.0, 101.0, 0.0, 1 / 101), PulseWave(0.5, -0.5, 10_007.0, 0.0, 1 / 10_007)))
    meet_s = 101.0 * 10_007.0
    assert waves.largest(1.0, meet_s) == 0.5
    assert waves.largest(1.0, meet_s + 1.0) == 1.5


def test_an_interval_ends_before_its_end() -> None:
    assert DAY.largest(0.0, 8.0) == 0.25
    assert DAY.largest(0.0, 8.0 + 1e-9) == 0.75
    assert DAY.largest(19.0, 25.0) == 0.75  # busy at its begin
    assert DAY.largest(20.0, 32.0) == 0.25


def test_two_waves_add() -> None:
    both = UsageWaves((DAY, WEEK))
    times = np.arange(-200.0, 400.0, 0.25)
    assert np.array_equal(both.at(times), DAY.at(times) + WEEK.at(times))
    assert both.at(times.reshape(2, -1)).shape == (2, 1200)


def test_the_wave_with_the_wider_swing_says_when_it_is_busy() -> None:
    both = UsageWaves((DAY, WEEK))  # swings 0.5 and 0.375: sums are 0.875, 0.5 busy and 0.375, 0.0 else
    middle = (0.875 + 0.0) / 2
    for from_s in np.arange(0.0, 336.0, 0.5):
        begin_s, end_s = both.next_busy(float(from_s))
        inside = np.arange(begin_s, end_s, 0.5)
        before = np.arange(from_s, begin_s, 0.5)
        assert (both.at(inside) > middle).all()
        assert (both.at(before) < middle).all()


def test_aperiodic_is_its_peak_and_busy_without_end() -> None:
    flat = UsageWaves((PulseWave(0.5, 0.25),))
    assert flat.at(np.array([0.0, 1e9])).tolist() == [0.5, 0.5]
    assert flat.largest(0.0, 1.0) == 0.5
    assert flat.next_busy(7.0) == (7.0, math.inf)
    assert not flat.is_periodic


@pytest.mark.parametrize(("changed", "message"), [
    ({"peak": math.nan}, "peak and trough must be finite and trough at most peak, got nan and 0.25"),
    ({"peak": 0.125}, "peak and trough must be finite and trough at most peak, got 0.125 and 0.25"),
    ({"period_s": 0.0}, "period_s must be above 0, got 0.0"),
    ({"period_s": math.nan}, "period_s must be above 0, got nan"),
    ({"phase_s": math.inf}, "phase_s must be finite, got inf"),
    ({"duty": 1.0}, "duty must be above 0 and below 1, got 1.0"),
])
def test_a_wave_that_breaks_a_rule_is_refused(changed: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PulseWave(**({"peak": 0.75, "trough": 0.25, "period_s": 24.0, "phase_s": 8.0, "duty": 0.5} | changed))


def test_no_wave_three_waves_and_an_endless_second_one_are_refused() -> None:
    with pytest.raises(ValueError, match="waves must be one or two, got 0"):
        UsageWaves(())
    with pytest.raises(ValueError, match="waves must be one or two, got 3"):
        UsageWaves((DAY, WEEK, WEEK))
    with pytest.raises(ValueError, match="waves must both have a period"):
        UsageWaves((DAY, PulseWave(0.0, 0.0)))


@pytest.mark.parametrize("to_s", [5.0, 4.0, math.inf, math.nan])
def test_an_interval_without_length_is_refused(to_s: float) -> None:
    for waves in (DAY, UsageWaves((DAY, WEEK))):
        with pytest.raises(ValueError, match=r"to_s must be after from_s = 5\.0 and both finite"):
            waves.largest(5.0, to_s)
