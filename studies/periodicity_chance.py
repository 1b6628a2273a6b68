"""How often series without a period are called periodic, and how often known periods are found.

    python -m studies periodicity-chance [--n 1000] [--json FILE]

Made series of 5-minute samples in windows of 1, 2, 7 and 30 days; a fifth as many of 30 days. A row of noise has no
period; a row of pulses has one, SNR = variance of the pulse over variance of the noise. Three rules: the threshold
alone (5 % of variance, three bins), chance alone (1 %), and both, the default.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy import signal

from sojourn.features.usage import UsageGrid
from sojourn.models.periodicity import PeriodicitySettings, fit_waves
from sojourn.serving.usage import DayClock

DAY, STEP_S, WINDOWS = 288, 300, (1, 2, 7, 30)
RULES: Mapping[str, PeriodicitySettings] = {
    "threshold": PeriodicitySettings(chance=1.0), "chance": PeriodicitySettings(threshold=0.0),
    "both": PeriodicitySettings(),
}
Make = Callable[[np.random.Generator, int, int], np.ndarray]


@dataclass(frozen=True)
class Share:
    """Share of made series that a rule calls periodic, %; of pulses, whose period is within a bin of the true one."""

    made: str
    days: int
    n: int
    rule: str
    pct: float


def white(rng: np.random.Generator, n: int, m: int) -> np.ndarray:
    return rng.normal(size=(n, m))


def autoregressive(share: float) -> Make:
    return lambda rng, n, m: np.asarray(
        signal.lfilter([1.0], [1.0, -share], rng.normal(size=(n, m + 1000)), axis=1))[:, 1000:]


def on_off(mean: float) -> Make:
    """Busy and idle times exponential, `mean` steps each."""

    def make(rng: np.random.Generator, n: int, m: int) -> np.ndarray:
        changes = rng.exponential(mean, (n, int(2 * m / mean) + 50)).cumsum(axis=1)
        return np.stack([np.searchsorted(row, np.arange(m)) % 2 for row in changes]) + rng.normal(0, 0.1, (n, m))

    return make


def once(rng: np.random.Generator, n: int, m: int, *, is_step: bool) -> np.ndarray:
    at, steps = rng.integers(0, m, (n, 1)), np.arange(m)
    return ((steps >= at) if is_step else 5.0 * (steps == at)) + rng.normal(0, 0.1, (n, m))


def gappy(rng: np.random.Generator, n: int, m: int) -> np.ndarray:
    values = autoregressive(0.9)(rng, n, m)
    values[:, 1:-1][rng.random((n, m - 2)) < 0.15] = np.nan
    return values


NOISE: Mapping[str, Make] = {
    "white noise": white, "AR(1), 0.5": autoregressive(0.5), "AR(1), 0.9": autoregressive(0.9),
    "AR(1), 0.99": autoregressive(0.99), "random walk": lambda rng, n, m: white(rng, n, m).cumsum(axis=1),
    "AR(1) of 0.99 and white noise": lambda rng, n, m: autoregressive(0.99)(rng, n, m) / 7 + white(rng, n, m),
    "on/off, 2 h each": on_off(24.0), "on/off, 12 h each": on_off(144.0),
    "one step": lambda rng, n, m: once(rng, n, m, is_step=True),
    "one spike": lambda rng, n, m: once(rng, n, m, is_step=False),
    "trend and white noise": lambda rng, n, m: 5.0 * np.arange(m) / m + white(rng, n, m),
    "AR(1), 0.9, with 15 % gaps": gappy,
}


def pulse(rng: np.random.Generator, n: int, m: int, period: np.ndarray) -> np.ndarray:
    """Of variance 1, duty cycle 35 %, any phase; period in steps, (n, 1) or (n, m)."""
    turns = np.cumsum(np.broadcast_to(1.0 / period, (n, m)), axis=1) + rng.random((n, 1))
    return (turns % 1.0 < 0.35) / np.sqrt(0.35 * 0.65)


def grid_of(values: np.ndarray) -> UsageGrid:
    n = len(values)
    return UsageGrid(np.arange(n), values.astype(np.float32), None, np.ones(n), np.ones(n), 0, STEP_S, DayClock())


def false_alarms(n_most: int) -> list[Share]:
    found = []
    for name, make in NOISE.items():
        for days in WINDOWS:
            n = n_most if days < 30 else n_most // 5
            grid = grid_of(make(np.random.default_rng(days), n, days * DAY))
            found += [Share(name, days, n, rule, 100 * float(fit_waves(grid, settings).is_periodic.mean()))
                      for rule, settings in RULES.items()]
    return found


def power(n: int = 200) -> list[Share]:
    found = []
    cases = [("pulse of 2 to 6 h", 24.0, 72.0, days) for days in WINDOWS]
    cases += [("pulse of a day", DAY, DAY, days) for days in (7, 30)]
    cases += [("pulse of a week", 7.0 * DAY, 7.0 * DAY, 30), ("day drifting by 10 %", DAY, DAY, 30)]
    backgrounds = {"white noise": white, "AR(1) of 0.9": autoregressive(0.9), "random walk": NOISE["random walk"]}
    for name, low, high, days in cases:
        for beside, make in backgrounds.items():
            for snr in (0.1, 0.3, 1.0, 3.0):
                rng, m = np.random.default_rng(days), days * DAY
                period = np.exp(rng.uniform(np.log(low), np.log(high), (n, 1)))
                drift = np.linspace(0.95, 1.05, m) if name.startswith("day drifting") else np.ones(m)
                noise = make(rng, n, m)
                values = np.sqrt(snr) * pulse(rng, n, m, period * drift) + noise / noise.std(axis=1, keepdims=True)
                fits = fit_waves(grid_of(values))
                bins = np.abs(m * STEP_S / fits.period_s - m / period[:, 0])
                is_near = fits.is_periodic & (bins <= (2.0 if name.startswith("day drifting") else 1.0))
                found.append(Share(f"{name} | {beside} | {snr:g}", days, n, "both", 100 * float(is_near.mean())))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--json", type=Path, default=Path(".sojourn/studies/periodicity_chance.json"))
    asked = parser.parse_args()
    alarms, powers = false_alarms(asked.n), power()
    columns = " | ".join(f"{days} d" for days in WINDOWS)
    print(f"Called periodic, %: threshold alone / chance alone / both\n\n| series without a period | {columns} |\n"
          f"|---|{'---|' * len(WINDOWS)}")
    for name in NOISE:
        cells = [" / ".join(f"{one.pct:.1f}" for one in alarms if one.made == name and one.days == days)
                 for days in WINDOWS]
        print(f"| {name} | {' | '.join(cells)} |")
    print("\nFound within a bin, %, by SNR\n\n| days | period | noise | 0.1 | 0.3 | 1 | 3 |")
    print(f"|{'---|' * 7}")
    for at in range(0, len(powers), 4):
        name, beside, _ = powers[at].made.split(" | ")
        shown = " | ".join(f"{one.pct:.0f}" for one in powers[at:at + 4])
        print(f"| {powers[at].days} | {name} | {beside} | {shown} |")
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps([asdict(one) for one in alarms + powers], indent=1) + "\n")


if __name__ == "__main__":
    main()
