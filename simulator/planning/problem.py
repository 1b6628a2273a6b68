"""The problem of all planners: starts of jobs with samples of durations and usage; schedules.

A sample has one duration and one usage of each job, drawn in pairs or estimated. Windows are the
starts at which chosen samples break no deadline and no dependency. Peaks of usage are exact, from
the starts and ends of jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from sojourn.simulator.planning.job import Instance


@dataclass(frozen=True, slots=True)
class Samples:
    """durations: int64 (n_samples, n), steps. usage: int64 (n_samples, n, n_resources), in the instance's units."""

    durations: np.ndarray
    usage: np.ndarray

    def __len__(self) -> int:
        return len(self.durations)


def in_units(instance: Instance, usage: np.ndarray) -> np.ndarray:
    """Usage in whole units, rounded up, so that no plan understates it; int64."""
    return np.ceil(np.asarray(usage, np.float64) / instance.unit - 1e-9).astype(np.int64)


def drawn_pairs(instance: Instance, n_samples: int, rng: np.random.Generator) -> Samples:
    """Pairs of duration and usage, each pair of one past run, drawn with equal chance (COSPiS,
    section 4.2).

    If a job has at least `n_samples` runs, none is drawn twice; else each is drawn about equally
    often.

    >>> from sojourn.simulator.planning.job import RecurringJob
    >>> day = Instance((RecurringJob("a", 0, 0, 9, np.array([2, 3]), np.array([1.0, 5.0])),))
    >>> pairs = drawn_pairs(day, 4, np.random.default_rng(0))
    >>> sorted(zip(pairs.durations[:, 0].tolist(), pairs.usage[:, 0, 0].tolist()))
    [(2, 1), (2, 1), (3, 5), (3, 5)]
    """
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples!r}")
    durations = np.empty((n_samples, len(instance)), np.int64)
    usage = np.empty((n_samples, len(instance), len(instance.resources)), np.int64)
    for row, job in enumerate(instance.jobs):
        n_runs = len(job.durations)
        runs = np.concatenate([rng.permutation(n_runs) for _ in range(-(-n_samples // n_runs))])[:n_samples]
        runs = rng.permutation(runs)  # else the first samples of all jobs would hold each run once
        durations[:, row] = job.durations[runs]
        usage[:, row] = in_units(instance, job.usage[runs])
    return Samples(durations, usage)


def _quantile(share: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda values: np.quantile(values, share, axis=0, method="inverted_cdf")


Estimator = Callable[[np.ndarray], np.ndarray]
"""From values (n_runs, ...) to one of them, over the runs (section 4.1)."""
ESTIMATORS: Mapping[str, Estimator] = MappingProxyType({
    "p50": _quantile(0.5), "p75": _quantile(0.75), "p100": _quantile(1.0)})
"""By name; the planners `det-NAME` use them."""


def estimated(instance: Instance, of: Estimator) -> Samples:
    """One sample: durations and usage, each by an estimator.

    >>> from sojourn.simulator.planning.job import RecurringJob
    >>> day = Instance((RecurringJob("a", 0, 0, 9, np.array([2, 3, 9]), np.array([1.0, 5.0, 5.0])),))
    >>> [(int(s.durations[0, 0]), int(s.usage[0, 0, 0])) for s in (estimated(day, e) for e in ESTIMATORS.values())]
    [(3, 5), (9, 5), (9, 5)]
    """
    durations = np.array([[int(of(job.durations)) for job in instance.jobs]], np.int64)
    usage = np.array([[of(job.usage) for job in instance.jobs]], np.float64)
    return Samples(durations, in_units(instance, usage))


MAX_CELLS = 50_000_000
"""The most samples x resources x steps of a plan, 400 MB; above it a coarser step is needed."""
_PRICE = 10_000


@dataclass(frozen=True, slots=True)
class Problem:
    """Minimise the priced sum of the resources' peaks, each the highest in any sample (COSPiS,
    section 4.2).

    n_ignored: most samples that may break deadlines or dependencies, floor(K x alpha), not peaks.

    Derived: low, high: int64 (n,), the window of starts. prices: int64 (n_resources,), of a unit of
    peak: 1 for one resource; else each resource's peak at the requested starts costs the same.
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
        """The first step of the plan."""
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
        for child, parents in enumerate(self.instance.parents):
            for parent in parents:
                broken |= ends[:, parent] > starts[child]
        return np.asarray(broken)


@dataclass(frozen=True, slots=True)
class Windows:
    """kept: int64, the samples whose constraints hold, none if alpha is 1. longest: int64 (n,), a
    job's longest duration in them, 0 without samples. low, high: int64 (n,), starts that its
    ancestors and descendants allow."""

    kept: np.ndarray
    longest: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def is_feasible(self) -> bool:
        """Whether the constraints of all kept samples can hold at once."""
        return bool((self.low <= self.high).all())


def windows_of(problem: Problem, kept: np.ndarray) -> Windows:
    """The windows for the kept samples. Constraints are differences of starts, so bounds passed
    along the dependencies are exact."""
    instance = problem.instance
    longest = problem.samples.durations[kept].max(axis=0, initial=0)
    low, high = problem.low.copy(), np.minimum(problem.high, instance.deadlines - longest)
    for row in instance.order.tolist():
        for parent in instance.parents[row]:
            low[row] = max(low[row], low[parent] + longest[parent])
    for row in instance.order[::-1].tolist():
        for parent in instance.parents[row]:
            high[parent] = min(high[parent], high[row] - longest[parent])
    return Windows(kept, longest, low, high)


def easiest_windows(problem: Problem) -> Windows:
    """Windows for as many samples as must be kept: those that alone leave the most slack to their
    tightest job.

    >>> from sojourn.simulator.planning.job import Instance, RecurringJob
    >>> from sojourn.simulator.planning.problem import Samples
    >>> day = Instance((RecurringJob("a", 0, 9, 9, np.array([2, 8]), np.array([1.0, 5.0])),))
    >>> windows = easiest_windows(Problem(day, Samples(np.array([[8], [2]]), np.ones((2, 1, 1), int)), 1))
    >>> windows.kept.tolist(), windows.high.tolist()
    ([1], [7])
    """
    n_kept = len(problem.samples) - problem.n_ignored
    if problem.n_ignored == 0:
        return windows_of(problem, np.arange(n_kept))
    slack = [windows_of(problem, np.array([sample])) for sample in range(len(problem.samples))]
    tightest = np.array([int((windows.high - windows.low).min()) for windows in slack])
    return windows_of(problem, np.sort(np.argsort(-tightest, kind="stable")[:n_kept]))


STATUSES = ("optimal", "feasible", "heuristic", "requested")
"""optimal: proved for these samples. feasible: the solver's best in its time. heuristic: without a
solver. requested: the requested starts, without a plan or because there is no schedule."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Starts, and their figures on the planner's samples.

    planner: its name. starts: int64 (n,), steps. peak: float64 (n_resources,), the planned peak in
    cores and so on: the highest in any sample. status: one of `STATUSES`. objective: the minimised
    value: the peak in units for one resource, else the priced sum. bound: no schedule has a lower
    objective on these samples; gap_pct: objective less bound over objective, %, 0 = proved. alpha:
    the share of samples that may break deadlines and dependencies, as used; None if the planner has
    one sample. broken_pct: share of the samples that this schedule breaks. moved: the sum of delays
    behind requested starts, steps. seconds: time of the planner. reason: why it differs from the
    settings: alpha was raised, or requested starts were kept; else "".
    """

    planner: str
    starts: np.ndarray
    peak: np.ndarray
    status: str
    objective: int
    bound: float
    gap_pct: float
    alpha: float | None
    broken_pct: float
    moved: int
    seconds: float
    reason: str = ""


def peaks(starts: np.ndarray, durations: np.ndarray, usage: np.ndarray) -> np.ndarray:
    """The highest usage of each resource in each sample: (n_samples, n_resources), as `usage`.

    starts: int (n,) or (n_samples, n), steps. durations: (n_samples, n). usage: (n_samples, n,
    n_resources). A job that ends when another starts does not overlap it.

    >>> peaks(np.array([0, 2]), np.array([[2, 1], [3, 1]]), np.array([[[4], [5]], [[4], [5]]])).tolist()
    [[5], [9]]
    """
    from_ = np.broadcast_to(starts, durations.shape)
    times = np.concatenate((from_ + durations, from_), axis=1) * 2
    times[:, durations.shape[1]:] += 1  # ends come before starts of the same time
    order = np.argsort(times, axis=1, kind="stable")
    steps = np.concatenate((-usage, usage), axis=1)
    running = np.cumsum(np.take_along_axis(steps, order[:, :, None], axis=1), axis=1)
    return np.asarray(running.max(axis=1))


def usage_profile(starts: np.ndarray, durations: np.ndarray, usage: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Usage of one resource at each of `times` in each sample: (n_samples, n_times).

    starts: (n,) or (n_samples, n). durations, usage: (n_samples, n). times: int (n_times,), rising.

    >>> usage_profile(np.array([0, 2]), np.array([[3, 2]]), np.array([[4, 5]]), np.arange(5)).tolist()
    [[4, 4, 9, 5, 0]]
    """
    from_ = np.broadcast_to(starts, durations.shape)
    profile = np.zeros((len(durations), len(times)), usage.dtype)
    for row in range(len(durations)):
        change = np.zeros(len(times) + 1, usage.dtype)
        np.add.at(change, np.searchsorted(times, from_[row]), usage[row])
        np.subtract.at(change, np.searchsorted(times, from_[row] + durations[row]), usage[row])
        profile[row] = np.cumsum(change)[:-1]
    return profile
