"""What batch requests use over what they ask for, drawn: the tables of tasks have plans only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class BatchUsage:
    """How use is drawn. "Most batch jobs actually use more resources at runtime than requested" (CTCL, section V-A),
    which gives no numbers.

    use_median, use_spread: CPU used over asked, lognormal, log units. mem_use_median, mem_use_spread: of the memory.
    peak_share, peak: requests whose CPU use rises once during their run, and by how much.
    """

    use_median: float = 1.2
    use_spread: float = 0.35
    mem_use_median: float = 1.0
    mem_use_spread: float = 0.2
    peak_share: float = 0.3
    peak: tuple[float, float] = (1.1, 1.8)

    def draw(self, rng: np.random.Generator, requested: np.ndarray,
             duration_ms: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Use before the rise and after it, float64 (n, 2) in the units of `requested` (n, 2), and when it rises,
        int64 (n,), ms after the start: at `duration_ms` where it does not.

        >>> used, peak, peak_ms = BatchUsage().draw(np.random.default_rng(0), np.ones((2, 2)), np.array([10, 10]))
        >>> used.shape, bool((peak >= used).all()), bool((peak_ms <= 10).all())
        ((2, 2), True, True)
        """
        n = len(requested)
        factor = np.stack([self.use_median * np.exp(self.use_spread * rng.standard_normal(n)),
                           self.mem_use_median * np.exp(self.mem_use_spread * rng.standard_normal(n))], axis=1)
        used = requested * factor
        is_rising = rng.random(n) < self.peak_share
        rise = np.where(is_rising, rng.uniform(*self.peak, size=n), 1.0)
        peak = np.stack([used[:, 0] * rise, used[:, 1]], axis=1)
        peak_ms = np.where(is_rising, rng.uniform(0.2, 0.8, n) * duration_ms, duration_ms).astype(np.int64)
        return used, peak, peak_ms
