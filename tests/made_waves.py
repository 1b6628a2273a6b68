"""Made usage series with known pulse waves, and grids of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sojourn.features.usage import UsageGrid
from sojourn.serving.usage import DayClock


@dataclass(frozen=True)
class Known:
    """values: float32 (n, m). period, phase: in steps, duty: share, float64 (n,)."""

    values: np.ndarray
    period: np.ndarray
    phase: np.ndarray
    duty: np.ndarray


def known_waves(n: int, n_steps: int, periods: tuple[float, float], snr: float, seed: int,
                duties: tuple[float, float] = (0.1, 0.9)) -> Known:
    """Pulses from 0.2 to 0.6 with white noise; snr = variance of the pulse over variance of the noise.

    Periods are log-uniform in steps, phases and duties uniform, none of them on the grid; a step's value is the mean of
    the pulse over the step, as the contract of `UsageGrid` says.
    """
    rng = np.random.default_rng(seed)
    period = np.exp(rng.uniform(np.log(periods[0]), np.log(periods[1]), n))
    duty, phase = rng.uniform(duties[0], duties[1], n), rng.uniform(0.0, 1.0, n) * period

    def busy_until(step: np.ndarray) -> np.ndarray:
        turns = (step - phase[:, None]) / period[:, None]
        whole = np.floor(turns)
        return (whole * duty[:, None] + np.minimum(turns - whole, duty[:, None])) * period[:, None]

    steps = np.arange(n_steps + 1.0)[None, :]
    pulse = 0.2 + 0.4 * np.diff(busy_until(steps), axis=1)
    noise = rng.normal(size=pulse.shape) * (pulse.std(axis=1) / np.sqrt(snr))[:, None]
    return Known((pulse + noise).astype(np.float32), period, phase, duty)


def usage_grid(values: np.ndarray, start_s: int = 0, step_s: int = 300, first_id: int = 0) -> UsageGrid:
    """A grid of cores with these shares; requests are numbered from `first_id`."""
    n = len(values)
    return UsageGrid(np.arange(first_id, first_id + n), np.asarray(values, np.float32), None, np.ones(n), np.ones(n),
                     start_s, step_s, DayClock())
