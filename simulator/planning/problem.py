"""The problem that all planners solve: starts of jobs whose durations and usage are given by samples."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sojourn.simulator.planning.job import Instance
from sojourn.simulator.planning.peaks import peaks
from sojourn.simulator.planning.samples import Samples

MAX_CELLS = 50_000_000
"""Of samples x resources x steps that a plan may span, 400 MB: above it a coarser step is asked for."""
_PRICE = 10_000


@dataclass(frozen=True, slots=True)
class Problem:
    """Minimise the priced sum of the resources' peaks, each the highest in any sample (COSPiS, section 4.2).

    n_ignored: at most so many samples may break deadlines and dependencies, floor(K x alpha); peaks count in all.

    Derived: low, high: int64 (n,), the window of starts. prices: int64 (n_resources,), of a unit of peak: 1 where
    there is one resource; else such that each resource's peak at the requested starts costs the same.
    """

    instance: Instance
    samples: Samples
    n_ignored: int = 0
    low: np.ndarray = field(init=False, repr=False)
    high: np.ndarray = field(init=False, repr=False)
    prices: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", self.instance.requested)
        object.__setattr__(self, "high", self.instance.latest)
        base = self.peak_of(self.low)
        prices = np.maximum(np.rint(_PRICE / np.maximum(base, 1)), 1) if len(base) > 1 else np.ones(1)
        object.__setattr__(self, "prices", prices.astype(np.int64))
        if self.n_cells > MAX_CELLS:
            least_s = self.instance.step_s * self.n_cells / MAX_CELLS
            raise ValueError(f"step_s must be at least {least_s:.3g} for jobs that "
                             f"span {self.n_times} steps in {len(self.samples)} samples, got {self.instance.step_s!r}")

    def __len__(self) -> int:
        return len(self.instance)

    @property
    def origin(self) -> int:
        """The first step that is used."""
        return int(self.low.min())

    @property
    def n_times(self) -> int:
        """Steps from the first start to the last possible end."""
        return int((self.high + self.samples.durations.max(axis=0)).max()) - self.origin

    @property
    def n_cells(self) -> int:
        """Samples x resources x steps."""
        return len(self.samples) * len(self.instance.resources) * self.n_times

    def peak_of(self, starts: np.ndarray) -> np.ndarray:
        """The highest usage in any sample, int64 (n_resources,), in units."""
        return peaks(starts, self.samples.durations, self.samples.usage).max(axis=0)

    def cost_of(self, starts: np.ndarray) -> int:
        """The objective: priced peaks."""
        return int(self.prices @ self.peak_of(starts))

    def is_broken(self, starts: np.ndarray) -> np.ndarray:
        """Whether each sample breaks a deadline or a dependency, bool (n_samples,)."""
        ends = starts + self.samples.durations
        broken = (ends > self.instance.deadlines).any(axis=1)
        for child, own in enumerate(self.instance.parents):
            for parent in own:
                broken |= ends[:, parent] > starts[child]
        return np.asarray(broken)
