"""How fast pulse waves are fitted, against plain scipy a series at a time, and how near they come to known ones.

    python benchmarks/periodicity.py [--n 2000] [--runs 5] [--json FILE]

Speed: month-long series of 5-minute samples (8,640), one thread, made with noise; median over runs of the processor's
time. The baseline does the same steps for each series with scipy and numpy alone: sosfiltfilt, detrend, rfft,
percentile and the best window of the folded series. Recovery: 256 made series a row; SNR = variance of the pulse over
variance of the white noise; duty cycles 10 to 90 %, periods log-uniform.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from scipy import fft, signal

from sojourn.features.usage import UsageGrid
from sojourn.models.periodicity import PeriodicitySettings, fit_waves
from sojourn.serving.usage import DayClock

N_STEPS, STEP_S, N_BINS = 8640, 300, 288
SNRS = (0.1, 0.3, 1.0, 3.0, 10.0)
BANDS = ((13.0, 24.0), (24.0, 72.0), (72.0, 288.0), (288.0, 2016.0))
N_KNOWN = 256


@dataclass(frozen=True)
class Known:
    """Made series and their waves; period and phase in steps."""

    values: np.ndarray
    period: np.ndarray
    phase: np.ndarray
    duty: np.ndarray


@dataclass(frozen=True)
class Speed:
    """Series a second of one way to fit, and how often faster than plain scipy."""

    way: str
    per_s: float
    ratio: float


@dataclass(frozen=True)
class Recovery:
    """One row of the recovery table; errors are medians over periodic series, phase in % of the period."""

    snr: float
    periods: str
    periodic_pct: float
    within_bin_pct: float
    period_bins: float
    phase_pct: float
    duty_points: float


@dataclass(frozen=True)
class Method:
    """Medians of one way to phase and duty cycle; phase in % of the period."""

    snr: float
    way: str
    phase_pct: float
    duty_points: float


def known_waves(n: int, periods: tuple[float, float], snr: float, seed: int) -> Known:
    """Pulses from 0.2 to 0.6; a step's value is the pulse's mean over the step, plus noise."""
    rng = np.random.default_rng(seed)
    period = np.exp(rng.uniform(np.log(periods[0]), np.log(periods[1]), n))
    duty, phase = rng.uniform(0.1, 0.9, n), rng.uniform(0.0, 1.0, n) * period
    turns = (np.arange(N_STEPS + 1.0)[None, :] - phase[:, None]) / period[:, None]
    whole = np.floor(turns)
    busy_until = (whole * duty[:, None] + np.minimum(turns - whole, duty[:, None])) * period[:, None]
    pulse = 0.2 + 0.4 * np.diff(busy_until, axis=1)
    noise = rng.normal(size=pulse.shape) * (pulse.std(axis=1) / np.sqrt(snr))[:, None]
    return Known((pulse + noise).astype(np.float32), period, phase, duty)


def grid_of(values: np.ndarray) -> UsageGrid:
    n = len(values)
    return UsageGrid(np.arange(n), values, None, np.ones(n), np.ones(n), 0, STEP_S, DayClock())


def plain(values: np.ndarray) -> None:
    """The steps of the fit for each series by itself."""
    sos = signal.butter(4, 2 * STEP_S / 3600.0, output="sos")
    for line in values.astype(np.float64):
        smooth = signal.sosfiltfilt(sos, line)
        detrended = signal.detrend(smooth)
        power = np.abs(fft.rfft(detrended)) ** 2
        period = N_STEPS / (4 + int(np.argmax(power[4:721])))
        np.percentile(smooth, (5.0, 95.0))
        place = (np.mod((np.arange(N_STEPS) + 0.5) / period, 1.0) * N_BINS).astype(np.int64)
        sums, counts = np.bincount(place, line, N_BINS), np.bincount(place, minlength=N_BINS)
        profile = sums / np.maximum(counts, 1)
        ahead = np.concatenate([[0.0], np.cumsum(np.tile(profile - profile.mean(), 2))])
        widths = np.arange(1, N_BINS)
        best = (ahead[widths[:, None] + np.arange(N_BINS)] - ahead[:N_BINS]).max(axis=1)
        int(np.argmax(best ** 2 / (widths * (N_BINS - widths))))


def per_second(work: Callable[[], object], n: int, runs: int) -> float:
    work()
    seconds = []
    for _ in range(runs):
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)
    return n / statistics.median(seconds)


def speeds(n: int, runs: int) -> list[Speed]:
    values = known_waves(n, (24.0, 2016.0), 3.0, seed=0).values
    few = values[:100]
    base = per_second(lambda: plain(few), len(few), runs)
    found = [Speed("plain scipy", base, 1.0)]
    ways = {
        "default": (PeriodicitySettings(), n), "two periods": (PeriodicitySettings(n_periods=2), n),
        "phase paper, duty error": (PeriodicitySettings(phase_method="paper", duty_method="error"), 200),
        "phase paper, duty changepoint": (PeriodicitySettings(phase_method="paper", duty_method="changepoint"), 10),
    }
    for name, (settings, some) in ways.items():
        rate = per_second(partial(fit_waves, grid_of(values[:some]), settings), some, runs)
        found.append(Speed(name, rate, rate / base))
    return found


def recoveries() -> list[Recovery]:
    found = []
    for snr in SNRS:
        for low, high in BANDS:
            known = known_waves(N_KNOWN, (low, high), snr, seed=1)
            fits = fit_waves(grid_of(known.values))
            period = fits.period_s / STEP_S
            is_in = fits.is_periodic
            bins = np.abs(N_STEPS / period - N_STEPS / known.period)
            apart = np.abs(fits.phase_s / fits.period_s - known.phase / known.period)[is_in]
            found.append(Recovery(snr, f"{low:.0f} to {high:.0f}", 100 * float(is_in.mean()),
                                  100 * float((is_in & (bins <= 1)).mean()), float(np.median(bins[is_in])),
                                  100 * float(np.median(np.minimum(apart, 1 - apart))),
                                  100 * float(np.median(np.abs(fits.duty - known.duty)[is_in]))))
    return found


def methods() -> list[Method]:
    """Medians over 64 made series of periods 72 to 288 steps at SNRs of 1 and 3."""
    paper = PeriodicitySettings(phase_method="paper", duty_method="error")
    ways = {"joint": PeriodicitySettings(), "paper, close to the peak = half the swing; duty by error": paper,
            "paper, at the peak; duty by error": replace(paper, close_share=0.0),
            "paper, half the swing; duty by change points": replace(paper, duty_method="changepoint")}
    found = []
    for snr in (1.0, 3.0):
        known = known_waves(64, (72.0, 288.0), snr, seed=2)
        for name, settings in ways.items():
            fits = fit_waves(grid_of(known.values), settings)
            apart = np.abs(fits.phase_s / fits.period_s - known.phase / known.period)
            found.append(Method(snr, name, 100 * float(np.median(np.minimum(apart, 1 - apart))),
                                100 * float(np.median(np.abs(fits.duty - known.duty)))))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path, default=Path(".sojourn/benchmarks/periodicity.json"))
    asked = parser.parse_args()
    fast, near = speeds(asked.n, asked.runs), recoveries()
    print("| way to fit | series/s, one core | times plain scipy |\n|---|---|---|")
    for speed in fast:
        print(f"| {speed.way} | {speed.per_s:,.0f} | {speed.ratio:.1f} |")
    print("\n| SNR | period, steps | periodic, % | period within a bin, % | period, bins | phase, % of the period "
          "| duty, points |\n|---|---|---|---|---|---|---|")
    for row in near:
        print(f"| {row.snr:g} | {row.periods} | {row.periodic_pct:.0f} | {row.within_bin_pct:.1f} | "
              f"{row.period_bins:.3f} | {row.phase_pct:.2f} | {row.duty_points:.2f} |")
    ways = methods()
    print("\n| SNR | phase and duty cycle | phase, % of the period | duty, points |\n|---|---|---|---|")
    for way in ways:
        print(f"| {way.snr:g} | {way.way} | {way.phase_pct:.2f} | {way.duty_points:.2f} |")
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps({"speeds": [asdict(speed) for speed in fast],
                                      "recoveries": [asdict(row) for row in near],
                                      "methods": [asdict(way) for way in ways]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
